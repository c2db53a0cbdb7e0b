"""Measured rows of one device, grouped so that a group is predicted in one call."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.analysis.validation.collectives import (
    METRICS,
    collective_metric,
    device_of,
    in_switch_of,
    kind_of,
    local_ranks,
)
from cosmic_opt.analysis.validation.kernels import BEST_PRODUCT, OPERATORS, kernel_metric, kernel_of, precision_of
from cosmic_opt.analysis.validation.kinds import Row, RowKeys, number, text, whole
from cosmic_opt.analysis.validation.report import CALIBRATION_FOLDS
from cosmic_opt.analysis.validation.row_boards import as_stated, stated_boards
from cosmic_opt.analysis.validation.row_keys import COLLECTIVE_KEYS, KERNEL_KEYS, unread
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.system.hardware import (
    Device,
    attention_decode_s,
    attention_prefill_s,
    collective_s,
    gemm_s,
    operand_bytes,
)
from cosmic_opt.system.hardware.collective import wire_bytes

FloatArray = NDArray[np.float64]
END_TO_END = ("gbs", "global_batch", "step_time_s", "dp", "engine", "input_tokens", "output_tokens", "stack")
"""Fields that only a measurement of a whole job has."""
SHAPES = {
    "gemm": ("m", "n", "k"),
    "attention_prefill": ("batch", "seq", "heads", "kv_heads", "head_dim"),
    "attention_decode": ("batch", "context", "heads", "kv_heads", "head_dim"),
}
TILES = "gemm by tiles"
"""Products once more, predicted by the tile form, which has constants of its own."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows one call predicts: `measured` and the prediction are seconds, or TFLOPS for the best product.

    `detail` is the precision of kernels, the kind of collectives.
    """

    name: str
    detail: str
    ids: tuple[str, ...]
    measured: FloatArray
    held_out: NDArray[np.bool_]
    predict: Callable[[Device], FloatArray]


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """What of a file can be fitted: groups of rows, rows left out by reason, and keys of them that are not read."""

    groups: tuple[Group, ...]
    left_out: Mapping[str, int]
    warnings: tuple[str, ...] = ()

    @property
    def fitted(self) -> int:
        """The rows that are fitted; each product counts once."""
        return sum(int((~group.held_out).sum()) for group in self.groups if group.name != TILES)


@dataclass
class _Pile:
    """Rows of one group while they are read."""

    ids: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    held_out: list[bool] = field(default_factory=list)
    shapes: list[tuple[float, ...]] = field(default_factory=list)


Key = tuple[str, str, bool | None]
"""Group, precision (kernels) or kind (collectives), and what is said about the switch."""


def read_rows(rows: Sequence[Row], device: Device, *, where: Where) -> MeasuredRows:
    """Return the rows of a device, grouped; a row without a GPU is taken for this device's.

    Raises:
        SpecError: an end-to-end row, a row that is neither kernel nor collective, a value that is no positive finite
            number, or no row that can be fitted. The error names the row.
    """
    piles, left_out = defaultdict[Key, _Pile](_Pile), defaultdict[str, int](int)
    for index, row in enumerate(rows):
        name = str(row.get("id", f"row {index + 1}"))
        try:
            reason = _read(row, name, device, piles)
        except SpecError as error:
            raise SpecError(error.message, where=Where(where.file, key=name), hint=error.hint) from None
        if reason is not None:
            left_out[reason] += 1
    groups = [_group(key, pile) for key, pile in piles.items()]
    groups += [_group((TILES, key[1], None), pile) for key, pile in piles.items() if key[0] == "gemm"]
    measured = MeasuredRows(tuple(groups), dict(left_out), unread_of(rows, kernels_or_collectives))
    if not measured.fitted:
        reasons = "; ".join(f"{times} {reason}" for reason, times in left_out.items()) or "every row is held out"
        raise SpecError(
            f"no row of {device.name!r} can be fitted", where=where, hint=f"{reasons}; give its kernels or collectives"
        )
    return measured


def kernels_or_collectives(row: Row) -> RowKeys:
    """Return the keys that a row of `--rows` may have."""
    return KERNEL_KEYS if "kernel" in row else COLLECTIVE_KEYS


def unread_of(rows: Sequence[Row], keys_of: Callable[[Row], RowKeys]) -> tuple[str, ...]:
    """Return what of the rows is not read, each list of keys once, with the number of its rows."""
    return counted(said for row in rows if (said := unread(row, keys_of(row))) is not None)


def counted(sayings: Iterable[str]) -> tuple[str, ...]:
    """Return what is said of rows, each saying once, with the number of its rows."""
    return tuple(f"{said} ({times:,} row{'s'[: times != 1]})" for said, times in Counter(sayings).items())


def _read(row: Row, name: str, device: Device, piles: dict[Key, _Pile]) -> str | None:
    """Enter a row, or return why it is left out."""
    if "kernel" not in row and "collective" not in row:
        raise _refusal(row)
    row, value = stated_boards(row), number(row, "value")
    other = _other_device(row, device)
    if other is not None:
        return other
    if as_stated(device, row).power_w != device.power_w and "kernel" in row:
        return "under a lower power limit than the device's own"
    entered = _kernel(row, device) if "kernel" in row else _collective(row, device)
    if isinstance(entered, str):
        return entered
    key, shape = entered
    fold = row.get("fold")
    pile = piles[key]
    pile.ids.append(name)
    pile.values.append(_seconds(key, shape, value, row))
    pile.held_out.append(fold is not None and fold not in CALIBRATION_FOLDS)
    pile.shapes.append(shape)
    return None


def _other_device(row: Row, device: Device) -> str | None:
    """Return why the GPU a row names is not this device, if it names one."""
    if "gpu" not in row:
        return None
    text(row, "gpu")
    try:
        other = device_of(row).name
        return None if other == device.name else f"of another device: {other}"
    except SpecError:
        return "of an unknown device"


def _refusal(row: Row) -> SpecError:
    found = [key for key in END_TO_END if key in row] or (
        ["metric"] if "step" in str(row.get("metric")) or "tokens" in str(row.get("metric")) else []
    )
    if found:
        return SpecError(
            f"an end-to-end measurement (it has {found[0]!r}): constants fitted on it would hide missing mechanisms",
            hint="give kernels and collectives here, and your own measured steps to --steps",
        )
    known = ["kernel", "collective", "gpu", "precision", "value"]
    hint = nearest(next(iter(row), ""), known) or "columns: kernel (or collective), its shape, value"
    return SpecError("neither 'kernel' nor 'collective' is given", hint=hint)


def _kernel(row: Row, device: Device) -> tuple[Key, tuple[float, ...]] | str:
    kernel, precision = kernel_of(row), precision_of(row)
    operand_bytes(precision)
    device.peak(precision)
    if kernel in OPERATORS:
        return "an operator: its caller shows"
    if kernel == BEST_PRODUCT:
        return (BEST_PRODUCT, precision, None), ()
    if kernel not in SHAPES:
        raise SpecError(f"unknown kernel {kernel!r}", hint=nearest(kernel, [*SHAPES, BEST_PRODUCT]))
    return (kernel, precision, None), tuple(float(whole(row, key)) for key in SHAPES[kernel])


def _collective(row: Row, device: Device) -> tuple[Key, tuple[float, ...]] | str:
    if device.fabric is None:
        raise SpecError(f"{device.name!r} has no fabric", hint="leave its collectives out")
    kind, gpus = kind_of(row), whole(row, "gpus")
    if kind not in device.fabric.library.kinds:
        raise SpecError(f"unknown collective {kind!r}", hint=nearest(kind, device.fabric.library.kinds))
    if gpus > local_ranks(row, gpus):
        return "across nodes: the rate between nodes is no constant of a device"
    if gpus > device.fabric.gpus_per_domain:
        return "over PCIe"
    if gpus == 1:
        return "one GPU: nothing is sent"
    switch = in_switch_of(row) if device.fabric.in_switch_fraction is not None else False
    return ("collectives", kind, switch), (float(gpus), number(row, "size_bytes"))


def _seconds(key: Key, shape: tuple[float, ...], value: float, row: Row) -> float:
    """Return what was measured in seconds, in TFLOPS for the best product."""
    if key[0] != "collectives":
        return value / kernel_metric(row, key[0])[1]
    metric, units = collective_metric(row)
    moved = {METRICS[1]: float(wire_bytes(key[1], np.asarray(shape[0]), np.asarray(shape[1]))), METRICS[2]: shape[1]}
    return value / units if metric == METRICS[0] else moved[metric] / (value * 1e9)


def _group(key: Key, pile: _Pile) -> Group:
    shapes = np.array(pile.shapes, dtype=float).T
    return Group(
        name=key[0],
        detail=key[1],
        ids=tuple(pile.ids),
        measured=np.array(pile.values),
        held_out=np.array(pile.held_out),
        predict=_predictor(key, shapes, len(pile.ids)),
    )


def _predictor(key: Key, shapes: FloatArray, rows: int) -> Callable[[Device], FloatArray]:
    name, detail, switch = key
    models: dict[str, Callable[[Device], FloatArray]] = {
        "gemm": lambda device: gemm_s(device, detail, *shapes),
        TILES: lambda device: gemm_s(device, detail, *shapes, form="tile"),
        "attention_prefill": lambda device: attention_prefill_s(device, detail, *shapes),
        "attention_decode": lambda device: attention_decode_s(device, detail, *shapes, warm=True),
        "collectives": lambda device: collective_s(device, detail, *shapes, in_switch=switch),
        BEST_PRODUCT: lambda device: np.full(
            rows, device.peak(detail) * device.sustained_fraction(detail) / 1e12, dtype=float
        ),
    }
    return models[name]
