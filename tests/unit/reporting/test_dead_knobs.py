"""What is said of knobs without effect: of the objective only, for they may decide what is feasible."""

from __future__ import annotations

from cosmic_opt.analysis.dead_knobs import DeadKnobs
from cosmic_opt.reporting.dead_knobs import dead_keys, dead_text


def test_a_knob_without_effect_is_so_on_the_objective_where_the_rules_leave_a_choice() -> None:
    lines = dead_text(DeadKnobs(dead=("multidim",), undecided=("activation_offload",), live={}, tied=())).splitlines()
    assert lines == [
        "free, but without effect on the objective wherever the rules leave a choice: multidim",
        "perhaps without effect on the objective wherever the rules leave a choice (not proved): activation_offload",
    ]


def test_nothing_is_said_where_every_knob_matters() -> None:
    assert dead_text(DeadKnobs(dead=(), undecided=(), live={}, tied=())) == ""


def test_knobs_that_no_time_was_left_for_are_not_called_live() -> None:
    assert dead_text(None) == "knobs without effect were not looked for: no time was left"
    assert dead_keys(None) == {"inert": None, "undecided": None}
