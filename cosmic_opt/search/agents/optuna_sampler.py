"""Any sampler of Optuna as an agent."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.parameter_set import Column, DesignBatch
from cosmic_opt.search.agents.base import AgentFactory, Scores
from cosmic_opt.search.agents.extras import load
from cosmic_opt.search.feasible_space import FeasibleSpace

PREFIX = "optuna:"
TRY_OUT = 12
PENALTY = 1e300
"""The score of a design that does not count, for samplers that take no infinity."""


class OptunaAgent:
    """A sampler proposes any combination of values; its score is that of the member nearest to it.

    So the sampler sees a function over the whole grid and every evaluation is of a member. Over the raw grid nothing
    is nearer than the proposal itself: the sampler is then used as anybody would use it, with a penalty.
    """

    ask_size = 8

    def __init__(self, name: str, space: FeasibleSpace, rng: np.random.Generator) -> None:
        optuna = load("optuna", "optuna")
        self.space = space
        self.rng = rng
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        columns = space.parameter_set.columns
        self.names = {columns[at].name: at for at in space.open_columns}
        self.distributions = {name: _distribution(optuna, columns[at]) for name, at in self.names.items()}
        self.create_trial = optuna.trial.create_trial
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some samplers call themselves experimental
            sampler = _sampler_class(name)(seed=int(rng.integers(2**31)))
            self.study = optuna.create_study(sampler=sampler)
        self.trials: list[Any] = []
        self.asked: DesignBatch | None = None

    def ask(self, count: int) -> DesignBatch:
        """Return the members nearest to what the sampler proposes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.trials = [self.study.ask(self.distributions) for _ in range(count)]
        codes = self.space.sample(1, self.rng).codes.repeat(count, axis=0)
        for name, at in self.names.items():
            codes[:, at] = [int(trial.params[name]) for trial in self.trials]
        self.asked = self.space.nearest(codes, self.rng)
        return self.asked

    def tell(self, batch: DesignBatch, scores: Scores) -> None:
        """Pass the scores on; designs from elsewhere are entered as trials of their own."""
        values = np.minimum(scores, PENALTY).tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if batch is self.asked:
                for trial, value in zip(self.trials, values, strict=True):
                    self.study.tell(trial, value)
                return
            for row, value in zip(batch.codes.tolist(), values, strict=True):
                params = {name: row[at] for name, at in self.names.items()}
                self.study.add_trial(self.create_trial(params=params, distributions=self.distributions, value=value))


def optuna_agent(name: str, *, where: Where | None = None) -> AgentFactory:
    """Return the factory of the agent that a sampler is: "TPESampler", "NSGAIISampler", ...

    Raises:
        SpecError: Optuna is not installed, has no such sampler, or the sampler needs more than a seed.
    """
    sampler = _sampler_class(name, where=where)
    try:
        _try_out(sampler)
    except ImportError as error:
        raise SpecError(f"{name} needs another library: {error}", where=where, hint="install it with pip") from None

    def build(space: FeasibleSpace, rng: np.random.Generator) -> OptunaAgent:
        return OptunaAgent(name, space, rng)

    return build


def _try_out(sampler: Any) -> None:
    """Let a sampler propose until it has left its start behind: a library it needs is only then loaded."""
    optuna = load("optuna", "optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {name: optuna.distributions.IntDistribution(0, 3) for name in ("x", "y")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=sampler(seed=0))
        for value in range(TRY_OUT):
            study.tell(study.ask(distributions), float(value))


def _sampler_class(name: str, *, where: Where | None = None) -> Any:
    samplers = load("optuna.samplers", "optuna", where=where)
    usable = [known for known in samplers.__all__ if _takes_seed_alone(getattr(samplers, known))]
    if name not in usable:
        raise SpecError(
            f"Optuna has no sampler {name!r} that a seed is enough for", where=where, hint=nearest(name, usable)
        )
    return getattr(samplers, name)


def _takes_seed_alone(sampler: Any) -> bool:
    if not inspect.isclass(sampler) or inspect.isabstract(sampler):
        return False
    parameters = inspect.signature(sampler).parameters.values()
    needed = {p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
    return "seed" in {p.name for p in parameters} and not needed


def _distribution(optuna: Any, column: Column) -> Any:
    """Return the codes of a column as Optuna sees them: ordered for numbers that ascend, else categories."""
    values = column.values
    if not isinstance(values[0], str) and list(values) == sorted(values):
        return optuna.distributions.IntDistribution(0, len(values) - 1)
    return optuna.distributions.CategoricalDistribution(tuple(range(len(values))))
