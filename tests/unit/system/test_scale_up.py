"""Which network dimensions are one scale-up domain."""

from __future__ import annotations

import pytest

from cosmic_opt.system.scale_up import ScaleUp, scale_up


def network(*dimensions: tuple[str, int, int, str | None]) -> dict[str, int | str]:
    values: dict[str, int | str] = {}
    for d, (topology, npus, bandwidth, tier) in enumerate(dimensions):
        values |= {f"topology[{d}]": topology, f"npus_per_dim[{d}]": npus, f"bandwidth[{d}]": bandwidth}
        values |= {} if tier is None else {f"tier[{d}]": tier}
    return values


def test_rings_of_one_tier_are_one_torus_at_the_slowest_s_rate() -> None:
    assert scale_up(2, network(("ring", 4, 90, "node"), ("ring", 5, 90, "node"))) == ScaleUp(20, 180.0, None)
    assert scale_up(2, network(("ring", 4, 90, "node"), ("ring", 5, 60, "node"))) == ScaleUp(20, 120.0, None)


def test_a_faster_ring_stays_in_the_torus() -> None:
    for bandwidth in (60, 90, 91, 10_000):
        values = network(("ring", 4, bandwidth, "node"), ("ring", 4, 90, "node"), ("ring", 2, 90, "node"))
        assert scale_up(3, values) == ScaleUp(32, 3.0 * min(bandwidth, 90), None)


def test_a_ring_of_another_tier_is_left_by_the_network_card() -> None:
    assert scale_up(2, network(("ring", 4, 90, "node"), ("ring", 4, 90, "pod"))) == ScaleUp(4, 90.0, 90.0)
    assert scale_up(2, network(("ring", 4, 90, "node"), ("switch", 4, 90, "node"))) == ScaleUp(4, 90.0, 90.0)


def test_rings_of_no_stated_tier_are_one_torus() -> None:
    assert scale_up(2, network(("ring", 4, 90, None), ("ring", 4, 30, None))) == ScaleUp(16, 60.0, None)


@pytest.mark.parametrize("topology", ["switch", "fully_connected"])
def test_around_another_block_nothing_is_joined(topology: str) -> None:
    values = network((topology, 8, 450, "node"), (topology, 4, 450, "node"))
    assert scale_up(2, values) == ScaleUp(8, 450.0, 450.0)
