"""The operator graph holds the operators, bytes and order that the closed forms count."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from cosmic_opt.workloads.graph import Bucket, Communication, Compute, TrainingGraph, training_graph
from cosmic_opt.workloads.operators import backward_layer, forward_layer, selective_recompute
from cosmic_opt.workloads.parallelism import Parallelism
from cosmic_opt.workloads.training import TrainingJob
from cosmic_opt.workloads.transformer import Transformer

TEXT = Transformer(
    name="text",
    layers=6,
    hidden=1024,
    heads=16,
    kv_heads=4,
    head_dim=64,
    ffn=4096,
    vocabulary=32000,
    positions=2048,
    sequence=2048,
    tied_embeddings=True,
)


def graph(dp: int = 2, tp: int = 2, pp: int = 3, sp: int = 2, **job: object) -> TrainingGraph:
    values = {"global_batch": 16, "sequence": 2048, **job}
    return training_graph(TEXT, TrainingJob(**values), Parallelism(dp, tp, pp, sp))  # type: ignore[arg-type]


def layer(graph: TrainingGraph) -> Bucket:
    return dict(graph.stages[0].buckets)["layer 0"]


def communications(nodes: tuple[object, ...]) -> Counter[tuple[str, str]]:
    return Counter((node.group, node.collective) for node in nodes if isinstance(node, Communication))


def test_a_layer_runs_the_operators_of_the_closed_forms_in_their_order() -> None:
    made = layer(graph())
    for nodes, operators in ((made.forward, forward_layer(TEXT)), (made.backward, backward_layer(TEXT))):
        run = [operator for node in nodes if isinstance(node, Compute) for operator in node.operators]
        assert tuple(run) == operators


@pytest.mark.parametrize(
    ("recompute", "sequence_parallel", "all_reduces", "gathers", "key_gathers"),
    [
        ("none", 0, (2, 2), (0, 0), (1, 1)),
        ("selective", 0, (2, 2), (0, 0), (1, 2)),
        ("full", 1, (0, 0), (2, 4), (1, 2)),
    ],
)
def test_a_layer_synchronises_twice_each_way_and_gathers_keys_before_attention(
    recompute: str,
    sequence_parallel: int,
    all_reduces: tuple[int, int],
    gathers: tuple[int, int],
    key_gathers: tuple[int, int],
) -> None:
    made = layer(graph(recompute=recompute, sequence_parallel=sequence_parallel))
    for way, nodes in enumerate((made.forward, made.backward)):
        found = communications(nodes)
        assert found["tensor", "all_reduce"] == all_reduces[way]
        assert found["tensor", "all_gather"] == found["tensor", "reduce_scatter"] == gathers[way]
        assert found["context", "all_gather"] == key_gathers[way]
        assert found["context", "reduce_scatter"] == way


def test_selective_recompute_runs_attention_again_before_its_gradient() -> None:
    parts = [node.part for node in layer(graph(recompute="selective")).backward if isinstance(node, Compute)]
    assert parts.count("selective") == 1
    again = next(
        node for node in layer(graph(recompute="selective")).backward if getattr(node, "part", "") == "selective"
    )
    assert again.operators == selective_recompute(TEXT)


def test_bytes_are_those_of_a_shard() -> None:
    made = layer(graph(sequence_parallel=1, micro_batch=2, zero_stage=1))
    sizes = {(node.group, node.collective): node.size_bytes for node in made.forward if isinstance(node, Communication)}
    assert sizes["tensor", "all_gather"] == 2 * 2048 // 2 * 1024 * 2
    assert sizes["context", "all_gather"] == Fraction(2 * 2048 * 2 * 4 * 64 * 2, 2)
    owned = Fraction(TEXT.layer_parameters - TEXT.layer_replicated_parameters, 2) + TEXT.layer_replicated_parameters
    assert made.reduce is not None
    assert made.gather is not None
    assert (made.reduce.size_bytes, made.gather.size_bytes) == (owned * 4, owned * 2)


def test_ends_have_their_maps_and_the_last_stage_a_copy_of_a_tied_one() -> None:
    first, *_, last = graph().stages
    assert [name for name, _ in first.buckets] == ["embedding", "layer 0", "layer 1"]
    assert [name for name, _ in last.buckets] == ["layer 4", "layer 5", "head"]
    head = dict(last.buckets)["head"].reduce
    assert head is not None
    owned = Fraction(TEXT.head_parameters + TEXT.output_matrix_parameters - TEXT.norm_parameters, 2)
    assert head.size_bytes == 4 * (owned + TEXT.norm_parameters)


def test_stages_send_to_their_neighbours_only() -> None:
    sends = [(stage.send_forward is not None, stage.send_backward is not None) for stage in graph().stages]
    assert sends == [(True, False), (True, True), (False, True)]


def test_groups_of_one_do_not_communicate() -> None:
    made = graph(dp=1, tp=1, pp=1, sp=1)
    for _, bucket in made.stages[0].buckets:
        assert not communications((*bucket.forward, *bucket.backward))
        assert bucket.gather is bucket.reduce is None


def test_one_forward_one_backward_goes_as_far_ahead_as_stages_follow() -> None:
    made = graph(dp=4)
    text = ["".join("fb"[not forward] + str(index) for forward, index in made.order(stage)) for stage in range(3)]
    assert text == ["f0f1f2b0f3b1b2b3", "f0f1b0f2b1f3b2b3", "f0b0f1b1f2b2f3b3"]


@pytest.mark.parametrize(
    ("pp", "zero_stage", "global_batch", "each", "backward"),
    [(1, 3, 16, True, True), (3, 3, 16, False, False), (3, 3, 2, False, True), (1, 2, 16, False, False)],
)
def test_weights_are_gathered_where_memory_drops_them(
    pp: int, zero_stage: int, global_batch: int, each: bool, backward: bool
) -> None:
    made = graph(pp=pp, zero_stage=zero_stage, global_batch=global_batch)
    assert (made.gathers_each_pass, made.gathers_backward) == (each, backward)


def test_an_interleaved_model_goes_round_the_stages_once_per_piece() -> None:
    made = graph(pp=3, interleave=2)
    names = [name for piece in (0, 1) for stage in made.stages for name, _ in stage.pieces[piece].buckets]
    assert names == ["embedding", *(f"layer {index}" for index in range(6)), "head"]
    sends = [(piece.send_forward, piece.send_backward) for stage in made.stages for piece in stage.pieces]
    assert sum(message is None for pair in sends for message in pair) == 2
    assert made.stages[0].pieces[0].send_backward is made.stages[-1].pieces[-1].send_forward is None


def test_a_single_stage_has_nothing_to_interleave_with() -> None:
    assert graph(pp=1, interleave=2) == graph(pp=1)
