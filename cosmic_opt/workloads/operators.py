"""The operators of a transformer layer, each linear in tokens so that a compiled kernel can cost them.

With context parallelism of degree sp a rank processes T = micro_batch * sequence / sp tokens against a
context of the whole sequence. With tensor parallelism of degree tp the work of one operator on one rank is

    FLOPs    = T * (flops_per_token + flops_per_token_per_context * context) / tp
    elements = T * (replicated_elements_per_token + sharded_elements_per_token / tp)
               + weight_elements / tp + replicated_weight_elements

Megatron sequence parallelism also divides the replicated elements of `memory` operators (norms, residuals) by
tp; a GEMM's input is gathered before it (Korthikanti 2022, section 4.2.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from cosmic_opt.workloads.transformer import Transformer

Kind = Literal["gemm", "attention", "memory"]

_GRADIENT_ELEMENTS = 4  # the fp32 gradient is read and written: 8 bytes, four two-byte elements
_FP32_ELEMENTS = 2  # one fp32 value moves as much as two two-byte elements


@dataclass(frozen=True, slots=True)
class Operator:
    """One kernel of a layer.

    An element is one activation or weight at training precision (2 bytes for bf16); per-token counts are
    elements read plus elements written.

    Attributes:
        kind: "gemm" (dense product), "attention" (fused attention core) or "memory" (no FLOPs that matter).
        flops_per_token: FLOPs per token that divide by tp.
        flops_per_token_per_context: FLOPs per token and attended key; divide by tp.
        replicated_elements_per_token: Activation traffic that does not divide by tp.
        sharded_elements_per_token: Activation traffic that divides by tp.
        weight_elements: Weight traffic once per micro-batch; divides by tp.
        replicated_weight_elements: Weight traffic once per micro-batch; does not divide.
    """

    name: str
    kind: Kind
    flops_per_token: int = 0
    flops_per_token_per_context: int = 0
    replicated_elements_per_token: int = 0
    sharded_elements_per_token: int = 0
    weight_elements: int = 0
    replicated_weight_elements: int = 0


class Passes(NamedTuple):
    """The operators of one part of the model in both directions."""

    forward: tuple[Operator, ...]
    backward: tuple[Operator, ...]


def attended_context(workload: Transformer, sequence: int, *, causal_half: bool) -> int:
    """Return the keys an average token attends to, the `context` of the operators.

    A kernel that skips masked blocks does half the work of a causal model; published FLOP counts (Narayanan
    2021, eq. 3) count the full square.
    """
    return (sequence + 1) // 2 if causal_half and workload.causal else sequence


def forward_layer(workload: Transformer) -> tuple[Operator, ...]:
    """Return the forward operators of one layer in order of execution."""
    return tuple(operator for part in _layer(workload) for operator in part.forward)


def backward_layer(workload: Transformer) -> tuple[Operator, ...]:
    """Return the backward operators of one layer in order of execution.

    Every GEMM has an input and a weight gradient of the forward cost each. The fused attention kernel
    recomputes the scores: five products instead of two, 2.5 times the forward FLOPs (Dao 2022, appendix B).
    """
    return tuple(operator for part in reversed(_layer(workload)) for operator in part.backward)


def selective_recompute(workload: Transformer) -> tuple[Operator, ...]:
    """Return what selective recompute runs again before backward: attention core (Korthikanti 2022)."""
    return _attention(workload).forward


def embedding_operators(workload: Transformer) -> Passes:
    """Return the operators of the first stage's input: a table look-up, or the patch projection of a ViT."""
    hidden = workload.hidden
    if workload.is_vision:  # images need no gradient
        inputs = workload.patch_size**2 * workload.channels
        project = _column_gemm("patch_embedding", inputs, hidden, bias=True)
        place = Operator("position_embedding", "memory", replicated_elements_per_token=3 * hidden)
        return Passes((*project.forward, place), project.backward[1:])
    rows = 2 if workload.positions else 1
    look_up = Operator("embedding", "memory", replicated_elements_per_token=(rows + 1) * hidden)
    scatter = Operator(
        "embedding_weight_gradient",
        "memory",
        replicated_elements_per_token=(1 + rows * _GRADIENT_ELEMENTS) * hidden,
    )
    return Passes((look_up,), (scatter,))


def head_operators(workload: Transformer) -> Passes:
    """Return the operators of the last stage's output: final norm, logits, cross-entropy.

    The loss reads logits and writes fp32 probabilities; its gradient reads those and writes the logits'
    gradient. An image model predicts once a sequence: its counts are spread over the tokens, rounded up.
    """
    every = workload.sequence if workload.is_vision else 1
    outputs = _ceil_div(workload.outputs, every)
    norm = _norm("final_norm", workload)
    logits = _gemm(
        Operator(
            "logits",
            "gemm",
            flops_per_token=_ceil_div(2 * workload.output_matrix_parameters, every),
            replicated_elements_per_token=_ceil_div(workload.hidden, every),
            sharded_elements_per_token=outputs,
            weight_elements=workload.output_matrix_parameters + (workload.classes if workload.is_vision else 0),
        )
    )
    loss = Operator("loss", "memory", sharded_elements_per_token=(1 + _FP32_ELEMENTS) * outputs)
    forward = (*norm.forward, *logits.forward, loss)
    return Passes(forward, (replace(loss, name="loss_gradient"), *logits.backward, *norm.backward))


