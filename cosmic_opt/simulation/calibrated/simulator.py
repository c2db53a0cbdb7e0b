"""The calibrated model as a problem's simulator: columns of designs to whole ticks, term by term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.psa.family import family_of
from cosmic_opt.psa.quantity import Values
from cosmic_opt.simulation.analytical.layout import CATEGORIES as ANALYTICAL
from cosmic_opt.simulation.analytical.layout import NO_TIME
from cosmic_opt.simulation.analytical.metrics import Metrics
from cosmic_opt.simulation.analytical.simulator import Evaluation
from cosmic_opt.simulation.calibrated.cells import distinct_rows
from cosmic_opt.simulation.calibrated.cluster import CLUSTER, JOB_WIDE, setup_of
from cosmic_opt.simulation.calibrated.job import TrainingDesigns, TrainingSetup
from cosmic_opt.simulation.calibrated.predict import Prediction, predict
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.units import TICKS_PER_SECOND
from cosmic_opt.workloads.knobs import DEFAULTS, designs_of, knob_names
from cosmic_opt.workloads.language_model import training_flops
from cosmic_opt.workloads.training_designs import FRAMEWORK_RECOMPUTE, SCHEDULES, Recompute

IntArray = NDArray[np.int64]

CATEGORIES = {**ANALYTICAL, **JOB_WIDE, "pipeline_schedule": SCHEDULES, "recompute": FRAMEWORK_RECOMPUTE}
"""Text knobs; `evaluate` also takes them as an index into these names."""
MOST_SECONDS = 4e6
"""46 days; the clock holds 106."""


class CalibratedSimulator:
    """Scores training steps of one job on one cluster with one software stack.

    A knob that applies to a whole job (sequence parallelism, overlap mode, the cluster's shape) may vary too: designs
    that share their values are scored together.

    Attributes:
        terms: Names of the parts of a step.
        hidden: None: what hides behind compute is not a part of any term.
        decomposes: A step is no sum over the options of network dimensions, so regions have no bounds.
        inert: Columns that cannot change a score.
    """

    hidden: tuple[str, ...] = ()
    decomposes = False

    def __init__(
        self,
        calibrated: Calibrated,
        dimensions: int,
        constants: Mapping[str, int | str],
        domains: Mapping[str, Sequence[int | str]],
    ) -> None:
        """Bind a problem: `constants` are values of names that do not vary, `domains` the possible values of columns.

        Raises:
            SpecError: a number makes no sense, or the stack lacks an overlap mode.
        """
        self.calibrated, self.dimensions = calibrated, dimensions
        self.knobs = knob_names({**constants, **domains})
        per_dimension = [f"{name}[{d}]" for name in CLUSTER for d in range(dimensions)]
        self.job_wide = ("sequence_parallel", *JOB_WIDE, *per_dimension)
        self.constants = {**DEFAULTS, **constants}
        self.constants |= {knob: constants[name] for knob, name in self.knobs.items() if name in constants}
        read = {*self.knobs.values(), *self.job_wide}
        self.columns = tuple(name for name in domains if name in read)
        self.inert = tuple(name for name in domains if name not in read)
        self.setup_for = lru_cache(maxsize=256)(self._make_setup)
        first = {name: domains[name][0] for name in self.job_wide if name in domains}
        self.constants = {**first, **self.constants}
        for mode in domains.get("tensor_overlap", ()):
            self.setup_for((("tensor_overlap", mode),))
        setup = self.setup_for(())
        self.terms = tuple(step_time(setup, TrainingDesigns.of()).terms)
        self.sequence, self.global_batch = setup.sequence, setup.global_batch

    def _make_setup(self, own: tuple[tuple[str, int | str], ...]) -> TrainingSetup:
        return setup_of(self.calibrated, self.dimensions, {**self.constants, **dict(own)})

    # --- scores ------------------------------------------------------------------------------------------------

    def evaluate(self, columns: Mapping[str, Values], *, strict: bool = True) -> Evaluation:
        """Score every row.

        Args:
            columns: Column name to its n values: int64 in base units; a category as text, or as an index into
                `CATEGORIES`. Other columns are ignored.
            strict: Whether a step beyond the clock is an error; else it is `NO_TIME` and its terms 0.

        Raises:
            SpecError: a column is missing, or a degree is below 1.
            LimitError: a step is longer than 46 days.
        """
        missing = [name for name in self.columns if name not in columns]
        if missing:
            raise SpecError(
                f"the column {missing[0]!r} is missing", where=Where(key=missing[0]), hint="give its values"
            )
        rows = max((len(np.atleast_1d(columns[name])) for name in self.columns), default=_rows(columns))
        terms = np.zeros((rows, len(self.terms)), dtype=np.int64)
        batches = np.zeros(rows, dtype=np.int64)
        slow = np.zeros(rows, dtype=bool)
        for index, setup, designs in self._groups(columns, rows):
            step = step_time(setup, designs)
            seconds = np.stack([np.broadcast_to(part, designs.tp.shape) for part in step.terms.values()], axis=1)
            late = step.step_s >= MOST_SECONDS
            terms[index] = np.rint(np.where(late[:, None], 0.0, seconds) * TICKS_PER_SECOND).astype(np.int64)
            batches[index], slow[index] = designs.micro_batches(setup).astype(np.int64), late
        if strict and slow.any():
            where = Where(key=f"design {int(np.argmax(slow))}")
            raise LimitError("the step takes longer than 46 days", where=where, hint="check the batch and the peak")
        ticks = np.where(slow, NO_TIME, terms.sum(axis=1))
        return Evaluation(ticks, terms, np.zeros((rows, 0), dtype=np.int64), batches)

    def predict(self, columns: Mapping[str, Values]) -> Prediction:
        """Return the full prediction of a single design: its interval, hidden input and what it extrapolates."""
        ((_, setup, designs),) = self._groups(columns, 1)
        return predict(setup, designs, self.calibrated.accuracy)

    def rates_of(self, step_ticks: IntArray, npus: int) -> Metrics:
        """Return the metrics of steps on so many NPUs; peak is that of the recipe's precision, attention causal."""
        assert np.all(step_ticks >= 1), "a scored step takes time"
        seconds = step_ticks / TICKS_PER_SECOND
        model, precision = self.calibrated.model, self.calibrated.recipe.precision
        flops = training_flops(model, self.global_batch, self.sequence, 3, causal=True)
        per_npu = flops / npus / seconds
        sequences = self.global_batch / seconds
        peak = self.calibrated.device.peak(precision)
        return Metrics(seconds, sequences, sequences * self.sequence, per_npu, per_npu / peak)

    # --- designs -----------------------------------------------------------------------------------------------

    def _groups(
        self, columns: Mapping[str, Values], rows: int
    ) -> Iterator[tuple[slice | NDArray[np.intp], TrainingSetup, TrainingDesigns]]:
        """Yield (rows, setup, designs) of the designs that share every job-wide knob."""
        knobs = {knob: self._values(columns, knob) for knob in DEFAULTS}
        knobs["dp"] = np.broadcast_to(knobs["dp"], (rows,))
        designs, _ = designs_of(knobs, self.calibrated.stack.selective, self.calibrated.model.layers)
        varied = [name for name in self.job_wide if name in self.columns]
        if not varied:
            yield slice(None), self.setup_for(()), designs
            return
        keys = {name: np.broadcast_to(_codes(name, np.atleast_1d(columns[name])), (rows,)) for name in varied}
        kinds, group = distinct_rows(keys.values())
        for number, kind in enumerate(kinds):
            index = np.flatnonzero(group == number)
            own = tuple((name, _spelled(name, int(codes[kind]))) for name, codes in keys.items())
            yield index, self.setup_for(own), _take(designs, index)

    def _values(self, columns: Mapping[str, Values], knob: str) -> Values:
        name = self.knobs.get(knob, knob)
        return np.atleast_1d(columns[name]) if name in self.columns else np.array([self.constants[knob]])


def _rows(columns: Mapping[str, Values]) -> int:
    return max((len(np.atleast_1d(column)) for column in columns.values()), default=1)


def _take(designs: TrainingDesigns, index: NDArray[np.intp]) -> TrainingDesigns:
    again = Recompute(*(getattr(designs.recompute, each.name)[index] for each in fields(Recompute)))
    names = (each.name for each in fields(TrainingDesigns) if each.name != "recompute")
    columns = {name: getattr(designs, name)[index] for name in names}
    return TrainingDesigns(**columns, recompute=again)


def _codes(name: str, values: Values) -> IntArray:
    """Return a job-wide knob as numbers; text by its place in the known names."""
    if values.dtype.kind in "iu":
        return np.asarray(values, dtype=np.int64)
    known = _names_of(name)
    return np.array([known.index(str(value)) for value in values], dtype=np.int64)


def _spelled(name: str, code: int) -> int | str:
    known = _names_of(name)
    return known[code] if known else code


def _names_of(name: str) -> tuple[str, ...]:
    return tuple(CATEGORIES.get(family_of(name), ()))
