"""The vectorised training-step simulator: closed forms over batches of designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.quantity import Values
from cosmic_opt.simulation.analytical.inputs import DEFAULTS, IN_NETWORK, InputColumns, bind_columns, input_names
from cosmic_opt.simulation.analytical.layout import (
    HIDDEN,
    NO_TIME,
    TERMS,
    Link,
    Option,
    Payload,
    Slot,
    Status,
    Term,
    Whole,
)
from cosmic_opt.simulation.analytical.metrics import Metrics, measure
from cosmic_opt.simulation.analytical.refusal import refusal
from cosmic_opt.simulation.analytical.tables import (
    FloatArray,
    IntArray,
    build_phase_tables,
    build_rates,
)
from cosmic_opt.system.collectives import ALGORITHMS
from cosmic_opt.system.npu import Npu
from cosmic_opt.system.phase import REDUCING
from cosmic_opt.workloads.training import TrainingJob, training_job
from cosmic_opt.workloads.transformer import Transformer

COMMUNICATING = ("chunks", "multidim", "overlap_gradients", "overlap_weights", "order")
_BLOCK_ROWS = 4096
"""Rows encoded at a time, so that a block of input stays in the cache."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of n designs, in ticks.

    Attributes:
        step_ticks: int64 [n].
        terms: int64 [n, T], parts in the order of `TERMS`; a row sums to its step.
        hidden: int64 [n, 2], communication behind compute in the order of `HIDDEN`; not part of the sum.
        micro_batches: int64 [n], per pipeline and step.
    """

    step_ticks: IntArray
    terms: IntArray
    hidden: IntArray
    micro_batches: IntArray


@dataclass(frozen=True, slots=True)
class Prepared:
    """Structural designs ready for network options; `layout` says what the axes hold.

    Attributes:
        whole: int64 [n, W].
        payload: float64 [n, D, P].
        links: int64 [n, D, L].
    """

    whole: IntArray
    payload: FloatArray
    links: IntArray


class AnalyticalSimulator:
    """Scores training steps of one workload and job on networks of one number of dimensions.

    Built once per problem. Compiled functions that take `tables` and `rates` (`structure.prepare_row`,
    `phases.option_vector`, `step.compose`) may be called from other compiled code.

    Attributes:
        terms: Names of the parts of a step.
        hidden: Names of the hidden communication.
        decomposes: A step is made of one option per network dimension, so that a region of designs has bounds.
        structural: Columns that `prepare` reads.
        communicating: Columns that say how groups communicate, and change nothing where communication takes no time.
        inert: Columns that cannot change a score here.
        job: The job, with defaults.
        causal_half: Whether the attention of a causal model counts half the square.
        tables, rates: The kernel's constants.
    """

    terms = TERMS
    hidden = HIDDEN
    decomposes = True

    def __init__(
        self,
        workload: Transformer,
        job: Mapping[str, int | str],
        npu: Npu,
        dimensions: int,
        constants: Mapping[str, int | str],
        domains: Mapping[str, Sequence[int | str]],
    ) -> None:
        """Bind a problem.

        Args:
            workload: What is trained.
            job: Data of `TrainingJob` and flags: global_batch, sequence, precision, overlap_gradients, ...
            npu: Where it runs.
            dimensions: Network dimensions, innermost first.
            constants: Values of names that do not vary ("dp", "topology[0]", ...), in base units.
            domains: Possible values of every column; phase costs are tabulated for these only.

        Raises:
            SpecError: a name has neither a value nor a domain, or a value means nothing.
        """
        data = {**DEFAULTS, **job, **constants}
        self.workload, self.npu, self.dimensions = workload, npu, dimensions
        self.job: TrainingJob = training_job(workload, data)
        self._columns: InputColumns = bind_columns(self.job, data, tuple(domains), dimensions)
        places = self._columns.places
        self.structural = tuple(name for name, place in places.items() if place < self._columns.structural)
        self.communicating = tuple(name for name in places if name in COMMUNICATING)
        self.inert = tuple(name for name in domains if name not in places)
        if data["causal_half"] not in (0, 1):
            raise SpecError("causal_half is a flag", where=Where(key="causal_half"), hint="allowed: 0, 1")
        self.causal_half = bool(data["causal_half"])
        self.rates = build_rates(
            workload,
            self.job,
            npu,
            causal_half=self.causal_half,
            host_bytes_per_s=int(data.get("host_bandwidth", 0)),
        )
        self.tables = build_phase_tables(
            [int(value) for value in self._possible("npus_per_dim", data, domains)],
            [str(value) for value in self._possible("topology", data, domains)],
            self._algorithms(data, domains),
            reducing=bool(data[IN_NETWORK]),
        )

    def _algorithms(self, data: Mapping[str, int | str], domains: Mapping[str, Sequence[int | str]]) -> list[str]:
        """Return every possible algorithm; one that needs switches that reduce is no choice where they do not."""
        names = [str(value) for value in self._possible("algorithm", data, domains)]
        if data[IN_NETWORK] not in (0, 1):
            raise SpecError(f"{IN_NETWORK} is a flag", where=Where(key=IN_NETWORK), hint="allowed: 0, 1")
        given = {str(data.get(f"algorithm[{dim}]")) for dim in range(self.dimensions)} & set(names)
        needing = [name for name in given if ALGORITHMS.get(name).in_switch]
        if needing and not data[IN_NETWORK]:
            raise SpecError(
                f"{needing[0]}: no switch of this system reduces", where=Where(key="algorithm"), hint=REDUCING
            )
        return names

    def _possible(
        self, name: str, data: Mapping[str, int | str], domains: Mapping[str, Sequence[int | str]]
    ) -> list[int | str]:
        """Return every value that `name` takes in some dimension."""
        keys = [f"{name}[{dim}]" for dim in range(self.dimensions)]
        return sorted({value for key in keys for value in (domains[key] if key in domains else (data[key],))})

    def evaluate(self, columns: Mapping[str, Values], *, strict: bool = True) -> Evaluation:
        """Score every row.

        Args:
            columns: Column name to its n values: int64 in base units; a category as text, or as integer
                codes in the order of `layout.CATEGORIES`. Other columns are ignored.
            strict: Whether a row that cannot run is an error; else its step is `layout.NO_TIME` and its terms 0.

        Raises:
            SpecError: a column is missing, or holds a value outside the domains.
            InfeasibleError: a row's degrees do not fill its network, or an algorithm does not exist there.
            LimitError: a step is longer than 46 days.
        """
        from cosmic_opt.simulation.analytical.batch import evaluate_rows  # here: numba takes a second to load

        rows = self._columns.length(columns, tuple(self._columns.places))
        step = np.empty(rows, dtype=np.int64)
        terms = np.empty((rows, len(TERMS) + len(HIDDEN)), dtype=np.int64)
        micro_batches, statuses = np.empty_like(step), np.empty_like(step)
        block = np.empty((min(rows, _BLOCK_ROWS), len(self._columns.base)), dtype=np.int64)
        for start in range(0, rows, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, rows)
            inputs = block[: stop - start]
            self._columns.fill(columns, start, stop, inputs)
            part = slice(start, stop)
            outputs = step[part], terms[part], micro_batches[part], statuses[part]
            evaluate_rows(self.tables, self.rates, self.dimensions, inputs, *outputs)
            self._require_scored(statuses[part], inputs, start, strict=strict)
        unscored = statuses != Status.OK
        step[unscored], terms[unscored] = NO_TIME, 0
        return Evaluation(step, terms[:, : Term.COUNT], terms[:, Term.COUNT :], micro_batches)

    def prepare(self, columns: Mapping[str, Values], *, strict: bool = True) -> Prepared:
        """Prepare every row of the structural columns; errors as `evaluate`. Not `strict`, `Whole.STATUS` tells."""
        from cosmic_opt.simulation.analytical.batch import prepare_rows

        rows = self._columns.length(columns, self.structural)
        inputs = np.empty((rows, self._columns.structural), dtype=np.int64)
        self._columns.fill(columns, 0, rows, inputs)
        prepared = Prepared(
            np.zeros((rows, Whole.COUNT), dtype=np.int64),
            np.zeros((rows, self.dimensions, Payload.COUNT)),
            np.zeros((rows, self.dimensions, Link.COUNT), dtype=np.int64),
        )
        prepare_rows(self.tables, self.rates, inputs, prepared.whole, prepared.payload, prepared.links)
        self._require_scored(prepared.whole[:, Whole.STATUS], inputs, 0, strict=strict)
        return prepared

    def option_vectors(self, prepared: Prepared, row: int, dim: int, options: Mapping[str, Values]) -> IntArray:
        """Return the option vectors, int64 [n_options, K], of dimension `dim` under prepared row `row`.

        Args:
            prepared: From `prepare`.
            row: A row of it.
            dim: The dimension.
            options: "topology", "algorithm", "bandwidth", "latency" to n_options values; a constant of the
                problem may be left out.

        An option the dimension cannot run holds INFEASIBLE in every slot, so componentwise minima pass it over.
        """
        from cosmic_opt.simulation.analytical.batch import option_vectors

        inputs = self.encode_options(dim, options)
        slots = np.empty((len(inputs), Slot.COUNT), dtype=np.int64)
        option_vectors(self.tables, prepared.payload[row, dim], prepared.links[row, dim], inputs, slots)
        return slots

    def encode_options(self, dim: int, options: Mapping[str, Values]) -> IntArray:
        """Return `options` of dimension `dim` as kernel input, int64 [n_options, 4] in the order of `Option`."""
        start = self._columns.structural + dim * Option.COUNT
        named = {f"{name}[{dim}]": values for name, values in options.items()}
        places = {name: place for name, place in self._columns.places.items() if start <= place < start + Option.COUNT}
        rows = self._columns.length(named, tuple(places))
        local = InputColumns(
            self._columns.base[start : start + Option.COUNT],
            {name: place - start for name, place in places.items()},
            self._columns.categories,
            {},
            1,
            False,
        )
        inputs = np.empty((rows, Option.COUNT), dtype=np.int64)
        local.fill(named, 0, rows, inputs)
        return inputs

    def compose(self, prepared: Prepared, row: int, vectors: IntArray) -> tuple[int, IntArray]:
        """Return the step and its terms (then hidden) of a prepared row under D option vectors [D, K]."""
        from cosmic_opt.simulation.analytical.step import compose

        terms = np.empty(len(TERMS) + len(HIDDEN), dtype=np.int64)
        return int(compose(prepared.whole[row], vectors, terms)), terms

    def metrics(self, evaluation: Evaluation, npus: int | IntArray) -> Metrics:
        """Return throughput and achieved FLOP/s of scored designs on `npus` NPUs each."""
        return self.rates_of(evaluation.step_ticks, npus)

    def rates_of(self, step_ticks: IntArray, npus: int | IntArray) -> Metrics:
        """Return the metrics of steps of so many ticks."""
        return measure(self.workload, self.job, self.npu, npus, step_ticks, causal_half=self.causal_half)

    def _require_scored(self, statuses: NDArray[np.int64], inputs: IntArray, start: int, *, strict: bool) -> None:
        """Raise for the first row that has no time; not `strict`, for one whose values mean nothing."""
        bad = np.flatnonzero(statuses if strict else statuses == Status.OUTSIDE)
        if not len(bad):
            return
        row = int(bad[0])
        names = input_names(self.dimensions, explicit=self._columns.explicit)
        design = dict(zip(names, (int(value) for value in inputs[row]), strict=False))
        where = Where(key=f"design {start + row}") if start + len(inputs) > 1 else None
        raise refusal(int(statuses[row]), design, self.dimensions, where)
