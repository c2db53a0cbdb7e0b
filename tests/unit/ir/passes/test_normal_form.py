"""Negations reach the relations, and the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cosmic_opt.ir.passes.normal_form import negate, normalise
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.term import RELATIONS, Apply, ColumnTerm, Constant, Term
from cosmic_opt.units import Unit
from tests.strategies import FOCUSES, Source, sources, whole_grid

FLAG = ColumnTerm("flag", (0, 1), Unit.NONE)
LOW, HIGH = Apply("<", (FLAG, Constant(1))), Apply(">=", (FLAG, Constant(1)))


def is_normal(term: Term) -> bool:
    if isinstance(term, Apply) and term.operator in ("and", "or"):
        return all(map(is_normal, term.operands))
    return isinstance(term, Constant) or (isinstance(term, Apply) and term.operator in RELATIONS)


def test_negated_relation_is_the_opposite_relation() -> None:
    assert negate(LOW) == HIGH
    assert normalise(Apply("not", (Apply("not", (LOW,)),))) == LOW


def test_bare_flag_becomes_a_relation() -> None:
    assert normalise(FLAG) == Apply("==", (FLAG, Constant(1)))
    assert negate(FLAG) == Apply("==", (FLAG, Constant(0)))


def test_implication_is_a_disjunction_and_its_negation_a_conjunction() -> None:
    rule = Apply("implies", (LOW, Apply("==", (FLAG, Constant(0)))))
    assert normalise(rule) == Apply("or", (HIGH, Apply("==", (FLAG, Constant(0)))))
    assert negate(rule) == Apply("and", (LOW, Apply("!=", (FLAG, Constant(0)))))


@pytest.mark.parametrize("focus", FOCUSES)
def test_normal_form_keeps_the_truth_of_every_rule(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=40)
    @given(sources(focus))
    def keeps(source: Source) -> None:
        parameter_set = source.bind()
        grid = parameter_set.batch(whole_grid(parameter_set))
        values = grid.value_columns()
        for rule in parameter_set.constraints:
            truth = evaluate(rule.term, values, len(grid)).astype(bool)
            positive, negative = normalise(rule.term), negate(rule.term)
            assert is_normal(positive)
            assert is_normal(negative)
            np.testing.assert_array_equal(evaluate(positive, values, len(grid)).astype(bool), truth)
            np.testing.assert_array_equal(evaluate(negative, values, len(grid)).astype(bool), ~truth)

    keeps()
