"""Operators against the shape algebra they must add up to."""

from dataclasses import replace

import pytest

from cosmic_opt.workloads.operators import (
    Operator,
    attended_context,
    backward_layer,
    embedding_operators,
    forward_layer,
    head_operators,
    selective_recompute,
)
from cosmic_opt.workloads.transformer import Transformer
from tests.unit.workloads.shapes import ALL, GPT3_175B, LLAMA3_8B, VIT_BASE

every_workload = pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.name)


def flops(operators: tuple[Operator, ...], tokens: int, context: int) -> int:
    return sum(tokens * (one.flops_per_token + one.flops_per_token_per_context * context) for one in operators)


def elements(operators: tuple[Operator, ...]) -> int:
    memory = [one for one in operators if one.kind == "memory"]
    return sum(one.replicated_elements_per_token + one.sharded_elements_per_token for one in memory)


@every_workload
def test_forward_flops_equal_the_shape_algebra(workload: Transformer) -> None:
    assert flops(forward_layer(workload), 4096, 2048) == workload.layer_flops(4096, 2048)


def test_a_gpt_layer_costs_24_h_squared_plus_4_s_h_flops_per_token() -> None:
    h, s = 12288, 2048
    assert flops(forward_layer(GPT3_175B), 1, s) == 24 * h**2 + 4 * s * h


@every_workload
def test_backward_doubles_the_products_and_fused_attention_costs_two_and_a_half(
    workload: Transformer,
) -> None:
    forward, backward = forward_layer(workload), backward_layer(workload)
    assert flops(backward, 1, 0) == 2 * flops(forward, 1, 0)
    attention = flops(forward, 1, 1000) - flops(forward, 1, 0)
    assert 2 * (flops(backward, 1, 1000) - flops(backward, 1, 0)) == 5 * attention


@every_workload
def test_forward_reads_every_parameter_of_the_layer_once(workload: Transformer) -> None:
    layer = forward_layer(workload)
    replicated = sum(one.replicated_weight_elements for one in layer)
    assert replicated == workload.layer_replicated_parameters
    assert replicated + sum(one.weight_elements for one in layer) == workload.layer_parameters


def test_gpt_elementwise_traffic_is_18_h_forward_and_24_h_backward() -> None:
    # two norms 2h, two residuals 3h, gelu 2 x 4h; backward: norms 3h, residuals 3h, gelu 3 x 4h
    h = GPT3_175B.hidden
    assert elements(forward_layer(GPT3_175B)) == 18 * h
    assert elements(backward_layer(GPT3_175B)) == 24 * h


def test_a_gated_mlp_moves_both_branches() -> None:
    plain = replace(LLAMA3_8B, gated_mlp=False)
    assert elements(forward_layer(LLAMA3_8B)) - elements(forward_layer(plain)) == LLAMA3_8B.ffn
    assert elements(backward_layer(LLAMA3_8B)) - elements(backward_layer(plain)) == 2 * LLAMA3_8B.ffn


def test_rotary_embedding_exists_only_without_learned_positions() -> None:
    assert any(one.name == "rotary" for one in forward_layer(LLAMA3_8B))
    assert not any(one.name == "rotary" for one in forward_layer(GPT3_175B))


def test_grouped_queries_shrink_attention_traffic_not_its_flops() -> None:
    (full,) = selective_recompute(replace(LLAMA3_8B, kv_heads=32))
    (grouped,) = selective_recompute(LLAMA3_8B)
    assert grouped.flops_per_token_per_context == full.flops_per_token_per_context
    assert full.sharded_elements_per_token - grouped.sharded_elements_per_token == 2 * (4096 - 1024)


def test_selective_recompute_is_the_attention_core() -> None:
    assert [one.kind for one in selective_recompute(GPT3_175B)] == ["attention"]


def test_causal_attention_counts_half_only_when_asked_and_only_if_causal() -> None:
    assert attended_context(GPT3_175B, 2048, causal_half=False) == 2048
    assert attended_context(GPT3_175B, 2048, causal_half=True) == 1024
    assert attended_context(VIT_BASE, 196, causal_half=True) == 196


def test_logits_cost_6_h_v_flops_per_token() -> None:
    head = head_operators(GPT3_175B)
    assert flops(head.forward + head.backward, 1, 2048) == 6 * 12288 * 50257


def test_the_loss_moves_twelve_bytes_per_logit() -> None:
    head = head_operators(GPT3_175B)
    loss = [one for one in head.forward + head.backward if one.name.startswith("loss")]
    assert 2 * sum(one.sharded_elements_per_token for one in loss) == 12 * 50257


def test_an_image_head_is_spread_over_the_tokens_rounded_up() -> None:
    logits = next(one for one in head_operators(VIT_BASE).forward if one.kind == "gemm")
    exact = VIT_BASE.head_flops(1, 197) - 2 * 197 * 768 * 768
    assert exact <= 197 * logits.flops_per_token < exact + 197


def test_a_patch_projection_has_no_input_gradient() -> None:
    patches = embedding_operators(VIT_BASE)
    assert flops(patches.forward, 1, 0) == flops(patches.backward, 1, 0) == 2 * 768 * 768


def test_a_table_look_up_moves_one_row_per_table() -> None:
    (look_up,) = embedding_operators(GPT3_175B).forward  # token row and position row in, their sum out
    assert look_up.replicated_elements_per_token == 3 * 12288
    (look_up,) = embedding_operators(LLAMA3_8B).forward
    assert look_up.replicated_elements_per_token == 2 * 4096


@every_workload
def test_operator_names_are_unique_in_a_pass(workload: Transformer) -> None:
    for operators in (forward_layer(workload), backward_layer(workload)):
        names = [one.name for one in operators]
        assert len(set(names)) == len(names)
