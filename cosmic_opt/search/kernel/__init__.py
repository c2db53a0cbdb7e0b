"""Compiled: bounds of regions, and exact branch and bound over the network options of one region.

A region fixes every structural column. Dimension d then takes one of a list of options; an option has a vector of
ticks (`simulation.analytical.layout.Slot`), a share of the objective's amount, and a share of each linear rule
that couples dimensions. The step time is non-decreasing in every tick, so the componentwise minimum over a box
of options (a range of every dimension's list), composed, bounds every member of the box from below.

Objective values are products of two int64 and are compared exactly, as 128-bit numbers. Rows are copied by loops:
assigning a slice costs the compiler a second or two each.
"""

from cosmic_opt.search.kernel.agree import First, first_difference
from cosmic_opt.search.kernel.arrays import KEY, LOWER, UPPER, Options, Region, Regions, pick, product_less
from cosmic_opt.search.kernel.bounds import blocking_bounds, bound_regions, silent_bounds
from cosmic_opt.search.kernel.branch import solve_regions
from cosmic_opt.search.kernel.pareto import Front, explore_regions

__all__ = [
    "KEY",
    "LOWER",
    "UPPER",
    "First",
    "Front",
    "Options",
    "Region",
    "Regions",
    "blocking_bounds",
    "bound_regions",
    "explore_regions",
    "first_difference",
    "pick",
    "product_less",
    "silent_bounds",
    "solve_regions",
]
