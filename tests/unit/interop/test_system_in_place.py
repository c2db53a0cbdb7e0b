"""An instance whose system is ASTRA-sim's own files: the same as importing them first, or refused with a hint."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.catalog.digest import problem_digest
from cosmic_opt.errors import CosmicError, SpecError
from cosmic_opt.interop.system_import import DeviceNumbers, import_astra_sim
from tests.unit.cli.running import run
from tests.unit.interop.exporting import INSTANCE
from tests.unit.interop.test_system_import import NETWORK, SYSTEM

FILES: dict[str, Any] = {"astra_sim": {"network": "net/n.yml", "system": "net/s.json"}}
DESIGN = {"dp": 2, "sp": 1, "tp": 4, "pp": 1, "zero_stage": 0, "micro_batch": 1, "recompute": "none"}


def write(folder: Path, system: object, network: str = NETWORK, layer: object = SYSTEM) -> str:
    """Write an instance whose system is `system`, and ASTRA-sim's files in a folder beside it."""
    (folder / "net").mkdir(exist_ok=True)
    (folder / "net" / "n.yml").write_text(network, encoding="utf-8")
    (folder / "net" / "s.json").write_text(json.dumps(layer), encoding="utf-8")
    data = {**yaml.safe_load(INSTANCE), "system": system, "design": DESIGN}
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return str(path)


def loaded(folder: Path, system: object) -> Problem:
    return Problem.load(write(folder, system))


def refused(folder: Path, system: object, **files: Any) -> str:
    with pytest.raises(SpecError) as caught:
        Problem.load(write(folder, system, **files))
    return str(caught.value)


def test_it_is_the_same_problem_as_importing_first(tmp_path: Path) -> None:
    own = loaded(tmp_path, FILES)
    device = DeviceNumbers(memory_capacity_bytes=80 * 10**9)
    for name, text in (
        ("plain", import_astra_sim(tmp_path / "net/n.yml", tmp_path / "net/s.json", "n", DeviceNumbers()).text),
        ("small", import_astra_sim(tmp_path / "net/n.yml", tmp_path / "net/s.json", "n", device).text),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)
    assert own.spec.system == loaded(tmp_path, "./plain.yaml").spec.system
    first = loaded(tmp_path, "./plain.yaml")
    assert problem_digest(own.spec, own.instance) == problem_digest(first.spec, first.instance)
    assert own.count() == first.count()
    assert own.simulate(own.baseline()).terms_s == first.simulate(first.baseline()).terms_s
    given_capacity = {"astra_sim": {**FILES["astra_sim"], "memory_capacity": "80 GB"}}
    assert loaded(tmp_path, given_capacity).spec.system == loaded(tmp_path, "./small.yaml").spec.system


def test_a_system_file_may_name_the_files_relative_to_itself(tmp_path: Path) -> None:
    own = loaded(tmp_path, FILES)
    text = "schema: cosmic-opt/system@1\nastra_sim: {network: n.yml, system: s.json}\n"
    (tmp_path / "net" / "mine.yaml").write_text(text)
    assert loaded(tmp_path, "net/mine.yaml").spec.system == own.spec.system


def test_paths_are_relative_to_the_instance_wherever_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FILES)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run("count", path, "--json").code == 0
    assert run("simulate", path, "--json").code == 0


def test_own_keys_win_and_settings_are_completed(tmp_path: Path) -> None:
    device = {"name": "other", "peak": "7 TFLOPS", "memory_bandwidth": "1 TB/s", "memory_capacity": "1 GB"}
    system = loaded(tmp_path, {**FILES, "name": "mine", "device": device, "collectives": {"chunks": 8}}).spec.system
    assert (system.name, system.device.name, system.device.peak) == ("mine", "other", 7 * 10**12)
    assert system.collectives == {"chunks": 8, "multidim": "blueconnect"}


def test_a_device_needs_no_numbers_in_the_files(tmp_path: Path) -> None:
    bare = {key: value for key, value in SYSTEM.items() if key not in ("peak-perf", "local-mem-bw", "roofline-enabled")}
    path = write(tmp_path, {**FILES, "device": "cosmic-system2"}, layer=bare)
    assert Problem.load(path).spec.system.device.name == "cosmic-system2"
    assert "'peak' beside the files" in refused(tmp_path, FILES, layer=bare)


