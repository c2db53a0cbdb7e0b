"""Why nothing is feasible, what the cheapest way out is, and why not this design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from cosmic_opt.analysis.blocked import Left
from cosmic_opt.analysis.change import Drop, Relaxation, Renumber
from cosmic_opt.analysis.cluster_ties import ties_of
from cosmic_opt.analysis.clusters import Clusters, nearest_clusters
from cosmic_opt.analysis.enforced import enforced
from cosmic_opt.analysis.hidden_data import HiddenDatum, hidden_data, least_change, reads_through_quantities
from cosmic_opt.analysis.nearest import Neighbour, nearest_designs
from cosmic_opt.analysis.relaxation import Relaxations, cheapest_relaxations
from cosmic_opt.analysis.relaxed_edits import implied_rules
from cosmic_opt.analysis.relaxed_problem import Costs, Relaxable
from cosmic_opt.analysis.repairs import Repair, Repairs, checked, count_or_none
from cosmic_opt.analysis.rule_numbers import adjustable_data, settled_numbers
from cosmic_opt.analysis.violations import Violation, violations
from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.catalog.data import SYSTEM
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.served import Serving
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.feasibility.conflict import minimal_conflicts
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.model_file import ModelSpec
from cosmic_opt.psa.parameter_set import Constraint, ParameterSet
from cosmic_opt.psa.remembered import remembering
from cosmic_opt.solvers.base import Limits

if TYPE_CHECKING:
    from cosmic_opt.analysis.achievable import BestStep
    from cosmic_opt.search.outcome import Outcome
    from cosmic_opt.search.runnable import CannotRun

READ_BY_RULES_ONLY = ("memory_capacity", "peak", "memory_bandwidth", "host_capacity")
"""Data that no structural quantity reads, but for those of `GROWING`: a change moves the rules that name them."""
TIME_LIMIT_S = 60.0


@dataclass(frozen=True)
class Searched:
    """How far repairs were searched.

    `left_out` counts changes that leave designs of which none was seen to run; `complete` says that there were enough
    repairs, or no more, before a limit ended the search.
    """

    left_out: int
    complete: bool


@dataclass(frozen=True)
class Explanation:
    """Why a problem has no design, and the ways out.

    `feasible_designs` counts those that the structural rules allow; None when they are too entangled to count.
    `feasible` is None when rules on simulated quantities are in force and the search stopped before it was known;
    `best` is what that search found, and None without such rules or without a design to simulate.
    """

    instance: BoundInstance
    feasible: bool | None
    feasible_designs: int | None
    conflicts: tuple[tuple[Constraint, ...], ...]
    repairs: tuple[Repair, ...]
    best: BestStep | None = None
    achievable: Mapping[str, Outcome] = field(default_factory=dict)
    """The best of each simulated quantity with a rule on it that any design achieves without these rules."""
    cannot_run: CannotRun | None = None
    """Where rules leave designs: those of them that have no step; None where each that was looked at has one."""
    clusters: Clusters | None = None
    """Other numbers of NPUs that have a design; None where they were not looked at."""
    searched: Searched | None = None
    """How far repairs were searched; None where structural rules exclude nothing."""


@dataclass(frozen=True)
class WhyNot:
    """One design: what it breaks (nothing, where it is feasible), and the feasible designs nearest to it."""

    parameter_set: ParameterSet
    values: Mapping[str, Value]
    violations: tuple[Violation, ...]
    nearest: tuple[Neighbour, ...]
    cannot_run: CannotRun | None = None
    """Why a design that obeys every rule has no step."""


def explain(
    spec: InstanceSpec,
    edits: Edits,
    *,
    limit: int = 5,
    costs: Costs = Costs(),  # noqa: B008 - a frozen value
    seed: int = 0,
) -> Explanation:
    """Return up to `limit` minimal conflicts and relaxations of a problem; none of either when it has a design.

    Rules on simulated quantities are looked at once the structural ones leave a design.

    Raises:
        SpecError: a rule on a simulated quantity that is not a limit on the step.
        LimitError: the rules relate too many parameters at once for any engine.
    """
    bound = bind(spec, edits)
    parameter_set = remembering(bound.parameter_set)
    instance = replace(bound, parameter_set=parameter_set)
    conflicts = tuple(minimal_conflicts(parameter_set, limit))
    if conflicts:
        looks = Repairs(spec, edits, instance, seed)
        found = _cheapest(looks, costs, limit)
        repairs = tuple(looks.of(relaxation)[0] for relaxation in found.found)
        clusters = nearest_clusters(spec, edits, instance, conflicts, seed)
        searched = Searched(found.left_out, found.complete)
        return Explanation(instance, False, 0, conflicts, repairs, clusters=clusters, searched=searched)
    size = count_or_none(parameter_set)
    if not any(rule.simulated for rule in parameter_set.constraints):
        from cosmic_opt.search.runnable import cannot_run  # numba takes a second to load

        idle = None if size is None else cannot_run(instance, feasible_set(lower(parameter_set)), seed=seed)
        return Explanation(instance, True, size, (), (), cannot_run=idle)
    if isinstance(instance.calibrated, Serving):
        return _explain_served(spec, edits, instance, size, limit, costs, seed)
    from cosmic_opt.analysis.achievable import best_step, step_relaxations  # numba takes a second to load

    best = best_step(instance, seed, TIME_LIMIT_S)
    ways = step_relaxations(best, parameter_set, costs)[:limit]
    repairs = tuple(checked(spec, edits, parameter_set, relaxation) for relaxation in ways)
    conflicts = tuple((rule,) for rule in best.broken)[:limit]
    idle = best.outcome.cannot_run
    return Explanation(instance, best.feasible, size, conflicts, repairs, best, best.achievable, idle)


def _explain_served(
    spec: InstanceSpec, edits: Edits, instance: BoundInstance, size: int | None, limit: int, costs: Costs, seed: int
) -> Explanation:
    """Return the explanation of a served model whose structural rules leave a design."""
    from cosmic_opt.analysis.served_limits import served_limits  # numba takes a second to load

    found = served_limits(instance, costs, seed, TIME_LIMIT_S)
    repairs = tuple(checked(spec, edits, instance.parameter_set, way) for way in found.relaxations[:limit])
    return Explanation(
        instance, found.feasible, size, found.conflicts[:limit], repairs, None, found.best, found.cannot_run
    )


def why_not(instance: BoundInstance, values: Mapping[str, Value], limit: int = 5) -> WhyNot:
    """Return what one design (a value per column) breaks, and up to `limit` feasible designs near it.

    Rules on simulated quantities are checked once the structural ones hold.

    Raises:
        SpecError: a column without a value, or a rule on a simulated quantity that is not a limit on the step.
    """
    parameter_set = instance.parameter_set
    broken = violations(parameter_set, values)
    nearest = nearest_designs(parameter_set, values, limit) if broken else []
    if broken:
        return WhyNot(parameter_set, values, tuple(broken), tuple(nearest))
    from cosmic_opt.search import runnable  # numba takes a second to load

    design = parameter_set.design(values)
    idle = runnable.why_not(instance, design)
    if idle is None and any(rule.simulated for rule in parameter_set.constraints):
        from cosmic_opt.analysis.achievable import too_slow

        broken = too_slow(instance, design)
    return WhyNot(parameter_set, values, tuple(broken), (), idle)


def relaxable_of(spec: InstanceSpec, edits: Edits, instance: BoundInstance) -> Relaxable:
    """Return what may be changed in a problem: its rules, numbers of them, and the domains of what it fixes.

    What the simulator enforces stands, and so does what equates the degrees and the NPUs there are.
    """
    own = instance.parameter_set
    units = {
        name: SYSTEM[name].unit
        for name in READ_BY_RULES_ONLY
        if not _sizes_a_domain(spec.model, name) and not reads_through_quantities(own.constraints, name)
    }
    adjustable = adjustable_data(own.constraints, settled_numbers(own), units)
    data = {name: (unit, SYSTEM[name].low, SYSTEM[name].high) for name, unit in adjustable.items()}
    asked, wide = enforced(instance, own), _widest(spec, edits, own)
    return Relaxable(
        replace(own, constraints=(*own.constraints, *asked)),
        replace(wide, constraints=(*wide.constraints, *enforced(instance, wide))),
        data,
        implied_rules(spec, edits, own.constraints),
        frozenset(rule.name for rule in asked),
        _ties(instance, wide) or _ties(instance, own),
    )


def _ties(instance: BoundInstance, parameter_set: ParameterSet) -> dict[str, tuple[int, ...]]:
    """Return the rules that tie designs to the NPUs there are, with the conjuncts of each that do."""
    found = {rule.name: ties_of(rule, instance, parameter_set) for rule in parameter_set.constraints}
    return {name: conjuncts for name, conjuncts in found.items() if conjuncts}


def _cheapest(looks: Repairs, costs: Costs, limit: int) -> Relaxations:
    """Return the cheapest relaxations, with those that change nothing but a number that rules read hidden.

    Such a number together with other changes is not searched. Where that might cost less, nothing is proved.
    """
    spec, edits, own = looks.spec, looks.edits, looks.instance.parameter_set
    relaxable = relaxable_of(spec, edits, looks.instance)
    found = cheapest_relaxations(relaxable, costs, limit, time_limit_s=TIME_LIMIT_S, looks=looks)
    names = [n for n in READ_BY_RULES_ONLY if n not in relaxable.data and not _sizes_a_domain(spec.model, n)]
    hidden = hidden_data(own, names)
    if not hidden:
        return found
    limits = Limits(seconds=TIME_LIMIT_S)
    alone: list[Relaxation] = []
    least_mixed: Fraction | None = None
    for datum in hidden:
        try:
            change = least_change(spec, edits, datum, limits)
        except LimitError:
            continue
        if change is not None and looks.after(change) is Left.RUNS:
            alone.append(replace(change, proved=all(each.proved for each in found.found)))
        if len(hidden) == 1:
            least_mixed = _least_mixed(spec, edits, datum, change, costs, limits)
    after = alone[0].cost if alone and len(hidden) == 1 else None
    ways = sorted([*found.found, *alone], key=lambda way: (way.cost, len(way.changes)))
    ways = [replace(way, proved=way.proved and _settled(way.cost, least_mixed, after)) for way in ways]
    dropless = next((way for way in ways if not any(isinstance(change, Drop) for change in way.changes)), None)
    listed = [way for way in ways if way is dropless or way.cost <= max(ways[0].cost, costs.drop)]
    return replace(found, found=tuple(listed[:limit]))


def _settled(cost: Fraction, least_mixed: Fraction | None, alone: Fraction | None) -> bool:
    """Tell whether nothing that mixes changes of a hidden number with others, and is not listed before, costs less.

    From `alone` on, what that number costs alone, all that changes it contains a relaxation listed before.
    """
    return (least_mixed is not None and cost <= least_mixed) or (alone is not None and alone < cost)


def _least_mixed(
    spec: InstanceSpec, edits: Edits, datum: HiddenDatum, alone: Relaxation | None, costs: Costs, limits: Limits
) -> Fraction | None:
    """Return a lower bound of what a change of a number costs together with others, while it is not enough alone.

    It is what the others cost where the number helps as much as it may; None where that is not known.
    """
    value = datum.farthest
    if alone is not None:
        (change,) = alone.changes
        assert isinstance(change, Renumber), change
        value = change.new - (1 if change.new > datum.value else -1)
    nearly = datum.at(edits, value)
    relaxable = relaxable_of(spec, nearly, bind(spec, nearly))
    found = cheapest_relaxations(relaxable, costs, 1, time_limit_s=limits.remaining_s()).found
    return found[0].cost if found and found[0].proved else None


def _sizes_a_domain(model: ModelSpec, name: str) -> bool:
    domains = [parameter.domain for parameter in model.parameters.values()]
    bounds = [getattr(domain, each.name) for domain in domains for each in fields(domain)]  # type: ignore[arg-type]
    return name in bounds or name in model.indices.values()


def _widest(spec: InstanceSpec, edits: Edits, own: ParameterSet) -> ParameterSet:
    """Return the problem with every parameter free; `own` where a rule has no meaning on the whole domains."""
    try:
        present = {column.parameter for column in own.columns}
        return remembering(bind(spec, replace(edits, fix=(), free=tuple(sorted(present)))).parameter_set)
    except (SpecError, LimitError):
        return own
