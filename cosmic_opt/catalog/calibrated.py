"""What makes an instance calibrated: its software stack and precision, and the measured constants of its device."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from cosmic_opt.catalog.hardware import load_device, read_kernels
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.catalog.job_kinds import INFERENCE
from cosmic_opt.catalog.stacks import load_accuracy, load_recipe, load_stack
from cosmic_opt.catalog.store import shared_names
from cosmic_opt.catalog.system_quantities import DEVICE_POWER
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import family_of
from cosmic_opt.system.hardware import Device
from cosmic_opt.units import Unit, show
from cosmic_opt.workloads.framework_memory import FrameworkJob
from cosmic_opt.workloads.language_model import LanguageModel, language_model
from cosmic_opt.workloads.stack import Accuracy, Recipe, Stack, has_block_parameters, kept_cast_bytes
from cosmic_opt.workloads.training import OFFLOADS
from cosmic_opt.workloads.transformer import Transformer

DEFAULT_PRECISION = "bf16"
DECIDED_BY_STACK = (
    "attention_kernel",
    "causal_half",
    "overlap_gradients",
    "overlap_weights",
    "cosmic_layers",
    "latency",
    "weight_sharded",
    *OFFLOADS,
)
"""Data and knobs of the analytical simulator that a stack, or the device's fitted constants, decide instead."""


@dataclass(frozen=True)
class Calibrated:
    """A training job's fixed part: model, device with the instance's own peak and bandwidth, software, accuracy."""

    model: LanguageModel
    device: Device
    stack: Stack
    recipe: Recipe
    accuracy: Accuracy

    def memory_job(self, sequence: int, global_batch: int) -> FrameworkJob:
        """Return the job as its footprint sees it."""
        cast_bytes = kept_cast_bytes(self.stack, self.recipe)
        return FrameworkJob(self.model, self.stack, sequence, global_batch, self.recipe.operand_bytes, cast_bytes)


def calibrated_of(
    spec: InstanceSpec, workload: Transformer, data: dict[str, Value], changed: Collection[str]
) -> Calibrated | None:
    """Return the calibrated part of an instance, None without a stack; add `precision`, `experts` and what
    rules read of stack and precision to `data`.

    `changed` are the names that `--set` gives.

    Raises:
        SpecError: a device without constants, matrix units of the precision or block scales, a number that the stack
            decides, an image model, or experts without a stack.
    """
    if "stack" not in data:
        _require_analytical(spec, workload, data)
        return None
    data.setdefault("precision", DEFAULT_PRECISION)
    data["experts"] = workload.experts.count if workload.experts is not None else 1
    stack, recipe = load_stack(str(data["stack"])), load_recipe(str(data["precision"]))
    data["user_buffers"], data["expert_groups"] = int(recipe.user_buffers), int(recipe.expert_groups)
    data["block_parameters"] = int(has_block_parameters(stack, recipe))
    data["latent_attention"] = int(workload.latent is not None)
    data["modules_again"] = int(recipe.modules_again and stack.framework == "megatron-core")
    refuse_decided(spec, f"stack {stack.name!r}", DECIDED_BY_STACK, changed)
    device = device_of(spec)
    device.peak(recipe.precision)
    if recipe.block_scaled and device.before_blackwell:
        hint = "--set precision=fp8, or take a Blackwell GPU"
        raise SpecError(f"{device.name!r} has no block-scaled products: {recipe.name}", where=spec.where, hint=hint)
    model = language_model(workload)
    with_dropout = model.dropout and stack.attention.kind == "unfused"  # flash kernels came with dropout off
    return Calibrated(
        replace(model, dropout=with_dropout), as_given(device, data), stack, recipe, load_accuracy("training")
    )


