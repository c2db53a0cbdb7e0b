"""Layer tables of ASTRA-sim 1.0, Themis and LIBRA: read whole, or refused with file, line and reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import CosmicError, LimitError, SpecError
from cosmic_opt.interop import layer_table
from cosmic_opt.interop.layer_table import read_layer_table
from cosmic_opt.workloads.layer_table import LAYER_TABLE_READERS, LayerTable, LayerWork, Policy, TableLayer

FIRST = "conv1\t-1\t10 NONE 0 20 NONE 0 30 ALLREDUCE 4096 5"
SECOND = "fc -1 1 ALLTOALL 8  2 ALLGATHER 16 3 REDUCESCATTER 32 0"
LAYERS = (
    TableLayer("conv1", LayerWork(10), LayerWork(20), LayerWork(30, "all_reduce", 4096), 5),
    TableLayer(
        "fc", LayerWork(1, "all_to_all", 8), LayerWork(2, "all_gather", 16), LayerWork(3, "reduce_scatter", 32), 0
    ),
)
AGAIN = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 1 0 checkpoint_initiates: 2 0 1"


def read(folder: Path, *lines: str) -> LayerTable:
    path = folder / "table.txt"
    path.write_text("\n".join(lines))
    return read_layer_table(path)


def test_a_table_is_read_with_its_blanks_and_tabs(tmp_path: Path) -> None:
    assert read(tmp_path, "DATA\t\t\t", "2", "", FIRST, SECOND) == LayerTable(Policy.DATA, LAYERS)


def test_a_table_of_layers_alone_is_libras(tmp_path: Path) -> None:
    assert read(tmp_path, FIRST, SECOND) == LayerTable(Policy.NO_OVERLAP, LAYERS)


def test_the_numbers_of_the_parallelism_are_read(tmp_path: Path) -> None:
    third = FIRST.replace("conv1", "top")
    assert read(tmp_path, "HYBRID_DLRM 1", "3", FIRST, SECOND, third).last_bottom == 1
    assert read(tmp_path, "HYBRID_TRANSFORMER model_parallel_NPU_group: 16", "1", FIRST).model_npus == 16
    again = read(tmp_path, AGAIN, "2", FIRST, SECOND)
    assert (again.model_npus, again.checkpoints, again.initiates) == (4, {0}, {0, 1})


def test_the_reader_is_registered_under_its_format() -> None:
    assert LAYER_TABLE_READERS.get("layer_table") is read_layer_table


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        (("DATA",), 1, "number of layers is missing"),
        (("DATA", "2", FIRST), 2, "2 layers are announced and 1 follow"),
        (("DATA", "1", FIRST, SECOND), 2, "1 layers are announced and 2 follow"),
        (("DATA", "0"), 2, "0 layers"),
        (("DATA", "-1", FIRST), 2, "a number is expected where '-1' stands"),
        (("DATA", "1", FIRST[:-2]), 3, "the layer has 11 fields"),
        (("DATA", "1", f"{FIRST} 7"), 3, "the layer has 13 fields"),
        (("DATA", "1", FIRST.replace("30", "3e4")), 3, "'3e4' stands"),
        (("DATA", "1", FIRST.replace("30", "1" * 16)), 3, "a number is expected"),
        (("DATA", "1", FIRST.replace("ALLREDUCE", "REDUCE")), 3, "unknown collective 'REDUCE'"),
        (("DATAA", "1", FIRST), 1, "'DATAA' is no parallelism that is read"),
        (("HYBRID_DLRM", "2", FIRST, SECOND), 1, "the end of the line"),
        (("HYBRID_DLRM 1", "2", FIRST, SECOND), 1, "layer 1 cannot be the last"),
        (("HYBRID_TRANSFORMER", "1", FIRST), 1, "'model_parallel_NPU_group:' is missing"),
        (("HYBRID_TRANSFORMER model_parallel_NPU_group: 0", "1", FIRST), 1, "has no NPU"),
        ((AGAIN, "1", FIRST), 1, "layer 1 is not there"),
        ((AGAIN.replace("checkpoints: 1 0", "checkpoints: 1 1"), "2", FIRST, SECOND), 1, "no checkpoint stands before"),
        ((AGAIN.replace("initiates: 2", "initiates: 999999999"), "2", FIRST, SECOND), 1, "the end of the line"),
    ],
)
def test_a_malformed_table_is_refused_by_line(tmp_path: Path, lines: tuple[str, ...], line: int, reason: str) -> None:
    with pytest.raises(SpecError, match=reason) as caught:
        read(tmp_path, *lines)
    assert f"table.txt:{line}" in str(caught.value)
    assert caught.value.hint


def test_an_empty_a_missing_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="empty"):
        read(tmp_path, " ")
    with pytest.raises(SpecError, match="cannot read"):
        read_layer_table(tmp_path / "nowhere.txt")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="UTF-8"):
        read_layer_table(tmp_path / "b.txt")


def test_too_long_a_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_table, "MOST_LAYERS", 3)
    with pytest.raises(LimitError, match="too long"):
        read(tmp_path, "DATA", "2", FIRST, SECOND)


def outcome(path: Path) -> object:
    """Return the layers, or the hint of the refusal."""
    try:
        return read_layer_table(path).layers
    except CosmicError as error:
        return error.hint


@given(data=st.data())
@settings(derandomize=True, deadline=None, max_examples=200)
def test_a_damaged_table_does_no_harm(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    words = "\n".join([AGAIN, "2", FIRST, SECOND]).split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(words) - 1))
        words[place] = data.draw(st.sampled_from(["", "0", "-1", "9" * 30, "NONE", "\n", "DATA", "٣", "1.5"]))
    path = tmp_path_factory.mktemp("damaged") / "t.txt"
    path.write_text(" ".join(words), encoding="utf-8")
    assert outcome(path)
