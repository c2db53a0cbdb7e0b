"""Files of measured rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosmic_opt.catalog.measurements import read_measurements
from cosmic_opt.errors import SpecError


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_csv_and_json_give_the_same_rows(tmp_path: Path) -> None:
    rows = [{"kernel": "gemm", "m": 1, "value": 2.5e-05, "nvls": True}, {"kernel": "gemm", "value": 3}]
    as_csv = "kernel,m,value,nvls\ngemm,1,2.5e-05,true\n\ngemm,,3,\n"
    assert read_measurements(write(tmp_path, "a.csv", as_csv)) == rows
    for data in (rows, {"rows": rows}):
        assert read_measurements(write(tmp_path, "a.json", json.dumps(data))) == rows


def test_a_dotted_column_is_an_entry_of_an_object(tmp_path: Path) -> None:
    text = "tp,dims.hidden,dims.gated_mlp,network.scale_out_bytes_per_s\n8,4096,true,5e10\n4,,,5e10\n"
    assert read_measurements(write(tmp_path, "a.csv", text)) == [
        {"tp": 8, "dims": {"hidden": 4096, "gated_mlp": True}, "network": {"scale_out_bytes_per_s": 50_000_000_000}},
        {"tp": 4, "network": {"scale_out_bytes_per_s": 50_000_000_000}},
    ]


def test_cells_that_are_no_numbers_stay_text(tmp_path: Path) -> None:
    (row,) = read_measurements(write(tmp_path, "a.csv", "a,b,c,d\nnan,inf,A100,1e99\n"))
    assert row == {"a": "nan", "b": "inf", "c": "A100", "d": 1e99}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.csv", "", "the file is empty"),
        ("a.csv", " \n\n", "the file is empty"),
        ("a.csv", "kernel,value\n", "no rows"),
        ("a.csv", "kernel,kernel\ngemm,1\n", "two have the same"),
        ("a.csv", "kernel,\ngemm,1\n", "has no name"),
        ("a.csv", "dims.,value\n1,2\n", "'dims.' is no key"),
        ("a.csv", ".hidden,value\n1,2\n", "'.hidden' is no key"),
        ("a.csv", "dims.a.b,value\n1,2\n", "'dims.a.b' is no key"),
        ("a.csv", "dims,dims.hidden\n1,2\n", "exclude each other"),
        ("a.csv", "kernel,value\ngemm,1,2\n", "3 cells under 2 columns"),
        ("a.csv", 'kernel,value\n"gemm,1\n', "not CSV"),
        ("a.json", "{", "not JSON"),
        ("a.json", '[{"id": 1, "step_s": 2, "id": 3}]', "the key 'id' appears twice"),
        ("a.json", "[" * 100_000, "not JSON"),
        ("a.json", "{}", "holds no rows"),
        ("a.json", "[1]", "holds no rows"),
        ("a.json", "[]", "no rows"),
        ("a.json", '{"rows": []}', "no rows"),
    ],
)
def test_a_file_without_rows_is_refused_with_a_hint(name: str, text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        read_measurements(write(tmp_path, name, text))
    assert reason in str(caught.value)
    assert caught.value.hint


def test_a_line_of_the_wrong_length_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        read_measurements(write(tmp_path, "a.csv", "kernel,value\ngemm,1\ngemm\n"))
    assert caught.value.where is not None
    assert caught.value.where.line == 3


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot read the file"):
        read_measurements(tmp_path / "nowhere.csv")
