"""Measured kernels: matrix products, attention, operators of one layer, the best product of a device."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cosmic_opt.analysis.validation.confidence import confidence
from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, Row, RowKind, clip, text, whole
from cosmic_opt.analysis.validation.measured import metric_of
from cosmic_opt.analysis.validation.row_boards import board_of, limit_notes, open_board, stated_boards
from cosmic_opt.analysis.validation.row_keys import KERNEL_KEYS
from cosmic_opt.catalog.stacks import load_stack
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.system.hardware import (
    Device,
    attention_decode_s,
    attention_prefill_s,
    bytes_s,
    gemm_s,
    operand_bytes,
    scores_s,
    weighted_values_s,
)

HIDDEN = {
    "gemm": "clock and power state",
    "max_achievable_matmul": "clock and power state",
    "attention_prefill": "release of the kernel library",
    "attention_decode": "release of the kernel library",
}
OPERATOR_HIDDEN = "release of the framework that calls it"
"""What is usually not stated and moves a kernel's time most."""
EAGER_STACK = "fsdp-2023"
"""Operators run by plain PyTorch move memory as this stack's eager kernels do."""
CALLER_FLOOR_S = 50e-6
"""An operator timed from Python below this shows its caller, not the device."""
FLOOR_NOTE = "below 50 us the time of an operator's caller shows, not the device's"
Predict = Callable[[Row, Device], float]
ALIASES = {
    **dict.fromkeys(("matmul", "mm", "linear"), "gemm"),
    **dict.fromkeys(("flash_attention_prefill", "prefill_attention", "context_attention"), "attention_prefill"),
    **dict.fromkeys(("decode_attention", "generation_attention", "flash_decoding"), "attention_decode"),
}
PRECISIONS = {
    **dict.fromkeys(("bfloat16", "bf16_bf16"), "bf16"),
    **dict.fromkeys(("float16", "half"), "fp16"),
    **dict.fromkeys(("fp8_e4m3", "float8", "fp8_e4m3fn"), "fp8"),
    **dict.fromkeys(("nvfp4", "fp4_e2m1"), "fp4"),
}
"""Other spellings in use."""


def predict_kernel(row: Row) -> Outcome:
    """Return the time of a kernel in seconds, or the best rate of a product in TFLOPS."""
    row = stated_boards(row)
    kernel, board = kernel_of(row), open_board(row)
    if kernel not in KERNELS:
        raise SpecError(f"unknown kernel {kernel[:60]!r}", hint=nearest(kernel[:60], KERNELS))
    device = board_of(row)
    _, units = kernel_metric(row, kernel)
    row = {**row, "precision": precision_of(row)}
    predicted = units * KERNELS[kernel](row, device)
    operator = kernel in OPERATORS
    hidden = operator and _is_short(row.get("value"))
    notes = [FLOOR_NOTE] if hidden else []
    notes += limit_notes(row)
    notes += [] if board is None else [f"assumed: {board}"]
    needed = {BEST_PRODUCT: "sustained", "attention_prefill": "attention", "attention_decode": "attention"}
    constants = needed.get(kernel, "gemm")
    if constants in device.extrapolates:
        notes.append(f"extrapolates: {device.name} has no {constants} constants of its own")
    group = ("operator under 50 us" if hidden else "operator") if operator else kernel
    sure = confidence(row, group, device.name, predicted, HIDDEN.get(kernel, OPERATOR_HIDDEN))
    return Outcome(
        predicted,
        "; ".join(notes) or None,
        group,
        device.name,
        1,
        primary=not hidden and board is None,
        confidence=sure,
    )


def kernel_of(row: Row) -> str:
    """Return the kernel of a row in our spelling."""
    name = text(row, "kernel")
    plain = re.sub(r"[\s\-]+", "_", name.strip().lower())
    return ALIASES.get(plain, plain)


def precision_of(row: Row) -> str:
    """Return the precision of a row in our spelling."""
    plain = text(row, "precision").strip().lower().replace("-", "_")
    return PRECISIONS.get(plain, plain)


def kernel_metric(row: Row, kernel: str) -> tuple[str, float]:
    """Return the metric of a kernel's row, and how many of the row's units one of its units is.

    Raises:
        SpecError: another metric than a time, or TFLOPS for the best product.
    """
    known = "tflops" if kernel == BEST_PRODUCT else "time_s"
    if row.get("metric", known) == known:
        return known, 1.0
    try:
        return metric_of(text(row, "metric"), (known,), {"latency": known, "latency_s": known, "time": known})
    except SpecError:
        raise SpecError(f"the metric of a {kernel!r} row is {clip(row['metric'])}", hint=f"known: {known}") from None


