"""Rules whose numbers no change is looked at: the proof of the cheapest change says so."""

from __future__ import annotations

import pytest

from cosmic_opt.analysis.rule_numbers import keeps_its_numbers
from cosmic_opt.errors import Where
from cosmic_opt.psa.parameter_set import Constraint
from cosmic_opt.psa.term import Constant
from tests.unit.cli.running import run

SIX = "cosmic/gpt3-13b-system2"
NOTE = "that leaves the numbers of required as they are"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("tp >= 4", False),
        ("tp >= 4 and pp <= 2", False),
        ("tp * pp <= 8", False),
        ("algorithm == ring or topology == switch", False),
        ("tp >= 4 or pp <= 2", True),
        ("not (tp < 4)", True),
        ("pp == 1 implies tp >= 4", True),
        ("any(bandwidth[d] >= 400 GB/s for d in dim)", True),
        ("tp >= 4 and (pp <= 2 or dp <= 2)", True),
        ("tp != 3 or pp == dp", False),
    ],
)
def test_numbers_stay_as_they_are_but_in_a_conjunction_of_comparisons(text: str, kept: bool) -> None:
    assert keeps_its_numbers(Constraint("own", text, Constant(1), "", Where("--require"))) == kept


def test_a_proof_names_the_rules_whose_numbers_it_leaves() -> None:
    plain = run("explain", SIX, "--scope", "workload", "--require", "tp >= 4096")
    inside = run("explain", SIX, "--scope", "workload", "--require", "tp >= 4096 or pp >= 4096", "--json")
    assert "proved: nothing costs less than the first" in plain.out
    assert NOTE not in plain.out
    assert inside.keys["kept_numbers"] == ["required"]
    text = run("explain", SIX, "--scope", "workload", "--require", "tp >= 4096 or pp >= 4096").out
    assert f"proved: nothing costs less than the first {NOTE}: no plain comparisons" in text
