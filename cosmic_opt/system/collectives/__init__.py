"""Collective algorithms. One file each; importing this package registers them all."""

from __future__ import annotations

from cosmic_opt.system.collectives import direct, double_binary_tree, halving_doubling, in_network, ring
from cosmic_opt.system.collectives.base import ALGORITHMS, COLLECTIVES, Algorithm, Step

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "Algorithm",
    "Step",
    "direct",
    "double_binary_tree",
    "halving_doubling",
    "in_network",
    "ring",
]