def refuse_decided(spec: InstanceSpec, software: str, decided: Collection[str], changed: Collection[str]) -> None:
    """Refuse data and knobs that the software decides; `changed` are the names that `--set` gives.

    Raises:
        SpecError: one of `decided` is given.
    """
    places = {name: entry.where for name, entry in spec.data.items()}
    places |= {name: parameter.where for name, parameter in spec.model.parameters.items()}
    places |= {name: Where(f"--set {name}") for name in changed}
    for name, where in places.items():
        if family_of(name) in decided:
            hint = "leave it out" if spec.kind is INFERENCE else "leave it out, or leave 'stack' out"
            raise SpecError(f"{name!r} is decided by the {software} or the device", where=where, hint=hint)


def _require_analytical(spec: InstanceSpec, workload: Transformer, data: Mapping[str, Value]) -> None:
    if "precision" in data:
        hint = "add 'stack: megatron-te-2025', or leave the precision out"
        raise SpecError("a precision needs a software stack", where=spec.root.below("precision"), hint=hint)
    parts = {
        "experts": workload.experts,
        "latent attention": workload.latent,
        "a clamped gate": workload.clamped_gate,
        "multi-token prediction": workload.mtp_layers,
    }
    if has := [name for name, part in parts.items() if part]:
        raise SpecError(
            f"{workload.name} has {' and '.join(has)}, which only calibrated stacks run",
            where=spec.where,
            hint="add 'stack: megatron-te-2025' to the instance, or --set stack=megatron-te-2025",
        )


def device_of(spec: InstanceSpec) -> Device:
    """Return the device of an instance with its measured constants, of its file.

    Raises:
        SpecError: nothing was measured on it.
    """
    own = spec.system.device
    try:
        device = load_device(own.name) if own.own is None else read_kernels(own.own)
    except SpecError as error:
        if error.where is not None and error.where.file:
            raise
        hint = error.hint or "use a device with measured kernels"
        if spec.kind is not INFERENCE:
            hint = f"{error.hint or ''}; leave 'stack' out to score with the analytical simulator".lstrip("; ")
        raise SpecError(f"{own.name!r} has no calibrated constants", where=spec.where, hint=hint) from None
    if device.fabric is None:
        hint = "use a device with a 'fabric' section" + ("" if spec.kind is INFERENCE else ", or leave 'stack' out")
        place = spec.where if own.own is None else own.own.where
        raise SpecError(f"{own.name!r} has no calibrated fabric", where=place, hint=hint)
    return device


def _limited_to(device: Device, power_w: float) -> Device:
    try:
        return device.limited_to(power_w)
    except SpecError as error:
        hint = f"--set {DEVICE_POWER}: {error.hint}"
        raise SpecError(error.message, where=Where(key=DEVICE_POWER), hint=hint) from None


def as_given(device: Device, data: Mapping[str, Value]) -> Device:
    """Return the device with the instance's peak and memory bandwidth; fractions of them stay as measured.

    Where these are not those of the board, `altered` says so. A `device_power` below the board's own is a limit that
    its owner set: what a long run keeps falls with it.

    Raises:
        SpecError: a limit that the board cannot have (`Device.limited_to`).
    """
    if device.power_w and DEVICE_POWER in data:
        device = _limited_to(device, float(data[DEVICE_POWER]))
    peak, rate = int(data["peak"]), int(data["memory_bandwidth"])
    ratio = peak / device.peak(DEFAULT_PRECISION)
    peaks = {name: peak * ratio for name, peak in device.peak_flop_per_s.items()}
    board = load_device(device.board) if device.board in shared_names("devices") else device
    numbers = (
        ("peak", peak, board.peak(DEFAULT_PRECISION), Unit.FLOP_PER_S),
        ("memory bandwidth", rate, board.memory_bytes_per_s, Unit.BYTES_PER_S),
    )
    altered = tuple(
        f"a {name} of {show(given, unit)}, where {board.name} has {show(int(own), unit)}"
        for name, given, own, unit in numbers
        if given != int(own)
    )
    return replace(device, peak_flop_per_s=peaks, memory_bytes_per_s=float(rate), altered=altered)
