"""Decide which columns are structural and which are options of one network dimension.

A region fixes the structural columns. The rest must fall apart by dimension, coupled only by linear rules; an
option column that any other rule ties to another dimension is made structural.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cosmic_opt.ir.model import Constraint, Linear, LoweredModel
from cosmic_opt.psa.parameter_set import ParameterSet

STRUCTURAL = -1
OPTION_PARAMETERS = ("topology", "algorithm", "bandwidth", "latency")


@dataclass(frozen=True)
class Ownership:
    """Who owns each column of the lowered model.

    `owner[c]` is STRUCTURAL, or the network dimension whose option column c belongs to; helpers included.
    `promoted[d]` are the option columns of dimension d that had to become structural; `inert` columns change
    nothing. The rules that are left for the search are sorted by what they relate.
    """

    owner: tuple[int, ...]
    promoted: Mapping[int, tuple[int, ...]]
    inert: frozenset[int]
    within: Mapping[int, tuple[Constraint, ...]]
    with_structure: Mapping[int, tuple[Constraint, ...]]
    coupling: tuple[Linear, ...]

    def columns(self, dimension: int) -> list[int]:
        """Return the columns that `dimension` owns, in order (a helper follows its inputs)."""
        return [column for column, owner in enumerate(self.owner) if owner == dimension]


def assign_owners(
    parameter_set: ParameterSet,
    model: LoweredModel,
    dimensions: int,
    inert: Iterable[str],
    amount_scopes: Sequence[frozenset[str]],
) -> Ownership:
    """Return the ownership with the fewest structural columns that the rules and the objective allow.

    Args:
        parameter_set, model: The problem, lowered.
        dimensions: Network dimensions.
        inert: Columns that cannot change the step time.
        amount_scopes: The columns each term of the objective's amount reads.
    """
    links = [set(k.columns) for k in model.all_constraints()]
    owner = [STRUCTURAL] * len(model.columns)
    option_of: dict[int, int] = {}
    settled_alone: set[int] = set()
    for position, column in enumerate(parameter_set.columns):
        is_open = len(model.allowed[position]) > 1
        if is_open and column.parameter in OPTION_PARAMETERS and column.index:
            owner[position] = option_of[position] = column.index[0]
        read = any(column.name in scope for scope in amount_scopes)
        if column.name in set(inert) and not read and not any(position in link for link in links):
            settled_alone.add(position)
    scopes = [frozenset(parameter_set.positions[name] for name in scope) for scope in amount_scopes]
    while True:
        _own_helpers(model, owner)
        promoted = _to_promote(model, owner, scopes)
        if not promoted:
            break
        for position in promoted:
            owner[position] = STRUCTURAL
    promoted_of = {
        d: tuple(c for c, dimension in option_of.items() if dimension == d and owner[c] == STRUCTURAL)
        for d in range(dimensions)
    }
    return _sorted_rules(model, tuple(owner), promoted_of, frozenset(settled_alone))


def _own_helpers(model: LoweredModel, owner: list[int]) -> None:
    """Give each helper the dimension of its inputs; mixed inputs are left to `_to_promote`."""
    for table in model.definitions:
        *inputs, helper = table.columns
        owners = {owner[column] for column in inputs if len(model.allowed[column]) > 1}
        owner[helper] = owners.pop() if len(owners) == 1 else STRUCTURAL


def _to_promote(model: LoweredModel, owner: Sequence[int], scopes: Sequence[frozenset[int]]) -> set[int]:
    """Return option columns that something other than a linear rule ties to another owner."""
    ties = [*scopes, *(frozenset(table.columns) for table in model.definitions)]
    ties_of_dimensions = [frozenset(k.columns) for k in model.constraints if not isinstance(k, Linear)]
    promoted: set[int] = set()
    for tie, ignored in [*((tie, None) for tie in ties), *((tie, STRUCTURAL) for tie in ties_of_dimensions)]:
        owners = {owner[column] for column in tie if len(model.allowed[column]) > 1} - {ignored}
        if len(owners) > 1:
            promoted |= {column for column in tie if owner[column] != STRUCTURAL}
    return _with_inputs(model, promoted)


def _with_inputs(model: LoweredModel, columns: set[int]) -> set[int]:
    """Return the columns and everything that determines a helper among them."""
    result = set(columns)
    for table in reversed(model.definitions):
        if table.columns[-1] in result:
            result |= set(table.columns[:-1])
    return result


def _sorted_rules(
    model: LoweredModel, owner: tuple[int, ...], promoted: Mapping[int, tuple[int, ...]], inert: frozenset[int]
) -> Ownership:
    within: dict[int, list[Constraint]] = {d: [] for d in promoted}
    mixed: dict[int, list[Constraint]] = {d: [] for d in promoted}
    coupling: list[Linear] = []
    for constraint in model.all_constraints():
        owners = {owner[column] for column in constraint.columns if len(model.allowed[column]) > 1}
        dims = owners - {STRUCTURAL}
        if len(dims) == 1:
            (dimension,) = dims
            (mixed if STRUCTURAL in owners else within)[dimension].append(constraint)
        elif len(dims) > 1:
            assert isinstance(constraint, Linear), constraint
            coupling.append(constraint)
    return Ownership(
        owner,
        promoted,
        inert,
        {d: tuple(rules) for d, rules in within.items()},
        {d: tuple(rules) for d, rules in mixed.items()},
        tuple(coupling),
    )
