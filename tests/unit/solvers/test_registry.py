"""Which backend a size asks for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cosmic_opt.ir.model import Conditional, Linear, Product
from cosmic_opt.ir.objective import LinearObjective
from cosmic_opt.solvers.registry import choose_solver
from tests.unit.solvers.small import ORIGIN, model_of, table

SMALL, LARGE = (2,) * 17, (2,) * 18
PLAIN = LinearObjective((0,), ((0, 1),))


def test_few_combinations_are_tried_one_by_one_whatever_their_numbers() -> None:
    assert choose_solver(model_of(SMALL), LinearObjective((0,), ((0, 2**80),))) == "exhaustive"


def test_many_combinations_go_to_cp_sat() -> None:
    assert choose_solver(model_of(LARGE, table((0, 1), (0, 1))), PLAIN) == "cp_sat"


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize(
    "rule",
    [
        lambda n: Linear((0, 1), ((0, n - 5), (0, -5)), None, 7, ORIGIN),
        lambda n: Conditional(2, Linear((0,), ((0, n),), None, 7, ORIGIN), ORIGIN),
        lambda n: Product((0, 1), ((0, n), (0, 1)), None, 7, ORIGIN),
    ],
    ids=["sum", "guarded sum", "product"],
)
def test_numbers_beyond_2_to_the_60_go_to_the_milp_backend(rule: Callable[[int], Linear], beyond: int) -> None:
    model = model_of(LARGE, rule(2**60 + beyond))
    assert choose_solver(model, PLAIN) == ("milp" if beyond else "cp_sat")


def test_an_objective_beyond_2_to_the_60_goes_to_the_milp_backend() -> None:
    assert choose_solver(model_of(LARGE), LinearObjective((0,), ((0, -(2**61)),))) == "milp"
