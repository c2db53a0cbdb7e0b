"""Structural quantities of the system as a whole: dollars and watts of all its NPUs, and why there may be none.

A cluster is bought and powered whole: they count the NPUs of the instance (`npus`), also those that a served model
leaves idle. Hosts, switches and cooling draw power, too, which is not counted here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cosmic_opt.catalog.job_kinds import ENERGY
from cosmic_opt.catalog.parts import System
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.quantity import IntArray, Quantity, QuantityTerm, SimulatedQuantity, Values
from cosmic_opt.units import Unit

NPUS, DEVICE_PRICE, DEVICE_POWER = "npus", "device_price", "device_power"
DEVICE_COST, SYSTEM_COST, SYSTEM_POWER = "device_cost", "system_cost", "system_power"
NETWORK_COST = "network_cost"
SYSTEM_QUANTITIES = (DEVICE_COST, SYSTEM_COST, SYSTEM_POWER, ENERGY.name)
COSTS_OF_NETWORKS = (NETWORK_COST, SYSTEM_COST)
"""Quantities that a network without a price leaves without a meaning."""


def system_data(system: System) -> dict[str, Value]:
    """Return price and power of one device, as far as the system's files give them."""
    given = {DEVICE_PRICE: system.device_price, DEVICE_POWER: system.device.power}
    return {name: value for name, value in given.items() if value is not None}


def system_quantities(
    data: Mapping[str, Value], network_cost: Quantity | None
) -> dict[str, Quantity | SimulatedQuantity]:
    """Return what the data and the network's price make known of the whole system."""
    found: dict[str, Quantity | SimulatedQuantity] = {}
    if DEVICE_PRICE in data:
        devices = QuantityTerm((NPUS, DEVICE_PRICE), _product)
        found[DEVICE_COST] = Quantity(DEVICE_COST, Unit.DOLLARS, (devices,), "dollars of all NPUs")
        if network_cost is not None:
            terms = (devices, *network_cost.terms)
            found[SYSTEM_COST] = Quantity(SYSTEM_COST, Unit.DOLLARS, terms, "dollars of all NPUs and the network")
    if DEVICE_POWER in data:
        boards = QuantityTerm((NPUS, DEVICE_POWER), _product)
        found[SYSTEM_POWER] = Quantity(SYSTEM_POWER, Unit.POWER, (boards,), "board power of all NPUs")
        found[ENERGY.name] = ENERGY
    return found


def _product(values: Mapping[str, Values]) -> IntArray:
    first, second = (np.asarray(each, dtype=np.int64) for each in values.values())
    return np.asarray(first * second)


def why_absent(system: System, known: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """Return, of each quantity of the system that is not `known`, what is missing for it and how to give it."""
    device = repr(system.device.name)
    priced = ", ".join(system.prices.devices) or "none"
    price = (
        f"the system has no price for its device {device}",
        f"give `devices:` in a prices file (priced there: {priced}), or --set {DEVICE_PRICE}='30000 $'",
    )
    network = ("the system's network has no price", "give the system prices, and every dimension a tier")
    power = (
        f"the power of the device {device} is not known",
        f"give `power: 700 W` in its file, or --set {DEVICE_POWER}='700 W'",
    )
    missing = {
        NETWORK_COST: network,
        DEVICE_COST: price,
        SYSTEM_COST: network if DEVICE_COST in known else price,
        SYSTEM_POWER: power,
        ENERGY.name: power,
    }
    return {name: why for name, why in missing.items() if name not in known}
