"""What each NPU of a collective does, as numbers for the compiled simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, repeat

from cosmic_opt.errors import InfeasibleError
from cosmic_opt.simulation.collective.astra_sim.algorithms import Costs, halving_doubling_messages
from cosmic_opt.simulation.collective.astra_sim.aware.state import EXCHANGE, SHIFT, TREE
from cosmic_opt.simulation.collective.astra_sim.case import Implementation, group_failure
from cosmic_opt.system.collectives.double_binary_tree import parent


@dataclass(frozen=True, slots=True)
class Program:
    """`sends` messages per NPU and chunk.

    The peer of a turn is `offsets[turn % len(offsets)]` places ahead (kind SHIFT), or that exclusive or the own
    place (EXCHANGE); a TREE has the parent of each rank there. `sizes_bytes` has one entry, or one per turn.
    `work_ns` is the endpoint work of each packet in order: `window` at the start, one per message received (a tree:
    without and with a reduction). `gate` messages must be there before the last `gate` are sent.
    """

    kind: int
    window: int
    sends: int
    gate: int
    offsets: tuple[int, ...]
    sizes_bytes: tuple[int, ...]
    work_ns: tuple[int, ...]


def collective_program(
    implementation: Implementation, collective: str, members: int, data_bytes: int, costs: Costs, *, subgroup: bool
) -> Program:
    """Return the program of one chunk of `data_bytes` input; `subgroup` as in the algorithm `direct`.

    Raises:
        InfeasibleError: ASTRA-sim does not end on this phase.
    """
    reason = group_failure(implementation, collective, members)
    if reason is None and implementation.kind == "halving_doubling" and members & (members - 1):
        reason = "halvingDoubling on a number of NPUs that is not a power of two has no pairs"
    if reason is not None:
        raise InfeasibleError(f"ASTRA-sim gives no time: {reason}", hint="use ring or direct")
    if implementation.kind == "ring":
        return _ring(collective, members, data_bytes, costs)
    if implementation.kind == "halving_doubling":
        return _halving_doubling(collective, members, data_bytes, costs)
    if implementation.kind == "direct":
        window = min(implementation.window or members - 1, members - 1)
        return _direct(collective, members, data_bytes, costs, window, subgroup=subgroup)
    work = (costs.delay_ns, costs.delay_ns + costs.reduction_ns(data_bytes))
    parents = (0, *(parent(rank, members) for rank in range(1, members)))
    return Program(TREE, 1, 0, 0, parents, (data_bytes,), work)


def _ring(collective: str, members: int, data_bytes: int, costs: Costs) -> Program:
    """n - 1 sends to the next NPU (all-reduce 2(n-1), all-to-all n(n-1)/2), the first n - 1 receives reduced."""
    size = data_bytes if collective == "all_gather" else data_bytes // members
    sends = {"all_reduce": 2 * (members - 1), "all_to_all": members * (members - 1) // 2}.get(collective, members - 1)
    reduced = members - 1 if collective in ("all_reduce", "reduce_scatter") else 0
    plain, more = costs.delay_ns, costs.delay_ns + costs.reduction_ns(size)
    work = (plain, *[more] * reduced, *[plain] * (sends - reduced))
    return Program(SHIFT, 1, sends, 0, (1,), (size,), work)


def _halving_doubling(collective: str, members: int, data_bytes: int, costs: Costs) -> Program:
    """A receive of the halving, but the last, is reduced at the size of the message sent next."""
    messages = halving_doubling_messages(collective, members, data_bytes)
    levels = members.bit_length() - 1
    reduced = levels - 1 if collective in ("all_reduce", "reduce_scatter") else 0
    reductions = [costs.reduction_ns(messages[step + 1][1]) if step < reduced else 0 for step in range(len(messages))]
    work = (costs.delay_ns, *(costs.delay_ns + reduction for reduction in reductions))
    offsets, sizes = zip(*messages, strict=True)
    return Program(EXCHANGE, 1, len(messages), 0, offsets, sizes, work)


def _packets(plain: int, odd: int, even: int, window: int, group: int) -> Iterator[int]:
    """Yield the work of packets for ever: `window` plain ones, `group` of an odd round, and so for an even round."""
    while True:
        for reduced in (odd, even):
            yield from repeat(plain, window)
            yield from repeat(reduced, group)


def _direct(collective: str, members: int, data_bytes: int, costs: Costs, window: int, *, subgroup: bool) -> Program:
    """One message to every other NPU, in an all-reduce twice; packets are reduced or not in a fixed pattern."""
    peers = members - 1
    size = data_bytes if collective == "all_gather" else data_bytes // members
    rounds = 2 if collective == "all_reduce" else 1
    plain, more = costs.delay_ns, costs.delay_ns + costs.reduction_ns(size)
    group = window * peers if subgroup else window
    odd = more if collective in ("all_reduce", "reduce_scatter") else plain
    even = more if collective == "reduce_scatter" else plain
    work = tuple(islice(_packets(plain, odd, even, window, group), window + rounds * peers))
    gate = peers if collective == "all_reduce" else 0
    return Program(SHIFT, window, rounds * peers, gate, tuple(range(1, members)), (size,), work)
