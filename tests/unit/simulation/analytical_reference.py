"""The training step again, slowly and from the definitions: one design, one stage and one bucket at a time.

Nothing here is shared with the kernel but the workload's operators, `phase_cost`, `send_cost` and `plan`.
A primitive is rounded once; `exact` decides whether its real value is a fraction or the kernel's floating point.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import ceil

from cosmic_opt.system.multidim import plan
from cosmic_opt.system.npu import Npu
from cosmic_opt.system.phase import phase_cost, send_cost
from cosmic_opt.workloads.operators import (
    attended_context,
    backward_layer,
    embedding_operators,
    forward_layer,
    head_operators,
    selective_recompute,
)
from cosmic_opt.workloads.parallelism import stage_layers
from cosmic_opt.workloads.placement import GROUPS, nested_placement, placement_strides
from cosmic_opt.workloads.transformer import Transformer
from tests.unit.simulation.analytical_design import Design
from tests.unit.simulation.interleaved_reference import Pieces, cut

TICKS = 10**12
HOST_BYTES_PER_S = 11 * 10**9


class Reference:
    """Scores one design; `terms` are the parts of the step by name."""

    def __init__(
        self,
        workload: Transformer,
        npu: Npu,
        design: Design,
        global_batch: int,
        sequence: int,
        *,
        causal_half: bool = False,
        exact: bool = False,
    ) -> None:
        self.workload, self.npu, self.design, self.exact = workload, npu, design, exact
        self.sequence = sequence
        self.context = attended_context(workload, sequence, causal_half=causal_half)
        filled = [GROUPS.index(group) for group in design.order.split("_")]
        degrees = (design.tp, design.sp, design.dp, design.pp)
        rows = nested_placement([degrees[group] for group in filled], design.npus_per_dim)
        self.extents = design.extent or tuple(rows[filled.index(group)] for group in range(len(GROUPS)))
        self.strides = placement_strides(self.extents)
        self.micro_batches = ceil(global_batch / (design.dp * design.micro_batch))
        self.tokens = self.real(design.micro_batch * sequence) / design.sp
        self.stages = stage_layers(workload.layers, design.pp)
        self.terms: dict[str, int] = {}
        self.step = self._step()

    # primitives

    def real(self, value: int) -> Fraction | float:
        return Fraction(value) if self.exact else float(value)

    def rate(self, per_second: int) -> Fraction | float:
        return Fraction(TICKS, per_second) if self.exact else TICKS / per_second

    def kernels(self, operators) -> int:
        return sum(self.kernel(operator) for operator in operators)

    def kernel(self, operator) -> int:
        split, element = self.real(1) / self.design.tp, 2
        peak, memory = self.rate(self.npu.peak_flop_per_s), self.rate(self.npu.memory_bytes_per_s)
        share = self.tokens * split
        whole = share if self.design.sequence_parallel and operator.kind == "memory" else self.tokens
        flops = operator.flops_per_token + operator.flops_per_token_per_context * self.context
        moved = whole * (operator.replicated_elements_per_token * element * memory)
        moved += share * (operator.sharded_elements_per_token * element * memory) + split * (
            operator.weight_elements * element * memory
        )
        moved += operator.replicated_weight_elements * element * memory
        return round(max(share * (flops * peak), moved))

    # collectives

    def collective(self, kind: str, group: str, payload: Fraction | float) -> int:
        """All chunks of a collective: one chunk's path, or the busiest dimension between its head and tail."""
        extents, strides = self.group(group)
        design = self.design
        visits = []
        for phase in plan(kind, design.multidim, extents):
            dim = phase.dim
            cost = phase_cost(
                design.topology[dim],
                design.algorithm[dim],
                phase.collective,
                design.npus_per_dim[dim],
                extents[dim],
                strides[dim],
            )
            share = phase.share if self.exact else 1 / phase.share.denominator
            chunk = payload * (share * (self.real(1) / design.chunks))
            load = cost.load if self.exact else float(cost.load)
            serial = round(load * (chunk * self.rate(design.bandwidth[dim])))
            visits.append((dim, serial, cost.hops * design.latency[dim]))
        best = sum(serial + latency for _, serial, latency in visits)
        for dim in {dim for dim, _, _ in visits}:
            mine = [index for index, visit in enumerate(visits) if visit[0] == dim]
            head = sum(serial + latency for _, serial, latency in visits[: mine[0]])
            tail = visits[mine[-1]][2] + sum(s + latency for _, s, latency in visits[mine[-1] + 1 :])
            best = max(best, head + design.chunks * sum(visits[index][1] for index in mine) + tail)
        return best

    def group(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        tp, sp, dp, _ = self.extents
        if name == "tp":
            return tp, self.strides[0]
        if name == "sp":
            return sp, self.strides[1]
        return tuple(a * b for a, b in zip(sp, dp, strict=True)), self.strides[1]

    def send(self) -> int:
        """The slowest pair of neighbouring stages, over every pair there is."""
        design = self.design
        if design.pp == 1:
            return 0
        payload = self.tokens * (self.workload.hidden * 2)
        if design.sequence_parallel:
            payload /= design.tp
        worst = 0
        for stage in range(design.pp - 1 if design.interleave == 1 else design.pp):
            ticks, rest = 0, stage
            for dim, extent in enumerate(self.extents[3]):
                if extent == 1:
                    continue
                carry = rest % extent == extent - 1
                cost = send_cost(
                    design.topology[dim],
                    design.npus_per_dim[dim],
                    self.strides[3][dim],
                    extent if carry else None,
                )
                load = cost.load if self.exact else float(cost.load)
                serial = round(load * (payload * self.rate(design.bandwidth[dim])))
                ticks += serial + cost.hops * design.latency[dim]
                if not carry:
                    break
                rest //= extent
            worst = max(worst, ticks)
        return worst

    # parameters

    def owned(self, parameters: int, replicated: int) -> Fraction | float:
        return self.real(parameters - replicated) / self.design.tp + replicated

    def buckets(self) -> dict[str, Fraction | float]:
        w = self.workload
        head = w.head_parameters
        if w.tied_embeddings and self.design.pp > 1:
            head += w.output_matrix_parameters
        return {
            "embedding": self.owned(w.embedding_parameters, w.embedding_replicated_parameters),
            "layer": self.owned(w.layer_parameters, w.layer_replicated_parameters),
            "head": self.owned(head, w.norm_parameters),
        }

    # host memory

    def host_ticks(self, moved: Fraction | float) -> int:
        return round(moved * self.rate(HOST_BYTES_PER_S))

    def host_weights(self) -> Fraction | float:
        """Bytes of a layer's weights that lie in host memory."""
        design = self.design
        drops = design.zero_stage == 3 and (design.pp == 1 or self.micro_batches == 1)
        return design.weight_offload * self.buckets()["layer"] * 2 / (design.dp * design.sp if drops else 1)

    def host_passes(self) -> tuple[int, int]:
        """Forward, weights come while activations go; backward, both come."""
        design, w = self.design, self.workload
        split = design.tp if design.sequence_parallel else 1
        inputs, masks = 4 * w.hidden * 2, 2 * w.hidden if w.dropout else 0
        inside = (2 * w.query_width + 2 * w.kv_width + (3 if w.gated_mlp else 2) * w.ffn) * 2
        kept = self.real(inputs + masks) / split + self.real(inside) / design.tp
        if design.recompute == "full":
            kept = self.real(w.hidden * 2) / split
        activations = design.activation_offload * self.tokens * kept
        weights = self.host_weights()
        return self.host_ticks(max(weights, activations)), self.host_ticks(weights + activations)

    def host_step(self) -> int:
        """Optimizer states come and go at once, updated weights go behind them."""
        design = self.design
        states = design.optimizer_offload * self.buckets()["layer"] * 12
        states = states / (design.dp * design.sp if design.zero_stage else 1)
        return self.host_ticks(max(self.stages) * (states + self.host_weights()))

    # the step

    def _step(self) -> int:
        design, w = self.design, self.workload
        forward, backward = self.kernels(forward_layer(w)), self.kernels(backward_layer(w))
        again = {"none": 0, "selective": self.kernels(selective_recompute(w)), "full": forward}[design.recompute]
        ends = {"embedding": embedding_operators(w), "head": head_operators(w)}
        stream = self.tokens * (w.hidden * 2)
        if design.sequence_parallel:
            reduce = self.collective("reduce_scatter", "tp", stream)
            gather = self.collective("all_gather", "tp", stream)
        else:
            reduce, gather = self.collective("all_reduce", "tp", stream), 0
        keys = design.micro_batch * self.sequence * self.real(2 * w.kv_width * 2) / design.tp
        keys_gather = self.collective("all_gather", "sp", keys)
        keys_reduce = self.collective("reduce_scatter", "sp", keys)
        tensor_calls = {"none": 4, "selective": 4, "full": 6}[design.recompute]
        key_calls = {"none": 2, "selective": 3, "full": 3}[design.recompute]
        text = 0 if w.is_vision else 1

        layer_forward = forward + 2 * (reduce + gather) + keys_gather
        layer_backward = backward + again + (tensor_calls - 2) * (reduce + gather)
        layer_backward += (key_calls - 1) * keys_gather + keys_reduce
        alone = layer_forward, layer_backward
        layer_forward, layer_backward = (max(way) for way in zip(alone, self.host_passes(), strict=True))
        late = layer_forward + layer_backward - sum(alone)
        work = {
            "layer": (layer_forward, layer_backward),
            "embedding": (
                self.kernels(ends["embedding"].forward) + text * reduce,
                self.kernels(ends["embedding"].backward) + text * gather,
            ),
            "head": (
                self.kernels(ends["head"].forward) + text * gather,
                self.kernels(ends["head"].backward) + text * reduce,
            ),
        }
        jobs = [self.jobs(stage) for stage in range(design.pp)]
        ways = [self.ways(stage, stage_jobs, work) for stage, stage_jobs in enumerate(jobs)]
        candidates = [stage for stage in (0, design.pp - 2, design.pp - 1) if 0 <= stage < design.pp]
        last_ends = {stage: self.last_ends(ways, stage) for stage in candidates}
        if self.interleaved:
            last_ends = {stage: self.pieces(work).ends(stage) for stage in candidates}
        slowest = max(candidates, key=lambda stage: (last_ends[stage][0], -stage))
        pipeline, own = last_ends[slowest][0], sum(ways[slowest])
        m, layers = self.micro_batches, self.stages[slowest]
        end_jobs = [job for job in jobs[slowest] if job != "layer"]
        self.terms = {
            "forward compute": m * layers * forward,
            "backward compute": m * layers * backward,
            "recompute": m * layers * again,
            "embedding and head": m
            * sum(self.kernels(ends[job].forward) + self.kernels(ends[job].backward) for job in end_jobs),
            "tensor-parallel communication": m * (layers * tensor_calls + text * len(end_jobs)) * (reduce + gather),
            "sequence-parallel communication": m * layers * (key_calls * keys_gather + keys_reduce),
            "pipeline sends": m * (own - sum(sum(work[job]) for job in jobs[slowest])),
            "pipeline bubble": pipeline - m * own,
        }
        self._add_sharding(jobs, work, {stage: ends[1] for stage, ends in last_ends.items()} | {0: pipeline})
        self.terms["offload (exposed)"] = m * layers * late + max(0, self.host_step() - self.terms["optimizer"])
        return sum(self.terms.values())

    def ways(self, stage: int, jobs: list[str], work: dict[str, tuple[int, int]]) -> tuple[int, int]:
        """A pass each way through a stage with its messages; none leaves the ends of the model."""
        pieces, last = self.design.interleave, self.design.pp - 1
        out = (pieces - (stage == last)) * self.send(), (pieces - (stage == 0)) * self.send()
        return tuple(sum(work[job][way] for job in jobs) + (out[way] if last else 0) for way in (0, 1))

    def pieces(self, work: dict[str, tuple[int, int]]) -> Pieces:
        """Passes of every interleaved piece; none leaves the ends of the model."""
        every, last = self.design.interleave, len(self.stages) - 1
        rows: list[list[list[int]]] = [[], []]
        for way, (stage, layers) in product((0, 1), enumerate(cut(list(self.stages), every))):
            ticks = [count * work["layer"][way] + self.send() for count in layers]
            ticks[0] += (work["embedding"][way] - way * self.send()) * (stage == 0)
            ticks[-1] += (work["head"][way] - (1 - way) * self.send()) * (stage == last)
            rows[way].append(ticks)
        return Pieces(*rows, self.micro_batches)

    def last_ends(self, ways: list[tuple[int, int]], stage: int) -> tuple[int, int]:
        """When the last backward pass of the first stage, and of this stage, can be done at the earliest."""
        m, (forward, backward) = self.micro_batches, ways[stage]
        ahead = min(m - 1, len(ways) - 1 - stage)
        after = sum(map(sum, ways[stage + 1 :]))
        idle = [max(0, after - ahead * way) for way in (forward, backward)]
        waits = sum(way for way, _ in ways[:stage]) + (sum(idle) if m - 1 > ahead else max(idle))
        up = sum(way for _, way in ways[:stage])
        return m * (forward + backward) + waits + up, m * (forward + backward) + waits

    @property
    def interleaved(self) -> bool:
        return self.design.interleave > 1 and self.design.pp > 1

    def first_piece(self, jobs: list[str]) -> list[str]:
        layers = stage_layers(jobs.count("layer"), self.design.interleave)[0]
        return ["embedding"] * ("embedding" in jobs) + ["layer"] * layers

    def jobs(self, stage: int) -> list[str]:
        jobs = ["layer"] * self.stages[stage]
        if stage == 0:
            jobs = ["embedding", *jobs]
        if stage == self.design.pp - 1:
            jobs = [*jobs, "head"]
        return jobs

    def _add_sharding(self, jobs: list[list[str]], work: dict[str, tuple[int, int]], last_ends: dict[int, int]) -> None:
        design = self.design
        buckets = self.buckets()
        kind = "all_reduce" if design.zero_stage == 0 else "reduce_scatter"
        reduce = {name: self.collective(kind, "data", size * 4) for name, size in buckets.items()}
        gather = {
            name: self.collective("all_gather", "data", size * 2) if design.zero_stage else 0
            for name, size in buckets.items()
        }
        per_batch = design.zero_stage == 3 and design.pp == 1
        times = self.micro_batches if per_batch else 1
        shards = design.dp * design.sp if design.zero_stage else 1
        self.terms["weight gathers (exposed)"] = times * self.exposed(jobs[0], work, gather, reduce)[0]
        settled = []
        for stage, end in last_ends.items():
            gradients = times * self.exposed(jobs[stage], work, gather, reduce)[1]
            settled.append(end + gradients - (self.send() if stage and design.overlap_gradients else 0))
            if self.interleaved:
                settled.append(self.pieces(work).reduced(stage, sum(reduce[job] for job in jobs[stage])))
        self.terms["gradient synchronisation (exposed)"] = max(settled) - last_ends[0]
        ticks = 30 * self.rate(self.npu.memory_bytes_per_s) / shards
        self.terms["optimizer"] = max(round(sum(buckets[job] for job in own) * ticks) for own in jobs)

    def exposed(self, jobs, work, gather, reduce) -> tuple[int, int]:
        """Forward and backward passes of one stage; of an interleaved one, of its first piece, and what blocks."""
        if not self.interleaved:
            return self.exposed_beside(jobs, work, gather, reduce)
        design, own = self.design, self.first_piece(jobs)
        rest = (Counter(jobs) - Counter(own)).elements()
        blocking_gathers = (1 - design.overlap_weights) * (1 + (design.zero_stage == 3 and self.micro_batches == 1))
        gathers, gradients = self.exposed_beside(own, work, gather, reduce)
        for job in rest:
            gathers += gather[job] * blocking_gathers
            gradients += reduce[job] * (1 - design.overlap_gradients)
        return gathers, gradients

    def exposed_beside(self, jobs, work, gather, reduce) -> tuple[int, int]:
        """Forward and backward passes bucket by bucket."""
        design = self.design
        beside_gather, beside_reduce = design.overlap_weights, design.overlap_gradients
        forward = [(gather[job], work[job][0], 0) for job in jobs]
        drops = design.zero_stage == 3 and (design.pp == 1 or self.micro_batches == 1)
        back_gather = [gather[job] if drops and job != "embedding" else 0 for job in reversed(jobs)]
        plain = [(g, work[job][1], 0) for g, job in zip(back_gather, reversed(jobs), strict=True)]
        full = [(g, w, reduce[job]) for (g, w, _), job in zip(plain, reversed(jobs), strict=True)]
        gathers = flow_shop(forward, beside_gather, 0) - sum(w for _, w, _ in forward)
        gathers += flow_shop(plain, beside_gather, 0) - sum(w for _, w, _ in plain)
        both = max(flow_shop(full, beside_gather, beside_reduce), sum(g + r for g, _, r in full))
        return gathers, both - flow_shop(plain, beside_gather, 0)


def flow_shop(jobs: list[tuple[int, int, int]], beside_gather: int, beside_reduce: int) -> int:
    """Simulate (gather, work, reduce) jobs on three machines in order; what is not beside work is part of it."""
    gathered = worked = reduced = 0
    for gather, work, reduce in jobs:
        gathered += gather if beside_gather else 0
        blocking = (0 if beside_gather else gather) + work + (0 if beside_reduce else reduce)
        worked = max(worked, gathered) + blocking
        reduced = max(reduced, worked) + (reduce if beside_reduce else 0)
    return reduced
