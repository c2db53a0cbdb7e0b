"""The software that runs a job: what one generation of a training framework costs beyond its arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cosmic_opt.errors import SpecError, Where, nearest

WEIGHT_BYTES = 2
"""Per parameter in mixed precision; where parameters are 8 bits themselves, both orientations of them."""
ATTENTION_KINDS = ("unfused", "flash")
CONTEXT_SCHEDULES = ("balanced", "ring")
CONTEXT_EXCHANGES = ("ring", "all_gather", "all_to_all")
"""How the ranks of a context group see each other's keys: blocks pass from rank to rank beside attention; they are
gathered before it; or heads are exchanged for tokens."""
TENSOR_OVERLAPS = ("none", "user_buffer", "async")
"""How tensor-parallel collectives may overlap; a stack gives each mode the share that stays exposed."""
GRADIENT_OVERLAPS = ("none", "window")
FRAMEWORKS = ("megatron-core", "torchtitan", "maxtext")
"""Frameworks whose options a design can be typed in."""
SELECTIVE_MEANINGS = ("attention", "operators")
SHARES = ("hidden_window", "least_exposed", "fsdp_exposed", "pipeline_exposed", "dispatch_exposed")
"""Numbers of `Overlap` between 0 and 1."""


@dataclass(frozen=True, slots=True)
class AttentionKernel:
    """The attention kernel a framework ships; a framework does not run a kernel younger than itself.

    Attributes:
        kind: "unfused" writes the scores to memory, "flash" does not.
        forward_fraction: Share of the dense bf16 peak by the start of the device's name; a device that is not named
            has its own fitted fraction, the latest kernel.
        backward_share: Backward over forward fraction of a flash kernel.
        square_share: Unfused: fraction of its two products over the device's matrix fraction.
    """

    kind: str
    forward_fraction: Mapping[str, float]
    backward_share: float
    square_share: float

    def __post_init__(self) -> None:
        _one_of(self.kind, ATTENTION_KINDS, "attention.kind")
        for name in ("backward_share", "square_share"):
            _above_zero(getattr(self, name), f"attention.{name}")
        for device, fraction in self.forward_fraction.items():
            _above_zero(fraction, f"attention.forward_fraction.{device}")

    def fraction_on(self, device: str) -> float | None:
        """Return the forward fraction on a device by the longest prefix of its name; None: the device's own kernel."""
        known = [prefix for prefix in self.forward_fraction if device.startswith(prefix)]
        return self.forward_fraction[max(known, key=len)] if known else None


@dataclass(frozen=True, slots=True)
class HostCost:
    """Time of the process that launches kernels, seconds.

    Attributes:
        launch_s: One kernel launch.
        node_skew: Factor on it where a tp group fills the node, so that processes of both sockets wait for each other.
        forward_launches: Launches of one layer forward; `backward_launches` backward.
        micro_batch_s: Once a micro-batch on the stage with the head: embedding, loss, data.
        exchange_s: Once a micro-batch under a pipeline: synchronous send and receive.
        optimizer_s: Once a step.
        routed_forward_s: One expert layer forward whose token counts the host reads; `routed_backward_s` likewise.
    """

    launch_s: float
    node_skew: float
    forward_launches: float
    backward_launches: float
    micro_batch_s: float
    exchange_s: float
    optimizer_s: float
    routed_forward_s: float
    routed_backward_s: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """What share of communication the framework leaves exposed.

    Attributes:
        gradient: "none" reduces after the last backward; "window" hides behind the last micro-batch.
        hidden_window: Share of that micro-batch's time communication can hide behind.
        least_exposed: Share of gradient traffic that stays exposed under an interleaved schedule.
        fsdp_exposed: xi of layer = max(compute, traffic) + xi min(compute, traffic).
        pipeline_exposed: Exposed share of sends between stages under an interleaved schedule.
        tensor_exposed: Exposed share of tensor-parallel collectives by the job's overlap mode.
        dispatch_exposed: Exposed share of expert dispatch under an interleaved schedule.
    """

    gradient: str
    hidden_window: float
    least_exposed: float
    fsdp_exposed: float
    pipeline_exposed: float
    tensor_exposed: Mapping[str, float]
    dispatch_exposed: float

    def __post_init__(self) -> None:
        _one_of(self.gradient, GRADIENT_OVERLAPS, "overlap.gradient")
        for mode, share in self.tensor_exposed.items():
            _one_of(mode, TENSOR_OVERLAPS, "overlap.tensor_exposed")
            _share(share, f"overlap.tensor_exposed.{mode}")
        for name in SHARES:
            _share(getattr(self, name), f"overlap.{name}")


