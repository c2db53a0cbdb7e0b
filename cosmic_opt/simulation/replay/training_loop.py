"""The training loop of a layer table: what computes, what it waits for, and what of the communication is exposed.

The blocking rules are those of ASTRA-sim 1.0 (Rashidi 2020), by parallelism:

DATA: a layer's gradients are reduced behind the rest of the backward pass; its next forward pass waits for them. The
first layer needs no input gradient. DLRM: the embedding's all-to-all runs behind the bottom MLP, both ways.
TRANSFORMER: collectives of a model-parallel group block; the weight gradients' do not. With checkpoints, the backward
pass of some layers begins with the forward pass from the checkpoint before. LIBRA: everything blocks. MICRO: the
collectives of the weight gradients only.

One collective of a scope runs at a time, in the order of issue: exact where they do not overlap, as in tables with
fused gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from cosmic_opt.errors import SpecError
from cosmic_opt.workloads.layer_table import LayerTable, LayerWork, Policy, TableLayer

TICKS_PER_NS = 1000


class Scope(StrEnum):
    """Who takes part in a collective: all NPUs, a model-parallel group, or the NPUs of one place in theirs."""

    ALL = "all"
    MODEL = "model"
    DATA = "data"


CollectiveTicks = Callable[[str, int, Scope], int]
"""The time of a collective (its name, its bytes, who takes part) that has the network to itself."""


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """Where the time of a loop goes, in ticks; the parts add up to it.

    Attributes:
        forward, backward: Computation; a forward pass run again in the backward pass counts as forward.
        model: Exposed collectives of the forward pass and of input gradients.
        data: Exposed collectives of weight gradients, and the updates after them.
    """

    forward: int
    backward: int
    model: int
    data: int

    @property
    def ticks(self) -> int:
        """Return the time of the loop."""
        return self.forward + self.backward + self.model + self.data


def run_table(
    table: LayerTable, collective: CollectiveTicks, *, passes: int = 1, compute_scale: Fraction = Fraction(1)
) -> LoopTimes:
    """Return the time of `passes` passes over a table; the last one ends with its weights updated.

    `compute_scale` multiplies all times of the table: tables are written for one accelerator.

    Raises:
        SpecError: no pass, or a scale of 0 or less.
    """
    if type(passes) is not int or passes < 1:
        raise SpecError(f"{passes!r} passes", hint="write 1 or more")
    if compute_scale <= 0:
        raise SpecError(f"the compute scale is {compute_scale}", hint="write a number above 0")
    loop = _Loop(table, collective, compute_scale)
    steps = {
        Policy.MICRO: loop.micro,
        Policy.DATA: loop.data_parallel,
        Policy.DLRM: loop.dlrm,
        Policy.TRANSFORMER: loop.transformer,
        Policy.TRANSFORMER_AGAIN: loop.transformer,
        Policy.NO_OVERLAP: loop.no_overlap,
    }
    for _ in range(passes):
        steps[table.policy]()
    for done in loop.updated:
        loop.wait(done, "data")
    return LoopTimes(**loop.spent)


@dataclass
class _Loop:
    """The clock of one loop; `updated` says when the weights of each layer are ready for the next pass."""

    table: LayerTable
    collective: CollectiveTicks
    compute_scale: Fraction
    now: int = 0
    spent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("forward", "backward", "model", "data"), 0))
    free: dict[Scope, int] = field(default_factory=lambda: dict.fromkeys(Scope, 0))
    updated: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.updated = [0] * len(self.layers)

    @property
    def layers(self) -> Sequence[TableLayer]:
        return self.table.layers

    # --- steps of a loop ---------------------------------------------------------------------------------------

    def compute(self, ns: int, part: str) -> None:
        ticks = self.ticks(ns)
        self.now += ticks
        self.spent[part] += ticks

    def ticks(self, ns: int) -> int:
        return round(ns * TICKS_PER_NS * self.compute_scale)

    def issue(self, work: LayerWork, scope: Scope) -> int:
        """Start the collective of `work` when its scope is free, and return when it ends."""
        if not work.collective:
            return self.now
        begin = max(self.now, self.free[scope])
        self.free[scope] = begin + self.collective(work.collective, work.size_bytes, scope)
        return self.free[scope]

    def wait(self, done: int, part: str) -> None:
        if done > self.now:
            self.spent[part] += done - self.now
            self.now = done

    def forward(self, index: int) -> None:
        self.wait(self.updated[index], "data")
        self.compute(self.layers[index].forward.compute_ns, "forward")

    def reduce(self, index: int, scope: Scope) -> None:
        """Compute the weight gradients of a layer and start their reduction; the update follows it."""
        layer = self.layers[index]
        self.compute(layer.weight_gradient.compute_ns, "backward")
        update = self.ticks(layer.update_ns) if layer.weight_gradient.collective else 0
        self.updated[index] = self.issue(layer.weight_gradient, scope) + update

    def backwards(self) -> Iterator[int]:
        return reversed(range(len(self.layers)))

    # --- loops -------------------------------------------------------------------------------------------------

    def micro(self) -> None:
        for index, layer in enumerate(self.layers):
            self.updated[index] = self.issue(layer.weight_gradient, Scope.ALL)

    def data_parallel(self) -> None:
        for index in range(len(self.layers)):
            self.forward(index)
        for index in self.backwards():
            self.reduce(index, Scope.ALL)
            if index > 0:
                self.compute(self.layers[index].input_gradient.compute_ns, "backward")

    def dlrm(self) -> None:
        last_bottom, embedding = self.table.last_bottom, self.layers[0]
        looked_up = returned = self.now
        for index in range(len(self.layers)):
            self.forward(index)
            if index == 0:
                looked_up = self.issue(embedding.forward, Scope.ALL)
            if index == last_bottom:
                self.wait(looked_up, "model")
        for index in self.backwards():
            if index == 0:
                self.wait(returned, "model")
            self.reduce(index, Scope.ALL)
            if index > 0:
                self.compute(self.layers[index].input_gradient.compute_ns, "backward")
            if index == last_bottom + 1:
                returned = self.issue(embedding.input_gradient, Scope.ALL)

    def transformer(self) -> None:
        for index in range(len(self.layers)):
            self._blocking_forward(index)
        for index in self.backwards():
            if index in self.table.initiates:
                kept = max(checkpoint for checkpoint in self.table.checkpoints if checkpoint <= index)
                for again in range(kept, index):
                    self._blocking_forward(again)
            self._blocking_input(index)
            self.reduce(index, Scope.DATA)

    def no_overlap(self) -> None:
        for index in range(len(self.layers)):
            self._blocking_forward(index)
        for index in self.backwards():
            self._blocking_input(index)
            self.reduce(index, Scope.DATA)
            self.wait(self.updated[index], "data")

    def _blocking_forward(self, index: int) -> None:
        self.forward(index)
        self.wait(self.issue(self.layers[index].forward, Scope.MODEL), "model")

    def _blocking_input(self, index: int) -> None:
        self.compute(self.layers[index].input_gradient.compute_ns, "backward")
        self.wait(self.issue(self.layers[index].input_gradient, Scope.MODEL), "model")
