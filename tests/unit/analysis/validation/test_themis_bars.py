"""Themis' figure 12: every bar is a row, predicted from its layer table, network and scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosmic_opt.analysis.validation import ValidationReport, ValidationRow, validate
from cosmic_opt.interop import read_layer_table

WORKLOADS = ("ResNet-152", "GNMT", "DLRM", "Transformer-1T")
FIGURE = {
    # total of Themis+SCF and of Ideal over the baseline, by workload
    "2D-SW_SW": ((0.7149, 0.6974), (0.7921, 0.7798), (0.7924, 0.7747), (0.764, 0.7586)),
    "3D-SW_SW_SW_homo": ((0.4448, 0.4324), (0.5605, 0.5509), (0.564, 0.5479), (0.6543, 0.6494)),
    "3D-SW_SW_SW_hetero": ((0.7097, 0.6898), (0.8023, 0.7892), (0.8013, 0.7842), (0.8368, 0.8294)),
    "4D-Ring_FC_Ring_SW": ((0.793, 0.7677), (0.8887, 0.8748), (0.889, 0.8691), (0.8934, 0.8879)),
}
TABLE_2 = {"3D-FC_Ring_SW": (1.395, 1.243, 1.239, 1.185), "4D-Ring_SW_SW_SW": (1.394, 1.213, 1.214, 1.213)}
"""Speed-ups of Themis+SCF on the other two networks of the figure."""
TRANSFORMER = {"topology": "2D-SW_SW", "workload": "Transformer-1T", "scheduler": "Baseline", "total": 1.0}
PARTS = {"fwd": 0.1593, "bwd": 0.1593, "mp": 0.6602, "dp": 0.0212}


def bars() -> list[dict[str, Any]]:
    return [
        {"topology": network, "workload": workload, "scheduler": scheduler, "total": total}
        for network, totals in FIGURE.items()
        for workload, pair in zip(WORKLOADS, totals, strict=True)
        for scheduler, total in zip(("Baseline", "Themis+SCF", "Ideal"), (1.0, *pair), strict=True)
    ]


def report_of(*rows: object, tables: Path | None = None) -> ValidationReport:
    return validate({"end_to_end_breakdown": list(rows)}, traces=tables)


def one(**changes: object) -> ValidationRow:
    (row,) = report_of({**TRANSFORMER, **changes}).rows
    return row


@pytest.fixture(scope="module")
def whole() -> ValidationReport:
    return report_of(*bars())


def test_every_bar_is_a_row_within_three_percent_of_the_figure(whole: ValidationReport) -> None:
    assert len(whole.rows) == whole.summary.predicted == 48
    for row in whole.rows:
        assert row.error is not None
        assert abs(row.error) < 0.03, row.id


def test_bars_of_all_workloads_but_dlrm_are_within_two_percent(whole: ValidationReport) -> None:
    assert all(abs(row.error or 0) < 0.02 for row in whole.rows if "DLRM" not in row.id)


def test_transformer_bars_are_within_half_a_percent_as_gathers_are_listed_by_their_shard(
    whole: ValidationReport,
) -> None:
    assert all(abs(row.error or 0) < 0.005 for row in whole.rows if "Transformer" in row.id)


def test_speed_ups_have_the_order_of_the_figure(whole: ValidationReport) -> None:
    ranks = {group.group: group for group in whole.summary.ranks}
    assert set(ranks) == {"end to end, Themis+SCF over Baseline", "end to end, Ideal over Baseline"}
    assert all(group.rows == 16 and group.rank is not None and group.rank > 0.97 for group in ranks.values())


def test_a_baseline_is_the_unit_and_not_counted_as_predicted_exactly(whole: ValidationReport) -> None:
    assert {row.predicted for row in whole.rows if row.id.endswith("/Baseline")} == {1.0}
    assert whole.summary.exact == 0


def test_the_ideal_network_is_never_slower_than_a_scheduled_one(whole: ValidationReport) -> None:
    totals = {row.id: row.predicted for row in whole.rows}
    for name, total in totals.items():
        if name.endswith("/Ideal"):
            assert total is not None
            assert total <= (totals[name.replace("Ideal", "Themis+SCF")] or 0)


@pytest.mark.parametrize("network", TABLE_2)
def test_the_other_networks_of_the_figure_are_predicted_too(network: str) -> None:
    rows = [{**TRANSFORMER, "topology": network, "workload": name, "scheduler": "Themis+SCF"} for name in WORKLOADS]
    for row, speed_up in zip(report_of(*rows).rows, TABLE_2[network], strict=True):
        assert row.predicted == pytest.approx(1 / speed_up, rel=0.04)


def test_the_note_gives_every_part_beside_the_figures() -> None:
    note = str(one(**PARTS).note)
    for key, figure in PARTS.items():
        text = note.split(f"{key} ")[1]
        predicted, shown = float(text[:6]), float(text[8:14])
        assert shown == figure
        assert predicted == pytest.approx(figure, rel=0.012)


def test_first_come_first_served_is_predicted_with_its_tie_rule() -> None:
    row = one(scheduler="Themis+FIFO", total=None)
    assert row.predicted is not None
    assert "order planned" in str(row.note)


def test_a_workload_of_the_users_is_read_from_the_folder_of_traces(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("DATA\n1\na -1 1000 NONE 0 1 NONE 0 1000 ALLREDUCE 1048576 0\n")
    (row,) = report_of({**TRANSFORMER, "workload": "mine", "scheduler": "Ideal"}, tables=tmp_path).rows
    assert row.predicted is not None
    assert 0 < row.predicted < 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topology": "2D"}, "no network '2D'"),
        ({"topology": None}, "'topology' is None"),
        ({"workload": "GPT"}, "no layer table of 'GPT'"),
        ({"workload": "../themis/GNMT"}, "not the name of a workload"),
        ({"workload": ""}, "'workload' is ''"),
        ({"scheduler": "Themis"}, "unknown scheduler 'Themis'"),
        ({"scheduler": 3}, "'scheduler' is 3"),
    ],
    ids=str,
)
def test_a_bar_that_means_nothing_says_why(changes: dict[str, object], words: str) -> None:
    row = one(**changes)
    assert row.predicted is None
    assert words in str(row.note)


@pytest.mark.parametrize("figure", [3, None, "bars", {}])
def test_bars_that_are_no_list_are_one_row_that_says_so(figure: object) -> None:
    (row,) = validate({"end_to_end_breakdown": figure}).rows
    assert (row.id, row.predicted) == ("end_to_end_breakdown", None)
    assert "not a list" in str(row.note)


def test_a_bar_that_is_no_object_is_listed() -> None:
    assert [row.note for row in report_of(3, None).rows] == ["the row is not an object"] * 2


def test_shipped_tables_hold_the_artifacts_sums() -> None:
    folder = Path(__file__).parents[4] / "benchmarks" / "data" / "themis"
    forward = {path.stem: sum(layer.forward.compute_ns for layer in read_layer_table(path).layers)
               for path in folder.glob("*.txt")}  # fmt: skip
    assert forward == {"ResNet-152": 807_960, "GNMT": 2_930_768, "DLRM": 1_399_259, "Transformer-1T": 56_665_038}


def test_a_malformed_figure_of_points_is_listed_and_not_skipped() -> None:
    data = {
        "all_reduce_time_us": {"sizes_GB": [1.0], "time_us": {"2D-SW_SW": {"Baseline": [1.0, 2.0], "x": 3}, "y": 4}}
    }
    rows = validate(data).rows
    assert [row.id for row in rows] == [
        *("2D-SW_SW/Baseline/1.0", "2D-SW_SW/Baseline/size 1", "2D-SW_SW/x", "y"),
    ]
    assert [row.predicted is None for row in rows] == [False, True, True, True]
    assert all("cannot be read" in str(row.note) for row in rows[1:])
