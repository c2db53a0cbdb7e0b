"""What a collective algorithm is: for each collective a list of steps, each a function of the rank.

The payload is the full buffer: what every NPU puts into an all-reduce, reduce-scatter or all-to-all, and what
every NPU gets out of an all-gather. Ranks are those inside the group, 0 to n - 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_opt._registry import Registry
from cosmic_opt.errors import InfeasibleError, SpecError, nearest

IntArray = NDArray[np.int64]

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
"""The collectives every algorithm can run."""


class Peers(Protocol):
    """To whom each rank sends in a step."""

    def targets(self, npus: int) -> IntArray:
        """Return an array of shape (messages per rank, npus): whom rank r sends to, -1 for nobody."""


@dataclass(frozen=True, slots=True)
class Shifts:
    """Rank r sends one message to rank r + offset (mod n) for each offset."""

    offsets: tuple[int, ...]

    def targets(self, npus: int) -> IntArray:
        """Return one row per offset."""
        return (np.arange(npus) + np.array(self.offsets, dtype=np.int64)[:, None]) % npus


@dataclass(frozen=True, slots=True)
class Exchange:
    """Rank r and rank r XOR mask send to each other."""

    mask: int

    def targets(self, npus: int) -> IntArray:
        """Return one row."""
        return np.arange(npus)[None, :] ^ self.mask


@dataclass(frozen=True, slots=True)
class ThroughSwitch:
    """Every rank sends one message to the switch, and the sum of all comes back to it."""

    def targets(self, npus: int) -> IntArray:
        """Return one row: each rank itself."""
        return np.arange(npus)[None, :]


@dataclass(frozen=True, slots=True)
class Table:
    """Rank r sends one message to row[r] for each row; -1 is nobody."""

    rows: tuple[tuple[int, ...], ...]

    def targets(self, npus: int) -> IntArray:
        """Return the rows as written."""
        return np.array(self.rows, dtype=np.int64).reshape(-1, npus)


@dataclass(frozen=True, slots=True)
class Step:
    """All messages of a step start together; each carries `share` of the payload.

    `repeat` equal steps follow one another (what they carry differs, whom they go to does not).
    """

    peers: Peers
    share: Fraction
    repeat: int = 1


class Algorithm(ABC):
    """A collective algorithm on one network dimension. `steps` is what others call.

    Attributes:
        power_of_two_only: Whether it exists for powers of two alone.
        in_switch: Whether the switch computes, so that it needs one that does.
    """

    power_of_two_only: ClassVar[bool] = False
    in_switch: ClassVar[bool] = False

    def runs_on(self, npus: int) -> bool:
        """Say whether the algorithm exists for a group of `npus`."""
        return npus >= 1 and not (self.power_of_two_only and npus & (npus - 1))

    def steps(self, collective: str, npus: int) -> tuple[Step, ...]:
        """Return the steps of `collective` in a group of `npus`; a group of one has none.

        Raises:
            SpecError: no such collective.
            InfeasibleError: the algorithm does not exist for this group size.
        """
        if collective not in COLLECTIVES:
            raise SpecError(f"unknown collective {collective!r}", hint=nearest(collective, COLLECTIVES))
        if not self.runs_on(npus):
            raise InfeasibleError(
                f"{self.name} needs a power of two, not a group of {npus} NPUs",
                hint="use ring or direct in this dimension, or a group size of 2, 4, 8, ...",
            )
        if npus == 1:
            return ()
        schedules = {
            "all_reduce": self.all_reduce_steps,
            "reduce_scatter": self.reduce_scatter_steps,
            "all_gather": self.all_gather_steps,
            "all_to_all": self.all_to_all_steps,
        }
        return schedules[collective](npus)

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which the algorithm is registered."""

    @abstractmethod
    def reduce_scatter_steps(self, npus: int) -> tuple[Step, ...]:
        """Return the steps after which rank r holds the r-th n-th of the sum (n > 1)."""

    @abstractmethod
    def all_gather_steps(self, npus: int) -> tuple[Step, ...]:
        """Return the steps after which every rank holds every rank's n-th (n > 1)."""

    def all_reduce_steps(self, npus: int) -> tuple[Step, ...]:
        """Return a reduce-scatter and an all-gather."""
        return self.reduce_scatter_steps(npus) + self.all_gather_steps(npus)

    def all_to_all_steps(self, npus: int) -> tuple[Step, ...]:
        """Return the direct exchange: every algorithm moves personalised data straight to its owner.

        One algorithm per dimension serves all collectives, and forwarding would only add traffic.
        """
        return (Step(Shifts(tuple(range(1, npus))), Fraction(1, npus)),)


ALGORITHMS: Registry[Algorithm] = Registry("collective algorithm")
