from fractions import Fraction

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.system.network import Dimension, Network


def test_a_network_counts_the_product_of_its_dimensions() -> None:
    network = Network((Dimension("ring", 4, 10**9, 0), Dimension("switch", 8, 10**9, 0)))
    assert network.npus == 32


def test_serialisation_is_rounded_once_to_the_nearest_tick() -> None:
    dimension = Dimension("ring", 4, 3 * 10**9, 0)
    assert dimension.serialisation_ticks(1) == 333
    assert dimension.serialisation_ticks(Fraction(1, 2)) == 167


@pytest.mark.parametrize(
    ("field", "value"),
    [("npus", 0), ("npus", 2.0), ("bandwidth_bytes_per_s", 0), ("latency_ticks", -1), ("latency_ticks", True)],
)
def test_a_number_out_of_range_is_refused(field: str, value: object) -> None:
    good: dict[str, object] = {"npus": 4, "bandwidth_bytes_per_s": 10**9, "latency_ticks": 0}
    with pytest.raises(SpecError, match=field) as caught:
        Dimension("ring", **(good | {field: value}))  # type: ignore[arg-type]
    assert caught.value.hint


def test_an_unknown_block_is_refused() -> None:
    with pytest.raises(SpecError, match="torus"):
        Dimension("torus", 4, 10**9, 0)


def test_a_network_without_dimensions_is_refused() -> None:
    with pytest.raises(SpecError, match="dimension"):
        Network(())
