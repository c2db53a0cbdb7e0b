"""Structural quantities of the network: total bandwidth, dollars, and blocks that have no price."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from cosmic_opt.errors import LimitError
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.quantity import IntArray, Quantity, QuantityTerm, Values
from cosmic_opt.psa.term import SAFE
from cosmic_opt.system.price import TierPrice, dimension_cost_dollars
from cosmic_opt.units import Unit, show

NETWORK_QUANTITIES = ("total_bandwidth", "network_cost", "unpriced_blocks")
UNPRICED_DOLLARS = 10**15
"""What a block without a price counts as, so that no budget admits it; rule `priced` excludes it by name."""


def total_bandwidth(dimensions: int) -> Quantity:
    """Return the bandwidth of one NPU summed over dimensions (COSMIC's "BW/NPU")."""
    names = [f"bandwidth[{dimension}]" for dimension in range(dimensions)]
    terms = tuple(QuantityTerm((name,), _value_of(name)) for name in names)
    return Quantity("total_bandwidth", Unit.BYTES_PER_S, terms, "bandwidth per NPU, summed over dimensions")


def _value_of(name: str) -> Callable[[Mapping[str, Values]], IntArray]:
    def evaluate(values: Mapping[str, Values]) -> IntArray:
        return np.asarray(values[name], dtype=np.int64)

    return evaluate


def network_cost(prices: Mapping[str, TierPrice], rule: str, tiers: Sequence[str], npus: int) -> Quantity:
    """Return NPUs · Σ bandwidth · price, in whole dollars per dimension (PAPERS: COSMIC and LIBRA cost models)."""
    terms = tuple(_DimensionCost(prices, rule, tier, dimension, npus).term() for dimension, tier in enumerate(tiers))
    return Quantity("network_cost", Unit.DOLLARS, terms, "dollars of the network")


def priced_network(
    prices: Mapping[str, TierPrice], data: Mapping[str, Value], known: Collection[str], dimensions: int
) -> dict[str, Quantity]:
    """Return the cost of a network and its blocks without a price; nothing where it has no prices or no tiers."""
    tiers = [data.get(f"tier[{dimension}]") for dimension in range(dimensions)]
    placed = [tier for tier in tiers if isinstance(tier, str)]
    if not prices or len(placed) < dimensions or not {"topology[0]", "bandwidth[0]"} <= set(known):
        return {}
    rule = str(data["price_rule"])
    cost = network_cost(prices, rule, placed, int(data["npus"]))
    return {quantity.name: quantity for quantity in (cost, unpriced_blocks(prices, rule, placed))}


def unpriced_blocks(prices: Mapping[str, TierPrice], rule: str, tiers: Sequence[str]) -> Quantity:
    """Return how many dimensions use a block that has no price in their tier."""
    terms = tuple(_DimensionCost(prices, rule, tier, d, 1).unpriced_term() for d, tier in enumerate(tiers))
    return Quantity("unpriced_blocks", Unit.NONE, terms, "dimensions whose block has no price in its tier")


class _DimensionCost:
    """The price of one dimension as a function of its block and bandwidth."""

    def __init__(self, prices: Mapping[str, TierPrice], rule: str, tier: str, dimension: int, npus: int) -> None:
        self.prices, self.rule, self.tier, self.npus = prices, rule, tier, npus
        self.topology, self.bandwidth = f"topology[{dimension}]", f"bandwidth[{dimension}]"

    def dollars(self, topology: Value, bandwidth: int) -> int | None:
        return dimension_cost_dollars(self.rule, self.prices, self.tier, str(topology), self.npus, bandwidth)

    def term(self) -> QuantityTerm:
        def evaluate(values: Mapping[str, Values]) -> IntArray:
            blocks, block = np.unique(values[self.topology], return_inverse=True)
            rates, rate = np.unique(values[self.bandwidth], return_inverse=True)
            table = np.array([[self._shown(name, int(speed)) for speed in rates] for name in blocks], dtype=np.int64)
            return np.asarray(table.reshape(len(blocks), len(rates))[block, rate])

        return QuantityTerm((self.topology, self.bandwidth), evaluate)

    def _shown(self, topology: Value, bandwidth: int) -> int:
        dollars = self.dollars(topology, bandwidth)
        if dollars is None:
            return UNPRICED_DOLLARS
        if dollars >= SAFE:
            rate, cost = show(bandwidth, Unit.BYTES_PER_S), show(dollars, Unit.DOLLARS)
            raise LimitError(
                f"a {topology} of {rate} in tier {self.tier!r} costs {cost} for {self.npus:,} NPUs, too much to count",
                hint="give lower prices, or less bandwidth",
            )
        return dollars

    def unpriced_term(self) -> QuantityTerm:
        def evaluate(values: Mapping[str, Values]) -> IntArray:
            blocks, block = np.unique(values[self.topology], return_inverse=True)
            return np.array([self.dollars(name, 1) is None for name in blocks], dtype=np.int64).reshape(-1)[block]

        return QuantityTerm((self.topology,), evaluate)
