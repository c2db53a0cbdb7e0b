"""The framework's knobs by name: columns of a problem to the designs of calibrated training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.psa.quantity import Values
from cosmic_opt.workloads.training import RECOMPUTE
from cosmic_opt.workloads.training_designs import Recompute, TrainingDesigns, named_recompute

DEGREES = ("dp", "tp", "pp", "cp", "ep", "interleave", "micro_batch")
DEFAULTS: Mapping[str, int | str] = {
    **dict.fromkeys(DEGREES, 1),
    "zero_stage": 0,
    "recompute": "none",
    "sequence_parallel": 0,
}
"""Every knob of a design, and its value where neither a column nor the job gives one."""
ALIASES = {"sp": "cp"}
"""Other names of a knob: models that call context parallelism sequence parallelism."""


def knob_names(names: Mapping[str, object] | set[str]) -> dict[str, str]:
    """Return which of the names spell a knob: the knob, and the name it has there."""
    known = {name: name for name in DEFAULTS if name in names}
    return known | {knob: name for name, knob in ALIASES.items() if name in names and knob not in known}


def designs_of(values: Mapping[str, Values], selective: str) -> tuple[TrainingDesigns, NDArray[np.bool_]]:
    """Return designs and which split norms over tp; `values` hold every knob, `selective` is the stack's meaning.

    Recompute is text, or the index of its name in `RECOMPUTE`.
    """
    degrees = {name: np.asarray(values[name], dtype=float) for name in (*DEGREES, "zero_stage")}
    designs = TrainingDesigns.of(**degrees, recompute=_recompute(np.atleast_1d(values["recompute"]), selective))
    split = np.broadcast_to(np.asarray(values["sequence_parallel"]).astype(bool), designs.tp.shape)
    return designs, split


def _recompute(names: Values, selective: str) -> Recompute:
    if names.dtype.kind not in "iu":
        return named_recompute(names, selective)
    table = named_recompute(np.array(RECOMPUTE), selective)
    parts = (table.layers, table.attention, table.elementwise, table.matmul, table.collectives)
    return Recompute(*(part[names] for part in parts))
