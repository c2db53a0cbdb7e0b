"""ASTRA-sim's network and system files as a system file: there and back again, or refused with a hint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.catalog.parts import System, read_system
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.interop.export import astra_sim_run
from cosmic_opt.interop.export_files import machine_of, network_text, system_text
from cosmic_opt.interop.system_import import DeviceNumbers, import_astra_sim
from cosmic_opt.psa.document import Entry, read_yaml
from tests.unit.interop.exporting import INSTANCE, problem

NETWORK = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 200.0, 50 ]\nlatency: [ 50.5, 500 ]\n"
OWN = DeviceNumbers()
SYSTEM: dict[str, Any] = {
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring", "halvingDoubling"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 50,
    "peak-perf": 10,
    "roofline-enabled": 1,
}


def imported(
    folder: Path,
    network: str = NETWORK,
    device: DeviceNumbers = OWN,
    **system: Any,
) -> tuple[System, tuple[str, ...]]:
    (folder / "network.yml").write_text(network)
    (folder / "system.json").write_text(json.dumps({**SYSTEM, **system}))
    made = import_astra_sim(folder / "network.yml", folder / "system.json", "mine", device)
    root = read_yaml(made.text, "mine.yaml")
    return read_system(Entry(root.value, Where("mine.yaml"), {}), folder / "mine.yaml"), made.notes


def test_units_become_ours_exactly(tmp_path: Path) -> None:
    system, _ = imported(tmp_path)
    ring, switch = system.dimensions
    assert ring == {
        "topology": "ring",
        "npus": 4,
        "bandwidth": 200 * 2**30,
        "latency": 50_500,
        "algorithm": "ring",
    }
    assert (switch["bandwidth"], switch["latency"], switch["algorithm"]) == (50 * 2**30, 500_000, "halving_doubling")
    assert system.collectives == {"chunks": 4, "multidim": "blueconnect"}
    assert (system.device.peak, system.device.memory_bandwidth) == (10**13, 5 * 10**10)
    assert system.device.memory_capacity == 10**18


def test_an_exported_system_comes_back(tmp_path: Path) -> None:
    made = problem(tmp_path)
    machine = astra_sim_run(made.instance, made.baseline()).machine
    (tmp_path / "n.yml").write_text(network_text(machine))
    (tmp_path / "s.json").write_text(system_text(machine, "fifo"))
    text = import_astra_sim(tmp_path / "n.yml", tmp_path / "s.json", "back", DeviceNumbers()).text
    (tmp_path / "back.yaml").write_text(text)
    data = yaml.safe_load(INSTANCE)
    (tmp_path / "again.yaml").write_text(yaml.safe_dump({**data, "system": "./back.yaml"}))
    again = Problem.load(str(tmp_path / "again.yaml"))
    assert again.spec.system.dimensions == made.spec.system.dimensions
    assert again.spec.system.collectives == {"scheduling_policy": "fifo", **made.spec.system.collectives}
    assert astra_sim_run(again.instance, again.baseline()).machine == machine
    assert again.simulate(again.baseline()).terms_s == made.simulate(made.baseline()).terms_s


@pytest.mark.parametrize("policy", ["lifo", "fifo"])
def test_the_order_of_service_comes_back(tmp_path: Path, policy: str) -> None:
    system, _ = imported(tmp_path, **{"scheduling-policy": policy.upper()})
    assert system.collectives == {"scheduling_policy": policy, "chunks": 4, "multidim": "blueconnect"}
    files = "astra_sim: {network: network.yml, system: system.json, memory_capacity: 80 GB}"
    data = {**yaml.safe_load(INSTANCE), "model": "cosmic", "system": yaml.safe_load(f"{{{files}}}")}
    data |= {"scope": "workload", "design": {"dp": 8, "sp": 1, "tp": 1, "pp": 1, "weight_sharded": 1}}
    (tmp_path / "placed.yaml").write_text(yaml.safe_dump(data))
    placed = Problem.load(str(tmp_path / "placed.yaml"))
    assert placed.baseline().values("scheduling_policy").tolist() == [policy]
    run = astra_sim_run(placed.instance, placed.baseline())
    assert json.loads(system_text(run.machine, run.policy))["scheduling-policy"] == policy.upper()


def test_an_order_of_service_without_counterpart_is_noted(tmp_path: Path) -> None:
    system, notes = imported(tmp_path, **{"scheduling-policy": "EXPLICIT"})
    assert "scheduling_policy" not in system.collectives
    assert any("EXPLICIT has no counterpart" in note for note in notes)


@given(bandwidth=st.integers(1, 10**13), latency=st.integers(0, 10**9))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_any_bandwidth_and_latency_comes_back(
    bandwidth: int, latency: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("round")
    made = problem(folder).instance
    design: dict[str, int | str] = {"chunks": 1, "multidim": "baseline", "npus_per_dim[0]": 2, "topology[0]": "ring"}
    design |= {"bandwidth[0]": bandwidth, "latency[0]": latency, "algorithm[0]": "ring"}
    machine = machine_of(design, 1, made.npu)
    (folder / "n.yml").write_text(network_text(machine))
    (folder / "s.json").write_text(system_text(machine, "lifo"))
    text = import_astra_sim(folder / "n.yml", folder / "s.json", "back", DeviceNumbers()).text
    root = read_yaml(text, "back.yaml")
    (dimension,) = read_system(Entry(root.value, Where("back.yaml"), {}), folder / "back.yaml").dimensions
    assert (dimension["bandwidth"], dimension["latency"]) == (bandwidth, latency)


def test_given_numbers_win_over_the_files(tmp_path: Path) -> None:
    system, notes = imported(tmp_path, device=DeviceNumbers(7, 8, 9))
    assert (system.device.peak, system.device.memory_bandwidth, system.device.memory_capacity) == (7, 8, 9)
    assert notes == ()


def test_what_has_no_counterpart_is_noted(tmp_path: Path) -> None:
    other = {"all-gather-implementation": ["direct", "direct"]}
    _, notes = imported(tmp_path, **other, **{"active-chunks-per-dimension": 2, "endpoint-delay": 20})
    assert [note.split()[0] for note in notes] == ["Collectives", "2", "The", "The"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"all-reduce-implementation": ["ring"]}, "1 algorithms for 2 dimensions"),
        ({"all-reduce-implementation": ["ring", "direct4"]}, "'direct4' has no counterpart"),
        ({"all-reduce-implementation": ["oneRing", "ring"]}, "'oneRing' has no counterpart"),
        ({"roofline-enabled": 0}, "gives no peak"),
        ({"local-mem-bw": 0}, "gives no memory bandwidth"),
    ],
)
def test_what_means_nothing_here_is_refused(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason) as caught:
        imported(tmp_path, **change)
    assert caught.value.hint
    assert "system.json" in str(caught.value)


def test_a_system_without_an_all_reduce_is_refused(tmp_path: Path) -> None:
    (tmp_path / "n.yml").write_text(NETWORK)
    rest = {key: value for key, value in SYSTEM.items() if key != "all-reduce-implementation"}
    (tmp_path / "s.json").write_text(json.dumps({**rest, "all-gather-implementation": ["ring", "ring"]}))
    with pytest.raises(SpecError, match="no implementation"):
        import_astra_sim(tmp_path / "n.yml", tmp_path / "s.json", "mine", DeviceNumbers())


@pytest.mark.parametrize("npus", ["0", "1", "-4", "10000000", "4.5", "many"])
def test_impossible_numbers_of_npus_are_refused_with_file_and_line(tmp_path: Path, npus: str) -> None:
    with pytest.raises(SpecError) as caught:
        imported(tmp_path, network=NETWORK.replace("npus_count: [ 4,", f"npus_count: [ {npus},"))
    assert "network.yml:2" in str(caught.value)
