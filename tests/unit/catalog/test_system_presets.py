"""System presets of real clusters agree with the fabric constants of their devices."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.catalog.parts import System, read_system
from cosmic_opt.catalog.store import data_root, display, read_text
from cosmic_opt.psa.document import read_yaml

SWITCHED = ("dgx-h200-1024", "dgx-b200-1024", "dgx-b300-1024", "gb200-nvl72-1152", "gb300-nvl72-1152", "mi300x-1024")
TORI = ("tpu-v4-4096", "tpu-v5e-256", "tpu-v5p-8960", "tpu-v6e-256", "trn2-ultraserver-64")


def system(name: str) -> System:
    path = data_root() / "instances" / "_systems" / f"{name}.yaml"
    return read_system(read_yaml(read_text(path), display(path)), Path(path))


@pytest.mark.parametrize("name", [*SWITCHED, *TORI])
def test_a_preset_has_as_many_npus_as_its_name_says(name: str) -> None:
    assert system(name).npus == int(name.rpartition("-")[2])


@pytest.mark.parametrize("name", SWITCHED)
def test_the_inner_dimension_is_the_devices_domain_at_its_link_rate(name: str) -> None:
    preset = system(name)
    fabric = load_device(preset.device.name).fabric
    assert fabric is not None
    inner, outer = preset.dimensions
    assert (inner["npus"], inner["bandwidth"]) == (fabric.gpus_per_domain, fabric.link_bytes_per_s)
    assert outer["bandwidth"] == fabric.nic_bytes_per_s


@pytest.mark.parametrize("name", TORI)
def test_the_rings_of_a_torus_share_the_devices_links(name: str) -> None:
    preset = system(name)
    fabric = load_device(preset.device.name).fabric
    assert fabric is not None
    rings = [dimension for dimension in preset.dimensions if dimension["tier"] == "node"]
    assert sum(int(ring["bandwidth"]) for ring in rings) == fabric.link_bytes_per_s
    assert prod(int(dimension["npus"]) for dimension in preset.dimensions) == fabric.gpus_per_domain
