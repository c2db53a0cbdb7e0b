"""The direct algorithm with a window of outstanding messages, message by message.

An NPU opens a window of W packets. A packet whose endpoint work is done frees one send; a received message inserts
the next packet. An all-reduce sends its second round only after it has received the whole first one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from cosmic_opt.simulation.collective.astra_sim.algorithms import Costs
from cosmic_opt.simulation.collective.astra_sim.edges import Edges, IntArray

RECEIVED, PREPARED = 0, 1


def direct_finish(
    collective: str, edges: Edges, data_bytes: int, costs: Costs, starts: IntArray, window: int, subgroup: bool
) -> IntArray:
    """Return when each NPU finishes a direct collective with `window` messages outstanding.

    `subgroup` says that the ring is a communicator group, which counts its reductions another way.
    """
    size = data_bytes if collective == "all_gather" else data_bytes // edges.members
    run = _Exchange(collective, edges, costs, size, min(window, edges.members - 1), subgroup)
    return run.finish(starts)


@dataclass(slots=True)
class _Npu:
    """What one NPU has done so far. Packets are reduced or not in a pattern of `plain` and `reduced` ones."""

    sends_left: int
    plain: int = 0
    reduced: int = 0
    odd_round: bool = False
    waiting: int = 0
    free: int = 0
    received: int = 0
    sent_at: list[int] = field(default_factory=list)
    finished_at: int = -1


class _Exchange:
    """An event simulation; events at one time run in the order in which they were scheduled."""

    def __init__(
        self, collective: str, edges: Edges, costs: Costs, size_bytes: int, window: int, subgroup: bool
    ) -> None:
        self.peers = edges.members - 1
        self.window = window
        self.reduced_packets = window * self.peers if subgroup else window
        self.collective = collective
        self.delay_ns = costs.delay_ns
        self.reduction_ns = costs.reduction_ns(size_bytes)
        self.message_ns = [edges.ahead_ns(offset, size_bytes).tolist() for offset in range(edges.members)]
        rounds = 2 if collective == "all_reduce" else 1
        self.npus = [_Npu(rounds * self.peers) for _ in range(edges.rows)]
        self.events: list[tuple[int, int, int, int]] = []
        self.serial = 0

    def finish(self, starts: IntArray) -> IntArray:
        """Return when each NPU finishes."""
        for npu, start in enumerate(starts.tolist()):
            for _ in range(self.window):
                self._insert(npu, start)
        while self.events:
            now, _, kind, npu = heapq.heappop(self.events)
            if kind == RECEIVED:
                self.npus[npu].received += 1
                self._insert(npu, now)
            else:
                self._prepared(npu, now)
        return np.array([npu.finished_at for npu in self.npus], dtype=np.int64)

    def _schedule(self, time: int, kind: int, npu: int) -> None:
        heapq.heappush(self.events, (time, self.serial, kind, npu))
        self.serial += 1

    def _insert(self, npu: int, now: int) -> None:
        """Prepare one more packet; its endpoint work takes the delay, and a reduction if it is a reduced one."""
        state = self.npus[npu]
        if state.plain == state.reduced == 0:
            state.plain, state.reduced = self.window, self.reduced_packets
            state.odd_round = not state.odd_round
        work_ns = self.delay_ns
        if state.plain:
            state.plain -= 1
        else:
            state.reduced -= 1
            if self.collective == "reduce_scatter" or (self.collective == "all_reduce" and state.odd_round):
                work_ns += self.reduction_ns
        state.waiting += 1
        self._schedule(now + work_ns, PREPARED, npu)

    def _prepared(self, npu: int, now: int) -> None:
        state = self.npus[npu]
        state.free += 1
        tries = 1
        if self.collective == "all_reduce" and state.sends_left <= self.peers:
            if state.received < self.peers:
                return
            tries = self.window
        for _ in range(tries):
            if state.waiting and state.sends_left and state.free:
                self._send(npu, now)
        if state.sends_left == 0 and state.free == self.window and state.finished_at < 0:
            state.finished_at = now

    def _send(self, npu: int, now: int) -> None:
        """Send to the next peer and post the receive from the peer as far behind.

        The k-th messages of two peers match. A receive happens when the message is there and the receive is posted.
        """
        state = self.npus[npu]
        turn = len(state.sent_at)
        state.sent_at.append(now)
        state.waiting -= 1
        state.sends_left -= 1
        state.free -= 1
        offset = turn % self.peers + 1
        rows = len(self.npus)
        ahead, behind = (npu + offset) % rows, (npu - offset) % rows
        self._match(npu, ahead, turn, offset)
        if behind != npu:
            self._match(behind, npu, turn, offset)

    def _match(self, source: int, target: int, turn: int, offset: int) -> None:
        sent, posted = self.npus[source].sent_at, self.npus[target].sent_at
        if len(sent) > turn and len(posted) > turn:
            arrival = sent[turn] + self.message_ns[offset][source]
            self._schedule(max(arrival, posted[turn]), RECEIVED, target)
