"""The framework's knobs by name: columns of a problem to the designs of calibrated training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.psa.quantity import Values
from cosmic_opt.workloads.training_designs import (
    FRAMEWORK_RECOMPUTE,
    SCHEDULES,
    Recompute,
    TrainingDesigns,
    named_recompute,
)

DEGREES = ("dp", "tp", "pp", "cp", "ep", "interleave", "micro_batch")
WORLD = ("dp", "tp", "pp", "cp")
"""Degrees that multiply to the NPUs of a job."""
DEFAULTS: Mapping[str, int | str] = {
    **dict.fromkeys(DEGREES, 1),
    "zero_stage": 0,
    "shard_replicas": 1,
    "recompute": "none",
    "recompute_layers": 0,
    "sequence_parallel": 0,
    "reshard_after_forward": 1,
    "prefetch": 1,
    "pipeline_schedule": SCHEDULES[0],
    "expert_load_percent": 100,
}
"""Every knob of a design, and its value where neither a column nor the job gives one."""
ALIASES = {"sp": "cp"}
"""Other names of a knob: models that call context parallelism sequence parallelism."""


def knob_names(names: Mapping[str, object] | set[str]) -> dict[str, str]:
    """Return which of the names spell a knob: the knob, and the name it has there."""
    known = {name: name for name in DEFAULTS if name in names}
    return known | {knob: name for name, knob in ALIASES.items() if name in names and knob not in known}


def designs_of(values: Mapping[str, Values], selective: str, layers: int) -> tuple[TrainingDesigns, NDArray[np.bool_]]:
    """Return designs and which split norms over tp; `values` hold every knob, `selective` is the stack's meaning.

    Recompute and the pipeline's schedule are text, or the index of their name in `FRAMEWORK_RECOMPUTE` and
    `SCHEDULES`. The layers of the model say which share of a virtual stage `recompute_layers` is; 0 means all of them.
    """
    numbers = {
        name: np.asarray(values[name], dtype=float) for name in (*DEGREES, "zero_stage", "shard_replicas", "prefetch")
    }
    again = _recompute(np.atleast_1d(values["recompute"]), selective)
    chosen = np.asarray(values["recompute_layers"], dtype=float)
    per_piece = np.ceil(layers / (numbers["pp"] * numbers["interleave"]))
    share = np.where(chosen > 0, np.minimum(chosen / per_piece, 1.0), 1.0)
    designs = TrainingDesigns.of(
        **numbers,
        reshard=values["reshard_after_forward"],
        schedule=_indices(np.atleast_1d(values["pipeline_schedule"]), SCHEDULES),
        capacity=np.asarray(values["expert_load_percent"]) / 100,
        recompute=again.with_layers(again.layers * share),
    )
    split = np.broadcast_to(np.asarray(values["sequence_parallel"]).astype(bool), designs.tp.shape)
    return designs, split


def _indices(names: Values, known: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the place of each name in `known`; numbers are places already."""
    if names.dtype.kind in "iu":
        return names.astype(np.int64)
    return np.array([known.index(str(name)) for name in names], dtype=np.int64)


def _recompute(names: Values, selective: str) -> Recompute:
    if names.dtype.kind not in "iu":
        return named_recompute(names, selective)
    table = named_recompute(np.array(FRAMEWORK_RECOMPUTE), selective)
    return Recompute(*(getattr(table, each.name)[names] for each in fields(Recompute)))
