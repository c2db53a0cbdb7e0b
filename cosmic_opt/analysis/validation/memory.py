"""Measured bytes of a GPU: the published first-stage formulas exactly, the true first stage beside."""

from __future__ import annotations

from cosmic_opt.analysis.validation.confidence import confidence
from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, Row, RowKind, clip, text, whole
from cosmic_opt.analysis.validation.measured import metric_of, plain_metric
from cosmic_opt.analysis.validation.row_boards import board_of, limit_notes, stated_boards
from cosmic_opt.analysis.validation.row_checks import check_tensor
from cosmic_opt.analysis.validation.row_fields import check_sizes, flag, recompute_name, stated_or
from cosmic_opt.analysis.validation.row_keys import MEMORY_KEYS
from cosmic_opt.analysis.validation.training_rows import read_model
from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.memory import (
    first_stage_states_bytes,
    published_activation_bytes,
    published_full_recompute_bytes,
    published_states_bytes,
)
from cosmic_opt.workloads.language_model import LanguageModel

METRICS = ("params_and_optimizer_gib", "activations_gib")
ALIASES = {
    **dict.fromkeys(("activation_gib", "activation_memory_gib", "activations_memory_gib"), METRICS[1]),
    **dict.fromkeys(("parameters_and_optimizer_gib", "weights_and_optimizer_gib", "model_states_gib"), METRICS[0]),
}
JOB_FIELDS = ("seq", "dims", "mbs")
HIDDEN = "allocator and temporary buffers"
GIB = 2**30
PER_GIB = {"_gib": 1.0, "_gb": GIB / 1e9, "_mib": 2.0**10, "_bytes": float(GIB)}
"""Units a metric may end in, per GiB."""


def predict_memory(row: Row) -> Outcome:
    """Return memory of the first pipeline stage in the row's unit: weights and optimizer, or activations.

    Raises:
        SpecError: the row lacks an input, its metric or recompute is unknown, or a degree does not divide.
    """
    row = stated_boards(row)
    metric, units = _metric(row)
    model, tp, pp = read_model(row), whole(row, "tp"), whole(row, "pp")
    _check_split(model, tp, pp)
    recompute_name(row)  # whatever the metric, one that means nothing is refused
    notes = list[str]()
    if metric == METRICS[0]:
        held = published_states_bytes(model, tp, pp)
        notes.append(
            f"the first stage with its embedding holds {first_stage_states_bytes(model, tp, pp) / GIB:.2f} GiB"
        )
    else:
        held = _activations(row, model, tp, pp)
        notes += ["assumed: no recompute"] if row.get("recompute") is None else []
    device = board_of(row)
    notes += limit_notes(row)
    predicted, group = units * held / GIB, f"memory, {metric}"
    return Outcome(
        predicted,
        "; ".join(notes) or None,
        group,
        device.name,
        whole(row, "gpus") if row.get("gpus") is not None else tp * pp,
        primary=metric == METRICS[0] or row.get("recompute") is not None,
        confidence=confidence(row, group, device.name, predicted, HIDDEN),
    )


def _metric(row: Row) -> tuple[str, float]:
    plain = plain_metric(text(row, "metric"))
    unit = next((each for each in PER_GIB if plain.endswith(each)), "_gib")
    metric, _ = metric_of(plain.removesuffix(unit) + "_gib", METRICS, ALIASES)
    return metric, PER_GIB[unit]


def _check_split(model: LanguageModel, tp: int, pp: int) -> None:
    check_tensor(model, tp)
    if model.layers % pp:
        raise SpecError(f"pp {pp} does not divide the {model.layers} layers", hint="give a degree that does")


def _activations(row: Row, model: LanguageModel, tp: int, pp: int) -> float:
    name = recompute_name(row) if row.get("recompute") is not None else "none"
    if name is None:
        raise SpecError(
            f"'recompute' is {clip(row['recompute'])}",
            hint="known: none, selective, full; layers in part are not modelled here",
        )
    check_sizes(row, "seq")
    sizes = whole(row, "seq"), whole(row, "mbs")
    interleave = stated_or(row, "interleave", 1)
    shared = flag(row, "sequence_parallel") is True
    if name == "full":
        return published_full_recompute_bytes(
            model, *sizes, tp=tp, pp=pp, interleave=interleave, sequence_parallel=shared
        )
    return published_activation_bytes(
        model, *sizes, tp=tp, pp=pp, interleave=interleave, selective=name == "selective", sequence_parallel=shared
    )


def in_gib(row: Row) -> bool:
    """Tell whether the metric of a row is a size."""
    return plain_metric(str(row.get("metric"))).endswith(tuple(PER_GIB))


def _is_memory(row: Row) -> bool:
    return any(key in row for key in JOB_FIELDS) and "gbs" not in row and in_gib(row)


ROW_KINDS.register("memory")(RowKind(_is_memory, predict_memory, MEMORY_KEYS))
