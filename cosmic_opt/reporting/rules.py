"""Rules as `violations`, `conflict` and `rules` list them."""

from __future__ import annotations

from collections.abc import Sequence

from cosmic_opt.errors import Where
from cosmic_opt.feasibility.conflict import Conflict
from cosmic_opt.psa.parameter_set import Constraint
from cosmic_opt.reporting.numbers import table


def rule_keys(constraint: Constraint) -> dict[str, object]:
    """Return the object of one rule."""
    return {
        "constraint": constraint.name,
        "rule": constraint.text,
        "where": str(constraint.where),
        "why": constraint.why,
    }


def conflict_keys(conflict: Conflict) -> dict[str, object]:
    """Return the keys of an answer that say why no design is feasible."""
    return {"conflict": [rule_keys(rule) for rule in conflict.rules], "conflict_minimal": conflict.minimal}


def rules_text(constraints: Sequence[Constraint]) -> str:
    """Return rules as a table: name, text, place and reason."""
    rows = [(rule.name, rule.text, _place(rule.where), rule.why) for rule in constraints]
    return table(("name", "rule", "where", "why"), rows)


def _place(where: Where) -> str:
    return str(Where(where.file, where.line)) or str(where)
