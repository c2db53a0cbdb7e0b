"""The Python front door: a `Problem` is a value; every change makes a new one.

from cosmic_opt.api import Problem

problem = Problem.load("cosmic/gpt3-175b-system2").fix(tp=8).require("network_cost <= 5000000")
problem.count().value
problem.solve().design
"""

from cosmic_opt.api.problem import Problem

__all__ = ["Problem"]
