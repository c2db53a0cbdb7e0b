"""The Bayesian agent: a Gaussian process (scikit-learn), expected improvement, batches by a believer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from cosmic_opt.psa.parameter_set import Column, DesignBatch
from cosmic_opt.search.agents.archive import Archive
from cosmic_opt.search.agents.base import AGENTS, Scores
from cosmic_opt.search.agents.extras import load
from cosmic_opt.search.feasible_space import FeasibleSpace

FloatArray = NDArray[np.float64]

ASK = 8
FIRST = 16
"""Uniform designs before the first process is fitted."""
CANDIDATES = 512
"""Uniform candidates, and as many neighbours of the best designs, among which the improvement is greatest."""
BEST = 8
MEMORY = 384
"""The best and the latest designs that the process is fitted to: its cost grows with their cube."""
NOISE = 1e-6
REFIT = 1.15
"""The kernel is fitted again when there are so many times the designs of the last time."""


@AGENTS.register("bayesian")
class BayesianAgent:
    """Maximises expected improvement of the logarithm of the score over members of the space.

    In a batch, each choice is believed to score what the process expects, before the next one is made (kriging
    believer; Ginsbourger, Le Riche and Carraro 2010). A design that does not count is learnt as the worst known.
    """

    ask_size = ASK

    def __init__(self, space: FeasibleSpace, rng: np.random.Generator) -> None:
        load("sklearn", "bo")
        self.space = space
        self.rng = rng
        self.best = Archive(space, BEST)
        self.designs = space.parameter_set.batch(np.zeros((0, len(space.parameter_set.columns)), dtype=np.int32))
        self.scores: Scores = np.zeros(0)
        self.kernel: Any = None
        self.fitted_to = 0

    def ask(self, count: int) -> DesignBatch:
        """Return uniform designs at first, then those that promise the greatest improvement."""
        if np.isfinite(self.scores).sum() < 2 or len(self.scores) < FIRST:
            return self.space.sample(count, self.rng)
        with load("threadpoolctl", "bo").threadpool_limits(
            1
        ):  # matrices so small that threads cost more than they bring
            return self._promising(count)

    def tell(self, batch: DesignBatch, scores: Scores) -> None:
        """Remember the scores."""
        self.designs = self.space.parameter_set.batch(np.concatenate([self.designs.codes, batch.codes]))
        self.scores = np.concatenate([self.scores, scores])
        counts = np.isfinite(scores)
        self.best.add(batch.take(counts), scores[counts])

    def _promising(self, count: int) -> DesignBatch:
        known = self._memory()
        levels = self._levels()[known]
        process = self._fitted(self._features(self.designs.take(known)), levels)
        candidates = self._candidates(count)
        mean, covariance = process.predict(self._features(candidates), return_cov=True)
        return candidates.take(_believe(mean, covariance, float(levels.min()), count))

    def _memory(self) -> NDArray[np.int64]:
        """Return the rows the process is fitted to: the best third of its memory, and the latest others; no repeats."""
        _, first = np.unique(self.designs.codes, axis=0, return_index=True)
        latest = np.sort(first)[::-1]
        best = latest[np.argsort(self.scores[latest], kind="stable")][: MEMORY // 3]
        rest = latest[~np.isin(latest, best)][: MEMORY - len(best)]
        return np.sort(np.concatenate([best, rest]))

    def _levels(self) -> FloatArray:
        """Return the logarithms of the scores; a design that does not count has the level of the worst that does."""
        finite = np.isfinite(self.scores)
        levels: FloatArray = np.log(np.where(finite, self.scores, 1.0))
        return np.asarray(np.where(finite, levels, levels[finite].max()))

    def _fitted(self, inputs: FloatArray, levels: FloatArray) -> Any:
        """Return the process; length and amplitude of its kernel are the likeliest, found anew now and then."""
        library = load("sklearn.gaussian_process", "bo")
        if self.kernel is None or len(inputs) >= REFIT * self.fitted_to:
            start = library.kernels.ConstantKernel(1.0, (1e-2, 1e2)) * library.kernels.Matern(1.0, (0.05, 20.0), nu=2.5)
            process = library.GaussianProcessRegressor(start, alpha=NOISE, normalize_y=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a length at its limit is an answer
                process.fit(inputs, levels)
            self.kernel, self.fitted_to = process.kernel_, len(inputs)
            return process
        return library.GaussianProcessRegressor(self.kernel, alpha=NOISE, optimizer=None, normalize_y=True).fit(
            inputs, levels
        )

    def _candidates(self, count: int) -> DesignBatch:
        """Return distinct designs to choose from: uniform ones and neighbours of the best, at least `count`."""
        uniform = self.space.sample(max(CANDIDATES, 2 * count), self.rng)
        start = self.best.designs.take(self.rng.integers(0, len(self.best), size=CANDIDATES))
        near = self.space.move(start, 2.0, self.rng)
        codes = np.unique(np.concatenate([uniform.codes, near.codes]), axis=0)
        known = {row.tobytes() for row in self.designs.codes}
        new = np.array([row.tobytes() not in known for row in codes])
        if new.sum() >= count:
            return self.space.parameter_set.batch(codes[new])
        return uniform

    def _features(self, batch: DesignBatch) -> FloatArray:
        """Return designs as points, [designs, features]: ranks in [0, 1] for numbers, one axis per category."""
        columns = batch.parameter_set.columns
        parts = [_scale(columns[column])[batch.codes[:, column]] for column in self.space.open_columns]
        return np.concatenate([np.zeros((len(batch), 1)), *parts], axis=1)


def _scale(column: Column) -> FloatArray:
    """Return the features of each code of a column."""
    size = len(column.values)
    if isinstance(column.values[0], str):
        return np.asarray(np.eye(size) / np.sqrt(2), dtype=np.float64)
    ranks = np.argsort(np.argsort(column.array))
    return np.asarray(ranks / (size - 1), dtype=np.float64).reshape(-1, 1)


def _believe(mean: FloatArray, covariance: FloatArray, best: float, count: int) -> list[int]:
    """Return the candidates of a batch: each promises most once those before it scored what the process expects.

    Conditioning a process on its own expectation leaves the mean, and takes `c c' / c_p` from the covariance.
    """
    covariance = covariance.copy()
    chosen: list[int] = []
    for _ in range(count):
        gain = _expected_improvement(mean, np.sqrt(np.maximum(covariance.diagonal(), 0.0)), best)
        gain[chosen] = -np.inf
        pick = int(gain.argmax())
        chosen.append(pick)
        best = min(best, float(mean[pick]))
        column = covariance[:, pick].copy()
        covariance -= np.outer(column, column) / max(column[pick], NOISE)
    return chosen


def _expected_improvement(mean: FloatArray, deviation: FloatArray, best: float) -> FloatArray:
    """Return the expected improvement over `best` (Jones, Schonlau and Welch 1998, eq. 15)."""
    deviation = np.maximum(deviation, 1e-12)
    z = (best - mean) / deviation
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray((best - mean) * ndtr(z) + deviation * density)
