"""Measured kernels: matrix products, attention, operators of one layer, the best product of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, Row, RowKind, number, text, whole
from cosmic_opt.catalog.hardware import load_device
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

EAGER_STACK = "fsdp-2023"
"""Operators run by plain PyTorch move memory as this stack's eager kernels do."""
CALLER_FLOOR_S = 50e-6
"""An operator timed from Python below this shows its caller, not the device."""
FLOOR_NOTE = "below 50 us the time of an operator's caller shows, not the device's"
Predict = Callable[[Row, Device], float]


def predict_kernel(row: Row) -> Outcome:
    """Return the time of a kernel in seconds, or the best rate of a product in TFLOPS."""
    kernel = text(row, "kernel")
    if kernel not in KERNELS:
        raise SpecError(f"unknown kernel {kernel!r}", hint=nearest(kernel, KERNELS))
    device = load_device(text(row, "gpu"))
    metric = "tflops" if kernel == BEST_PRODUCT else "time_s"
    if row.get("metric", metric) != metric:
        raise SpecError(f"the metric of a {kernel!r} row is {row['metric']!r}", hint=f"known: {metric}")
    predicted = KERNELS[kernel](row, device)
    operator = kernel in OPERATORS
    hidden = operator and _is_short(row.get("value"))
    notes = [FLOOR_NOTE] if hidden else []
    needed = {BEST_PRODUCT: "sustained", "attention_prefill": "attention", "attention_decode": "attention"}
    constants = needed.get(kernel, "gemm")
    if constants in device.extrapolates:
        notes.append(f"extrapolates: {device.name} has no {constants} constants of its own")
    group = ("operator under 50 us" if hidden else "operator") if operator else kernel
    return Outcome(predicted, "; ".join(notes) or None, group, device.name, 1, primary=not hidden)


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


def _tokens(row: Row) -> int:
    return whole(row, "batch") * whole(row, "seq")


def _layer_product(outputs: str, inputs: str, factor: int, split_outputs: bool) -> Predict:
    """Return how to predict a linear map of a layer, split over tp by outputs or by inputs (Shoeybi 2019)."""

    def predict(row: Row, device: Device) -> float:
        tp = whole(row, "tp")
        n, k = factor * _dimension(row, outputs), _dimension(row, inputs)
        n, k = (n // tp, k) if split_outputs else (n, k // tp)
        return float(gemm_s(device, text(row, "precision"), _tokens(row), n, k))

    return predict


def _attention_product(model: Callable[..., object]) -> Predict:
    def predict(row: Row, device: Device) -> float:
        heads = _dimension(row, "heads")
        width = _dimension(row, "hidden") // heads
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
    heads = _dimension(row, "heads") / number(row, "tp")
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
    "gelu": _elementwise(lambda row: _tokens(row) * _dimension(row, "ffn") / number(row, "tp")),
    "layernorm_each": _elementwise(lambda row: _tokens(row) * _dimension(row, "hidden")),
}
KERNELS: Mapping[str, Predict] = {
    "gemm": _product,
    "attention_prefill": _prefill,
    "attention_decode": _decode,
    BEST_PRODUCT: _best,
    **OPERATORS,
}

ROW_KINDS.register("kernels")(RowKind(lambda row: "kernel" in row, predict_kernel))
