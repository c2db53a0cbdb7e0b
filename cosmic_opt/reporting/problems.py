"""What an instance or a model declares, and what each rule means where it is bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.evaluate import holds
from cosmic_opt.psa.model_file import ModelSpec
from cosmic_opt.psa.parameter_set import Column, Constraint, ParameterSet
from cosmic_opt.psa.term import Apply, QuantityPart, Term
from cosmic_opt.reporting.designs import value_text
from cosmic_opt.reporting.numbers import clip, compress, exact, share_text, table
from cosmic_opt.reporting.rules import rule_keys

SIMULATED = "checked by simulation"
MOST_ALONE = 1 << 20
"""Combinations over which a quantity is evaluated to judge a rule alone: a second or two."""
DRAWN = 1 << 14
"""Designs of the grid that are drawn where there are more."""


@dataclass(frozen=True)
class RuleFinding:
    """A rule and how many designs of the grid it alone leaves.

    Attributes:
        rule: The rule; `grid` designs are looked at.
        keeps: How many it leaves; None when that was not counted.
        drawn: How many of `DRAWN` drawn ones it leaves, where they were not counted; None for a simulated quantity.
    """

    rule: Constraint
    keeps: int | None
    grid: int
    drawn: int | None = None

    @property
    def verdict(self) -> str:
        """What the rule does alone, in words."""
        if self.rule.simulated:
            return SIMULATED
        if self.keeps is None:
            return f"keeps {share_text(self.drawn or 0, DRAWN)} of {DRAWN:,} drawn"
        if self.keeps == self.grid:
            return "always true here"
        return "never true here" if self.keeps == 0 else f"keeps {share_text(self.keeps, self.grid)}"


def judge_rules(parameter_set: ParameterSet) -> list[RuleFinding]:
    """Return each rule with what it alone leaves of the grid."""
    return [_finding(parameter_set, rule) for rule in parameter_set.constraints]


def _finding(parameter_set: ParameterSet, rule: Constraint) -> RuleFinding:
    grid, keeps = parameter_set.grid_size, None if rule.simulated else _keeps(parameter_set, rule)
    if keeps is not None or rule.simulated:
        return RuleFinding(rule, keeps, grid)
    rng = np.random.default_rng(0)
    codes = [rng.integers(len(column.values), size=DRAWN) for column in parameter_set.columns]
    drawn = parameter_set.batch(np.column_stack(codes))
    return RuleFinding(rule, None, grid, int(holds(rule, drawn).sum()))


def _keeps(parameter_set: ParameterSet, rule: Constraint) -> int | None:
    """Return how many designs a structural rule alone leaves; None where too many must be looked at."""
    sizes = {column.name: len(column.values) for column in parameter_set.columns}
    if _widest(rule.term, sizes) > MOST_ALONE:
        return None
    try:
        return feasible_set(lower(replace(parameter_set, constraints=(rule,)))).size
    except LimitError:
        return None


def _widest(term: Term, sizes: Mapping[str, int]) -> int:
    """Return the combinations of the columns that the widest part of a quantity in the term reads."""
    if isinstance(term, Apply):
        return max((_widest(operand, sizes) for operand in term.operands), default=1)
    return math.prod(sizes[name] for name in term.columns) if isinstance(term, QuantityPart) else 1


def finding_keys(finding: RuleFinding) -> dict[str, object]:
    """Return the object that `validate --json` lists for a rule."""
    return {**rule_keys(finding.rule), "verdict": finding.verdict, "keeps": finding.keeps}


def findings_text(findings: Sequence[RuleFinding]) -> str:
    """Return a table of rules: name, text, verdict and reason."""
    rows = [(f.rule.name, clip(f.rule.text), f.verdict, f.rule.why) for f in findings]
    return table(("name", "rule", "alone", "why"), rows)


def columns_keys(parameter_set: ParameterSet, added: Mapping[str, Value]) -> dict[str, object]:
    """Return the free columns with their values, those `added` to the model's, and the fixed ones, in base units."""
    columns = parameter_set.columns
    return {
        "free": {c.name: list(c.values) for c in columns if len(c.values) > 1},
        "own_values": dict(added),
        "fixed": {c.name: c.values[0] for c in columns if len(c.values) == 1},
    }


def columns_text(parameter_set: ParameterSet, added: Mapping[str, Value]) -> str:
    """Return a table of parameters: what each may be; equal members of a family in one line.

    Below it are the values of free columns that the instance `added` to the model's.
    """
    groups: dict[tuple[str, tuple[object, ...]], list[Column]] = {}
    for column in parameter_set.columns:
        groups.setdefault((column.parameter, column.values), []).append(column)
    rows = [
        (members[0].stack, compress([column.name for column in members]), _values_text(members[0]))
        for members in groups.values()
    ]
    own = [f"{name} {value_text(parameter_set.column(name), value)}" for name, value in added.items()]
    shown = table(("stack", "parameter", "values"), rows)
    return f"{shown}\n\nthe instance's own, beside the model's values: {', '.join(own)}" if own else shown


def _values_text(column: Column) -> str:
    shown = [value_text(column, value) for value in column.values]
    if len(shown) == 1:
        return f"{shown[0]} (fixed)"
    if len(shown) <= 6:
        return ", ".join(shown)
    return f"{', '.join(shown[:2])}, ... {shown[-1]} ({exact(len(shown))} values)"


def model_keys(model: ModelSpec) -> dict[str, object]:
    """Return the object that `validate --json` prints for a model file."""
    return {
        "kind": "model",
        "name": model.name,
        "why": model.why,
        "indices": {name: list(of) if isinstance(of, tuple) else of for name, of in model.indices.items()},
        "parameters": [
            {"name": p.name, "stack": p.stack, "per": list(p.per), "unit": p.unit.value, "why": p.why}
            for p in model.parameters.values()
        ],
        "rules": [
            {"constraint": r.name, "rule": r.text, "where": str(r.where), "why": r.why} for r in model.rules.values()
        ],
        "scopes": [{"name": s.name, "free": list(s.free), "why": s.why} for s in model.scopes.values()],
    }


def model_text(model: ModelSpec) -> str:
    """Return a model file for a person."""
    parameters = [
        (p.stack, f"{p.name}[{', '.join(p.per)}]" if p.per else p.name, p.why) for p in model.parameters.values()
    ]
    rules = [(r.name, clip(r.text), r.why) for r in model.rules.values()]
    scopes = [(s.name, ", ".join(s.free), s.why) for s in model.scopes.values()]
    return "\n\n".join(
        [
            f"model {model.name}: {model.why}\nwell formed; an instance gives it numbers",
            table(("stack", "parameter", "why"), parameters),
            _table_or_none(("name", "rule", "why"), rules),
            _table_or_none(("scope", "free", "why"), scopes),
        ]
    )


def _table_or_none(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return table(header, rows) if rows else f"  no {header[-2]}"
