"""Compiled: weighted paths through the diagrams of a feasible set, row by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.simulation.analytical._jit import jit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Network(NamedTuple):
    """Layers of nodes, one behind another; nodes and arcs are numbered through, and a node's arcs are neighbours.

    Attributes:
        layer: Number of the first node of each layer, and of the end: [layers + 1].
        arc: Number of the first arc of each node, and the number of arcs: [nodes + 1].
        child: The node that each arc leads to.
        slot: Where each arc finds its value in a row of values.
    """

    layer: IntArray
    arc: IntArray
    child: IntArray
    slot: IntArray


@jit
def draw(network: Network, weights: FloatArray, dice: FloatArray, taken: IntArray) -> None:
    """Draw a path per row, in proportion to the product of the weights of its arcs.

    `weights` [rows or 1, slots], `dice` [rows, layers] uniform in [0, 1), `taken` [rows, layers] receives arcs. Where
    no arc of a node has a weight above 0, all of them are alike.
    """
    mass = np.ones(network.arc.shape[0] - 1)
    for row in range(taken.shape[0]):
        weight = weights[min(row, weights.shape[0] - 1)]
        if row < weights.shape[0]:
            sum_up(network, weight, mass)
        node = 0
        for layer in range(taken.shape[1]):
            start, stop = network.arc[node], network.arc[node + 1]
            total = 0.0
            for arc in range(start, stop):
                total += weight[network.slot[arc]] * mass[network.child[arc]]
            chosen = start + int(dice[row, layer] * (stop - start))
            left = dice[row, layer] * total
            for arc in range(start, stop):
                share = weight[network.slot[arc]] * mass[network.child[arc]]
                if share > 0.0:
                    chosen = arc
                    left -= share
                    if left < 0.0:
                        break
            taken[row, layer] = chosen
            node = network.child[chosen]


@jit
def sum_up(network: Network, weight: FloatArray, mass: FloatArray) -> None:
    """Set the mass of each node to the weight of all its completions, but for a factor per layer (it keeps range)."""
    for layer in range(network.layer.shape[0] - 2, -1, -1):
        largest = 0.0
        for node in range(network.layer[layer], network.layer[layer + 1]):
            total = 0.0
            for arc in range(network.arc[node], network.arc[node + 1]):
                total += weight[network.slot[arc]] * mass[network.child[arc]]
            mass[node] = total
            largest = max(largest, total)
        if largest > 0.0:
            for node in range(network.layer[layer], network.layer[layer + 1]):
                mass[node] /= largest


@jit
def cheapest(network: Network, costs: FloatArray, taken: IntArray) -> None:
    """Find, per row of costs [rows, slots], a path of least total cost; `taken` [rows, layers] receives its arcs."""
    best = np.zeros(network.arc.shape[0] - 1)
    for row in range(taken.shape[0]):
        for node in range(network.layer[-1] - 1, -1, -1):
            best[node] = np.inf
            for arc in range(network.arc[node], network.arc[node + 1]):
                best[node] = min(best[node], costs[row, network.slot[arc]] + best[network.child[arc]])
        node = 0
        for layer in range(taken.shape[1]):
            chosen = network.arc[node]
            for arc in range(network.arc[node], network.arc[node + 1]):
                if costs[row, network.slot[arc]] + best[network.child[arc]] == best[node]:
                    chosen = arc
                    break
            taken[row, layer] = chosen
            node = network.child[chosen]


@jit
def walk(network: Network, wanted: IntArray, dice: FloatArray, taken: IntArray) -> None:
    """Follow, per row, the arc with the wanted slot [rows, layers] where there is one, and a random arc elsewhere."""
    for row in range(taken.shape[0]):
        node = 0
        for layer in range(taken.shape[1]):
            start, stop = network.arc[node], network.arc[node + 1]
            chosen = start + int(dice[row, layer] * (stop - start))
            for arc in range(start, stop):
                if network.slot[arc] == wanted[row, layer]:
                    chosen = arc
                    break
            taken[row, layer] = chosen
            node = network.child[chosen]
