"""Agents: they propose designs and learn from scores. Each sees a `FeasibleSpace` and nothing else."""

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.search.agents import annealing, ant_colony, bayesian, genetic, random_walk
from cosmic_opt.search.agents.base import AGENTS, Agent, AgentFactory
from cosmic_opt.search.agents.extras import load
from cosmic_opt.search.agents.optuna_sampler import PREFIX, optuna_agent

__all__ = [
    "AGENTS",
    "Agent",
    "AgentFactory",
    "annealing",
    "ant_colony",
    "bayesian",
    "find_agent",
    "genetic",
    "random_walk",
]


def find_agent(name: str, *, where: Where | None = None) -> AgentFactory:
    """Return the agent called `name`, or an Optuna sampler as agent: "optuna:TPESampler".

    Raises:
        SpecError: no such agent or sampler, or the library it needs is not installed.
    """
    if name.startswith(PREFIX):
        return optuna_agent(name.removeprefix(PREFIX), where=where)
    if name in AGENTS and name == "bayesian":
        load("sklearn", "bo", where=where)
    if name not in AGENTS:
        raise SpecError(f"unknown agent {name!r}", where=where, hint=f"known: {', '.join(AGENTS)}, {PREFIX}SAMPLER")
    return AGENTS.get(name, where=where)
