"""The answer of `explain`: conflicts, the cheapest ways out, and why one design is not feasible."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby

from cosmic_opt.analysis.change import Allow, Change, Drop, Relaxation, Renumber
from cosmic_opt.analysis.clusters import Clusters
from cosmic_opt.analysis.explain import TIME_LIMIT_S, Explanation, Searched, WhyNot
from cosmic_opt.analysis.nearest import Neighbour
from cosmic_opt.analysis.relaxation import MOST_BLOCKS
from cosmic_opt.analysis.relaxed_edits import rule_after, value_spelled
from cosmic_opt.analysis.repairs import Repair
from cosmic_opt.analysis.rule_numbers import keeps_its_numbers
from cosmic_opt.analysis.violations import Side, Violation
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet
from cosmic_opt.reporting.answers import value_text as best_text
from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.reporting.numbers import clip, count_text, designs_text, exact, table
from cosmic_opt.reporting.rules import rule_keys, rules_text
from cosmic_opt.reporting.runnable import cannot_run_keys, nothing_runs_text, some_cannot_run
from cosmic_opt.solvers.base import SolveStatus
from cosmic_opt.units import Unit, show

WIDTH = 100
UNCHANGED = Edits()


def explanation_keys(explanation: Explanation, why_not: WhyNot | None) -> dict[str, object]:
    """Return the object of `explain --json`; amounts are in base units."""
    conflicts = [[rule_keys(rule) for rule in conflict] for conflict in explanation.conflicts]
    keys: dict[str, object] = {
        "name": explanation.instance.name,
        "scope": explanation.instance.scope,
        "feasible": explanation.feasible,
        "feasible_designs": explanation.feasible_designs,
        "conflict": conflicts[0] if conflicts else [],
        "conflicts": conflicts,
        "relaxations": [_repair_keys(explanation, repair) for repair in explanation.repairs],
        "kept_numbers": _kept_numbers(explanation),
    }
    if explanation.searched is not None:
        keys["searched"] = {"left_out": explanation.searched.left_out, "complete": explanation.searched.complete}
    keys["cannot_run"] = cannot_run_keys(explanation.cannot_run)
    keys["clusters"] = None if explanation.clusters is None else _clusters_keys(explanation.clusters)
    if explanation.best is not None:
        outcome = explanation.best.outcome
        keys["best_step"] = {"status": outcome.status.value, "ticks": outcome.value, "bound_ticks": outcome.bound}
    if explanation.achievable:
        keys["achievable"] = {name: outcome.shown for name, outcome in explanation.achievable.items()}
    if why_not is not None:
        keys["violations"] = [_violation_keys(violation) for violation in why_not.violations]
        keys["design_cannot_run"] = cannot_run_keys(why_not.cannot_run)
        keys["nearest"] = [_neighbour_keys(neighbour) for neighbour in why_not.nearest]
    return keys


def _repair_keys(explanation: Explanation, repair: Repair) -> dict[str, object]:
    return {
        "change": _repair_text(explanation, repair),
        "cost": float(repair.relaxation.cost),
        "cost_exact": str(repair.relaxation.cost),
        "proved": repair.relaxation.proved and not _leaves_rules_unseen(explanation),
        "edits": edit_arguments(repair.edits),
        "feasible_designs": repair.feasible_designs,
    }


def _repair_text(explanation: Explanation, repair: Repair) -> str:
    other = ": then designs are of another number of NPUs" if repair.leaves_cluster else ""
    return change_text(explanation.instance.parameter_set, repair.relaxation) + other


def _clusters_keys(clusters: Clusters) -> dict[str, object]:
    below, above = (
        each and {"npus": each.npus, "edits": edit_arguments(each.edits), "feasible_designs": each.feasible_designs}
        for each in (clusters.below, clusters.above)
    )
    return {"below": below, "above": above, "looked_at": [clusters.least, clusters.most]}


def _violation_keys(violation: Violation) -> dict[str, object]:
    return {
        "constraint": violation.constraint,
        "rule": violation.rule,
        "where": str(violation.where),
        "why": violation.why,
        "left": violation.left.value,
        "right": violation.right.value,
        "operator": violation.operator,
        "left_text": violation.left.text,
        "right_text": violation.right.text,
    }


def _neighbour_keys(neighbour: Neighbour) -> dict[str, object]:
    return {
        "design": next(designs_keys(neighbour.design)),
        "changes": {name: {"from": old, "to": new} for name, (old, new) in neighbour.changes.items()},
        "distance": neighbour.distance,
    }


def edit_arguments(edits: Edits) -> list[str]:
    """Return edits as command-line arguments: ["--set", "memory_capacity=31 GB", ...]."""
    arguments: list[str] = []
    for option, pairs in (("--set", edits.set), ("--fix", edits.fix)):
        for name, value in pairs:
            arguments += [option, f"{name}={value}"]
    for option, texts in (("--free", edits.free), ("--require", edits.require), ("--without", edits.without)):
        for text in texts:
            arguments += [option, text]
    for option, choice in (("--scope", edits.scope), ("--objective", edits.objective)):
        if choice is not None:
            arguments += [option, choice]
    return arguments


def change_text(parameter_set: ParameterSet, relaxation: Relaxation) -> str:
    """Return the changes in words: "memory_capacity from 24 GB to 31.2 GB and allow tp = 16"."""
    rules = {rule.name: rule for rule in parameter_set.constraints}
    return " and ".join(
        text
        for rule, changes in groupby(relaxation.changes, key=_literal_of)
        for text in (
            [_renumbered(rules[rule], list(changes))]
            if rule
            else [_change_text(parameter_set, change) for change in changes]
        )
    )


def _literal_of(change: Change) -> str:
    return change.number.rule if isinstance(change, Renumber) else ""


def _renumbered(rule: Constraint, changes: Sequence[Change]) -> str:
    numbers = [(change.number, change.new) for change in changes if isinstance(change, Renumber)]
    after = rule_after(rule, {(number.start, number.stop): (new, number.unit) for number, new in numbers})
    return f"'{rule.text}' becomes '{after}'"


def _change_text(parameter_set: ParameterSet, change: Change) -> str:
    match change:
        case Drop(rule):
            return f"drop {rule.name} ({clip(rule.text)})"
        case Renumber(number, new):
            return f"{number.datum} from {show(number.value, number.unit)} to {show(new, number.unit)}"
        case Allow(column, value):
            own = [value_spelled(column, other) for other in parameter_set.column(column.name).values]
            now = own[0] if len(own) == 1 else f"one of {len(own)} values"
            return f"allow {column.name} = {value_spelled(column, value)} (now {now})"


def explanation_text(title: str, explanation: Explanation, why_not: WhyNot | None, changed: Edits = UNCHANGED) -> str:
    """Return the answer for a person; `changed` are the edits that were asked about."""
    parts = [_verdict(title, explanation)]
    if explanation.conflicts:
        parts.append(_conflicts_text(explanation.conflicts))
    if explanation.repairs:
        parts.append(_repairs_text(explanation))
    elif explanation.conflicts:
        parts.append("no change was found that leaves a design which can run")
    if explanation.searched is not None and not (explanation.repairs and explanation.searched.complete):
        parts += _searched_text(explanation.searched)
    if explanation.clusters is not None:
        parts.append(_clusters_text(explanation.clusters, int(explanation.instance.data["npus"])))
    if why_not is not None:
        parts += _why_not_text(why_not)
    idle = explanation.cannot_run
    if why_not is None and explanation.feasible and (idle is None or not idle.every):
        parts.append("  nothing excludes it; --design FILE asks about one design" + _what_it_costs(changed))
    if why_not is None and idle is not None:
        parts.append(nothing_runs_text(idle) if idle.every else f"warning: {some_cannot_run(idle)}")
    return "\n\n".join(parts)


def _what_it_costs(changed: Edits) -> str:
    """Return a line that names the command which solves with and without the edits, where there are any."""
    moved = changed.set or changed.fix or changed.free or changed.require or changed.without
    return f"\n  what-if {shlex.join(edit_arguments(changed))} shows what it costs" if moved else ""


def _verdict(title: str, explanation: Explanation) -> str:
    if explanation.feasible is None:
        verdict = "not known whether a design is feasible: the search reached its limit"
    elif explanation.feasible:
        size = explanation.feasible_designs
        verdict = "designs exist" if size is None else designs_text(size)
        if explanation.achievable:
            verdict += f" before rules on {'simulated times' if explanation.best is None else 'the step'}"
    else:
        verdict = "no feasible design"
    lines = [f"{title}: {verdict}"]
    rules = "rules on it" if explanation.best is not None and len(explanation.achievable) == 1 else "such rules"
    for name, best in explanation.achievable.items():
        if best.value is None:
            found = "none, proved" if best.status is SolveStatus.INFEASIBLE else "none found, not proved"
        else:
            proof = "proved" if best.status is SolveStatus.OPTIMAL else "not proved"
            found = f"{best_text(best.value, best.objective)}, {proof}"
        lines.append(f"best achievable {name} without {rules}: {found}")
    return "\n".join(lines)


def _conflicts_text(conflicts: Sequence[Sequence[Constraint]]) -> str:
    parts = []
    for number, conflict in enumerate(conflicts, 1):
        head = "this rule excludes every design" if len(conflict) == 1 else "these rules exclude each other"
        order = f" (conflict {number} of {len(conflicts)} found)" if len(conflicts) > 1 else ""
        parts.append(f"{head}{order}:\n{rules_text(conflict)}")
    return "\n\n".join(parts)


def _repairs_text(explanation: Explanation) -> str:
    beside = _leaves_rules_unseen(explanation)
    unseen = " before rules on simulated times, which may leave none" if beside else ""
    lines = [f"cheapest changes that leave a design{unseen}:"]
    for repair in explanation.repairs:
        relaxation = repair.relaxation
        size = repair.feasible_designs
        left = "" if size is None else f", then {_designs(size)}"
        proof = "" if relaxation.proved and not beside else ", not proved cheapest"
        lines.append(f"  cost {_cost(relaxation.cost)}{left}{proof}")
        lines.append(f"    {_repair_text(explanation, repair)}")
        options = shlex.join(edit_arguments(repair.edits))
        lines.append(f"    {options or 'the problem as its file declares it'}")
    if not (beside or explanation.achievable) and explanation.best is None and explanation.repairs[0].relaxation.proved:
        kept = _kept_numbers(explanation)
        also = f" that leaves the numbers of {', '.join(kept)} as they are: no plain comparisons" if kept else ""
        lines.append(f"  proved: nothing costs less than the first{also}")
    return "\n".join(lines)


def _designs(count: int) -> str:
    return f"{count_text(count)} design{'s'[: count != 1]}"


def _leaves_rules_unseen(explanation: Explanation) -> bool:
    """Return whether a rule is on what only a simulator knows, and changes of others were not looked at under it."""
    seen = explanation.best is not None or explanation.achievable
    return not seen and any(rule.simulated for rule in explanation.instance.parameter_set.constraints)


def _kept_numbers(explanation: Explanation) -> list[str]:
    """Return the rules of the conflicts whose numbers no change was looked at, in their order."""
    rules = {rule.name: rule for conflict in explanation.conflicts for rule in conflict}
    return [name for name, rule in rules.items() if keeps_its_numbers(rule)]


def _searched_text(searched: Searched) -> Iterator[str]:
    """Yield what the search for repairs looked at, where there is more to say than what it found."""
    if searched.left_out:
        changes = "1 change that leaves" if searched.left_out == 1 else f"{exact(searched.left_out)} changes that leave"
        yield f"looked at: {changes} designs, none of which was seen to run"
    if not searched.complete:
        limits = f"{TIME_LIMIT_S:.0f} s, or {MOST_BLOCKS} changes after which nothing runs"
        yield f"the search for changes reached its limit ({limits}): there may be others"


def _clusters_text(clusters: Clusters, npus: int) -> str:
    lines = ["the nearest other numbers of NPUs with a design:"]
    for found, first, last in (
        (clusters.below, clusters.least, npus - 1),
        (clusters.above, npus + 1, clusters.most),
    ):
        if found is not None:
            lines.append(f"  {exact(found.npus)} NPUs, then {_designs(found.feasible_designs)}")
            lines.append(f"    {shlex.join(edit_arguments(found.edits))}")
        elif first <= last:
            lines.append(f"  none from {exact(first)} to {exact(last)}")
    return "\n".join(lines)


def _cost(cost: Fraction) -> str:
    return f"{float(cost):.4g}"


def _why_not_text(why_not: WhyNot) -> list[str]:
    idle = why_not.cannot_run
    if idle is not None:
        return [f"the design breaks no rule, and cannot run: {idle.reason}\n  hint: {idle.hint}"]
    if not why_not.violations:
        return ["the design is feasible: it breaks no rule"]
    rows = [
        (violation.constraint, f"{_side(violation.left)} {violation.operator} {_side(violation.right)}", violation.why)
        for violation in why_not.violations
    ]
    parts = [f"the design breaks\n{table(('rule', 'which needs', 'why'), rows)}"]
    if why_not.nearest:
        lines = ["nearest feasible designs, fewest knobs changed first:"]
        lines += [_neighbour_text(why_not.parameter_set, neighbour) for neighbour in why_not.nearest]
        parts.append("\n".join(lines))
    return parts


def _side(side: Side) -> str:
    """Return what a rule says on one side, with its value in brackets: "memory_per_npu (31.2 GB)"."""
    if side.unit is Unit.NONE or isinstance(side.value, str):
        value = f"{side.value:.6g}" if isinstance(side.value, float) else str(side.value)
    else:
        value = show(side.value, side.unit)
    return value if side.text == value or side.text.replace(" ", "").isdigit() else f"{side.text} ({value})"


def _neighbour_text(parameter_set: ParameterSet, neighbour: Neighbour) -> str:
    changes = [
        f"{name} {_shown(parameter_set, name, old)} -> {_shown(parameter_set, name, new)}"
        for name, (old, new) in neighbour.changes.items()
    ]
    knobs = "1 knob" if neighbour.distance == 1 else f"{exact(neighbour.distance)} knobs"
    return f"  {knobs}: {', '.join(changes)}"


def _shown(parameter_set: ParameterSet, name: str, value: Value) -> str:
    return value_spelled(parameter_set.column(name), value)
