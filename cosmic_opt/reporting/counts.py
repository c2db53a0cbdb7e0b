"""A count, explained component by component."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cosmic_opt.analysis.cluster_ties import reads_npus
from cosmic_opt.feasibility.conflict import Conflict
from cosmic_opt.feasibility.count import Component, CountResult
from cosmic_opt.feasibility.feasible_set import DiagramShape
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.reporting.designs import fixed_text
from cosmic_opt.reporting.numbers import compress, count_text, designs_text, exact, share_text, table
from cosmic_opt.reporting.rules import conflict_keys, rules_text


def count_keys(result: CountResult, conflict: Conflict, seconds: float) -> dict[str, object]:
    """Return the object of `count --json`; `lower` and `upper` stand there when the count is not exact."""
    keys: dict[str, object] = {
        "value": result.value,
        "value_text": exact(result.value),
        "exact": result.exact,
        "grid_size": result.grid_size,
        "grid_size_text": exact(result.grid_size),
        "engine": result.engine,
        "components": [
            {
                "parameters": list(part.parameters),
                "value": part.value,
                "grid_size": part.grid,
                "rules": list(part.rules),
                "diagram": _shape_keys(part.shape),
            }
            for part in result.components
        ],
        "diagram": _shape_keys(result.shape),
        "seconds": seconds,
    }
    if not result.exact:
        keys |= {"lower": result.lower, "upper": result.value, "bounded": list(result.not_counted)}
    if result.value == 0:
        keys |= conflict_keys(conflict)
    if result.outgrown_at is not None:
        keys["outgrown_at"] = result.outgrown_at
    return keys


def _shape_keys(shape: DiagramShape | None) -> dict[str, int] | None:
    return None if shape is None else {"nodes": shape.nodes, "arcs": shape.arcs, "width": shape.width}


def shape_text(result: CountResult) -> str:
    """Return how large the diagrams are, or at which column they outgrew memory, in one line."""
    if result.shape is not None:
        shape = result.shape
        parts = f"{len(result.components):,} component{'s'[: len(result.components) != 1]}"
        return f"diagram: {shape.nodes:,} nodes, {shape.arcs:,} arcs, width {shape.width:,}, {parts}"
    if result.outgrown_at is None:
        return "diagram: none, the problem is too large for one"
    return f"diagram: outgrew memory at {result.outgrown_at!r}"


def explain_count(
    title: str, parameter_set: ParameterSet, result: CountResult, conflict: Conflict, seconds: float
) -> str:
    """Return the count for a person: the number, its share of the grid, and the choices that multiply to it."""
    if result.value == 0:
        return f"{title}: no feasible design\n\n{why_empty(conflict)}"
    parts = [_headline(title, result)]
    if result.components:
        parts += ["", _components_table(parameter_set, result)]
    fixed = fixed_text(parameter_set)
    if fixed:
        parts += ["", f"  fixed: {fixed}"]
    return "\n".join([*parts, "", f"counted by {result.engine} in {seconds:.3g} s"])


def _headline(title: str, result: CountResult) -> str:
    share = share_text(result.value, result.grid_size)
    grid = f"of {count_text(result.grid_size)} in the grid: {share}"
    if result.exact:
        lines = [f"{title}: {designs_text(result.value)}, exactly", grid]
    else:
        lines = [f"{title}: between {exact(result.lower)} and {count_text(result.value)} feasible designs", grid]
    if result.outgrown_at is not None:
        lines.append(
            f"certified by a narrower diagram and a coarser one: the exact one outgrew memory at "
            f"{result.outgrown_at!r}\n  hint: fix a parameter or drop a rule, or count with --solver cp_sat"
        )
    elif result.not_counted:
        lines.append(f"certified by bounds on the step, for {', '.join(result.not_counted)}; the table leaves that out")
    return "\n".join(lines)


def why_empty(conflict: Conflict) -> str:
    """Return which rules exclude every design together, and what to do."""
    rules = conflict.rules
    if not rules:
        return "  no rule excludes it: a domain is empty, or the designs break rules on the step (explain says which)"
    together = "this rule excludes every design:" if len(rules) == 1 else "these rules exclude each other:"
    if not conflict.minimal:
        note = "too large to shrink: some of these rules may not be needed for it"
        fewer = "with more parameters fixed (--fix) the conflict may be small enough, or change the data back (--set)"
        return f"{together}\n{rules_text(rules)}\n  {note}\n  hint: {fewer}"
    required = [rule for rule in rules if rule.where.file == "--require"]
    loose = [rule.name for rule in rules if rule not in required and not reads_npus(rule)]
    ways = ["explain finds the cheapest changes", "free a parameter"]
    if required:
        ways.insert(1, "leave out a --require")
    elif loose:
        ways.insert(1, f"drop a rule that need not hold for you (--without {loose[0]})")
    return f"{together}\n{rules_text(rules)}\n  hint: {', '.join(ways[:-1])}, or {ways[-1]}"


def _components_table(parameter_set: ParameterSet, result: CountResult) -> str:
    rows = []
    for group in _grouped(result.components, parameter_set):
        names = compress([name for part in group for name in part.parameters])
        rules = ", ".join(dict.fromkeys(rule for part in group for rule in part.rules))
        rows.append((names, _product([part.grid for part in group]), _product([part.value for part in group]), rules))
    whole = math.prod(part.grid for part in result.components)
    feasible = math.prod(part.value for part in result.components)
    rows.append(("all together", exact(whole), exact(feasible), ""))
    return table(("independent choices", "in the grid", "feasible", "rules"), rows, right=(1, 2))


def _product(numbers: Sequence[int]) -> str:
    return " x ".join(map(exact, numbers))


def _grouped(components: Sequence[Component], parameter_set: ParameterSet) -> list[list[Component]]:
    """Put single columns of one family together; others stand alone, fixed ones are left out."""
    groups: list[list[Component]] = []
    for part in (part for part in components if part.grid > 1):
        if groups and len(part.parameters) == 1 and len(groups[-1][0].parameters) == 1:
            before, own = (parameter_set.column(p.parameters[0]).parameter for p in (groups[-1][-1], part))
            if before == own:
                groups[-1].append(part)
                continue
        groups.append([part])
    return groups