@dataclass(frozen=True, slots=True)
class Stack:
    """One software generation, an explicit input of every calibrated prediction.

    Attributes:
        elementwise_fraction: Share of peak memory bandwidth its norms, residuals and activations reach.
        eager_traffic: Factor on their bytes when the graph is not compiled.
        loss_bytes: Memory traffic per logit of the loss, forward and backward.
        gradient_bytes: Bytes per gradient in the data-parallel reduction, by precision name; `default` else.
        held_gradient_bytes: Bytes per gradient in memory, where micro-batches add to it.
        adam_bytes: Bytes per parameter the optimizer keeps: master weight and two moments.
        selective: What selective recompute runs again: the "attention" core, or most "operators".
        single_nic_sharding: Weight shards travel through one network card per rank group, nothing hidden.
        splits_by_stages: A pipeline splits its batch into as many micro-batches as it has stages unless told
            otherwise; else a micro-batch is one sequence.
        scattered_sends: Stages send 1/tp of the activations and gather them inside the node.
        tensor_mode: Default overlap mode of tensor parallelism, a key of `overlap.tensor_exposed`.
        context_schedule: How context parallelism shares causal attention: "balanced" (zigzag) or "ring", whose last
            rank does (2 cp - 1) / cp of the mean.
        context_exchange: How context groups exchange keys and values unless told otherwise.
        context_stated: Every release has that schedule; otherwise a job must state it to be predicted well.
        fused_experts: Block-scaled experts run as fused kernels: dispatch writes tokens in expert order, grouped
            products activate and cast inside, and the host does not read token counts.
        straggler_per_doubling: Relative slow-down per doubling of GPUs above 512.
        caches_weights: Weights are cast to narrow operands once a step and kept, not for each micro-batch.
        pads_vocabulary: A vocabulary that no rank splits is padded to aligned rows, too.
        repeats_keys: Key heads are copied to one per query head before attention, which the exchange then moves, too.
        context_blocks: After an all_gather of keys, attention still goes block by block as in a ring, whose gradients
            pass from rank to rank; else it is one kernel over all keys, whose gradients are reduced at once.
        whole_rounds: An interleaved schedule of micro-batches that are no multiple of the stages is refused.
        context_sum_bytes: Bytes per element of the sums of partial outputs and gradients over blocks.
        sends_once_per_rank: Dispatch sends a token once to each rank that holds an expert of it, and combines there
            (DeepEP, HybridEP); else once for each of its experts.
        expert_bias_bytes: Traffic of adding biases of routed experts, which routing weights scale: per element of their
            outputs, forward and backward. None inside fused experts.
        framework: One of `FRAMEWORKS`, empty where the options of its framework are not known.
        shipped: Whether it comes with the program; nothing is known of how far a stack of one's own is off.
    """

    name: str
    elementwise_fraction: float
    eager_traffic: float
    loss_bytes: float
    gradient_bytes: Mapping[str, float]
    held_gradient_bytes: float
    adam_bytes: float
    selective: str
    single_nic_sharding: bool
    splits_by_stages: bool
    scattered_sends: bool
    tensor_mode: str
    context_schedule: str
    context_exchange: str
    context_stated: bool
    fused_experts: bool
    straggler_per_doubling: float
    attention: AttentionKernel
    host: HostCost
    overlap: Overlap
    caches_weights: bool = False
    pads_vocabulary: bool = False
    repeats_keys: bool = False
    context_blocks: bool = False
    whole_rounds: bool = False
    sends_once_per_rank: bool = False
    context_sum_bytes: float = 2.0
    expert_bias_bytes: tuple[float, float] = (0.0, 0.0)
    framework: str = ""
    shipped: bool = True

    def __post_init__(self) -> None:
        _above_zero(self.elementwise_fraction, "elementwise_fraction")
        if "default" not in self.gradient_bytes:
            raise SpecError(
                "gradient_bytes has no default", where=Where(key="gradient_bytes"), hint="write {fp16: 2, default: 4}"
            )
        _one_of(self.selective, SELECTIVE_MEANINGS, "selective")
        _one_of(self.context_schedule, CONTEXT_SCHEDULES, "context_schedule")
        _one_of(self.context_exchange, CONTEXT_EXCHANGES, "context_exchange")
        _above_zero(self.context_sum_bytes, "context_sum_bytes")
        _one_of(self.tensor_mode, tuple(self.overlap.tensor_exposed), "tensor_mode")
        if self.framework:
            _one_of(self.framework, FRAMEWORKS, "framework")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a job stores and multiplies numbers.

    Attributes:
        precision: The device's matrix precision: fp16, bf16, fp8 or fp4.
        cast_bytes: Memory traffic per GEMM operand element to reach it; 0 at 16 bits.
        matmul_share: Fraction of the device's matrix fraction this scaling granularity reaches.
        gather_bytes: Bytes per element of an all-gather between sequence-parallel ranks: cast before it, or after.
        block_scaled: Every few elements share a scale (MXFP8, NVFP4).
        user_buffers: Tensor-parallel collectives can move its operands through user buffers.
        cast_weight_bytes: Of both orientations of a cast weight, where a stack keeps them beside its 16 bits.
        narrow_parameters: A distributed optimizer writes parameters in this width: there is no 16-bit copy then.
        expert_groups: Experts can be sharded over ranks (expert parallelism).
        modules_again: Backward can run single modules of a layer again (`recomputed_modules`).
    """

    name: str
    precision: str
    cast_bytes: float
    matmul_share: float
    gather_bytes: float
    block_scaled: bool
    user_buffers: bool
    cast_weight_bytes: float
    narrow_parameters: bool
    expert_groups: bool
    modules_again: bool

    @property
    def operand_bytes(self) -> float:
        """Bytes per element of a matrix operand kept for backward; every recipe that casts keeps 8 bits."""
        return 1.0 if self.cast_bytes else 2.0


def kept_cast_bytes(stack: Stack, recipe: Recipe) -> tuple[float, float]:
    """Return the bytes kept beside a weight's own two: (with one optimizer a replica, with a distributed one)."""
    kept = recipe.cast_weight_bytes if stack.caches_weights else 0.0
    return kept, max(kept - WEIGHT_BYTES, 0.0) if recipe.narrow_parameters else kept


