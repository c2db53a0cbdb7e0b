from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosmic_opt.reporting.cluster_warnings import cluster_warnings, labelled, warnings_text
from tests.unit.cli.running import Done, run

LLAMA = "llama3-70b/h100-64"
LOOSE = (LLAMA, "--without", "world_size", "--fix", "tp=4", "--fix", "pp=4", "--fix", "cp=1")
FEWER = "the design uses 16 of 64 NPUs: the others are idle"
MORE = "the design uses 128 NPUs and there are 64: "


def test_as_many_as_there_are_need_no_word() -> None:
    assert cluster_warnings(64, 64, 64, serves=False) == []


def test_only_a_server_may_leave_npus_idle() -> None:
    assert cluster_warnings(32, 64, None, serves=True) == []
    (warning,) = cluster_warnings(32, 64, None, serves=False)
    assert warning.startswith("the design uses 32 of 64 NPUs")


def test_the_same_warning_is_said_once_with_its_labels() -> None:
    assert labelled([("a", ["x"]), ("b", []), ("c", ["x", "y"])]) == ["a, c: x", "c: y"]
    assert warnings_text([]) == ""


@pytest.mark.parametrize(("dp", "said"), [(1, FEWER), (8, MORE), (4, None)])
@pytest.mark.parametrize("command", [("solve",), ("optimise", "--minimise", "memory_per_npu"), ("pareto",)])
def test_commands_say_it_of_their_design(command: tuple[str, ...], dp: int, said: str | None) -> None:
    objectives = ("--objectives", "step_time,memory_per_npu") if command == ("pareto",) else ()
    asked = (command[0], *LOOSE, "--fix", f"dp={dp}", "--fix", "micro_batch=1", *command[1:], *objectives)
    said_in(run(*asked), run(*asked, "--json").keys["warnings"], said)


def said_in(shown: Done, warnings: list[str], said: str | None) -> None:
    told = [warning for warning in warnings if "NPUs" in warning]
    assert all(said is not None and warning.startswith(said) for warning in told)
    assert bool(told) == (said is not None)
    assert ("warning: the design uses" in shown.out) == (said is not None)


def test_what_if_says_of_which_answer_it_is() -> None:
    asked = ("what-if", *LOOSE, "--fix", "dp=1", "--fix", "micro_batch=1")
    keys = run(*asked, "--json").keys
    assert keys["changed"]["warnings"][0].startswith(FEWER)
    assert not any("NPUs" in warning for warning in keys["baseline"]["warnings"])
    assert f"warning: changed: {FEWER}" in run(*asked).out


def test_a_sweep_names_the_values() -> None:
    asked = ("sweep", *LOOSE, "--fix", "micro_batch=1", "--refine", "0", "--over", "dp=1,4,8")
    points = run(*asked, "--json").keys["points"]
    assert [bool(point["warnings"]) for point in points] == [True, False, True]
    out = run(*asked).out
    assert f"warning: dp 1: {FEWER}" in out
    assert f"warning: dp 8: {MORE}" in out


def test_compare_names_the_design(tmp_path: Path) -> None:
    own = run("solve", LLAMA, "--json").keys["design"]
    more = tmp_path / "more.json"
    more.write_text(json.dumps({**own, "dp": 2 * own["dp"]}))
    asked = ("compare", LLAMA, "--without", "world_size", "--design", str(more))
    assert f"warning: more: {MORE}" in run(*asked).out
    assert run(*asked, "--json").keys["designs"][1]["warnings"][0].startswith(MORE)
