"""Networks of published studies, found by name."""

from __future__ import annotations

import pytest

from cosmic_opt.catalog.networks import load_network
from cosmic_opt.errors import SpecError

NAMES = (
    *("2D-SW_SW", "3D-SW_SW_SW_homo", "3D-SW_SW_SW_hetero"),
    *("3D-FC_Ring_SW", "4D-Ring_SW_SW_SW", "4D-Ring_FC_Ring_SW"),
)


@pytest.mark.parametrize("name", NAMES)
def test_every_network_of_themis_has_1024_npus_and_an_algorithm_per_dimension(name: str) -> None:
    named = load_network("themis", name)
    assert named.network.npus == 1024
    assert len(named.algorithms) == len(named.network.dimensions) == int(name[0])


def test_bandwidths_are_links_times_their_rate_in_binary_units() -> None:
    inner = load_network("themis", "4D-Ring_FC_Ring_SW").network.dimensions[0]
    assert (inner.bandwidth_bytes_per_s, inner.latency_ticks) == (2 * 1500 * 2**30 // 8, 20_000)


def test_an_unknown_network_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="no network") as caught:
        load_network("themis", "2D-SW")
    assert "2D-SW_SW" in str(caught.value.hint)
