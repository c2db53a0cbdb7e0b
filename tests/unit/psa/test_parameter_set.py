"""Columns, batches and designs."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.psa.parameter_set import Column, ParameterSet
from cosmic_opt.units import Unit


def column(name: str, *values: int | str, unit: Unit = Unit.NONE) -> Column:
    return Column(name, name, (), "workload", unit, values, True)


SMALL = ParameterSet((column("tp", 1, 2, 4), column("policy", "lifo", "fifo")), ())


def test_grid_is_the_product_of_the_domains() -> None:
    assert SMALL.grid_size == 6
    assert ParameterSet(tuple(column(f"c{at}", 0, 1) for at in range(80)), ()).grid_size == 2**80


def test_codes_read_back_as_values() -> None:
    batch = SMALL.batch(np.array([[0, 1], [2, 0]]))
    assert len(batch) == 2
    assert batch.values("tp").tolist() == [1, 4]
    assert list(batch.points()) == [{"tp": 1, "policy": "fifo"}, {"tp": 4, "policy": "lifo"}]
    assert batch.take([1]).values("policy").tolist() == ["lifo"]
    assert set(batch.value_columns()) == {"tp", "policy"}


def test_a_design_is_named_by_its_values() -> None:
    assert SMALL.design({"policy": "fifo", "tp": 4}).codes.tolist() == [[2, 1]]


def test_design_outside_a_domain_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(SpecError, match="3 is not in the domain of 'tp'") as caught:
        SMALL.design({"tp": 3, "policy": "fifo"})
    assert caught.value.hint == "allowed: 1, 2, 4"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (70, "50, 52, 54, 56, 58, 60, 62, 64, 66, 68"),  # beyond the last one
        (41, "32, 34, 36, 38, 40, 42, 44, 46, 48, 50"),  # between two
        (-5, "0, 2, 4, 6, 8, 10, 12, 14, 16, 18"),
        ("x", "0, 2, 4, 6, 8, 10, 12, 14, 16, 18"),
    ],
)
def test_of_a_large_domain_a_hint_lists_the_neighbours(value: int | str, shown: str) -> None:
    assert column("batch", *range(0, 70, 2)).allowed_near(value) == f"allowed: {shown} and 25 others"


def test_incomplete_design_is_refused_with_what_is_missing() -> None:
    with pytest.raises(SpecError, match="the design gives no value for 'policy'"):
        SMALL.design({"tp": 1})


def test_unknown_parameter_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="unknown parameter 'polcy'") as caught:
        SMALL.column("polcy")
    assert caught.value.hint == "did you mean 'policy'?"


@pytest.mark.parametrize(
    ("values", "kind"),
    [((1, 2), "i"), ((2**61, -1), "i"), ((2**62, 1), "O"), ((-1, 2**63 + 1), "O"), (("a", "bc"), "U")],
)
def test_values_are_exact_whatever_their_size(values: tuple[int | str, ...], kind: str) -> None:
    array = column("x", *values).array
    assert array.dtype.kind == kind
    assert tuple(array.tolist()) == values


def test_value_is_shown_with_its_unit() -> None:
    assert column("b", 375 * 10**9, unit=Unit.BYTES_PER_S).show(375 * 10**9) == "375 GB/s"
    assert column("p", "lifo").show("lifo") == "lifo"
