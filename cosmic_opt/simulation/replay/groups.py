"""Which NPUs run a collective together."""

from __future__ import annotations

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.simulation.replay.collectives import Members, Span, spanned
from cosmic_opt.simulation.replay.machine import ReplayMachine
from cosmic_opt.simulation.replay.trace import Operation, TraceWorkload


class Groups:
    """The communicator groups of a workload, and the sets of NPUs of collectives without one."""

    def __init__(self, workload: TraceWorkload, machine: ReplayMachine) -> None:
        self.groups = {name: _listed(npus, machine.npus) for name, npus in workload.groups.items()}
        self.machine = machine
        self.spans = dict[tuple[str, tuple[bool, ...] | None], Span]()
        self.sets = dict[tuple[tuple[tuple[int, int], ...], int], Members]()

    def members(self, npu: int, operation: Operation) -> Members:
        """Return the NPUs of a collective that `npu` issues.

        Raises:
            SpecError: the group is unknown, or `npu` is not in it.
            InfeasibleError: no dimension is involved.
        """
        if not operation.group:
            return self._of_machine(npu, operation)
        if operation.group not in self.groups:
            raise SpecError(
                f"operation {operation.id} of NPU {npu} uses the unknown communicator group {operation.group!r}",
                hint=nearest(operation.group, self.groups) or "give the file of communicator groups",
            )
        members = self.groups[operation.group]
        if npu not in members.positions:
            raise SpecError(
                f"NPU {npu} uses the communicator group {operation.group!r} without being in it",
                hint="list the NPU in the group",
            )
        return members

    def _of_machine(self, npu: int, operation: Operation) -> Members:
        key = (operation.collective, operation.involved_dims)
        if key not in self.spans:
            self.spans[key] = spanned(self.machine, *key)
        span = self.spans[key]
        first = span.first(npu)
        place = (span.outside, first)
        if place not in self.sets:
            self.sets[place] = Members.of(tuple(first + other for other in span.npus), listed=False)
        return self.sets[place]


def _listed(npus: tuple[int, ...], total: int) -> Members:
    """Return a communicator group; one of all NPUs runs on the machine's own plan, whatever its order."""
    return Members.of(tuple(sorted(npus)) if len(npus) == total else npus, listed=True)
