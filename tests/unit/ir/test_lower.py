"""Which intermediate form a rule takes, and that every form keeps the feasible set."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from cosmic_opt.errors import LimitError
from cosmic_opt.ir import draft
from cosmic_opt.ir import lower as lowering
from cosmic_opt.ir.check import check
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import Conditional, Linear, LoweredModel, Product, Table
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.quantity import Quantity, QuantityTerm, SimulatedQuantity
from cosmic_opt.units import Unit
from tests.strategies import brute_force, declare, whole_grid


def psa(*rules: str, **domains: str) -> ParameterSet:
    return psa_with({}, {}, *rules, **domains)


def psa_with(
    quantities: Mapping[str, Quantity | SimulatedQuantity], data: Mapping[str, Value], *rules: str, **domains: str
) -> ParameterSet:
    lines = ["schema: cosmic-opt/model@1", "name: small", "indices: {dim: dims}", "parameters:"]
    lines += [f"  {name}: {{stack: workload, domain: {domain}}}" for name, domain in domains.items()]
    lines += ["constraints:", *(f'  r{at}: "{rule}"' for at, rule in enumerate(rules))]
    return declare("\n".join(lines), {"dims": 3, **data}, quantities)


def forms(model: LoweredModel) -> list[type]:
    return [type(constraint) for constraint in model.constraints]


def assert_exact(parameter_set: ParameterSet) -> LoweredModel:
    model = lower(parameter_set)
    grid = whole_grid(parameter_set)
    np.testing.assert_array_equal(grid[check(model, grid)], brute_force(parameter_set))
    return model


def test_rule_over_one_parameter_becomes_a_filter_of_its_codes() -> None:
    model = assert_exact(psa("a % 3 == 1", a="{range: [0, 9], step: 1}"))
    assert model.constraints == ()
    assert model.allowed[0].tolist() == [1, 4, 7]


def test_product_of_powers_becomes_one_sum_of_exponents_per_prime() -> None:
    model = assert_exact(psa("a * b == 12", a="[1, 2, 3, 4, 6, 12]", b="[1, 2, 3, 4, 6, 12]"))
    assert forms(model) == [Linear, Linear]


def test_product_equal_to_a_product_of_parameters_is_linear_in_exponents() -> None:
    model = assert_exact(psa("a * b == c * a", a="[1, 2, 4]", b="[2, 6]", c="[2, 6, 18]"))
    assert set(forms(model)) == {Linear}


def test_product_with_a_factor_zero_is_exact() -> None:
    assert_exact(psa("a * b == 0", "a * b * c != 4", a="[-2, 0, 2]", b="[0, 1, 3]", c="[-1, 2]"))


def test_sum_of_functions_of_one_parameter_each_is_linear() -> None:
    model = assert_exact(psa("a * a + 3 * b - 2 <= a + b % 2", a="[-3, 0, 2, 5]", b="[0, 1, 4]"))
    assert forms(model) == [Linear]


def test_wide_product_under_a_bound_stays_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 4)
    model = assert_exact(psa("2 * a * b < 25", a="[0, 1, 3, 5]", b="[1, 2, 4, 7]"))
    assert forms(model) == [Product]


def test_wide_product_with_a_negative_factor_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 4)
    assert Product not in forms(assert_exact(psa("a * b < 5", a="[-2, 1, 3, 5]", b="[1, 2, 4, 7]")))


def test_narrow_disjunction_becomes_a_table() -> None:
    assert forms(assert_exact(psa("a == 1 or b > 2", a="[1, 2]", b="[1, 2, 3]"))) == [Table]


def test_wide_disjunction_becomes_a_conditional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 4)
    model = assert_exact(psa("a == 1 implies b + c <= 5", a="[1, 2]", b="[1, 2, 3]", c="[1, 2, 3]"))
    assert Conditional in forms(model)


def test_guard_that_no_design_meets_keeps_every_design(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 1)
    model = assert_exact(psa("a > 5 implies b + c <= 2", a="[1, 2]", b="[1, 2, 3]", c="[1, 2, 3]"))
    assert model.constraints == ()


def test_helper_over_an_already_empty_set_leaves_it_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 1)
    monkeypatch.setattr(draft, "WIDE_TABLE", 1)
    assert_exact(psa("u * v == v", "u * v == -7 implies u * v == u", u="[-7, -4]", v="[1, 2, 4]"))


def test_categories_stay_categories_however_small_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 1)
    monkeypatch.setattr(draft, "WIDE_TABLE", 1)
    assert_exact(
        psa("x == red implies a * b == 1", "x != y", x="[red, green]", y="[green, red]", a="[1, 2]", b="[1, 3]")
    )


def test_contradiction_of_constants_is_infeasible() -> None:
    assert assert_exact(psa("1 == 2", a="[1, 2]")).infeasible


def test_rule_that_folds_to_truth_leaves_nothing() -> None:
    assert assert_exact(psa("2 + 2 == 4", "a == 1 or true", a="[1, 2]")).constraints == ()


def test_numbers_beyond_63_bits_are_exact() -> None:
    big = 2**63
    model = assert_exact(
        psa(f"a + b <= {3 * big}", f"a % {big - 1} != 2", a=f"[1, {big}, {2 * big}]", b=f"[-1, {big}]")
    )
    assert not model.infeasible


def test_quantity_of_several_terms_is_summed_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    square = QuantityTerm(("a", "b"), lambda v: v["a"] * v["a"] + v["b"])
    cube = QuantityTerm(("b", "c"), lambda v: v["b"] ** 3 * v["c"])
    area = Quantity("area", Unit.NONE, (square, cube), "a^2 + b + b^3 c")
    domains = {"a": "[-2, 0, 1, 5]", "b": "[0, 1, 2]", "c": "[1, -1, 3]"}
    for small, wide in ((1 << 12, 1 << 16), (1, 1)):
        monkeypatch.setattr(lowering, "SMALL_TABLE", small)
        monkeypatch.setattr(draft, "WIDE_TABLE", wide)
        assert_exact(psa_with({"area": area}, {}, "area <= 9", "area % 2 == 0 or a == 5", **domains))


def test_wide_terms_of_the_same_parameters_meet_in_one_table_without_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "SMALL_TABLE", 0)
    needed = QuantityTerm(("a", "b"), lambda values: values["a"] * values["b"])
    room = QuantityTerm(("a", "b"), lambda values: 20 - 2 * values["a"])
    terms = {"needed": needed, "room": room}
    quantities = {name: Quantity(name, Unit.NONE, (term,), name) for name, term in terms.items()}
    sixes = "{range: [1, 6], step: 1}"
    model = assert_exact(psa_with(quantities, {}, "needed <= room", a=sixes, b=sixes))
    assert forms(model) == [Table]
    assert not model.definitions


def test_quantity_of_no_parameter_is_a_constant() -> None:
    constant = Quantity("load", Unit.NONE, (QuantityTerm(("size",), lambda v: v["size"] * 2),), "twice the size")
    fits = psa_with({"load": constant}, {"size": 6}, "load + a <= 13", "load <= 12", a="[0, 1, 2]")
    assert assert_exact(fits).allowed[0].tolist() == [0, 1]
    assert assert_exact(psa_with({"load": constant}, {"size": 6}, "load <= 11", a="[0, 1]")).infeasible


def test_rule_on_a_simulated_quantity_is_not_lowered() -> None:
    slow = SimulatedQuantity("step_time", Unit.TIME, "time of a step")
    model = lower(psa_with({"step_time": slow}, {}, "step_time <= 2 s", "a == 1 or step_time <= 3 s", a="[1, 2]"))
    assert model.constraints == ()
    assert model.allowed[0].tolist() == [0, 1]


def test_every_constraint_names_the_rule_it_came_from() -> None:
    model = lower(psa("a * b == 12", "a <= b", a="[1, 2, 3, 4, 6, 12]", b="[1, 2, 3, 4, 6, 12]"))
    assert {constraint.origin.name for constraint in model.constraints} == {"r0", "r1"}
    assert {constraint.origin.where.key for constraint in model.constraints} == {"constraints.r0", "constraints.r1"}


def test_rule_that_relates_too_many_parameters_is_refused_with_their_names() -> None:
    names = [f"p{at}" for at in range(6)]
    entangled = Quantity(
        "knot", Unit.NONE, (QuantityTerm(tuple(names), lambda v: np.bitwise_xor.reduce([v[n] for n in names])),), ""
    )
    domains = dict.fromkeys(names, "{range: [0, 40], step: 1}")
    with pytest.raises(LimitError, match="p0, p1, p2, p3, p4, p5") as caught:
        lower(psa_with({"knot": entangled}, {}, "knot <= 3", **domains))
    assert caught.value.hint
