"""One NPU of a replay: which operations are ready, which slots are taken, and what may be issued next."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from enum import IntEnum

from cosmic_opt.simulation.replay.trace import Kind, Operation

COMMUNICATION = frozenset({Kind.COLLECTIVE, Kind.SEND, Kind.RECEIVE})


class Slot(IntEnum):
    """What an operation holds while it runs: one of each per NPU. A `FREE` one (receive, skipped) holds nothing."""

    CPU = 0
    COMPUTE = 1
    COMMUNICATION = 2
    FREE = 3


class Npu:
    """Dependencies, ready operations and slots of one NPU. Operations are known by their place in id order."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = sorted(operations, key=lambda operation: operation.id)
        place = {operation.id: index for index, operation in enumerate(self.operations)}
        self.slots = [_slot(operation) for operation in self.operations]
        self.communicates = [operation.kind in COMMUNICATION for operation in self.operations]
        self.missing = [len(operation.dependencies) for operation in self.operations]
        self.children: list[list[int]] = [[] for _ in self.operations]
        for index, operation in enumerate(self.operations):
            for needed in operation.dependencies:
                self.children[place[needed]].append(index)
        self.ready: tuple[list[int], ...] = ([], [], [], [])
        self.busy = [False, False, False, False]
        self.remaining = len(self.operations)
        self.finished_ns = 0
        self.compute_ns = 0
        self.communication_ns = 0
        self.running = 0
        self._talking = 0
        self._talking_since_ns = 0
        for index, count in enumerate(self.missing):
            if count == 0:
                heapq.heappush(self.ready[self.slots[index]], index)

    def begin(self, index: int, now: int) -> None:
        """Note that an operation is issued."""
        self.running += 1
        if self.communicates[index]:
            self._talking += 1
            if self._talking == 1:
                self._talking_since_ns = now

    def end(self, index: int, now: int) -> None:
        """Note that an operation is complete, and release what it holds."""
        self.running -= 1
        if self.communicates[index]:
            self._talking -= 1
            if self._talking == 0:
                self.communication_ns += now - self._talking_since_ns
        self.release(index)

    def release(self, index: int) -> None:
        """Mark an operation done: its slot is free, and what waited only for it is ready."""
        self.busy[self.slots[index]] = False
        self.remaining -= 1
        for child in self.children[index]:
            self.missing[child] -= 1
            if self.missing[child] == 0:
                heapq.heappush(self.ready[self.slots[child]], child)

    def take(self, skipped: Sequence[bool]) -> list[int]:
        """Take what may be issued now, by ascending identifier: ready operations whose slot is free.

        An operation marked in `skipped` gives its slot back at once; what becomes ready by it is not issued before
        the next completion on this NPU.
        """
        issued, passed = list[int](), list[int]()
        for slot, ready in enumerate(self.ready):
            while ready and not self.busy[slot]:
                index = heapq.heappop(ready)
                if skipped[index]:
                    passed.append(index)
                    continue
                issued.append(index)
                self.busy[slot] = slot != Slot.FREE
        for index in passed:
            busy = self.busy[self.slots[index]]
            self.release(index)
            self.busy[self.slots[index]] = busy
        issued.sort()
        return issued


def _slot(operation: Operation) -> Slot:
    if operation.kind in (Kind.RECEIVE, Kind.SKIPPED):
        return Slot.FREE
    if operation.kind is Kind.COMPUTE:
        return Slot.CPU if operation.on_cpu else Slot.COMPUTE
    return Slot.COMMUNICATION
