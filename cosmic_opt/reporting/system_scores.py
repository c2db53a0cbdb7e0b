"""One line on what a system costs and draws."""

from __future__ import annotations

from cosmic_opt.catalog.system_quantities import DEVICE_COST, NETWORK_COST, SYSTEM_COST, SYSTEM_POWER
from cosmic_opt.search.report import Report
from cosmic_opt.units import Unit, show, show_joules


def system_text(report: Report, what: str, *, network_above: bool = False) -> str:
    """Return the system's dollars and watts, and the energy of `what`; nothing where neither is known.

    `network_above`: a line above has the network's dollars, which are left out where devices have no price.
    """
    parts = [part for part in (_cost(report, network_above=network_above), _power(report, what)) if part]
    return f"  system: {'; '.join(parts)}" if parts else ""


def _cost(report: Report, *, network_above: bool) -> str:
    devices, network, both = (report.metrics.get(name) for name in (DEVICE_COST, NETWORK_COST, SYSTEM_COST))
    if devices is None:
        return "" if network is None or network_above else f"network {show(network, Unit.DOLLARS)}, devices unpriced"
    if both is None or network is None:
        return f"devices {show(devices, Unit.DOLLARS)}"
    dollars = [show(each, Unit.DOLLARS) for each in (both, devices, network)]
    return f"cost {dollars[0]} (devices {dollars[1]}, network {dollars[2]})"


def _power(report: Report, what: str) -> str:
    watts = report.metrics.get(f"{SYSTEM_POWER}_w")
    joules = report.metrics.get("energy_j", report.metrics.get("energy_per_token_j"))
    if watts is None or joules is None:
        return ""
    return f"boards {show(watts, Unit.POWER)}, at most {show_joules(joules)} {what}"
