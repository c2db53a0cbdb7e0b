"""More NPUs than a system states: a switched fabric grows, a torus does not."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import data_root
from cosmic_opt.catalog.system_size import check_npus, stated_npus
from cosmic_opt.errors import SpecError, Where


def test_the_dimensions_of_a_system_multiply_to_its_size() -> None:
    assert stated_npus(Problem.load("llama3-70b/h100-64").instance.data) == 8 * 128
    assert stated_npus(Problem.load("llama3-70b/tpu-v5p-512-fsdp").instance.data) == 16 * 20 * 28


def test_a_model_that_chooses_the_shape_states_no_size() -> None:
    assert stated_npus(Problem.load("cosmic/gpt3-13b-system1").instance.data) is None


def test_a_torus_holds_no_more_npus_than_it_has() -> None:
    tpu = Problem.load("llama3-70b/tpu-v5p-512-fsdp")
    assert tpu.set(npus=8960).instance.data["npus"] == 8960
    with pytest.raises(SpecError, match="8,961 NPUs on the system 'tpu-v5p-8960', whose network holds 8,960") as caught:
        _ = tpu.set(npus=8961).instance
    assert str(caught.value.where) == "--set npus"
    assert "another system" in str(caught.value.hint)


def test_a_single_node_does_not_grow(tmp_path: Path) -> None:
    device, dimension = "device: h100-sxm", "{topology: switch, npus: 8, bandwidth: 450 GB/s, latency: 700 ns}"
    system = f"schema: cosmic-opt/system@1\nname: node\n{device}\ndimensions: [{dimension}]\n"
    (tmp_path / "system.yaml").write_text(system, encoding="utf-8")
    shipped = data_root() / "instances" / "llama3-8b" / "h100-8.yaml"
    own = tmp_path / "own.yaml"
    text = shipped.read_text(encoding="utf-8").replace("system: dgx-h100-1024", "system: system.yaml")
    own.write_text(text, encoding="utf-8")
    assert Problem.load(str(own)).instance.data["npus"] == 8
    with pytest.raises(SpecError, match="16 NPUs on the system 'node', whose network holds 8"):
        _ = Problem.load(str(own)).set(npus=16).instance


def test_a_switched_fabric_grows() -> None:
    assert Problem.load("llama3-70b/h100-64").set(npus=2048).instance.data["npus"] == 2048


@pytest.mark.parametrize(("npus", "grows", "refused"), [(24, True, False), (96, True, False), (24, False, True)])
def test_a_simulator_of_every_dimension_plays_the_network_as_it_is(npus: int, grows: bool, refused: bool) -> None:
    data = {"dims": 2, "npus": npus, "npus_per_dim[0]": 6, "npus_per_dim[1]": 8, "topology[1]": "switch"}
    with pytest.raises(SpecError, match="whose network holds 48") if refused else nullcontext():
        check_npus(data, "mine", Where("--set npus"), grows=grows)
    check_npus({**data, "npus": 48}, "mine", Where("--set npus"), grows=grows)