def _layer(workload: Transformer) -> tuple[Passes, ...]:
    """The parts of one layer in forward order."""
    width = workload.query_width + 2 * workload.kv_width
    branches = 2 if workload.gated_mlp else 1
    mlp_bias = "mlp" in workload.biases
    return (
        _norm("attention_norm", workload),
        _column_gemm("qkv", workload.hidden, width, bias="qkv" in workload.biases),
        *(() if workload.positions else (_rotary(workload),)),
        _attention(workload),
        _row_gemm("attention_output", workload.query_width, workload.hidden, bias="out" in workload.biases),
        _residual("attention_residual", workload),
        _norm("mlp_norm", workload),
        _column_gemm("mlp_up", workload.hidden, branches * workload.ffn, bias=mlp_bias),
        _activation(workload),
        _row_gemm("mlp_down", workload.ffn, workload.hidden, bias=mlp_bias),
        _residual("mlp_residual", workload),
    )


def _norm(name: str, workload: Transformer) -> Passes:
    """Forward reads x and writes y; backward reads x and dy and writes dx."""
    forward = Operator(
        name,
        "memory",
        replicated_elements_per_token=2 * workload.hidden,
        replicated_weight_elements=workload.norm_parameters,
    )
    backward = Operator(
        f"{name}_gradient",
        "memory",
        replicated_elements_per_token=3 * workload.hidden,
        replicated_weight_elements=(1 + _GRADIENT_ELEMENTS) * workload.norm_parameters,
    )
    return Passes((forward,), (backward,))


def _rotary(workload: Transformer) -> Passes:
    """Reads and writes queries and keys; backward rotates their gradients back."""
    elements = 2 * (workload.query_width + workload.kv_width)
    forward = Operator("rotary", "memory", sharded_elements_per_token=elements)
    return Passes((forward,), (replace(forward, name="rotary_gradient"),))


def _attention(workload: Transformer) -> Passes:
    """Forward reads q, k, v and writes o; backward reads q, k, v, o, do and writes dq, dk, dv."""
    forward = Operator(
        "attention",
        "attention",
        flops_per_token_per_context=workload.attention_flops_per_key,
        sharded_elements_per_token=2 * workload.query_width + 2 * workload.kv_width,
    )
    backward = Operator(
        "attention_gradient",
        "attention",
        flops_per_token_per_context=workload.attention_flops_per_key * 5 // 2,
        sharded_elements_per_token=4 * workload.query_width + 4 * workload.kv_width,
    )
    return Passes((forward,), (backward,))


def _residual(name: str, workload: Transformer) -> Passes:
    """Forward adds a branch to the stream; backward adds the branch's gradient to the stream's."""
    forward = Operator(name, "memory", replicated_elements_per_token=3 * workload.hidden)
    return Passes((forward,), (replace(forward, name=f"{name}_gradient"),))


def _activation(workload: Transformer) -> Passes:
    """Forward reads each branch and writes one; backward also reads dy and writes one gradient per branch."""
    branches = 2 if workload.gated_mlp else 1
    forward = Operator("activation", "memory", sharded_elements_per_token=(branches + 1) * workload.ffn)
    backward = Operator("activation_gradient", "memory", sharded_elements_per_token=(2 * branches + 1) * workload.ffn)
    return Passes((forward,), (backward,))


def _column_gemm(name: str, inputs: int, outputs: int, *, bias: bool) -> Passes:
    """A map whose output columns are split over tp: whole input, sharded output."""
    forward = Operator(
        name,
        "gemm",
        flops_per_token=2 * inputs * outputs,
        replicated_elements_per_token=inputs,
        sharded_elements_per_token=outputs,
        weight_elements=inputs * outputs + (outputs if bias else 0),
    )
    return _gemm(forward)


def _row_gemm(name: str, inputs: int, outputs: int, *, bias: bool) -> Passes:
    """A map whose input rows are split over tp: sharded input, whole (partial-sum) output."""
    forward = Operator(
        name,
        "gemm",
        flops_per_token=2 * inputs * outputs,
        replicated_elements_per_token=outputs,
        sharded_elements_per_token=inputs,
        weight_elements=inputs * outputs,
        replicated_weight_elements=outputs if bias else 0,
    )
    return _gemm(forward)


def _gemm(forward: Operator) -> Passes:
    """Add dx = dy W' (forward's cost) and dW = x' dy, accumulated into the fp32 gradient."""
    input_gradient = replace(forward, name=f"{forward.name}_input_gradient")
    weight_gradient = replace(
        forward,
        name=f"{forward.name}_weight_gradient",
        weight_elements=_GRADIENT_ELEMENTS * forward.weight_elements,
        replicated_weight_elements=_GRADIENT_ELEMENTS * forward.replicated_weight_elements,
    )
    return Passes((forward,), (input_gradient, weight_gradient))


def _ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