def test_numbers_of_the_npu_stand_in_for_the_files(tmp_path: Path) -> None:
    given_numbers = {"peak": "312 TFLOPS", "memory_bandwidth": "2 TB/s", "memory_capacity": "80 GB"}
    device = loaded(tmp_path, {"astra_sim": {**FILES["astra_sim"], **given_numbers}}).spec.system.device
    assert (device.peak, device.memory_bandwidth, device.memory_capacity) == (312 * 10**12, 2 * 10**12, 80 * 10**9)


@pytest.mark.parametrize(
    ("system", "words"),
    [
        ({"astra_sim": None}, "two files are not named"),
        ({"astra_sim": "net/n.yml"}, "system.astra_sim"),
        ({"astra_sim": {}}, "network"),
        ({"astra_sim": {"network": "net/n.yml"}}, "system"),
        ({"astra_sim": {"network": "net/n.yml", "systen": "net/s.json"}}, "systen"),
        ({"astra_sim": {"network": 3, "system": "net/s.json"}}, "3 is no file"),
        ({"astra_sim": {"network": "net/none.yml", "system": "net/s.json"}}, "none.yml"),
        ({"astra_sim": {"network": "net", "system": "net/s.json"}}, "net"),
        ({"astra_sim": {"network": "net/s.json", "system": "net/n.yml"}}, "s.json"),
        ({"astra_sim": {"network": "x" * 5000, "system": "net/s.json"}}, "xxx"),
        ({"astra_sim": {"network": "n\0", "system": "net/s.json"}}, "is no file"),
        ({"astra_sim": {**FILES["astra_sim"], "peak": "312 GB"}}, "peak"),
        ({"astra_sim": {**FILES["astra_sim"], "peak": -1}}, "not positive"),
        ({"astra_sim": {**FILES["astra_sim"], "memory_capacity": "1e40 GB"}}, "too large"),
        ({**FILES, "dimensions": []}, "given twice"),
        ({**FILES, "devise": "h100-sxm"}, "devise"),
        ({**FILES, "collectives": 3}, "collectives"),
        (
            {"astra_sim": {**FILES["astra_sim"], "peak": "1 TFLOPS"}, "device": "cosmic-system2"},
            "the NPU is given twice",
        ),
    ],
    ids=str,
)
def test_what_means_nothing_is_refused_with_its_place(tmp_path: Path, system: object, words: str) -> None:
    assert words in refused(tmp_path, system)


@pytest.mark.parametrize(
    "files",
    [
        {"network": ""},
        {"network": "topology: [Ring]\nnpus_count: [4, 2]\nbandwidth: [1]\nlatency: [1]\n"},
        {"network": "topology: [Torus]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]\n"},
        {"network": "topology: [Ring]\nnpus_count: [4]\nbandwidth: [.nan]\nlatency: [1]\n"},
        {"network": "topology: [Ring]\nnpus_count: [1]\nbandwidth: [1]\nlatency: [1]\n"},
        {"network": NETWORK.replace("200.0", "1e-12")},
        {"layer": []},
        {"layer": {**SYSTEM, "all-reduce-implementation": ["ring"]}},
        {"layer": {**SYSTEM, "all-reduce-implementation": ["ring", "direct4"]}},
        {"layer": {**SYSTEM, "collective-optimization": "themis"}},
        {"layer": {**SYSTEM, "prefered-dataset-splits": 4}},
    ],
    ids=str,
)
def test_files_that_mean_nothing_are_refused_by_name(tmp_path: Path, files: dict[str, Any]) -> None:
    assert ("n.yml" if "network" in files else "s.json") in refused(tmp_path, FILES, **files)


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [0, -1, 3, 7, 10**9, 10**30, 1.5, "", "x", "80 GB", None, [], {}, True, [1], ["ring"], "net/n.yml"]
)


@given(data=st.data())
@settings(derandomize=True, deadline=None, max_examples=80)
def test_a_damaged_system_loads_or_is_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    system: dict[str, Any] = copy.deepcopy(FILES)
    layer: dict[str, Any] = copy.deepcopy(SYSTEM)
    network: dict[str, Any] = yaml.safe_load(NETWORK)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged = data.draw(st.sampled_from([system, system["astra_sim"], layer, network]))
        if isinstance(damaged, dict):
            damaged[data.draw(st.sampled_from([*damaged, "peak", "device", "name"]))] = data.draw(ODD)
        if not isinstance(system.get("astra_sim"), dict):
            break
    folder = tmp_path_factory.mktemp("damaged")
    path = write(folder, system, yaml.safe_dump(network), layer)
    assert outcome(path)


def outcome(path: str) -> object:
    """Return the system, or what refuses it."""
    try:
        return Problem.load(path).spec.system
    except CosmicError as error:
        return error.message
