"""Dollars: of a network, so much per GB/s of one NPU's bandwidth, by tier and kind of part; of devices, one by one.

Sources: LIBRA (arXiv 2109.11762) for the cost model; COSMIC (arXiv 2505.15020) for its variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.system.topology import TOPOLOGIES
from cosmic_opt.units import Unit, parse_exact, show

BYTES_PER_GB = 10**9

SWITCH_LINKS = {"libra": 1, "cosmic": 2}
"""How many links a rule charges per switch port: LIBRA the cable, COSMIC both ends of it."""


MOST_DEVICE_DOLLARS = 10**8
"""No device costs more: a whole wafer is sold for a few millions."""
MOST_PART_DOLLARS = 10**8
"""No link, switch or NIC costs more per GB/s: LIBRA's dearest costs 31.6 $."""


@dataclass(frozen=True, slots=True)
class TierPrice:
    """Exact dollars per GB/s in one tier; None where the tier has no such part."""

    link: Fraction
    switch: Fraction | None = None
    nic: Fraction | None = None

    def __post_init__(self) -> None:
        for part in ("link", "switch", "nic"):
            price = getattr(self, part)
            if price is not None and price < 0:
                raise SpecError(f"the price of a {part} is {price}", hint="prices are at least 0 $")
            if price is not None and price > MOST_PART_DOLLARS:
                limit = show(MOST_PART_DOLLARS, Unit.DOLLARS)
                raise SpecError(f"the price of a {part} is above {limit} per GB/s", hint="give a lower one")


def parse_prices(tiers: Mapping[str, Mapping[str, str | int | float]]) -> dict[str, TierPrice]:
    """Return the tier table of data such as `{"pod": {"link": "7.8 $", "switch": "18 $", "nic": "31.6 $"}}`.

    Raises:
        SpecError: a part other than link, switch and nic, no link price, or a price that is not in dollars.
    """
    return {tier: _parse_tier(tier, parts) for tier, parts in tiers.items()}


def price_per_gb_per_s(rule: str, prices: Mapping[str, TierPrice], tier: str, topology: str) -> Fraction | None:
    """Return the dollars per GB/s of one NPU's bandwidth in a dimension; None if the tier has no such block.

    A ring or a fully connected block costs its links. A switch costs `link + switch (+ NIC)` under `libra`,
    `2 link + switch (+ NIC)` under `cosmic`.

    Raises:
        SpecError: an unknown rule, tier or topology.
    """
    if rule not in SWITCH_LINKS:
        raise SpecError(f"unknown price rule {rule!r}", hint=nearest(rule, SWITCH_LINKS))
    if tier not in prices:
        raise SpecError(f"no prices for tier {tier!r}", hint=nearest(tier, prices))
    part = prices[tier]
    if not TOPOLOGIES.get(topology).switched:
        return part.link
    if part.switch is None:
        return None
    return SWITCH_LINKS[rule] * part.link + part.switch + (part.nic or 0)


def dimension_cost_dollars(
    rule: str,
    prices: Mapping[str, TierPrice],
    tier: str,
    topology: str,
    npus_total: int,
    bandwidth_bytes_per_s: int,
) -> int | None:
    """Return NPUs · bandwidth · price of one dimension, rounded once to whole dollars; None without a price.

    `npus_total` counts all NPUs of the machine.

    Raises:
        SpecError: an unknown rule, tier or topology, or a negative number.
    """
    price = price_per_gb_per_s(rule, prices, tier, topology)
    if npus_total < 0 or bandwidth_bytes_per_s < 0:
        raise SpecError(f"{npus_total} NPUs with {bandwidth_bytes_per_s} B/s mean nothing", hint="both are at least 0")
    if price is None:
        return None
    return round(price * npus_total * bandwidth_bytes_per_s / BYTES_PER_GB)


def _parse_tier(tier: str, parts: Mapping[str, str | int | float]) -> TierPrice:
    known = ("link", "switch", "nic")
    dollars = dict[str, Fraction]()
    for part, text in parts.items():
        if part not in known:
            raise SpecError(f"tier {tier!r} prices an unknown part {part!r}", hint=nearest(part, known))
        price, unit = parse_exact(text, example="'7.8 $'")
        if unit not in (Unit.DOLLARS, Unit.NONE):
            raise SpecError(f"{part} of tier {tier!r} is {text!r}", hint="write for example '7.8 $'")
        dollars[part] = price
    if "link" not in dollars:
        raise SpecError(f"tier {tier!r} has no link price", hint="write for example {link: 4.0 $}")
    return TierPrice(dollars["link"], dollars.get("switch"), dollars.get("nic"))
