from fractions import Fraction

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.system.price import dimension_cost_dollars, parse_prices, price_per_gb_per_s

PRICES = parse_prices(
    {
        "chiplet": {"link": "2.0 $"},
        "package": {"link": "4.0 $", "switch": "13.0 $"},
        "node": {"link": "4.0 $", "switch": "13.0 $"},
        "pod": {"link": "7.8 $", "switch": "18.0 $", "nic": "31.6 $"},
    }
)
"""COSMIC's and LIBRA's table of dollars per GB/s."""

GB_PER_S_100 = 100 * 10**9


@pytest.mark.parametrize(
    ("topologies", "npus", "dollars"),
    [
        (("ring", "switch", "ring", "switch"), 1024, 9_441_280),
        (("ring", "fully_connected", "ring", "fully_connected"), 1024, 1_822_720),
        (("ring", "fully_connected", "ring", "fully_connected"), 256, 455_680),
        (("ring", "ring", "switch", "ring"), 256, 890_880),
    ],
)
def test_the_four_costs_that_cosmic_logged_come_out_to_the_dollar(
    topologies: tuple[str, ...], npus: int, dollars: int
) -> None:
    costs = [
        dimension_cost_dollars("cosmic", PRICES, tier, topology, npus, GB_PER_S_100)
        for tier, topology in zip(PRICES, topologies, strict=True)
    ]
    assert sum(cost for cost in costs if cost is not None) == dollars


@pytest.mark.parametrize(("rule", "inside", "between"), [("cosmic", "21", "65.2"), ("libra", "17", "57.4")])
def test_a_switch_costs_links_switch_and_nic(rule: str, inside: str, between: str) -> None:
    assert price_per_gb_per_s(rule, PRICES, "node", "switch") == Fraction(inside)
    assert price_per_gb_per_s(rule, PRICES, "pod", "switch") == Fraction(between)


def test_links_cost_the_same_under_both_rules() -> None:
    for topology in ("ring", "fully_connected"):
        assert {price_per_gb_per_s(rule, PRICES, "pod", topology) for rule in ("cosmic", "libra")} == {Fraction("7.8")}


def test_a_switch_on_a_chiplet_has_no_price() -> None:
    assert dimension_cost_dollars("libra", PRICES, "chiplet", "switch", 8, GB_PER_S_100) is None


def test_cost_is_rounded_once() -> None:
    assert dimension_cost_dollars("libra", PRICES, "pod", "ring", 3, 10**9 // 7) == round(
        Fraction("7.8") * 3 * (10**9 // 7) / 10**9
    )


@pytest.mark.parametrize(
    ("rule", "tier", "topology", "npus"),
    [
        ("list", "pod", "ring", 1),
        ("libra", "rack", "ring", 1),
        ("libra", "pod", "mesh", 1),
        ("libra", "pod", "ring", -1),
    ],
)
def test_what_has_no_meaning_is_refused(rule: str, tier: str, topology: str, npus: int) -> None:
    with pytest.raises(SpecError):
        dimension_cost_dollars(rule, PRICES, tier, topology, npus, GB_PER_S_100)


@pytest.mark.parametrize(
    "parts", [{"switch": "3 $"}, {"link": "3 GB"}, {"link": "-1 $"}, {"link": "1 $", "cable": "1 $"}, {"link": "x"}]
)
def test_a_price_table_that_means_nothing_is_refused(parts: dict[str, str]) -> None:
    with pytest.raises(SpecError):
        parse_prices({"pod": parts})


@pytest.mark.parametrize("part", ["link", "switch", "nic"])
@pytest.mark.parametrize("price", ["100000000.01 $", "1e9 $", "1e60 $"])
def test_a_part_of_more_than_a_hundred_million_dollars_is_refused(part: str, price: str) -> None:
    parse_prices({"pod": {"link": "1e8 $", part: "1e8 $"}})
    with pytest.raises(SpecError, match=f"the price of a {part} is above"):
        parse_prices({"pod": {"link": "1e8 $", part: price}})
