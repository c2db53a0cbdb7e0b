"""Measured bytes of a GPU: the published first-stage formulas exactly, the true first stage beside."""

from __future__ import annotations

from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, Row, RowKind, text, whole
from cosmic_opt.analysis.validation.training_rows import read_model
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.simulation.calibrated.memory import (
    first_stage_states_bytes,
    published_activation_bytes,
    published_states_bytes,
)

METRICS = ("params_and_optimizer_gib", "activations_gib")
GIB = 2**30


def predict_memory(row: Row) -> Outcome:
    """Return GiB of the first pipeline stage: weights and optimizer, or activations.

    Raises:
        SpecError: the row lacks an input, or its metric is unknown.
    """
    metric = text(row, "metric")
    if metric not in METRICS:
        raise SpecError(f"unknown metric {metric!r}", hint=nearest(metric, METRICS))
    model, tp, pp = read_model(row), whole(row, "tp"), whole(row, "pp")
    note = None
    if metric == METRICS[0]:
        predicted = published_states_bytes(model, tp, pp)
        with_table = first_stage_states_bytes(model, tp, pp) / GIB
        note = f"the first stage with its embedding holds {with_table:.2f} GiB"
    else:
        predicted = published_activation_bytes(
            model,
            whole(row, "seq"),
            whole(row, "mbs"),
            tp=tp,
            pp=pp,
            interleave=whole(row, "interleave"),
            selective=row.get("recompute") == "selective",
            sequence_parallel=row.get("sequence_parallel") is True,
        )
    return Outcome(predicted / GIB, note, f"memory, {metric}", load_device(text(row, "gpu")).name, whole(row, "gpus"))


def _is_memory(row: Row) -> bool:
    return "seq" in row and "gbs" not in row and str(row.get("metric")).endswith("_gib")


ROW_KINDS.register("memory")(RowKind(_is_memory, predict_memory))
