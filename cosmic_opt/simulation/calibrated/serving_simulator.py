"""The calibrated model of serving as a problem's simulator: columns of designs to whole ticks, term by term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.catalog.job_kinds import ENERGY, PER_NPU, THROUGHPUT
from cosmic_opt.catalog.served import Serving
from cosmic_opt.errors import InfeasibleError, LimitError, SpecError, Where
from cosmic_opt.psa.quantity import Values
from cosmic_opt.simulation.analytical.layout import NO_TIME
from cosmic_opt.simulation.analytical.simulator import Evaluation
from cosmic_opt.simulation.calibrated.cluster import linked
from cosmic_opt.simulation.calibrated.servers import OneServer, Server, TwoPools
from cosmic_opt.simulation.calibrated.serving_coverage import LATENCY, SATURATED
from cosmic_opt.simulation.calibrated.serving_job import FloatArray, ServingSetup
from cosmic_opt.simulation.calibrated.serving_predict import ServingPrediction, prediction_of
from cosmic_opt.simulation.calibrated.simulator import MOST_SECONDS
from cosmic_opt.system.scale_up import scale_up
from cosmic_opt.units import TICKS_PER_SECOND
from cosmic_opt.workloads.requests import TOKENS
from cosmic_opt.workloads.serving_quantities import KNOBS, designs_of_pool, knob_name, pools_of

IntArray = NDArray[np.int64]
LATENCIES = {
    "first_token_time_s": "first_token_time",
    "output_token_time_s": "output_token_time",
    "batch_time_s": "batch_time",
    "cosmic_time_s": "cosmic_time",
}
RATES = {"throughput_tokens_per_s": THROUGHPUT, "throughput_tokens_per_s_per_npu": PER_NPU}
"""Metrics in the answer of `simulate`, and what rules call them."""
TIMED_BY = {ENERGY.name: THROUGHPUT}
"""Metrics that are drawn in the time of another one."""


class ServingSimulator:
    """Scores one metric of serving one model on one cluster with one engine; the other metrics may have limits.

    A rate, and the energy of a token, are scored as the time of `TOKENS` output tokens. A design that breaks a limit
    has no time (`NO_TIME`) unless it is asked for strictly.

    Attributes:
        terms: Names of the parts of a time.
        hidden: None: nothing hides behind compute.
        decomposes: A time is no sum over the options of network dimensions, so regions have no bounds.
        inert: Columns that cannot change a score.
    """

    hidden: tuple[str, ...] = ()
    decomposes = False

    def __init__(
        self,
        serving: Serving,
        dimensions: int,
        constants: Mapping[str, int | str],
        domains: Mapping[str, Sequence[int | str]],
        *,
        metric: str = THROUGHPUT,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        """Bind a problem: `constants` are values of names that do not vary, `domains` the possible values of columns.

        `limits` give the greatest ticks of metrics by the names of rules; of a rate, those of `TOKENS` output tokens.
        """
        self.serving, self.limits = serving, dict(limits or {})
        self.metric = metric
        self.pools = pools_of({*constants, *domains})
        knobs = [knob_name(pool, knob) for pool in self.pools for knob in KNOBS]
        self.columns = tuple(name for name in domains if name in knobs)
        self.inert = tuple(name for name in domains if name not in knobs)
        self.constants = {name: np.array([constants[name]]) for name in knobs if name in constants}
        self.setup = _setup(serving, dimensions, constants)
        experts = ("experts", "dispatch") if serving.model.experts is not None else ()
        ends = () if self.pools == ("",) else ("transfer",)
        kernels = ("kernels", "tensor_parallel", "attention", "head", "sends", "host")
        self.terms = ("prefill", "matmul", *experts, *kernels, *ends)

    # --- scores ------------------------------------------------------------------------------------------------

    def evaluate(self, columns: Mapping[str, Values], *, strict: bool = True) -> Evaluation:
        """Score every row.

        Args:
            columns: Column name to its n values, int64. Other columns are ignored.
            strict: Whether a design that cannot run is an error; else it is `NO_TIME`, as is one beyond a limit.

        Raises:
            SpecError: a column is missing, or a degree is below 1.
            InfeasibleError: not one sequence fits.
            LimitError: a time is longer than 46 days.
        """
        server = self.server(columns)
        ticks, terms = self._ticks(server, self.metric)
        runs = np.broadcast_to(server.sequences >= 1, ticks.shape)
        if strict:
            self._refuse(runs, ticks)
        else:
            ticks = np.where(runs & self._obeys(server), ticks, NO_TIME)
        return Evaluation(ticks, terms, np.zeros((len(ticks), 0), dtype=np.int64), np.ones_like(ticks))

    def ticks_of(self, columns: Mapping[str, Values], metric: str) -> IntArray:
        """Return the ticks of any metric of each row, `NO_TIME` where nothing runs; of a rate, of `TOKENS` tokens."""
        server = self.server(columns)
        ticks, _ = self._ticks(server, metric)
        return np.where(server.sequences >= 1, ticks, NO_TIME)

    def _refuse(self, runs: NDArray[np.bool_], ticks: IntArray) -> None:
        if not runs.all():
            where = Where(key=f"design {int(np.argmin(runs))}") if runs.size > 1 else None
            raise InfeasibleError(
                "no sequence fits beside the weights",
                where=where,
                hint="more NPUs a replica, or narrower weights; the rule that a full batch's cache fits keeps this out",
            )
        if np.any(ticks == NO_TIME):
            where = Where(key=f"design {int(np.argmax(ticks))}")
            raise LimitError(f"{self.metric} takes longer than 46 days", where=where, hint="check the requests")

    def _obeys(self, server: Server) -> NDArray[np.bool_]:
        """Return which designs keep every limit."""
        obeying = np.ones(len(np.atleast_1d(server.sequences)), dtype=bool)
        for name, limit in self.limits.items():
            obeying &= self._ticks(server, name)[0] <= limit
        return obeying

    def _ticks(self, server: Server, metric: str) -> tuple[IntArray, IntArray]:
        """Return whole ticks of a metric, and of its terms [n, T]; each term is rounded once, a time is their sum."""
        seconds = getattr(server, TIMED_BY.get(metric, metric))()
        size = np.shape(server.sequences)
        table = [np.broadcast_to(seconds.get(name, 0.0), size) for name in self.terms]
        late = np.sum(table, axis=0) >= MOST_SECONDS
        parts = [np.rint(np.where(late, 0.0, each) * TICKS_PER_SECOND).astype(np.int64) for each in table]
        terms = np.stack(parts, axis=1)
        return np.where(late, NO_TIME, terms.sum(axis=1)), terms

    # --- what people ask ---------------------------------------------------------------------------------------

    def metrics(self, columns: Mapping[str, Values]) -> dict[str, FloatArray]:
        """Return every metric by its name in the answer of `simulate`; infinite or 0 where nothing runs."""
        server = self.server(columns)
        runs = server.sequences >= 1
        found: dict[str, FloatArray] = {}
        for name, metric in LATENCIES.items():
            ticks, _ = self._ticks(server, metric)
            found[name] = np.where(runs & (ticks != NO_TIME), ticks / TICKS_PER_SECOND, np.inf)
        for name, metric in RATES.items():
            ticks, _ = self._ticks(server, metric)
            found[name] = np.where(runs & (ticks != NO_TIME), TOKENS * TICKS_PER_SECOND / ticks, 0.0)
        found["requests_per_s"] = found["throughput_tokens_per_s"] / self.serving.requests.output
        found["users"] = np.where(runs, server.users, 0.0)
        return found

    def breakdown(self, columns: Mapping[str, Values], metric: str) -> dict[str, int]:
        """Return ticks of one design's metric by term."""
        _, terms = self._ticks(self.server(columns), metric)
        return {name: int(part) for name, part in zip(self.terms, terms[0], strict=True)}

    def predict(self, columns: Mapping[str, Values]) -> ServingPrediction:
        """Return how sure the time between two tokens of a single design is, and what it extrapolates."""
        server = self.server(columns)
        designs = server.designs if isinstance(server, OneServer) else server.decode
        requests, accuracy = self.serving.requests, self.serving.accuracy
        apart = () if isinstance(server, OneServer) else ("no pair of pools was measured",)
        load, terms = SATURATED if server.full[0] else LATENCY, server.output_token_time()
        return prediction_of(server.setup, designs, requests, accuracy, terms, load, gpus=server.gpus, more=apart)

    # --- designs -----------------------------------------------------------------------------------------------

    def values(self, columns: Mapping[str, Values]) -> dict[str, Values]:
        """Return every knob of each row, whether a column or a constant gives it.

        Raises:
            SpecError: a column is missing.
        """
        missing = [name for name in self.columns if name not in columns]
        if missing:
            raise SpecError(
                f"the column {missing[0]!r} is missing", where=Where(key=missing[0]), hint="give its values"
            )
        rows = max((len(np.atleast_1d(column)) for column in columns.values()), default=1)
        values = {**self.constants, **{name: np.atleast_1d(columns[name]) for name in self.columns}}
        knobs = [knob_name(pool, knob) for pool in self.pools for knob in KNOBS]
        return {name: np.broadcast_to(values.get(name, np.ones(1, dtype=np.int64)), (rows,)) for name in knobs}

    def server(self, columns: Mapping[str, Values]) -> Server:
        """Return the server of each row.

        Raises:
            SpecError: a column is missing, or a degree is below 1.
        """
        values = self.values(columns)
        first, *second = (designs_of_pool(values, pool) for pool in self.pools)
        if not second:
            return OneServer(self.setup, first, self.serving.requests)
        return TwoPools(self.setup, first, second[0], self.serving.requests)


def _setup(serving: Serving, dimensions: int, constants: Mapping[str, int | str]) -> ServingSetup:
    domain = scale_up(dimensions, constants)
    return ServingSetup(
        model=serving.model,
        device=linked(serving.device, domain.link_bytes_per_s),
        engine=serving.engine,
        numbers=serving.numbers,
        gpus_per_node=domain.npus,
        nic_bytes_per_s=domain.nic_bytes_per_s,
    )
