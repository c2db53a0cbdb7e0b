"""Who may spend the next evaluations: a bandit over parts of the feasible set and agents.

An arm is an agent on a part. Pulling it scores a few designs; its reward is the share of the part's gap, between the
incumbent and the part's lower bound, that they closed. The next arm is the one with the greatest upper confidence bound
on that (UCB1, Auer, Cesa-Bianchi and Fischer 2002; rewards are discounted, since improvements get rarer: Garivier and
Moulines 2011). Decisions depend on scores and numbers of evaluations only, never on time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.agents import Agent, find_agent
from cosmic_opt.search.agents.archive import Archive
from cosmic_opt.search.agents.base import Scores
from cosmic_opt.search.feasible_space import FeasibleSpace
from cosmic_opt.search.weighted_paths import Codes

AGENTS = ("genetic", "ant_colony")
"""The agents of the hybrid search: of those that need no other library, the two that get furthest per evaluation."""
PULL = 64
"""Evaluations per pull."""
FIRST = 256
"""Uniform designs scored before any arm is pulled: an incumbent to measure improvements against."""
DISCOUNT = 0.9
"""What a reward counts one pull of its arm later."""
EXPLORE = 0.1
"""Weight of the confidence radius: rewards are shares of a gap, mostly far below 1."""
PATIENCE = 512
"""Evaluations after which an allocation ends unless they closed `WORTH` of the gap."""
WORTH = 0.05
PARTS = 2
"""Parts into which open regions are cut, each an eighth of the next: the best bounds are looked at closest."""
KNOWN = 64
"""Best designs that agents on another part go on from."""
WIDEST = 64
"""Fewer open regions than this are solved at once: no evaluation is spent on them."""
PER_REGION = 16
"""Open regions per evaluation spent on them, where their bound says nothing; the smaller the gap, the fewer."""

Score = Callable[[DesignBatch], Scores]


@dataclass(frozen=True)
class Part:
    """Designs that may hold a better one, and a lower bound on the value of each."""

    space: FeasibleSpace
    bound: float


@dataclass
class Arm:
    """An agent on a part, and its discounted rewards."""

    part: Part
    agent: Agent
    pulls: float = 0.0
    reward: float = 0.0

    def credit(self, reward: float) -> None:
        """Enter the reward of one pull."""
        self.pulls = 1 + DISCOUNT * self.pulls
        self.reward = reward + DISCOUNT * self.reward

    def promise(self, total: float, best: float, least: float) -> float:
        """Return the upper confidence bound: of parts alike, the one with the larger gap is explored more."""
        if self.pulls == 0:
            return math.inf
        gap = _share(best, self.part.bound, least)
        return self.reward / self.pulls + EXPLORE * gap * math.sqrt(math.log(max(total, math.e)) / self.pulls)


class Allocation:
    """Spends evaluations on agents and parts; the best designs found so far are where every agent goes on from."""

    def __init__(self, space: FeasibleSpace, score: Score, stop: Callable[[], bool], rng: np.random.Generator) -> None:
        self.known = Archive(space, KNOWN)
        self.score = score
        self.stop = stop
        self.rng = rng

    @property
    def best(self) -> float:
        """The least score known."""
        return float(self.known.scores[0]) if len(self.known) else math.inf

    def consider(self, designs: DesignBatch) -> None:
        """Score designs, if there are any, and know them."""
        if len(designs):
            self.known.add(designs, self.score(designs))

    def spend(self, parts: Sequence[Part], evaluations: int) -> None:
        """Pull arms until so many evaluations are spent, they improve too little, no part is open, or time is up.

        A part whose bound is not below the least score known is closed, and its arms are never pulled.
        """
        arms = [arm for part in sorted(parts, key=lambda part: part.bound) for arm in self._arms(part)]
        left, since, mark = evaluations, 0, self.best
        while left > 0 and since < PATIENCE and not self.stop():
            arms = [arm for arm in arms if arm.part.bound < self.best]
            if not arms:
                return
            total, least = sum(arm.pulls for arm in arms), min(arm.part.bound for arm in arms)
            arm = max(arms, key=lambda arm: arm.promise(total, self.best, least))
            count = min(PULL, left, arm.part.space.size)
            self._pull(arm, [other for other in arms if other.part is arm.part], count)
            left, since = left - count, since + count
            if _share(mark, self.best, least) >= WORTH:
                since, mark = 0, self.best

    def _arms(self, part: Part) -> list[Arm]:
        """Return the agents on a part; they know the best designs that are members of it."""
        inside = part.space.contains(self.known.designs)
        designs, scores = self.known.designs.take(inside), self.known.scores[inside]
        agents = [find_agent(name)(part.space, np.random.default_rng(self.rng.integers(2**63))) for name in AGENTS]
        for agent in agents:
            agent.tell(designs, scores)
        return [Arm(part, agent) for agent in agents]

    def _pull(self, arm: Arm, arms: Sequence[Arm], count: int) -> None:
        """Let an agent spend evaluations, and tell the other agents on its part what became the best.

        No more than that: agents that know each other's every design end up around the same one.
        """
        before = self.best
        batch = arm.agent.ask(count)
        scores = self.score(batch)
        self.known.add(batch, scores)
        arm.agent.tell(batch, scores)
        better = scores < before
        for other in arms:
            if other is not arm and better.any():
                other.agent.tell(batch.take(better), scores[better])
        arm.credit(_share(before, self.best, arm.part.bound))


def _share(before: float, after: float, bound: float) -> float:
    """Return which part of the gap `before - bound` lies above `after`; all of it from an unknown `before`."""
    if math.isinf(before):
        return 0.0 if math.isinf(after) else 1.0
    return 0.0 if before <= bound else (before - after) / (before - bound)


def parts_of(space: FeasibleSpace, regions: Codes, values: NDArray[np.object_], columns: Sequence[int]) -> list[Part]:
    """Return open regions as a few parts, those with the best bounds in the smallest.

    Args:
        space: The feasible set.
        regions: Codes [regions, all columns of the lowered model], least bound first.
        values: The bound of each.
        columns: The columns that a region fixes. A part holds every design whose code of each is one of its regions'.

    Returns:
        At most `PARTS` parts; none when the regions are so few that solving them costs less.
    """
    if len(regions) <= WIDEST:
        return []
    stops = [max(1, len(regions) // 8**power) for power in reversed(range(PARTS))]
    parts = []
    for start, stop in zip([0, *stops[:-1]], stops, strict=True):
        allowed = {column: np.unique(regions[start:stop, column]).tolist() for column in columns}
        within = FeasibleSpace(space.parameter_set, space.feasible.given(allowed))
        parts.append(Part(within, float(values[start])))
    return parts
