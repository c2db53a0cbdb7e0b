"""Check a certificate again, from the instance up: nothing in it is taken on trust."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.catalog.digest import problem_digest, program_digest
from cosmic_opt.catalog.instance_file import InstanceSpec, load_instance
from cosmic_opt.catalog.store import instance_names
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.feasibility.feasible_set import FeasibleSet, feasible_set
from cosmic_opt.ir.lower import lower
from cosmic_opt.ir.model import LoweredModel
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search import kernel
from cosmic_opt.search.bounding import NO_LIMIT, Bounding
from cosmic_opt.search.budget import Budget
from cosmic_opt.search.census import GREATEST, Census
from cosmic_opt.search.certificate import Certificate
from cosmic_opt.search.engine_names import EVENTS
from cosmic_opt.search.every import score_every
from cosmic_opt.search.executor import Threads
from cosmic_opt.search.frontier import Frontier
from cosmic_opt.search.limits import step_limit
from cosmic_opt.search.proof import Block, Proof, Simulated
from cosmic_opt.search.run import EVENT_SHARD
from cosmic_opt.search.score import Scorer
from cosmic_opt.search.space import Codes, Space, build_space
from cosmic_opt.search.tasks import SimulateDesigns, Worker, worker_of
from cosmic_opt.solvers.base import SolveStatus

SAMPLES = 4096
COUNTED_REGIONS = 16
SOLVE_CHUNK = 64
SIMULATED_CHUNK = 4096
SIMULATED_SAMPLES = 64
"""Random designs scored by events, at most: each takes milliseconds."""


FROM_HERE = "a certificate names the file as solve was given it: verify in the folder that solve ran in"


@dataclass(frozen=True)
class Check:
    """One thing that was derived again: what, whether it agrees, and what was found."""

    name: str
    passed: bool
    found: str


def verify(certificate: Certificate, *, samples: int = SAMPLES, seed: int = 0) -> list[Check]:
    """Return every check of a certificate, up to the first that fails so badly that the rest means nothing.

    The problem is loaded and bound anew and must have the recorded digest. Then: the feasible designs are counted in
    another elimination order, the design is checked by the rules' reference meaning and scored by the simulator, every
    region's bound is computed again, every solved region is solved again against the recorded value, region sizes
    are counted as conditional counts, and `samples` uniform random designs are scored. Where events scored, every
    design below the incumbent by closed forms is scored by events again.

    Raises:
        SpecError: the instance cannot be loaded or bound. A path of one is relative to the folder one is in, as it was
            for `solve`.
    """
    return list(_Verification(certificate, samples, np.random.default_rng(seed)).run())


@dataclass
class _Verification:
    certificate: Certificate
    samples: int
    rng: np.random.Generator
    instance: BoundInstance = field(init=False)
    model: LoweredModel = field(init=False)
    designs: FeasibleSet = field(init=False)
    worker: Worker = field(init=False)
    scorer: Scorer = field(init=False)
    limit: int = field(init=False)

    @property
    def own_file(self) -> bool:
        """Whether the certificate names a file, not a shipped instance."""
        return self.certificate.instance not in instance_names()

    def load(self) -> tuple[InstanceSpec, BoundInstance]:
        """Return the instance that the certificate names, and with its changes; an error of a file says whose it is."""
        try:
            spec = load_instance(self.certificate.instance)
            return spec, bind(spec, self.certificate.edits)
        except SpecError as error:
            if not self.own_file:
                raise
            place = error.where or Where(key="instance of the certificate")
            hint = "; ".join(filter(None, (error.hint, FROM_HERE)))
            raise SpecError(error.message, where=place, hint=hint) from None

    def problem_found(self, digest: str) -> str:
        """Return which problem was loaded and, where it is another than the recorded one, how that may be."""
        found = f"digest {digest[:16]} of {self.instance.name}"
        if digest == self.certificate.problem or not self.own_file:
            return found
        return f"{found}, in {self.certificate.instance!r} seen from here; {FROM_HERE}"

    def run(self) -> Iterator[Check]:
        certificate = self.certificate
        spec, self.instance = self.load()
        digest = problem_digest(spec, self.instance)
        yield Check("problem", digest == certificate.problem, self.problem_found(digest))
        same_program = (program_digest(), version("cosmic-opt")) == (certificate.program, certificate.version)
        yield Check(
            "program", same_program, f"written by version {certificate.version}, digest {certificate.program[:16]}"
        )
        if digest != certificate.problem or not same_program:
            return
        yield Check("objective", certificate.objective == self.instance.objective, self.instance.objective)
        self.model = lower(self.instance.parameter_set)
        self.designs = feasible_set(self.model)
        size = self.designs.size
        yield Check("feasible designs", size == certificate.feasible_designs, f"{size:,} counted")
        if size == 0:
            alone = certificate.design is None and certificate.value is None and certificate.bound is None
            yield Check("status", alone and certificate.status is SolveStatus.INFEASIBLE, "no feasible design")
            return
        self.worker = worker_of(self.instance, self.model)
        self.scorer = self.worker.by_events if certificate.engine == EVENTS else self.worker.scorer
        self.limit = min(step_limit(self.instance.parameter_set), NO_LIMIT)
        yield self.incumbent()
        if certificate.proof is None or not self.fits(certificate.proof):
            found = "none is recorded" if certificate.proof is None else "it is of another kind of search"
            yield Check("evidence", False, found)
            return
        against, value = certificate.proof.against, certificate.value
        if against is not None and (value is None or against[0] * against[1] < value):
            yield Check("evidence", False, "regions were bounded against a better design than the recorded one")
            return
        yield from self.evidence(certificate.proof)

    # --- the answer -------------------------------------------------------------------------------------------

    def incumbent(self) -> Check:
        """Check the design by the reference meaning of the rules, and score it."""
        recorded = self.certificate
        name = "design"
        if recorded.design is None:
            return Check(name, recorded.value is None and recorded.status is not SolveStatus.OPTIMAL, "none recorded")
        columns = self.instance.parameter_set.columns
        known = set(recorded.design) == {column.name for column in columns}
        if not known or any(recorded.design[column.name] not in column.codes for column in columns):
            return Check(name, False, "it is no design of this problem")
        batch = self.instance.parameter_set.design(recorded.design)
        if not feasible(batch)[0]:
            return Check(name, False, "it breaks a rule")
        scores = self.scorer.score(batch, strict=False)
        ticks, amount = int(scores.evaluation.step_ticks[0]), int(scores.amounts[0])
        agrees = (ticks, amount, ticks * amount) == (recorded.ticks, recorded.amount, recorded.value)
        return Check(name, agrees and ticks <= self.limit, f"feasible, scored {ticks:,} ticks, amount {amount:,}")

    def claims(self, least: int | None) -> Check:
        """Check status and bound against the least bound of what was not solved."""
        recorded = self.certificate
        known = [value for value in (least, recorded.value) if value is not None]
        bound = min(known) if known else None
        status = SolveStatus.UNKNOWN if recorded.value is None else SolveStatus.FEASIBLE
        if bound is None:
            status = SolveStatus.INFEASIBLE
        elif bound == recorded.value:
            status = SolveStatus.OPTIMAL
        agrees = (bound, status) == (recorded.bound, recorded.status)
        return Check("bound", agrees, f"{status.value}, nothing is below {bound if bound is not None else '-'}")

    # --- the evidence -----------------------------------------------------------------------------------------

    def fits(self, proof: Proof) -> bool:
        """Tell whether evidence is of the kind that the recorded engine leaves: no other may be looked at.

        Simulated designs prove a value by events only. There, solved regions prove nothing but that no design obeys
        the limits even by closed forms.
        """
        if not self.scorer.simulator.decomposes:
            return (proof.against, proof.solved, proof.nodes, proof.simulated) == (None, (), 0, None)
        if self.certificate.engine != EVENTS:
            return proof.simulated is None
        return self.certificate.design is None if proof.simulated is None else not proof.solved

    def evidence(self, proof: Proof) -> Iterator[Check]:
        if not self.scorer.simulator.decomposes:
            yield from self.every(proof)
            return
        objective, simulator = self.scorer.objective, self.scorer.analytical
        space = build_space(self.instance.parameter_set, self.model, simulator, self.instance.dimensions, objective)
        bounding = Bounding(space, simulator, objective)
        yield self.cover(space, proof)
        solved = np.array(proof.solved, dtype=np.int64)
        if len(solved) and not (solved[-1] < space.regions.count and (np.diff(solved) > 0).all()):
            yield Check("solved regions", False, "numbers that are no regions, or repeat")
            return
        blocks = tuple(bounding.over_blocks(lambda start: self.block(bounding, proof, solved, start)))
        wrong = sum(left != right for left, right in zip(blocks, proof.blocks, strict=False))
        agree = wrong == 0 and len(blocks) == len(proof.blocks)
        yield Check(
            "region bounds", agree, f"{space.regions.count:,} regions in {len(blocks):,} blocks, {wrong} differ"
        )
        if proof.simulated is None:
            yield self.solve_again(bounding, solved)
            yield self.claims(replace(proof, blocks=blocks).least)
        else:
            yield from self.simulated(space, proof.against, proof.simulated)
        yield self.sizes(space)
        yield self.never_shorter() if self.certificate.engine == EVENTS else self.members()

    def every(self, proof: Proof) -> Iterator[Check]:
        """Score every design again, and compare the best of each chunk."""
        scored = score_every(Threads(self.worker, 1), self.designs, self.scorer.objective, self.limit, Budget())
        blocks = tuple(chunk.block for chunk in scored)
        wrong = sum(left != right for left, right in zip(blocks, proof.blocks, strict=False))
        agree = wrong == 0 and len(blocks) == len(proof.blocks)
        yield Check("scores", agree, f"{self.designs.size:,} designs in {len(blocks):,} chunks, {wrong} differ")
        yield self.claims(replace(proof, blocks=blocks).least)
        yield self.members()

    def cover(self, space: Space, proof: Proof) -> Check:
        """Check that the recorded blocks are all regions, side by side, and hold all designs."""
        ends = [block.start + block.regions for block in proof.blocks]
        adjacent = [0, *ends[:-1]] == [block.start for block in proof.blocks]
        whole = bool(ends) and ends[-1] == space.regions.count
        passed = adjacent and whole and proof.designs == self.certificate.feasible_designs
        return Check("cover", passed, f"{proof.designs:,} designs in {ends[-1] if ends else 0:,} regions")

    def block(self, bounding: Bounding, proof: Proof, solved: np.ndarray, start: int) -> Block:
        """Bound a block of regions again."""
        again = bounding.bound_block(start, proof.against, self.limit)
        left = again.values[(again.ticks <= self.limit) & ~np.isin(again.numbers, solved)]
        known = [value for value in (again.block.least, *left) if value is not None]
        return again.block._replace(least=min(known, default=None))

    def solve_again(self, bounding: Bounding, solved: np.ndarray) -> Check:
        """Check that no solved region holds a design better than the recorded one."""
        chunks = [solved[start : start + SOLVE_CHUNK] for start in range(0, len(solved), SOLVE_CHUNK)]
        better = sum(bounding.on_every_core(lambda numbers: self.better_in(bounding, numbers), chunks))
        return Check("solved regions", better == 0, f"{len(solved):,} solved again, {better} hold a better design")

    def better_in(self, bounding: Bounding, numbers: np.ndarray) -> int:
        """Return how many of some regions hold a design better than the recorded one."""
        recorded = self.certificate
        best = (NO_LIMIT, NO_LIMIT)
        if recorded.ticks is not None and recorded.amount is not None:
            best = recorded.ticks, recorded.amount
        arrays = bounding.arrays(bounding.space.regions.take(numbers).codes)
        results = np.tile(np.array([-1, 0, 0], dtype=np.int64), (len(numbers), 1))
        kernel.solve_regions(
            bounding.simulator.tables,
            bounding.options,
            arrays,
            np.column_stack(bounding.bounds(arrays)),
            np.array(best, dtype=np.int64),
            self.limit,
            NO_LIMIT,
            results,
            np.zeros((len(numbers), len(bounding.space.options)), dtype=np.int64),
        )
        found = [int(ticks) * int(amount) for ticks, amount, _ in results if ticks >= 0]
        return sum(recorded.value is None or value < recorded.value for value in found)

    def simulated(self, space: Space, against: tuple[int, int] | None, recorded: Simulated) -> Iterator[Check]:
        """Score by events, again, every design whose analytical value is at most the recorded limit."""
        name, limit = "simulated designs", recorded.limit
        if against is not None and limit > against[0] * against[1]:
            yield Check(name, False, "regions were bounded against less than the limit")
            return
        frontier = Frontier(space, self.scorer.analytical, self.scorer.objective, self.limit, best=against)
        census = Census(frontier, limit)
        counted = census.count(enough=recorded.designs)
        if counted.lower != recorded.designs:
            yield Check(name, False, f"{recorded.designs:,} recorded, {counted.lower:,} or more have such a value")
            return
        starts = range(0, counted.lower, SIMULATED_CHUNK)
        better = sum(
            self.better_by_events(census.members(counted, range(start, min(start + SIMULATED_CHUNK, counted.lower))))
            for start in starts
        )
        found = f"{counted.lower:,} with an analytical value up to {limit:,}, {better} are better"
        yield Check(name, better == 0, found)
        yield self.claims(None if limit >= GREATEST else limit + 1)

    def better_by_events(self, codes: Codes) -> int:
        """Return how many of some designs obey the limit on the step and are better than the recorded one."""
        tasks = [SimulateDesigns(codes[at : at + EVENT_SHARD]) for at in range(0, len(codes), EVENT_SHARD)]
        better, value = 0, self.certificate.value
        for scored in Threads(self.worker, os.cpu_count() or 1).map(tasks):
            values = self.scorer.objective.values(scored.ticks, scored.amounts)
            allowed = values[scored.ticks <= self.limit]
            better += len(allowed) if value is None else int(np.count_nonzero(allowed < value))
        return better

    def never_shorter(self) -> Check:
        """Score random designs by events and by closed forms: no step may be shorter by events."""
        count = min(self.samples, SIMULATED_SAMPLES)
        batch = DesignBatch(self.instance.parameter_set, self.designs.sample(count, self.rng))
        simulated = self.scorer.score(batch, strict=False).evaluation.step_ticks
        closed = self.worker.scorer.score(batch, strict=False).evaluation.step_ticks
        shorter = int(np.count_nonzero(simulated < closed))
        return Check("random designs", shorter == 0, f"{count:,} scored twice, {shorter} are shorter by events")

    def sizes(self, space: Space) -> Check:
        """Count the designs of some regions in another way: as conditional counts of the feasible set."""
        wrong, structural = 0, space.structural
        for number in self.rng.integers(space.regions.count, size=COUNTED_REGIONS).tolist():
            region = space.regions.block(number, number + 1)
            given = {column: np.array([region.codes[0, column]]) for column in structural}
            wrong += self.designs.given(given).size != int(region.sizes[0])
        return Check("region sizes", wrong == 0, f"{COUNTED_REGIONS} counted under their conditions, {wrong} differ")

    def members(self) -> Check:
        """Score uniform random designs: none may be below the bound."""
        codes = self.designs.sample(self.samples, self.rng)
        batch = DesignBatch(self.instance.parameter_set, codes)
        scores = self.scorer.score(batch, strict=False)
        obeying = scores.evaluation.step_ticks <= self.limit
        bound = self.certificate.bound
        below = sum(bound is None or value < bound for value in scores.values[obeying].tolist())
        return Check("random designs", below == 0, f"{self.samples:,} scored, {below} below the bound")
