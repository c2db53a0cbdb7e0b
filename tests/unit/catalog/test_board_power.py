"""The power of a board: of its own file, else of the device that its kernels refer to."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.catalog.board_power import board_power
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.catalog.store import data_root, read_document, shared_names
from cosmic_opt.errors import SpecError

TEXT = """\
schema: cosmic-opt/device@1
name: mine
peak: 500 TFLOPS
memory_bandwidth: 2 TB/s
memory_capacity: 64 GB
kernels: {like: h100-sxm, source: a test}
"""


def power_of(folder: Path, text: str) -> int | None:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return board_power(read_document(file, "device"))


def test_a_file_without_a_power_has_that_of_the_board_it_is_like(tmp_path: Path) -> None:
    assert power_of(tmp_path, TEXT) == 700
    assert load_device(str(tmp_path / "mine.yaml")).power_w == 700.0


def test_a_file_wins_over_the_board_it_is_like(tmp_path: Path) -> None:
    assert power_of(tmp_path, f"{TEXT}power: 0.35 kW\n") == 350
    assert power_of(tmp_path, f"{TEXT}power: none\n") is None


def test_both_readers_of_every_shipped_device_agree() -> None:
    for name in shared_names("devices"):
        if name.startswith("cosmic"):
            continue
        root = read_document(data_root() / "instances" / "_devices" / f"{name}.yaml", "device")
        assert load_device(name).power_w == (board_power(root) or 0)


def test_power_among_the_kernels_is_refused_with_its_new_place(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown key 'power_w'") as caught:
        power_of(tmp_path, TEXT.replace("like: h100-sxm", "like: h100-sxm, power_w: 700"))
    assert "power: 700 W" in str(caught.value.hint)
