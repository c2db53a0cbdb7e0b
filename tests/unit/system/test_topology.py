from fractions import Fraction

import numpy as np
import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.system.topology import TOPOLOGIES


def test_an_unknown_topology_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SpecError, match="fully_connected"):
        TOPOLOGIES.get("fully-connected")


@pytest.mark.parametrize(
    ("topology", "npus", "links", "share"),
    [
        ("ring", 1, 0, Fraction(1)),
        ("ring", 2, 1, Fraction(1)),
        ("ring", 3, 2, Fraction(1, 2)),
        ("ring", 8, 2, Fraction(1, 2)),
        ("fully_connected", 1, 0, Fraction(1)),
        ("fully_connected", 8, 7, Fraction(1, 7)),
        ("switch", 1, 0, Fraction(1)),
        ("switch", 8, 1, Fraction(1)),
    ],
)
def test_links_and_shares_use_the_whole_bandwidth(topology: str, npus: int, links: int, share: Fraction) -> None:
    block = TOPOLOGIES.get(topology)
    assert block.links_per_npu(npus) == links
    assert block.link_share(npus) == share
    assert npus == 1 or links * share == 1


def test_a_ring_goes_the_shortest_way() -> None:
    ring = TOPOLOGIES.get("ring")
    (route,) = ring.routes(8, 6, 1)
    assert route.links == ((6, 7), (7, 0), (0, 1))
    (route,) = ring.routes(8, 1, 6)
    assert route.links == ((1, 0), (0, 7), (7, 6))


def test_a_ring_splits_an_exact_tie_both_ways() -> None:
    up, down = TOPOLOGIES.get("ring").routes(4, 0, 2)
    assert up.links == ((0, 1), (1, 2))
    assert down.links == ((0, 3), (3, 2))
    assert up.share == down.share == Fraction(1, 2)


def test_a_ring_of_two_has_one_way() -> None:
    assert len(TOPOLOGIES.get("ring").routes(2, 0, 1)) == 1


def test_a_switch_is_one_hop_end_to_end() -> None:
    switch = TOPOLOGIES.get("switch")
    (route,) = switch.routes(8, 3, 5)
    assert route.links == ((3, "switch"), ("switch", 5))
    assert switch.hops(8, np.array([3]), np.array([5])) == 1


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
def test_no_message_has_no_hops_and_no_load(topology: str) -> None:
    nobody = np.array([], dtype=np.int64)
    assert TOPOLOGIES.get(topology).hops(8, nobody, nobody) == 0
    assert TOPOLOGIES.get(topology).busiest_link(8, nobody, nobody) == 0
