"""One NPU of each kind stands for all, exactly; and what is not alike is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.analysis.astra_sim_rows import replay_machine
from cosmic_opt.interop import read_workload
from cosmic_opt.simulation.replay import Kind, Operation, RemoteMemory, ReplayMachine, TraceWorkload, replay
from cosmic_opt.simulation.replay.collectives import UnawareCollectives
from cosmic_opt.simulation.replay.fold import fold
from tests.unit.simulation.replaying import ALGORITHMS, PAIR, compute, gather, receive, send, workloads

GOLDEN = Path(__file__).parents[2] / "golden"
ROWS: list[dict[str, Any]] = json.loads((GOLDEN / "astrasim_workloads.json").read_text(encoding="utf-8"))["cases"]
LONE = [gather(1, 8)]


def side_by_side(workload: TraceWorkload, copies: int) -> TraceWorkload:
    """Return `copies` of a workload side by side on the NPUs of an inner dimension; collectives stay in a copy."""
    npus = len(workload.ranks)
    groups = {
        f"{name}.{copy}": tuple(copy + copies * npu for npu in members)
        for copy in range(copies)
        for name, members in [*workload.groups.items(), ("all", tuple(range(npus)))]
    }

    def moved(operation: Operation, copy: int) -> Operation:
        group = f"{operation.group or 'all'}.{copy}" if operation.kind is Kind.COLLECTIVE else ""
        return replace(operation, group=group, peer=copy + copies * operation.peer)

    ranks = [tuple(moved(operation, copy) for operation in rank) for rank in workload.ranks for copy in range(copies)]
    return TraceWorkload(tuple(ranks), groups)


@given(data=st.data(), npus=st.sampled_from([2, 3, 4]), copies=st.sampled_from([2, 3]))
@settings(derandomize=True, deadline=None, max_examples=80)
def test_one_of_each_kind_stands_for_all_exactly(data: st.DataObject, npus: int, copies: int) -> None:
    workload = side_by_side(data.draw(workloads(npus)), copies)
    machine = ReplayMachine(
        ("ring", data.draw(st.sampled_from(["ring", "fully_connected", "switch"]))),
        (copies, npus),
        (20.0, 5.0),
        (50.0, 300.0),
        dict.fromkeys(ALGORITHMS, (data.draw(st.sampled_from(["ring", "direct", "direct1"])), "ring")),
        chunks=data.draw(st.integers(1, 3)),
    )
    assert replay(workload, machine) == replay(workload, machine, folded=False)


@pytest.mark.parametrize("row", [row for row in ROWS if row["backend"] == "unaware"][::3], ids=lambda row: row["id"])
def test_transformers_fold_to_their_pipeline_stages(row: dict[str, Any]) -> None:
    workload = read_workload(GOLDEN / "traces" / f"{row['workload']}.tar.xz")
    machine = replay_machine(row)
    folding = fold(workload, machine, UnawareCollectives(machine))
    if len(row["npus_per_dim"]) == 1:
        assert folding is not None
        assert len(folding.ranks) == {"g4_dp2pp4_mb16": 4, "g4_dp2tp2pp2_mb16": 2}.get(row["workload"], 1)
    assert replay(workload, machine) == replay(workload, machine, folded=False)


@pytest.mark.parametrize(
    ("ranks", "changes"),
    [
        ([[send(1, 1, 8)], []], {}),
        ([[send(1, 1, 8), send(2, 1, 8, 1)], [receive(1, 0, 8), receive(2, 0, 8, 1)]], {}),
        ([[gather(1, 8, group="9")]] * 2, {}),
        ([[gather(1, 8, group="1")]] * 2, {}),
        ([LONE, [compute(2, 1), *LONE]], {}),
        ([LONE, LONE], {"algorithms": dict.fromkeys(ALGORITHMS, ("doubleBinaryTree",))}),
        ([LONE, LONE], {"remote_memory": RemoteMemory("MEMORY_POOL")}),
    ],
)
def test_what_is_not_alike_is_replayed_npu_by_npu(ranks: list[list[Operation]], changes: dict[str, Any]) -> None:
    machine = replace(PAIR, **changes)
    workload = TraceWorkload(tuple(tuple(rank) for rank in ranks), {"1": (1,)})
    assert fold(workload, machine, UnawareCollectives(machine)) is None


def test_equal_npus_are_one_kind() -> None:
    folding = fold(TraceWorkload((tuple(LONE),) * 2, {}), PAIR, UnawareCollectives(PAIR))
    assert folding is not None
    assert (folding.ranks, folding.kinds) == ((0,), (0, 0))