def _is_short(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < CALLER_FLOOR_S


def _product(row: Row, device: Device) -> float:
    return float(gemm_s(device, text(row, "precision"), *(whole(row, key) for key in ("m", "n", "k"))))


def _prefill(row: Row, device: Device) -> float:
    shape = (whole(row, key) for key in ("batch", "seq", "heads", "kv_heads", "head_dim"))
    return float(attention_prefill_s(device, text(row, "precision"), *shape))


def _decode(row: Row, device: Device) -> float:
    """Return the time of a decode kernel that a benchmark repeats on the same cache."""
    shape = (whole(row, key) for key in ("batch", "context", "heads", "kv_heads", "head_dim"))
    return float(attention_decode_s(device, text(row, "precision"), *shape, warm=True))


def _best(row: Row, device: Device) -> float:
    precision = text(row, "precision")
    return device.peak(precision) * device.sustained_fraction(precision) / 1e12


def _dimension(row: Row, key: str) -> int:
    dims = row.get("dims")
    if not isinstance(dims, Mapping):
        raise SpecError("an operator needs the 'dims' of its layer", hint="write hidden, heads and ffn")
    return whole(dims, key)


def _divided(row: Row, key: str) -> int:
    """Return a rank's part of a dimension of the layer.

    Raises:
        SpecError: tp does not divide it.
    """
    size, tp = _dimension(row, key), whole(row, "tp")
    if size % tp:
        raise SpecError(f"tp {tp} does not divide the {key} of {size}", hint="give a degree that does")
    return size // tp


def _tokens(row: Row) -> int:
    return whole(row, "batch") * whole(row, "seq")


def _layer_product(outputs: str, inputs: str, factor: int, split_outputs: bool) -> Predict:
    """Return how to predict a linear map of a layer, split over tp by outputs or by inputs (Shoeybi 2019)."""

    def predict(row: Row, device: Device) -> float:
        tp = whole(row, "tp")
        n, k = factor * _dimension(row, outputs), _dimension(row, inputs)
        _divided(row, outputs if split_outputs else inputs)
        n, k = (n // tp, k) if split_outputs else (n, k // tp)
        return float(gemm_s(device, text(row, "precision"), _tokens(row), n, k))

    return predict


def _attention_product(model: Callable[..., object]) -> Predict:
    def predict(row: Row, device: Device) -> float:
        heads = _dimension(row, "heads")
        width = _dimension(row, "hidden") // heads
        _divided(row, "heads")
        sizes = (whole(row, "batch"), whole(row, "seq"), whole(row, "context"), heads / whole(row, "tp"), width)
        return float(model(device, text(row, "precision"), *sizes))  # type: ignore[arg-type]

    return predict


def _elementwise(elements: Callable[[Row], float]) -> Predict:
    """Return how to predict one launch of a kernel that reads and writes each element once."""

    def predict(row: Row, device: Device) -> float:
        moved = 2 * operand_bytes(text(row, "precision")) * elements(row)
        return device.gemm.simple.launch_s + float(bytes_s(device, moved, load_stack(EAGER_STACK).elementwise_fraction))

    return predict


def _score_elements(row: Row) -> float:
    heads = _divided(row, "heads")
    return heads * _tokens(row) * whole(row, "context")


BEST_PRODUCT = "max_achievable_matmul"
OPERATORS: Mapping[str, Predict] = {
    "qkv_proj": _layer_product("hidden", "hidden", 3, True),
    "out_proj": _layer_product("hidden", "hidden", 1, False),
    "mlp_up": _layer_product("ffn", "hidden", 1, True),
    "mlp_down": _layer_product("hidden", "ffn", 1, False),
    "q_mul_k": _attention_product(scores_s),
    "a_mul_v": _attention_product(weighted_values_s),
    "softmax": _elementwise(_score_elements),
    "gelu": _elementwise(lambda row: _tokens(row) * _divided(row, "ffn")),
    "layernorm_each": _elementwise(lambda row: _tokens(row) * _dimension(row, "hidden")),
}
KERNELS: Mapping[str, Predict] = {
    "gemm": _product,
    "attention_prefill": _prefill,
    "attention_decode": _decode,
    BEST_PRODUCT: _best,
    **OPERATORS,
}

ROW_KINDS.register("kernels")(RowKind(lambda row: "kernel" in row, predict_kernel, KERNEL_KEYS))
