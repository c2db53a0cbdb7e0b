"""Reads layer tables: text, one layer a line, as ASTRA-sim 1.0, Themis and LIBRA write them.

A line has a name, an unused number, three times compute in ns, collective and bytes (forward, input gradient, weight
gradient), and the ns of the weight update. Two lines stand in front: the parallelism with its numbers, and how many
layers follow. LIBRA's tables have layers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_opt.catalog.store import read_text
from cosmic_opt.errors import LimitError, SpecError, Where, nearest
from cosmic_opt.workloads.layer_table import LAYER_TABLE_READERS, LayerTable, LayerWork, Policy, TableLayer

FIELDS = 12
MOST_LAYERS = 2**16
MOST_DIGITS = 15
"""Of a number: a week in ns, a petabyte."""
COLLECTIVES = {
    "NONE": "",
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
}
HEADERS = tuple(policy.value for policy in Policy if policy is not Policy.NO_OVERLAP)
MODEL_GROUP, CHECKPOINTS, INITIATES = "model_parallel_NPU_group:", "checkpoints:", "checkpoint_initiates:"


@dataclass(frozen=True, slots=True)
class _Line:
    """The words of a line, and where it stands."""

    words: tuple[str, ...]
    where: Where

    def fail(self, message: str, hint: str) -> SpecError:
        return SpecError(message, where=self.where, hint=hint)

    def number(self, position: int) -> int:
        """Return a word as a whole number of at least 0."""
        word = self.words[position] if position < len(self.words) else ""
        if not (word.isascii() and word.isdigit()) or len(word) > MOST_DIGITS:
            shown = word[:40] or "the end of the line"
            raise self.fail(f"a number is expected where {shown!r} stands", f"whole, at most {MOST_DIGITS} digits")
        return int(word)


@LAYER_TABLE_READERS.register("layer_table")
def read_layer_table(path: Path | str) -> LayerTable:
    """Return the workload in a text file.

    Raises:
        SpecError: the file cannot be read or is no table; names the file, the line and the reason.
        LimitError: it has too many layers.
    """
    lines = [
        _Line(tuple(text.split()), Where(str(path), number))
        for number, text in enumerate(read_text(Path(path)).splitlines(), 1)
        if text.strip()
    ]
    if not lines:
        raise SpecError("the file is empty", where=Where(str(path)), hint="give a table of layers")
    if len(lines) > MOST_LAYERS:
        raise LimitError("the table is too long", where=Where(str(path)), hint=f"at most {MOST_LAYERS:,} layers")
    if len(lines[0].words) == FIELDS and lines[0].words[0] not in HEADERS:
        return LayerTable(Policy.NO_OVERLAP, tuple(map(_layer, lines)))
    return _with_header(lines)


def _with_header(lines: Sequence[_Line]) -> LayerTable:
    header, *rest = lines
    if header.words[0] not in HEADERS:
        hint = nearest(header.words[0], HEADERS) or f"known: {', '.join(HEADERS)}"
        raise header.fail(f"{header.words[0][:40]!r} is no parallelism that is read", hint)
    if not rest:
        raise header.fail("the number of layers is missing", "write it in the second line")
    policy, count, layers = Policy(header.words[0]), rest[0].number(0), rest[1:]
    if count != len(layers) or count == 0:
        raise rest[0].fail(
            f"{count} layers are announced and {len(layers)} follow", "write as many as follow, 1 or more"
        )
    table = LayerTable(policy, tuple(map(_layer, layers)))
    if policy is Policy.DLRM:
        last = header.number(1)
        if not 0 < last < count - 1:
            raise header.fail(f"layer {last} cannot be the last of the bottom MLP", f"allowed: 1 to {count - 2}")
        return LayerTable(policy, table.layers, last_bottom=last)
    if policy not in (Policy.TRANSFORMER, Policy.TRANSFORMER_AGAIN):
        return table
    group = header.number(_place(header, MODEL_GROUP))
    if group < 1:
        raise header.fail("a model-parallel group has no NPU", "write 1 or more")
    if policy is Policy.TRANSFORMER:
        return LayerTable(policy, table.layers, group)
    checkpoints, initiates = (_positions(header, key, count) for key in (CHECKPOINTS, INITIATES))
    for layer in initiates:
        if not any(checkpoint <= layer for checkpoint in checkpoints):
            raise header.fail(f"no checkpoint stands before layer {layer}", "add layer 0 to the checkpoints")
    return LayerTable(policy, table.layers, group, checkpoints=checkpoints, initiates=initiates)


def _place(header: _Line, key: str) -> int:
    """Return the position of what follows a key of the first line."""
    if key not in header.words:
        raise header.fail(f"{key!r} is missing", f"write for example '{key} 2 0 9'")
    return header.words.index(key) + 1


def _positions(header: _Line, key: str, count: int) -> frozenset[int]:
    """Return the layers listed after a key: how many, then each."""
    start = _place(header, key)
    listed = [header.number(start + 1 + position) for position in range(min(header.number(start), MOST_LAYERS))]
    for layer in listed:
        if layer >= count:
            raise header.fail(f"{key} layer {layer} is not there", f"layers are 0 to {count - 1}")
    return frozenset(listed)


def _layer(line: _Line) -> TableLayer:
    if len(line.words) != FIELDS:
        raise line.fail(f"the layer has {len(line.words)} fields", f"a layer has {FIELDS}; its name has no blanks")
    forward, input_gradient, weight_gradient = (_work(line, position) for position in (2, 5, 8))
    return TableLayer(line.words[0], forward, input_gradient, weight_gradient, line.number(FIELDS - 1))


def _work(line: _Line, position: int) -> LayerWork:
    name = line.words[position + 1]
    if name not in COLLECTIVES:
        raise line.fail(f"unknown collective {name[:40]!r}", nearest(name, COLLECTIVES) or "write NONE")
    return LayerWork(line.number(position), COLLECTIVES[name], line.number(position + 2))
