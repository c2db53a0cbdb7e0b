"""An error of a file names the line of the key that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.errors import SpecError
from tests.unit.catalog.files import bound, edited, write

WORKLOAD = "parts/workload.yaml"


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("vocabulary: 1000", "vocab: 1000", "9: vocab"),
        ("heads: 4", "heads: 4\nkv_heads: 3", "7: kv_heads"),
        ("heads: 4", "heads: 4\nnorm: batchnorm", "7: norm"),
        ("layers: 4", "layers: 0", "4: layers"),
        ("ffn: 256", "ffn: 16k", "7: ffn"),
        ("ffn: 256", "experts:\n  count: 8\n  top_k: 2\n  fnn: 4", "10: experts.fnn"),
        ("ffn: 256", "experts: {count: 8}", "7: experts"),
        ("layers: 4\n", "", "1: layers"),
    ],
)
def test_an_error_of_a_workload_names_the_line_of_its_key(old: str, new: str, place: str, tmp_path: Path) -> None:
    path = write(tmp_path, WORKLOAD, old, new)
    with pytest.raises(SpecError) as caught:
        bound(path)
    assert str(caught.value).startswith(f"{path.parent / WORKLOAD}:{place}: ")


def test_an_error_of_a_workload_in_place_names_the_line_and_the_whole_key(tmp_path: Path) -> None:
    workload = "\n  {name: w, layers: 2, hidden: 8, heads: 2,\n  ffn: 0, sequence: 8, vocabulary: 10}"
    path = write(tmp_path, "instance.yaml", WORKLOAD, workload)
    with pytest.raises(SpecError) as caught:
        bound(path)
    assert str(caught.value).startswith(f"{path}:5: workload.ffn: ")


def test_a_size_that_set_gives_is_no_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        edited(write(tmp_path), set_=["kv_heads=3"])
    assert str(caught.value).startswith("--set kv_heads: ")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("objective: step_time", "objective: speed", "10: objective"),
        ("objective: step_time", "objective: energy", "10: objective"),
        ("objective: step_time", "precision: fp8", "10: precision"),
        (", global_batch: 64", "", "5: job"),
    ],
)
def test_an_error_of_an_instance_names_the_line_of_its_key(old: str, new: str, place: str, tmp_path: Path) -> None:
    path = write(tmp_path, "instance.yaml", old, new)
    with pytest.raises(SpecError) as caught:
        bound(path)
    assert str(caught.value).startswith(f"{path}:{place}: ")
