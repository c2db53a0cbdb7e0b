"""Helper columns of a draft: determined by the design columns, shared by equal terms."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cosmic_opt.ir import draft as drafting
from cosmic_opt.ir.draft import Draft, Helper
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import Origin
from cosmic_opt.psa.evaluate import evaluate
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.quantity import Values
from cosmic_opt.psa.term import Apply, Constant, Term
from tests.unit.ir.test_lower import psa


def small() -> ParameterSet:
    return psa("a + b <= 4", a="[1, 2, 3]", b="[1, 2, 5]")


def term(parameter_set: ParameterSet, operator: str) -> Term:
    columns = {column.name: column.term for column in parameter_set.columns}
    return Apply(operator, (columns["a"], columns["b"]))


def test_helper_of_one_column_is_that_column() -> None:
    parameter_set = small()
    assert Draft.of(parameter_set).helper_of(parameter_set.column("b").term) == Helper(1, (1, 2, 5))


def test_equal_terms_share_one_helper_column() -> None:
    parameter_set = small()
    draft = Draft.of(parameter_set)
    helper = draft.helper_of(term(parameter_set, "*"))
    assert helper == draft.helper_of(term(parameter_set, "*"))
    assert (helper.column, helper.values) == (2, (1, 2, 3, 4, 5, 6, 10, 15))
    assert len(draft.columns) == 3


@pytest.mark.parametrize("wide", [1, 1 << 16])
def test_helper_column_has_one_code_per_combination_of_its_inputs(monkeypatch: pytest.MonkeyPatch, wide: int) -> None:
    monkeypatch.setattr(drafting, "WIDE_TABLE", wide)
    parameter_set = small()
    draft = Draft.of(parameter_set)
    helper = draft.helper_of(term(parameter_set, "+"))
    (table,) = draft.definitions
    products = {(int(a), int(b)): helper.values[code] for a, b, code in table.rows}
    assert products == {(i, j): a + b for i, a in enumerate((1, 2, 3)) for j, b in enumerate((1, 2, 5))}


def test_resumed_draft_tabulates_what_the_rules_left_only() -> None:
    parameter_set = small()
    draft = Draft.resumed(parameter_set, lower(parameter_set))
    assert [codes.tolist() for codes in draft.allowed] == [[0, 1, 2], [0, 1]]
    table = draft.table_of(term(parameter_set, ">="), Origin("r", "a >= b", parameter_set.constraints[0].where))
    assert table.rows.tolist() == [[0, 0], [1, 0], [1, 1], [2, 0]]


def test_draft_without_rules_allows_every_code() -> None:
    draft = Draft.of(small())
    assert [codes.tolist() for codes in draft.allowed] == [[0, 1, 2], [0, 1, 2]]
    assert draft.combinations(frozenset({"a", "b"})) == 9


@pytest.mark.parametrize("block", [1, 2, 4])
def test_table_evaluated_in_blocks_is_the_table_evaluated_at_once(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    parameter_set = small()
    origin = Origin("r", "a >= b", parameter_set.constraints[0].where)
    whole = Draft.of(parameter_set).table_of(term(parameter_set, ">="), origin)
    monkeypatch.setattr(drafting, "BLOCK", block)
    assert Draft.of(parameter_set).table_of(term(parameter_set, ">="), origin).rows.tolist() == whole.rows.tolist()


def test_table_of_no_combination_is_empty() -> None:
    parameter_set = small()
    draft = Draft.of(parameter_set)
    draft.allowed[0] = draft.allowed[0][:0]
    origin = Origin("r", "a >= b", parameter_set.constraints[0].where)
    assert draft.table_of(term(parameter_set, ">="), origin).rows.shape == (0, 2)


def test_table_is_evaluated_a_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(of: Term, columns: Mapping[str, Values], rows: int) -> Values:
        sizes.append(rows)
        return evaluate(of, columns, rows)

    monkeypatch.setattr(drafting, "BLOCK", 4)
    monkeypatch.setattr(drafting, "evaluate", counted)
    parameter_set = small()
    Draft.of(parameter_set).table_of(term(parameter_set, ">="), Origin("r", "", parameter_set.constraints[0].where))
    assert sizes == [4, 4, 1]


def three() -> tuple[ParameterSet, Draft]:
    """Return a, b and c of 1 to 4 with a + b + c <= 4 lowered: each is 1 or 2."""
    parameter_set = psa("a + b + c <= 4", a="[1, 2, 3, 4]", b="[1, 2, 3, 4]", c="[1, 2, 3, 4]")
    return parameter_set, Draft.resumed(parameter_set, lower(parameter_set))


def test_wide_table_has_only_the_combinations_that_rules_beyond_its_columns_leave() -> None:
    """c is at least 1, so a + b is at most 3: of a and b with a >= b there are (1, 1) and (2, 1)."""
    parameter_set, draft = three()
    origin = Origin("r", "a >= b", parameter_set.constraints[0].where)
    assert draft.table_of(term(parameter_set, ">="), origin).rows.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert draft.wide_table_of(term(parameter_set, ">="), origin).rows.tolist() == [[0, 0], [1, 0]]


def test_wide_table_that_other_rules_imply_is_the_table_of_its_own_columns() -> None:
    """a + b <= 3 where the rules leave no other pair; by its own columns, (2, 2) is excluded."""
    parameter_set, draft = three()
    origin = Origin("r", "a * b < 4", parameter_set.constraints[0].where)
    implied = Apply("<", (term(parameter_set, "*"), Constant(4)))
    assert draft.wide_table_of(implied, origin).rows.tolist() == draft.table_of(implied, origin).rows.tolist()
    assert draft.table_of(implied, origin).rows.tolist() == [[0, 0], [0, 1], [1, 0]]
