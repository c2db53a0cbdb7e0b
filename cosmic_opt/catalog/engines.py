"""Loads inference engines and the number formats of served models: shipped ones by name, a user's own by path."""

from __future__ import annotations

from functools import cache

from cosmic_opt.catalog.amounts import positive
from cosmic_opt.catalog.software_files import blaming, find_precision, number, numbers, open_software
from cosmic_opt.catalog.store import shared_names
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.document import Entry
from cosmic_opt.system.hardware import operand_bytes
from cosmic_opt.units import TICKS_PER_SECOND, Unit
from cosmic_opt.workloads.engine import DecodeAttention, Engine, EngineHost, EngineMemory, NumberFormat

FIELDS = (
    *("name", "host", "attention", "memory", "matmul_share", "layer_kernels", "kernel", "elementwise_fraction"),
    *("prefill_fraction", "weight_only_fraction", "expert_rows", "overlaps_stages"),
)
FLAGS = ("fused_clamped_gate", "overlaps_host", "quantises_apart")
"""False where a file does not say."""
GRAPHS, DEPTH, RELEASES = "graph_batches", "product_depth", "releases"
"""Empty where a file does not say."""
HOST_FIELDS = ("step", "sequence", "tensor")
ATTENTION_FIELDS = ("launch", "head_rate", "memory_share", "grouped_reads", "narrow_reads")
MEMORY_FIELDS = ("share", "share_of_free", "workspace", "block_tokens", "output_share", "most_sequences")
FORMAT_FIELDS = ("compute", "weight_bytes", "cache_bytes")
MOST = 10**9
"""No engine holds more sequences, or pages of more tokens."""


def engine_names() -> list[str]:
    """Return the names of the shipped engines."""
    return shared_names("engines")


@cache
def load_engine(name: str) -> Engine:
    """Return an engine by its shipped name, or from a user's file.

    Raises:
        SpecError: there is no such engine, or its file does not describe one.
    """
    root, file = open_software("engine", name)
    fields = root.fields(required=FIELDS, optional=("schema", "source", GRAPHS, DEPTH, RELEASES, *FLAGS))
    with blaming(file):
        return Engine(
            name=fields["name"].text(),
            host=EngineHost(*(_seconds(each) for each in _parts(fields["host"], HOST_FIELDS))),
            attention=_attention(fields["attention"]),
            memory=_memory(fields["memory"]),
            matmul_share=numbers(fields["matmul_share"]),
            layer_kernels=number(fields["layer_kernels"]),
            kernel_s=_seconds(fields["kernel"]),
            elementwise_fraction=number(fields["elementwise_fraction"]),
            prefill_fraction=numbers(fields["prefill_fraction"]),
            weight_only_fraction=number(fields["weight_only_fraction"]),
            expert_rows=fields["expert_rows"].integer(low=1, high=MOST),
            overlaps_stages=fields["overlaps_stages"].flag(),
            shipped=name in shared_names("engines"),
            graph_batches=_whole_numbers(fields[GRAPHS]) if GRAPHS in fields else (),
            product_depth_s=_depths(fields[DEPTH]) if DEPTH in fields else {},
            releases=fields[RELEASES].text() if RELEASES in fields else "",
            **{flag: flag in fields and fields[flag].flag() for flag in FLAGS},
        )


def check_devices(engine: Engine, device: str, file: str) -> None:
    """Refuse an engine with a share for the start of a name that neither a shipped device nor `device` has.

    Raises:
        SpecError: there is such a share; `file` is where the engine comes from.
    """
    names = {name.lower() for name in (*shared_names("devices"), device)}
    tables = {
        "matmul_share": engine.matmul_share,
        "prefill_fraction": engine.prefill_fraction,
        "attention.memory_share": engine.attention.memory_share,
    }
    for key, table in tables.items():
        for start in table:
            if not any(start and name.startswith(start.lower()) for name in names):
                raise SpecError(
                    f"no device's name begins with {start!r}", where=Where(file, key=key), hint=nearest(start, names)
                )


@cache
def load_number_format(name: str) -> NumberFormat:
    """Return a number format by name, in any case.

    Raises:
        SpecError: there is no such format.
    """
    compute, weights, cache_bytes = _parts(find_precision("serving", name), FORMAT_FIELDS)
    return NumberFormat(name.lower(), compute.text(), number(weights), number(cache_bytes))


def _parts(entry: Entry, keys: tuple[str, ...]) -> tuple[Entry, ...]:
    fields = entry.fields(required=keys)
    return tuple(fields[key] for key in keys)


def _whole_numbers(entry: Entry) -> tuple[int, ...]:
    return tuple(each.integer(low=1, high=MOST) for each in entry.items())


def _depths(entry: Entry) -> dict[str, float]:
    for precision in entry.mapping():
        operand_bytes(precision)  # refuses an unknown one
    return {precision: _seconds(each) for precision, each in entry.mapping().items()}


def _attention(entry: Entry) -> DecodeAttention:
    launch, rate, share, grouped, narrow = _parts(entry, ATTENTION_FIELDS)
    return DecodeAttention(
        launch_s=_seconds(launch),
        head_bytes_per_s=float(positive(rate, Unit.BYTES_PER_S)),
        memory_share=numbers(share),
        grouped_reads=number(grouped),
        narrow_reads=number(narrow),
    )


def _memory(entry: Entry) -> EngineMemory:
    share, of_free, workspace, block, output, most = _parts(entry, MEMORY_FIELDS)
    return EngineMemory(
        share=number(share),
        share_of_free=of_free.flag(),
        workspace_bytes=float(workspace.quantity(Unit.BYTES)),
        block_tokens=block.integer(low=1, high=MOST),
        output_share=number(output),
        most_sequences=most.integer(low=1, high=MOST),
    )


def _seconds(entry: Entry) -> float:
    ticks = entry.quantity(Unit.TIME)
    if ticks < 0:
        raise entry.fail(f"{entry.value!r} is below zero", "give a time of zero or more")
    return ticks / TICKS_PER_SECOND
