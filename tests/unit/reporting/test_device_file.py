"""A calibrated device as a file: what is written reads back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.reporting.device_file import device_file
from cosmic_opt.system.hardware import Origin


@pytest.mark.parametrize(("launch_s", "read_s"), [(1.23456e-9, 1.235e-9), (1e-13, 0.0), (3.2e-6, 3.2e-6)])
def test_a_fitted_time_is_written_in_whole_picoseconds(tmp_path: Path, launch_s: float, read_s: float) -> None:
    device = load_device("h100-sxm")
    gemm = replace(device.gemm, simple=replace(device.gemm.simple, launch_s=launch_s))
    fitted = replace(device, gemm=gemm)
    file = tmp_path / "mine.yaml"
    origin = Origin(device.name, rows=7, steps=0)
    text = device_file(fitted, ["gemm.simple.launch_s"], origin, provenance="a test", errors=())
    file.write_text(text, encoding="utf-8")
    assert load_device(str(file)).gemm.simple.launch_s == pytest.approx(read_s, rel=1e-12)


@pytest.mark.parametrize(
    ("fitted", "borrowed"),
    [
        ((), ("gemm", "sustained", "attention", "fabric")),
        (("gemm.sustained.bf16", "fabric.efficiency", "fabric.nic_efficiency"), ("gemm", "attention", "fabric")),
        (
            ("fabric.base_s", "fabric.hop_s", "fabric.efficiency", "fabric.startup_s"),
            ("gemm", "sustained", "attention"),
        ),
    ],
)
def test_a_fitted_device_owns_what_was_fitted_and_no_more(
    fitted: tuple[str, ...], borrowed: tuple[str, ...], tmp_path: Path
) -> None:
    board, path = load_device("tpu-v5p"), tmp_path / "own.yaml"
    assert board.extrapolates == ("gemm", "sustained", "attention", "fabric")
    path.write_text(device_file(board, fitted, Origin(board.name, 0, 5), provenance="a test", errors=()))
    own = load_device(str(path))
    assert own.extrapolates == borrowed
    assert (own.fabric, own.gemm) == (board.fabric, board.gemm)


@pytest.mark.parametrize("name", ["gb200", "h100-sxm", "mi300x"])
def test_a_fitted_device_is_of_the_generation_of_its_board(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    board = load_device(name)
    path.write_text(device_file(board, (), Origin(name, 1, 0), provenance="rows", errors=()), encoding="utf-8")
    own = load_device(str(path))
    assert (own.compute_capability, own.memory_type) == (board.compute_capability, board.memory_type)
    assert own.board == name
