"""Bounds of an interleaved pipeline again, slowly: every pass of a stage in a list, every path added up by name."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from cosmic_opt.workloads.parallelism import stage_layers

Pass = tuple[int, int]
"""A piece and a micro-batch."""


def rounds_of(batches: int, stages: int) -> list[range]:
    """Rounds of as many micro-batches as stages; the last one takes those left over, too."""
    rounds, start = [], 0
    while batches - start >= 2 * stages:
        rounds.append(range(start, start + stages))
        start += stages
    return [*rounds, range(start, batches)]


@dataclass
class Pieces:
    """Ticks of a pass forward and backward of every piece of every stage, messages included."""

    forward: list[list[int]]
    backward: list[list[int]]
    batches: int

    def __post_init__(self) -> None:
        self.stages, self.pieces = len(self.forward), len(self.forward[0])
        self.rounds = rounds_of(self.batches, self.stages)
        self.order: list[Pass] = [
            (piece, batch) for own in self.rounds for piece in range(self.pieces) for batch in own
        ]

    def along(self, ticks: list[list[int]], begin: Pass, end: Pass) -> int:
        """All pieces from (piece, stage) `begin` up to but not including `end`, in the model's order."""
        places = list(product(range(self.pieces), range(self.stages)))
        return sum(ticks[stage][piece] for piece, stage in places[places.index(begin) : places.index(end)])

    def through(self, ticks: list[list[int]], first_round: int) -> int:
        """The longer of two ways through the model: following a micro-batch, or a round on the first stage."""
        last = self.pieces - 1, self.stages - 1
        own = ticks[-1][-1]
        following = self.along(ticks, (0, 0), last)
        staying = first_round * ticks[0][0] + self.along(ticks, (1, 0), last)
        return own + max(following, staying)

    def ends(self, stage: int) -> tuple[int, int]:
        """When the last backward pass of the first stage, and of this stage, can be done at the earliest."""
        batches, forward, backward = self.batches, self.forward, self.backward
        up = sum(backward[before][0] for before in range(stage))
        down = sum(forward[before][0] for before in range(stage))
        busy = batches * (sum(forward[stage]) + sum(backward[stage]))
        waits, own_waits = self.waits(stage)
        last = batches * (forward[stage][-1] + backward[stage][-1])
        rest = [sum(ticks[after][-1] for after in range(stage, self.stages)) for ticks in (forward, backward)]
        went = self.through(forward, len(self.rounds[0])) - rest[0]
        came = self.through(backward, len(self.rounds[-1])) - rest[1]
        followed = self.along(backward, (0, 0), (self.pieces - 1, stage))
        longest = max(down + busy + waits + up, went + last + came)
        own = max(down + busy + own_waits, went + last + followed - up)
        return (longest, own) if stage else (longest, longest)

    def waits(self, stage: int) -> tuple[int, int]:
        forward, backward = self.forward, self.backward
        ahead = 2 * (self.stages - 1 - stage) + (self.pieces - 1) * len(self.rounds[-1])
        n = min(ahead + 1, len(self.order))
        went = sum(forward[stage][piece] for piece, _ in self.order[:n])
        back = [(self.pieces - 1 - piece, batch) for piece, batch in self.order]
        came = sum(backward[stage][piece] for piece, _ in back[-n:])
        after_forward = sum(forward[after][-1] for after in range(stage + 1, self.stages))
        after_backward = sum(backward[after][-1] for after in range(stage + 1, self.stages))
        first_round, last_round = len(self.rounds[0]), len(self.rounds[-1])
        if stage == 0:
            go, come, early, late = self.through(forward, first_round), self.through(backward, last_round), 0, 0
        else:
            begin, last = (0, stage), (self.pieces - 1, self.stages - 1)
            rest = [(ticks[-1][-1], sum(ticks[s][0] for s in range(stage))) for ticks in (forward, backward)]
            go, come = (
                self.along(ticks, (0, 0), last) + own - before
                for ticks, (own, before) in zip((forward, backward), rest, strict=True)
            )
            assert go == self.along(forward, begin, last) + forward[-1][-1]
            early = (first_round - 1) * max(0, forward[0][0] - forward[stage][0])
            late = (last_round - 1) * max(0, backward[0][0] - backward[stage][0])
        idle = go + after_backward - went, come + after_forward - came
        if ahead + 1 < len(self.order):
            return max(early, idle[0]) + max(late, idle[1]), max(early, idle[0]) + max(0, idle[1])
        return max(early + late, *idle), max(early, *idle)

    def reduced(self, stage: int, reductions: int) -> int:
        """When a stage has its gradients at the earliest: they leave from the last micro-batch's last piece on."""
        back = [(self.pieces - 1 - piece, batch) for piece, batch in self.order]
        before = back[: back.index((self.pieces - 1, self.batches - 1))]
        ticks = sum(self.forward[earlier][0] for earlier in range(stage)) + self.batches * sum(self.forward[stage])
        return ticks + sum(self.backward[stage][piece] for piece, _ in before) + reductions


def cut(layers: list[int], pieces: int) -> list[list[int]]:
    """Layers of every piece of every stage."""
    return [list(stage_layers(own, pieces)) for own in layers]
