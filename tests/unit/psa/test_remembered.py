from __future__ import annotations

import numpy as np

from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.parameter_set import Column, Constraint, ParameterSet
from cosmic_opt.psa.quantity import IntArray, QuantityTerm, Values
from cosmic_opt.psa.remembered import remembering
from cosmic_opt.psa.term import Apply, Constant, QuantityPart
from cosmic_opt.units import Unit


def column(name: str, values: tuple[Value, ...]) -> Column:
    return Column(name, name, (), "workload", Unit.NONE, values, True)


class Counted:
    """Twice `a`, plus one where `kind` is "y"; counts the rows it was asked for."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, values: dict[str, Values]) -> IntArray:
        self.rows += len(values["a"])
        return np.asarray(2 * values["a"] + (values["kind"] == "y"), dtype=np.int64)


def problem(counted: Counted, a: tuple[int, ...]) -> ParameterSet:
    part = QuantityPart("amount", QuantityTerm(("a", "kind"), counted), Unit.NONE, ())  # type: ignore[arg-type]
    rules = tuple(Constraint(f"rule {at}", "", Apply("<=", (part, Constant(at)))) for at in range(2))
    return ParameterSet((column("a", a), column("kind", ("y", "x"))), rules)


def test_each_combination_is_computed_once_over_all_rules() -> None:
    counted = Counted()
    remembered = remembering(problem(counted, (8, 1, 3)))
    columns = {"a": np.array([3, 8, 3, 1]), "kind": np.array(["x", "y", "y", "x"])}
    for rule in remembered.constraints:
        assert isinstance(rule.term, Apply)
        assert evaluate(rule.term.operands[0], columns, 4).tolist() == [6, 17, 7, 2]
    assert counted.rows == 4


def test_a_column_of_numbers_beyond_64_bits_is_not_remembered() -> None:
    own = problem(Counted(), (1, 2**70))
    assert remembering(own) == own
