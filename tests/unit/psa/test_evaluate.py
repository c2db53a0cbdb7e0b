"""The reference meaning: exact, also beyond 63 bits, and equal to a plain interpreter of the rule's tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cosmic_opt.errors import SpecError
from cosmic_opt.psa.evaluate import evaluate, feasible, holds
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.psa.quantity import Quantity, QuantityTerm, SimulatedQuantity
from cosmic_opt.psa.term import Apply, ColumnTerm, Constant, Term, interval, magnitude
from cosmic_opt.units import Unit
from tests.strategies import DIMS, FOCUSES, Source, declare, sources, whole_grid
from tests.unit.psa.interpreter import Interpreter


def one_rule(rule: str, **domains: str) -> ParameterSet:
    parameters = "".join(f"  {name}: {{stack: compute, domain: {domain}}}\n" for name, domain in domains.items())
    text = f"schema: cosmic-opt/model@1\nname: m\nindices: {{dim: dims}}\nparameters:\n{parameters}"
    return declare(f'{text}constraints:\n  r: "{rule}"\n', {"dims": 3})


def truths(rule: str, **domains: str) -> list[bool]:
    """Return the truth of a rule for every design, in order of code."""
    parameter_set = one_rule(rule, **domains)
    return [bool(truth) for truth in feasible(parameter_set.batch(whole_grid(parameter_set)))]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("a // 2 == -2", [True, True, False, False]),
        ("a // -2 == 1", [False, True, False, False]),
        ("a % 3 == 2", [True, False, False, False]),
        ("a % -3 == -1", [True, False, False, False]),
        ("-a >= 3", [True, True, False, False]),
        ("a * a == 9", [False, True, False, True]),
        ("min(a, 0) == 0", [False, False, True, True]),
        ("max(a, -3) == -3", [True, True, False, False]),
        ("(a < 0) == (a == -4)", [True, False, True, True]),
        ("count(a > -4, a > 0) == 1", [False, True, True, False]),
        ("a == 0 implies false", [True, True, False, True]),
        ("a in {-4, 3}", [True, False, False, True]),
        ("a not in {-4, 3}", [False, True, True, False]),
        ("-3 <= a < 3", [False, True, True, False]),
        ("not (a < 0 or a == 3)", [False, False, True, False]),
    ],
)
def test_rule_by_hand(rule: str, expected: list[bool]) -> None:
    assert truths(rule, a="[-4, -3, 0, 3]") == expected


def test_numbers_beyond_63_bits_do_not_wrap() -> None:
    big = 3_037_000_500  # its square passes 2^63 by 5 * 10^9
    assert truths(f"a * a == {big * big}", a=f"[1, {big}]") == [False, True]
    assert truths("a * a * a > 0", a=f"[-{2**62}, {2**62}]") == [False, True]
    assert truths(f"a + b == {2**63}", a=f"[1, {2**62}]", b=f"[{2**62}, 5]") == [False, False, True, False]
    assert truths(f"a // 3 == {2**100 // 3} and a % 10 == 6", a=f"[{2**100}, {2**101}]") == [True, False]
    assert truths(f"a == {2**63 + 1}", a=f"[-1, {2**63 + 1}]") == [False, True]
    assert truths(f"max(a, 1) == {2**70}", a=f"[-{2**70}, {2**70}]") == [False, True]


def test_quantity_times_a_number_does_not_wrap() -> None:
    term = QuantityTerm(("a",), lambda values: values["a"] * 2**40)
    bytes_needed = Quantity("need", Unit.NONE, (term,), "2^40 a")
    text = "schema: cosmic-opt/model@1\nname: m\nparameters:\n  a: {stack: compute, domain: [1, 1024]}\n"
    rule = f"constraints:\n  r: need * {2**20} <= {2**62}\n"
    parameter_set = declare(text + rule, {}, {"need": bytes_needed})
    assert feasible(parameter_set.batch(whole_grid(parameter_set))).tolist() == [True, False]


def test_categories_are_compared_by_name_across_domains() -> None:
    assert truths("x == y", x="[red, green]", y="[green, blue]") == [False, False, True, False]
    assert truths("x != y", x="[red, green]", y="[green, blue]") == [True, True, False, True]


def test_simulated_rules_are_left_to_the_search() -> None:
    slow = SimulatedQuantity("step_time", Unit.TIME, "time of a step")
    text = "schema: cosmic-opt/model@1\nname: m\nparameters:\n  a: {stack: compute, domain: [1, 2]}\n"
    parameter_set = declare(text + "constraints:\n  r: step_time <= 2 s\n", {}, {"step_time": slow})
    batch = parameter_set.batch(whole_grid(parameter_set))
    assert feasible(batch).all()
    assert parameter_set.constraints[0].simulated
    with pytest.raises(SpecError, match="'step_time' is simulated"):
        holds(parameter_set.constraints[0], batch)


def test_no_designs_give_no_truths() -> None:
    parameter_set = one_rule("a * 3 == 9 or a in {1}", a="[1, 3]")
    assert feasible(parameter_set.batch(np.zeros((0, 1), dtype=np.int32))).shape == (0,)


@pytest.mark.parametrize("focus", FOCUSES)
def test_every_rule_means_what_a_plain_interpreter_says(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=30)
    @given(sources(focus))
    def agrees(source: Source) -> None:
        parameter_set = source.bind()
        rng = np.random.default_rng(0)
        grid = whole_grid(parameter_set)
        batch = parameter_set.batch(grid[rng.permutation(len(grid))[:60]])
        numbers = {name: sum_of(quantity, batch.value_columns()) for name, quantity in parameter_set.quantities.items()}
        families = dict.fromkeys(source.families, int(source.data[DIMS]))
        for at, point in enumerate(batch.points()):
            quantities = {name: int(values[at]) for name, values in numbers.items()}
            reader = Interpreter({**point, **source.data, **quantities}, families, {"dim": int(source.data[DIMS])})
            for rule in parameter_set.constraints:
                expected = bool(reader.meaning(parse_rule(rule.text), {}))
                assert bool(holds(rule, batch.take([at]))[0]) == expected, (rule.text, point)

    agrees()


def sum_of(quantity: Quantity | SimulatedQuantity, columns: dict[str, np.ndarray]) -> np.ndarray:
    assert isinstance(quantity, Quantity)
    values = [term.evaluate({name: columns[name] for name in term.names}) for term in quantity.terms]
    return np.asarray(np.sum(values, axis=0))


def numeric_parts(term: Term) -> list[Term]:
    below = [part for operand in term.operands for part in numeric_parts(operand)] if isinstance(term, Apply) else []
    categorical = isinstance(term, Constant | ColumnTerm) and isinstance(getattr(term, "value", None), str)
    named = isinstance(term, ColumnTerm) and isinstance(term.values[0], str)
    return below if categorical or named else [*below, term]


@pytest.mark.parametrize("focus", FOCUSES)
def test_interval_and_magnitude_enclose_every_value(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=30)
    @given(sources(focus))
    def encloses(source: Source) -> None:
        parameter_set = source.bind()
        batch = parameter_set.batch(whole_grid(parameter_set))
        for rule in parameter_set.constraints:
            for part in numeric_parts(rule.term):
                values = np.asarray(evaluate(part, batch.value_columns(part.columns), len(batch)))
                low, high = interval(part)
                assert low <= int(values.min())
                assert int(values.max()) <= high
                if isinstance(part, Apply) and not source.quantities.keys() & set(rule.text.split()):
                    assert magnitude(rule.term) >= int(np.abs(values).max())

    encloses()