def has_block_parameters(stack: Stack, recipe: Recipe) -> bool:
    """Return whether parameters of a distributed optimizer are block-scaled themselves.

    Their gather reuses the buffer of gradients, which is right only where both travel beside compute (Megatron-Core
    asserts so, DistributedDataParallelConfig).
    """
    return stack.caches_weights and recipe.block_scaled and recipe.narrow_parameters


def default_tensor_mode(stack: Stack, recipe: Recipe, *, sequence_parallel: bool, latent: bool) -> str:
    """Return how a stack's tensor-parallel collectives overlap unless told otherwise.

    User buffers pipeline gathers and scatters with products: not without sequence parallelism, whose traffic these are
    (Megatron-Core asserts so), not in a precision without buffers, and not with `latent` attention, whose maps have
    none and switch them off (TELinear in Megatron-Core).
    """
    possible = stack.tensor_mode != "user_buffer" or (recipe.user_buffers and sequence_parallel and not latent)
    return stack.tensor_mode if possible else "none"


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the measured rows of one group of served jobs have: formats of numbers and kinds of load, by name."""

    precisions: frozenset[str]
    loads: frozenset[str]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How well groups of measured steps were predicted.

    Attributes:
        p90: 90th percentile of the absolute relative error by group, measured on rows used for fitting.
        devices: Devices with measured steps.
        most_gpus: Largest measured job; `most_tokens` its longest sequence. Beyond is extrapolation.
        most_degrees: Largest degree of each kind of parallelism ("cp", "ep", ...) that several measured jobs reach;
            a kind that is not named has no limit.
        covers: What the rows of each group of served jobs have, groups too small for a percentile included.
        few: Measured training steps of each group that has some, but too few for a percentile.
    """

    p90: Mapping[str, float]
    devices: frozenset[str]
    most_gpus: int
    most_tokens: int
    most_degrees: Mapping[str, int] = field(default_factory=dict)
    covers: Mapping[str, Coverage] = field(default_factory=dict)
    few: Mapping[str, int] = field(default_factory=dict)


def _above_zero(value: float, key: str) -> None:
    if not value > 0:
        raise SpecError(f"{key} is {value}", where=Where(key=key), hint="give more than zero, at most about 1")


def _share(value: float, key: str) -> None:
    if not 0 <= value <= 1:
        raise SpecError(f"{key} is {value}", where=Where(key=key), hint="give a share between 0 and 1")


def _one_of(value: str, known: tuple[str, ...], key: str) -> None:
    if value not in known:
        raise SpecError(f"unknown {key} {value!r}", where=Where(key=key), hint=nearest(value, known))
