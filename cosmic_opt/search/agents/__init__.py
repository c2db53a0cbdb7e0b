"""Agents: they propose designs and learn from scores. Each sees a `FeasibleSpace` and nothing else."""

from cosmic_opt.search.agents import genetic, random_walk
from cosmic_opt.search.agents.base import AGENTS, Agent

__all__ = ["AGENTS", "Agent", "genetic", "random_walk"]
