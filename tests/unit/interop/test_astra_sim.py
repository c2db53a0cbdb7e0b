"""ASTRA-sim's network, system and memory files, in the form its repository ships them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.interop import read_communicator_groups, read_machine, read_network, read_remote_memory, read_system
from cosmic_opt.simulation.replay import RemoteMemory, ReplayMachine

NETWORK = """\
topology: [ Ring, Switch ]
npus_count: [ 4, 2 ]
bandwidth: [ 200.0, 50 ]  # GB/s
latency: [ 50.5, 500 ]  # ns
"""
SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 20,
    "active-chunks-per-dimension": 2,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring", "halvingDoubling"],
    "all-gather-implementation": ["ring", "direct4"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "boost-mode": 0,
}
MEMORY: dict[str, Any] = {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 30, "remote-mem-bw": 2}


def written(folder: Path, name: str, data: object) -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_the_files_together_are_a_machine(tmp_path: Path) -> None:
    machine = read_machine(
        written(tmp_path, "network.yml", NETWORK),
        written(tmp_path, "system.json", {**SYSTEM, "roofline-enabled": 1, "peak-perf": 900}),
        written(tmp_path, "memory.json", MEMORY),
    )
    assert machine == ReplayMachine(
        topologies=("ring", "switch"),
        npus_per_dim=(4, 2),
        bandwidth_gib_per_s=(200.0, 50),
        latency_ns=(50.5, 500),
        algorithms={"all_reduce": ("ring", "halvingDoubling"), "all_gather": ("ring", "direct4")},
        chunks=4,
        active_chunks=2,
        multidim="blueconnect",
        endpoint_delay_ns=20,
        memory_gb_per_s=1600,
        peak_tflops=900,
        remote_memory=RemoteMemory("PER_NPU_MEMORY_EXPANSION", 30, 2),
    )


def test_without_a_roofline_recorded_times_are_replayed(tmp_path: Path) -> None:
    assert read_system(written(tmp_path, "s.json", {**SYSTEM, "peak-perf": 900})).peak_tflops is None


def test_defaults_are_astra_sims(tmp_path: Path) -> None:
    least = {
        "preferred-dataset-splits": 1,
        "collective-optimization": "baseline",
        "all-reduce-implementation": ["ring"],
    }
    system = read_system(written(tmp_path, "s.json", least))
    assert (system.endpoint_delay_ns, system.active_chunks, system.memory_gb_per_s) == (10, 1, 0)
    assert read_remote_memory(written(tmp_path, "m.json", {"memory-type": "NO_MEMORY_EXPANSION"})) == RemoteMemory()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("topology: [Ring]\n", "'npus_count' is missing"),
        (NETWORK.replace("Ring", "Torus"), "'Torus' is not known"),
        (NETWORK.replace("[ 4, 2 ]", "[ 4 ]"), "differ in length"),
        (NETWORK.replace("[ 4, 2 ]", "[ 4, 1 ]"), "out of range"),
        (NETWORK.replace("200.0", "0"), "out of range"),
        (NETWORK.replace("200.0", ".nan"), "expected a number"),
        (NETWORK.replace("50.5", "-1"), "out of range"),
        (NETWORK.replace("50.5", "'1 us'"), "expected a number"),
        (NETWORK + "packet_size: 3\n", "unknown key 'packet_size'"),
    ],
)
def test_a_bad_network_file_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason) as caught:
        read_network(written(tmp_path, "network.yml", text))
    assert "network.yml" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"preferred-dataset-splits": 0}, "out of range"),
        ({"collective-optimization": "themis"}, "'themis' is not known"),
        ({"scheduling-policy": "SJF"}, "'SJF' is not known"),
        ({"endpoint-dealy": 3}, "did you mean 'endpoint-delay'"),
        ({"model-shared-bus": 1}, "is not replayed"),
        ({"replay-only": 1}, "is not replayed"),
        ({"all-reduce-implementation": "ring"}, "expected a list"),
        ({"all-reduce-implementation-custom": ["x"]}, "unknown key"),
        ({"local-mem-bw": "fast"}, "expected a number"),
        ({"active-chunks-per-dimension": True}, "expected a whole number"),
    ],
)
def test_a_bad_system_file_is_refused_by_name_and_key(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason) as caught:
        read_system(written(tmp_path, "system.json", {**SYSTEM, **changes}))
    assert "system.json" in str(caught.value)


@pytest.mark.parametrize("key", ["preferred-dataset-splits", "collective-optimization"])
def test_a_key_without_a_default_must_be_there(tmp_path: Path, key: str) -> None:
    data = {name: value for name, value in SYSTEM.items() if name != key}
    with pytest.raises(SpecError, match=f"{key!r} is missing"):
        read_system(written(tmp_path, "system.json", data))


def test_a_system_without_any_collective_is_refused(tmp_path: Path) -> None:
    data = {name: value for name, value in SYSTEM.items() if "implementation" not in name}
    with pytest.raises(SpecError, match="no collective"):
        read_system(written(tmp_path, "system.json", data))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"memory-type": "X"}', "3", '{"a": 1, "a": 1}'])
def test_a_bad_memory_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError):
        read_remote_memory(written(tmp_path, "memory.json", text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for read in (read_network, read_system, read_remote_memory):
        with pytest.raises(SpecError, match="cannot read"):
            read(tmp_path / "nowhere")
    with pytest.raises(SpecError, match="cannot be read"):
        read_communicator_groups(tmp_path / "nowhere", 4)


def test_communicator_groups_keep_their_order(tmp_path: Path) -> None:
    path = written(tmp_path, "groups.json", {"1": [3, 1], "2": [0]})
    assert read_communicator_groups(path, 4) == {"1": (3, 1), "2": (0,)}


def test_an_empty_network_file_is_told_what_a_network_has(tmp_path: Path) -> None:
    (tmp_path / "net.yml").write_text("")
    with pytest.raises(SpecError, match="the file is empty") as caught:
        read_network(tmp_path / "net.yml")
    assert "npus_count" in str(caught.value.hint)
    assert "cosmic-opt/instance" not in str(caught.value)


@pytest.mark.parametrize("key", ["active-chunks-per-dimension", "endpoint-delay", "preferred-dataset-splits"])
def test_numbers_beyond_any_run_are_refused(tmp_path: Path, key: str) -> None:
    (tmp_path / "sys.json").write_text(json.dumps(SYSTEM | {key: 10**30}))
    with pytest.raises(SpecError, match=key):
        read_system(tmp_path / "sys.json")
