"""`validation`: every row is listed, and files that are no rows are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.running import run

GOLDEN = Path(__file__).parents[2] / "golden" / "astrasim_collectives.json"

WORKLOADS = GOLDEN.with_name("astrasim_workloads.json")
KEYS = {"id", "predicted", "measured", "error", "note", "interval", "hidden_input", "extrapolates"}


def write(folder: Path, data: object) -> str:
    file = folder / "rows.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(file)


def test_the_golden_collectives_are_predicted_exactly() -> None:
    keys = run("validation", "--rows", str(GOLDEN), "--json").keys
    assert keys["schema"] == "cosmic-opt/validation@1"
    assert keys["summary"]["exact"] == keys["summary"]["predicted"] > 0
    assert set(keys["rows"][0]) == KEYS
    assert "0 %" in run("validation", "--rows", str(GOLDEN)).out


def test_rows_without_a_prediction_say_why(tmp_path: Path) -> None:
    file = write(tmp_path, {"rows": [{"id": "a", "value": 3}, {"id": "b", "value": None}]})
    keys = run("validation", "--rows", file, "--json").keys
    assert [row["predicted"] for row in keys["rows"]] == [None, None]
    assert all(row["note"] for row in keys["rows"])
    assert "without a prediction, because" in run("validation", "--rows", file).out


def test_source_keeps_the_rows_of_one_source(tmp_path: Path) -> None:
    file = write(tmp_path, {"rows": [{"id": "a", "source": "x"}, {"id": "b", "source": "y"}, 3]})
    keys = run("validation", "--rows", file, "--source", "y", "--json").keys
    assert [row["id"] for row in keys["rows"]] == ["b"]
    done = run("validation", "--rows", file, "--source", "z")
    assert done.code == 2
    assert "known: x, y" in done.err


def test_wrong_predictions_are_shown_worst_first(tmp_path: Path) -> None:
    cases = json.loads(GOLDEN.read_text())["cases"][:2]
    for case, factor in zip(cases, (2, 4), strict=True):
        case["time_ns"] *= factor
    out = run("validation", "--rows", write(tmp_path, {"cases": cases})).out
    assert out.index(cases[1]["id"]) < out.index(cases[0]["id"])
    assert "-75 %" in out


def test_workloads_are_replayed_from_their_traces() -> None:
    done = run("validation", "--rows", str(WORKLOADS), "--traces", str(GOLDEN.with_name("traces")))
    assert done.code == 0
    assert "worst 0 %" in done.out


def test_without_traces_workloads_ask_for_them() -> None:
    done = run("validation", "--rows", str(WORKLOADS), "--json")
    assert done.keys["summary"]["predicted"] == 0
    assert all("--traces" in row["note"] for row in done.keys["rows"])


def test_workload_rows_are_recognised_one_by_one(tmp_path: Path) -> None:
    data = json.loads(WORKLOADS.read_text())
    rows = [data["cases"][0], json.loads(GOLDEN.read_text())["cases"][0], {"id": "neither"}]
    file = write(tmp_path, {"meta": data["meta"], "cases": rows})
    done = run("validation", "--rows", file, "--traces", str(GOLDEN.with_name("traces")), "--json")
    assert (done.code, done.keys["summary"]["format"]) == (0, "astrasim_collectives, astrasim_workloads")
    assert [row["error"] for row in done.keys["rows"]] == [0, 0, None]
    assert "neither a 'collective' nor a 'workload'" in done.keys["rows"][2]["note"]


def test_a_file_of_which_nothing_is_predicted_is_an_error_and_still_listed(tmp_path: Path) -> None:
    file = write(tmp_path, {"cases": [{"id": "a"}, {"id": "b"}]})
    for more in ((), ("--json",), ("--quiet",)):
        done = run("validation", "--rows", file, *more)
        assert (done.code, "0 of 2 rows are predicted" in done.err) == (2, True)
        assert "neither" in done.out


def golden_cases(count: int, **changed: object) -> list[dict[str, object]]:
    return [{**case, **changed} for case in json.loads(GOLDEN.read_text())["cases"][:count]]


def test_when_nothing_is_predicted_the_error_itself_says_why(tmp_path: Path) -> None:
    file = write(tmp_path, {"cases": [*golden_cases(2, scheduling="FOO"), {"id": "c"}]})
    for more in ((), ("--json",), ("--quiet",)):
        done = run("validation", "--rows", file, *more)
        assert (done.code, done.err.count("hint:")) == (2, 1)
        assert "'scheduling' is 'FOO' (known: LIFO, FIFO, EXPLICIT) (2 rows); " in done.err
    many = write(tmp_path, {"cases": [{**case, "scheduling": n} for n, case in enumerate(golden_cases(5))]})
    assert "2 reasons more" in run("validation", "--rows", many).err


@pytest.mark.parametrize("scheduling", ["FOO", "lifo", None, 3, float("nan"), [], "SMALLEST_FIRST"])
def test_a_row_under_an_order_of_service_that_astra_sim_lacks_is_refused(tmp_path: Path, scheduling: object) -> None:
    workloads = json.loads(WORKLOADS.read_text())
    traces = ("--traces", str(GOLDEN.with_name("traces")))
    for cases in (golden_cases(1), workloads["cases"][:1]):
        data = {"cases": [{**case, "scheduling": scheduling} for case in cases]}
        done = run("validation", "--rows", write(tmp_path, {**workloads, **data}), *traces, "--json")
        (row,) = done.keys["rows"]
        assert (done.code, row["predicted"]) == (2, None)
        assert "'scheduling' is" in row["note"]


def test_a_row_without_an_id_is_named_by_its_place(tmp_path: Path) -> None:
    cases = golden_cases(3)
    del cases[0]["id"]
    cases[1]["id"] = None
    keys = run("validation", "--rows", write(tmp_path, {"cases": cases}), "--json").keys
    assert [row["id"] for row in keys["rows"]] == ["row 0", "row 1", cases[2]["id"]]
    keys = run("validation", "--rows", write(tmp_path, {"rows": [{"id": None, "value": 3}]}), "--json").keys
    assert [row["id"] for row in keys["rows"]] == ["row 0"]


def test_a_workload_of_too_many_operations_is_not_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_opt.analysis.astra_sim_rows.MOST_REPLAYED", 1)
    done = run("validation", "--rows", str(WORKLOADS), "--traces", str(GOLDEN.with_name("traces")))
    assert (done.code, "too many to replay: at most 1" in done.err) == (2, True)


def test_traces_must_be_a_folder(tmp_path: Path) -> None:
    done = run("validation", "--rows", str(WORKLOADS), "--traces", str(tmp_path / "nowhere"))
    assert done.code == 2
    assert "hint: name a folder" in done.err


@pytest.mark.parametrize("data", ["", "[1,", "[]", "{}", "3", '"x"', "[" * 100_000, '{"tp": 8}', "nul"])
def test_a_file_that_holds_no_rows_is_refused_with_a_hint(data: str, tmp_path: Path) -> None:
    done = run("validation", "--rows", write(tmp_path, data))
    assert (done.code, done.out) == (2, "")
    assert "hint:" in done.err


@pytest.mark.parametrize("rows", ["nowhere.json", "", ".", "x" * 5000, "a\0b"])
def test_a_path_that_is_no_file_is_refused_with_a_hint(rows: str) -> None:
    done = run("validation", "--rows", rows)
    assert (done.code, done.out) == (2, "")
    assert "hint:" in done.err


def test_odd_rows_are_listed_and_do_no_harm(tmp_path: Path) -> None:
    odd = [3, None, {"id": float("nan")}, {"id": "x", "backend": "unaware", "npus_per_dim": [1e99]}]
    done = run("validation", "--rows", write(tmp_path, {"cases": odd}), "--json")
    assert done.code == 2
    assert [row["predicted"] for row in done.keys["rows"]] == [None] * 4


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_bytes(b"\xff\xfe\x00")
    for more in ((), ("--source", "x")):
        assert run("validation", "--rows", str(file), *more).code == 2


def test_without_rows_every_shipped_row_is_predicted_or_says_why() -> None:
    keys = run("validation", "--json").keys
    assert keys["summary"]["rows"] == len(keys["rows"]) >= 893
    assert all(row["note"] for row in keys["rows"] if row["predicted"] is None)
    assert {"all", "source", "gpu", "kind", "scale"} == {group["by"] for group in keys["summary"]["groups"]}
    assert set(keys["rows"][0]) == KEYS


@pytest.mark.slow
def test_the_text_keeps_calibration_and_reported_rows_apart_and_is_short() -> None:
    out = run("validation").out
    assert "calibration" in out
    assert "reported" in out
    assert len(out.splitlines()) < 140


def test_a_source_of_the_shipped_rows_is_predicted_alone() -> None:
    keys = run("validation", "--source", "llmcompass", "--json").keys
    assert keys["summary"]["rows"] == 28
    assert {group["group"] for group in keys["summary"]["groups"] if group["by"] == "source"} == {"llmcompass"}


def test_html_writes_one_self_contained_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("validation", "--source", "stas00", "--html", str(page)).code == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<circle") == 32
    assert "http" not in text
    done = run("validation", "--source", "stas00", "--html", str(page))
    assert done.code == 2
    assert "--html" in done.err
    assert run("validation", "--source", "stas00", "--html", str(page), "--force").code == 0


@pytest.mark.parametrize("name", ["page.txt", "nowhere/page.html", ""])
def test_a_page_that_could_not_be_written_is_refused_before_the_work(name: str, tmp_path: Path) -> None:
    done = run("validation", "--html", str(tmp_path / name))
    assert (done.code, done.out) == (2, "")
    assert "hint:" in done.err


def test_logged_runs_are_compared_by_order_in_text_json_and_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("validation", "--source", "cosmic_logs", "--html", str(page))
    assert done.code == 0
    assert "Spearman's correlation" in done.out
    assert "logged runs, 64 NPUs" in done.out
    assert "worst rows" not in done.out
    text = page.read_text(encoding="utf-8")
    assert "logged runs, 64 NPUs" in text
    assert text.count("<circle") == 20
    summary = run("validation", "--source", "cosmic_logs", "--json").keys["summary"]
    assert (summary["predicted"], summary["median_error"], summary["groups"]) == (20, None, [])
    assert set(summary["ranks"][0]) == {"group", "engine", "rows", "rank"}
    assert summary["ranks"][0]["rank"] > 0.9


def test_a_layer_table_in_the_folder_of_traces_stands_for_a_workload(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("DATA\n1\na -1 10 NONE 0 10 NONE 0 10 ALLREDUCE 1073741824 0\n")
    bar = {"topology": "2D-SW_SW", "workload": "mine", "scheduler": "Themis+SCF", "total": 0.9}
    file = write(tmp_path, {"end_to_end_breakdown": [bar]})
    (alone,) = run("validation", "--rows", file, "--json").keys["rows"]
    assert (alone["predicted"], "layer table" in alone["note"]) == (None, True)
    (row,) = run("validation", "--rows", file, "--traces", str(tmp_path), "--json").keys["rows"]
    assert (row["id"], 0 < row["predicted"] < 1) == ("2D-SW_SW/mine/Themis+SCF", True)


def test_the_text_names_keys_that_are_not_read_once_with_the_number_of_their_rows(tmp_path: Path) -> None:
    row = {"kernel": "gemm", "gpu": "H100", "precision": "bf16", "m": 64, "n": 4096, "k": 4096, "value": 1.5e-5}
    data = [row | {"kernl": "a"}, row | {"kernl": "b"}, row | {"x; y": 1}, row]
    out = run("validation", "--rows", write(tmp_path, data)).out
    shown = out[out.index("keys that are not read") :].splitlines()[1:3]
    assert shown == ["     2  kernl (did you mean kernel?)", "     1  x; y"]
    assert "keys that are not read" not in run("validation", "--rows", write(tmp_path, [row])).out
