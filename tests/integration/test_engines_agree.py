"""Four independent engines on more than five hundred generated problems: the same designs, the same optimum.

The decision diagram, CP-SAT, the MILP (HiGHS) and exhaustive enumeration share the lowered model only; NumPy over the
whole grid, which does not, says what is right.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.ir.objective import LinearObjective, lower_objective
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.term import Apply
from cosmic_opt.solvers.base import Codes, Limits, SolveStatus, objective_values
from cosmic_opt.solvers.cp_sat import CpSat
from cosmic_opt.solvers.exhaustive import Exhaustive
from cosmic_opt.solvers.milp import Milp
from tests.strategies import FOCUSES, Source, brute_force, sorted_codes, sources

NONE = Limits()
SOLVERS = (Exhaustive(), CpSat(), Milp())
EXAMPLES = 60
"""For each of five focuses, twice: 600."""
FEW = 6
"""The MILP, which excludes one design after another, lists at most so many."""


@st.composite
def objectives(draw: st.DrawFn, source: Source) -> tuple[str, bool]:
    """Draw a linear expression over columns and quantities, and whether to maximise it."""
    atoms = [*source.numbers, "curved", "spread"]
    chosen = draw(st.lists(st.sampled_from(atoms), min_size=1, max_size=3, unique=True))
    weights = [draw(st.sampled_from((-7, -2, -1, 1, 3, 10))) for _ in chosen]
    return " + ".join(f"{w} * {a}" for w, a in zip(weights, chosen, strict=True)), draw(st.booleans())


def assert_same_designs(model: LoweredModel, expected: Codes) -> None:
    designs = feasible_set(model)
    assert designs.size == len(expected)
    np.testing.assert_array_equal(designs.everything(limit=len(expected) + 1), expected, "diagram")
    for solver in SOLVERS[:2] if len(expected) > FEW else SOLVERS:
        found = sorted_codes(model, list(solver.enumerate(model, limits=NONE)))
        np.testing.assert_array_equal(found, expected, solver.name)


def assert_same_optimum(model: LoweredModel, objective: LinearObjective, expected: Codes, best: int | None) -> None:
    for solver in SOLVERS:
        result = solver.solve(model, objective, limits=NONE)
        if best is None:
            assert (result.status, len(result.codes)) == (SolveStatus.INFEASIBLE, 0), solver.name
            continue
        assert (result.status, result.value, result.bound) == (SolveStatus.OPTIMAL, best, best), solver.name
        assert (result.codes[0, : model.designs] == expected).all(axis=1).any(), solver.name


def check_problem(source: Source, text: str, maximise: bool) -> None:
    compared = replace(source, text=f'{source.text}  compared: "{text} >= 0"\n').bind()
    *rules, last = compared.constraints
    assume(isinstance(last.term, Apply) and len(last.term.operands) == 2)  # not the same for every design
    assert isinstance(last.term, Apply)
    term = last.term.operands[0]
    parameter_set = replace(compared, constraints=tuple(rules))
    expected = brute_force(parameter_set)
    model = lower(parameter_set)
    assert_same_designs(model, expected)
    extended, objective = lower_objective(parameter_set, model, term, maximise=maximise)
    best = None
    if len(expected):
        batch = parameter_set.batch(expected)
        values = evaluate(term, batch.value_columns(term.columns), len(batch))
        np.testing.assert_array_equal(
            objective_values(extended, objective, feasible_set(extended).everything(len(expected))), values
        )
        best = int(values.max() if maximise else values.min())
    assert_same_optimum(extended, objective, expected, best)


def run_examples(focus: str, examples: int, number: int) -> Counter[str]:
    """Check generated problems; return how many there were, and how many were infeasible."""
    seen: Counter[str] = Counter()

    @seed(number)
    @settings(database=None, deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        source = data.draw(sources(focus))
        check_problem(source, *data.draw(objectives(source)))
        seen["problems"] += 1
        seen["infeasible"] += len(brute_force(source.bind())) == 0

    agree()
    return seen


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("focus", FOCUSES)
def test_four_engines_agree(focus: str, number: int) -> None:
    seen = run_examples(focus, EXAMPLES, number)
    assert seen["problems"] >= EXAMPLES
    assert 0 < seen["infeasible"] < seen["problems"]
