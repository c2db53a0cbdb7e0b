"""The software that serves a model: what one generation of an inference engine costs beyond its arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from cosmic_opt.errors import SpecError, Where


@dataclass(frozen=True, slots=True)
class EngineHost:
    """Time of the process that schedules, samples and launches, seconds; nothing of it hides behind the device.

    Attributes:
        step_s: One pass of the model.
        sequence_s: Each sequence of a pass: its scheduling, sampling and detokenisation.
        tensor_s: One pass when tp > 1: the ranks meet.
    """

    step_s: float
    sequence_s: float
    tensor_s: float


@dataclass(frozen=True, slots=True)
class DecodeAttention:
    """The kernel that reads the cache for one new token of each sequence.

    Attributes:
        launch_s: Its floor inside a captured graph.
        head_bytes_per_s: Rate at which the one thread block of a sequence and query head reads its keys and values;
            infinite where a long context is split over blocks.
        memory_share: Share of the rate the device's best kernel reaches, by the start of the device's name
            (`share_on`); 1 on a device without a relative. Above 1 where passes after the first find keys in the
            chip's cache, at most `grouped_reads`.
        grouped_reads: How often, at most, keys and values pass that several query heads share; 1 where one block
            serves the group. Heads that share nothing pass once.
        narrow_reads: Factor on that time for a cache of fewer than 16 bits, which the kernel widens; 1 at full rate.
    """

    launch_s: float
    head_bytes_per_s: float
    memory_share: Mapping[str, float]
    grouped_reads: float
    narrow_reads: float


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """How an engine fills a device.

    Attributes:
        share: Share of the device's memory it uses.
        share_of_free: The share is of what weights and workspace leave free, not of the whole.
        workspace_bytes: Activations, graphs and communication buffers in it.
        block_tokens: Tokens of one page of the cache; a sequence wastes half a page on average.
        output_share: Share of its output a sequence is counted with when admission decides whether another one fits;
            1 where no sequence is ever evicted.
        most_sequences: Sequences one tp group serves at once, the engine's own default.
    """

    share: float
    share_of_free: bool
    workspace_bytes: float
    block_tokens: int
    output_share: float
    most_sequences: int


@dataclass(frozen=True, slots=True)
class Engine:
    """One generation of an inference engine, an explicit input of every serving prediction.

    Attributes:
        matmul_share: Share of the device's own matrix rate its products reach, by the start of the device's name
            (`share_on`); 1 on a device without a relative, for which the vendor's library is tuned.
        layer_kernels: Kernels of one layer beside products, attention and collectives: norms, rotation, cache write,
            activation, residuals.
        kernel_s: Gap in front of each kernel, small kernels' own time included.
        elementwise_fraction: Share of memory bandwidth the small kernels reach once they are long.
        prefill_fraction: Share of the matrix peak of its fused attention, by the start of the device's name
            (`share_on`); a device without a relative runs its latest kernel.
        weight_only_fraction: Share of memory bandwidth at which weights narrower than the arithmetic are read.
        expert_rows: Tile height to which the rows of an expert are rounded.
        overlaps_stages: Micro-batches keep all pipeline stages busy; otherwise a batch passes them one by one.
        fused_clamped_gate: It has one kernel for a gate that is clamped, scaled and shifted; else that is a chain.
        shipped: Whether it comes with the program; nothing is known of how far an engine of one's own is off.
        overlaps_host: The host prepares a step while the device runs the one before: only what outlasts it costs time;
            of a prefill, nothing is hidden.
        quantises_apart: What a narrow product reads is narrowed by a kernel of its own, unless attention or a reduction
            writes it narrow.
        graph_batches: Sequences of the steps it captures, ascending: a smaller batch runs as the next larger of them,
            so a few sequences more may be slower. The batch a server is set up for is captured, too. None: a batch
            runs as it is.
        product_depth_s: Seconds each input of a product adds, by arithmetic: a thread block reads its weights' inputs
            in turn. Measured at 1 and 4 rows with a cold cache, added at any number, not to experts. 0 where it is
            hidden, or in the device's launch.
        releases: Which of its releases this is, as people call them; "" where the file does not say.
    """

    name: str
    host: EngineHost
    attention: DecodeAttention
    memory: EngineMemory
    matmul_share: Mapping[str, float]
    layer_kernels: float
    kernel_s: float
    elementwise_fraction: float
    prefill_fraction: Mapping[str, float]
    weight_only_fraction: float
    expert_rows: int
    overlaps_stages: bool
    fused_clamped_gate: bool = False
    shipped: bool = True
    overlaps_host: bool = False
    quantises_apart: bool = False
    graph_batches: tuple[int, ...] = ()
    product_depth_s: Mapping[str, float] = field(default_factory=dict)
    releases: str = ""

    def __post_init__(self) -> None:
        ascending = sorted(set(self.graph_batches))
        if list(self.graph_batches) != ascending or any(size < 1 for size in ascending):
            raise SpecError(
                f"graph_batches is {list(self.graph_batches)}",
                where=Where(key="graph_batches"),
                hint="give whole numbers above zero, each larger than the one before",
            )
        for key, values in _checked(self).items():
            for value in values:
                if key in AT_LEAST_ONE and 0 < value < 1:
                    raise SpecError(f"{key} is {value}", where=Where(key=key), hint="give one or more")
                if not (value > 0 or (value == 0 and key in MAY_BE_ZERO)):
                    raise SpecError(f"{key} is {value}", where=Where(key=key), hint="give more than zero")
                if key in SHARES and value > 1:
                    hint = "a share of what the device has: give at most one"
                    raise SpecError(f"{key} is {value}", where=Where(key=key), hint=hint)
        _check_cache_rate(self.attention)


SHARES = (
    *("matmul_share", "prefill_fraction", "elementwise_fraction", "weight_only_fraction"),
    *("memory.share", "memory.output_share"),
)
"""Numbers that are at most one; `attention.memory_share` has a bound of its own (`_check_cache_rate`)."""
AT_LEAST_ONE = ("attention.grouped_reads", "attention.narrow_reads", "expert_rows", "memory.block_tokens")
MAY_BE_ZERO = ("memory.output_share",)


def _checked(engine: Engine) -> dict[str, Iterable[float]]:
    """Return the numbers of an engine that have bounds, by the keys of its file."""
    attention, memory = engine.attention, engine.memory
    return {
        "elementwise_fraction": (engine.elementwise_fraction,),
        "weight_only_fraction": (engine.weight_only_fraction,),
        "expert_rows": (engine.expert_rows,),
        "matmul_share": engine.matmul_share.values(),
        "prefill_fraction": engine.prefill_fraction.values(),
        "attention.memory_share": attention.memory_share.values(),
        "attention.head_bytes_per_s": (attention.head_bytes_per_s,),
        "attention.grouped_reads": (attention.grouped_reads,),
        "attention.narrow_reads": (attention.narrow_reads,),
        "memory.share": (memory.share,),
        "memory.output_share": (memory.output_share,),
        "memory.block_tokens": (memory.block_tokens,),
        "memory.most_sequences": (memory.most_sequences,),
    }


def _check_cache_rate(attention: DecodeAttention) -> None:
    """Refuse keys that are read faster than once from memory and at no cost in every further pass."""
    key, most = "attention.memory_share", attention.grouped_reads
    for share in attention.memory_share.values():
        if share > most:
            hint = f"at most grouped_reads, {most:g}: only passes after the first may be found in the chip's cache"
            raise SpecError(f"{key} is {share}", where=Where(key=key), hint=hint)


def share_on(shares: Mapping[str, float], device: str) -> float | None:
    """Return the share given for the longest prefix of a device's name, else for its nearest relative, or None.

    Relatives begin with the same letters ("mi"), and the nearest shares most of the start of the name: an MI325X that
    no one measured runs what was tuned for the MI300X. Of equally near ones the smallest share is taken.
    """
    name = device.lower()
    starts = {given.lower(): share for given, share in shares.items()}
    known = [given for given in starts if name.startswith(given)]
    if known:
        return starts[max(known, key=len)]
    common = {given: _common(given, name) for given in starts if _letters(given) == _letters(name) != ""}
    nearest = max(common.values(), default=0)
    return min((starts[given] for given, length in common.items() if length == nearest), default=None)


def _common(one: str, other: str) -> int:
    """Return how many characters two names begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _letters(name: str) -> str:
    return "".join(takewhile(str.isalpha, name))


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How a served model is stored and multiplied.

    Attributes:
        compute: Matrix precision of the device.
        weight_bytes: Bytes of one weight, scales included.
        cache_bytes: Bytes of one element of the KV cache.
    """

    name: str
    compute: str
    weight_bytes: float
    cache_bytes: float
