"""Reduction in switches inside a training step, by closed forms and by events."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.simulation.analytical import AnalyticalSimulator
from cosmic_opt.simulation.events.simulator import EventSimulator
from cosmic_opt.system.npu import Npu
from tests.unit.simulation.test_analytical_step import GB, PLAIN, build, parts

FAST = Npu("fast", 10**14, 10**13, 10**11)


def test_tensor_parallel_sums_take_their_buffer_once_and_one_hop() -> None:
    terms = parts(build(tp=8, algorithm__0="in_network", latency__0=1000, in_network_reduction=1))
    one = 1024 * 1024 * 2 / (100 * GB) * 1e12 + 1000
    assert terms["tensor-parallel communication"] == pytest.approx(64 * (4 * 8 + 2) * one, rel=1e-8)


def test_reduce_scatter_and_all_gather_take_what_direct_takes() -> None:
    """The busiest link carries n - 1 parts of n: up in the one, down in the other."""
    for name in ("ring", "in_network"):
        terms = parts(build(dp=8, zero_stage=1, algorithm__0=name, in_network_reduction=1))
        expected = 7 / 8 * 4 * PLAIN.parameters() / (100 * GB) * 1e12
        assert terms["gradient synchronisation (exposed)"] == pytest.approx(expected, rel=1e-8)


def test_events_agree_to_the_tick_where_nothing_contends() -> None:
    for degrees in ({"tp": 8}, {"dp": 8}, {"tp": 2, "dp": 4}):
        values = {"algorithm[0]": "in_network", "in_network_reduction": 1, "latency[0]": 700, **degrees}
        model = build(**{name.replace("[0]", "__0"): value for name, value in values.items()})
        constants = {"npus_per_dim[0]": 8, "topology[0]": "switch", "bandwidth[0]": 100 * GB, **values}
        events = EventSimulator(model, {**constants, "overlap_gradients": 0, "overlap_weights": 0})
        assert events.simulate({}).step_ticks == model.evaluate({}).step_ticks[0]


def test_a_system_whose_switches_do_not_reduce_is_refused() -> None:
    with pytest.raises(SpecError, match="no switch of this system reduces") as caught:
        build(tp=8, algorithm__0="in_network")
    assert "in_network_reduction" in str(caught.value)
    with pytest.raises(SpecError, match="flag"):
        build(tp=8, in_network_reduction=2)


def test_a_ring_that_should_reduce_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="in_network needs a switch that reduces"):
        build(tp=8, algorithm__0="in_network", topology__0="ring", in_network_reduction=1).evaluate({})


def test_among_options_a_switch_that_does_not_reduce_is_passed_over() -> None:
    constants: dict[str, int | str] = {"npus_per_dim[0]": 8, "topology[0]": "switch", "bandwidth[0]": GB}
    domains = {"algorithm[0]": ("direct", "in_network")}
    for flag in (0, 1):
        data = {**constants, "latency[0]": 0, "tp": 8, "in_network_reduction": flag}
        model = AnalyticalSimulator(PLAIN, {"global_batch": 64}, FAST, 1, data, domains)
        steps = model.evaluate({"algorithm[0]": np.array(domains["algorithm[0]"])}, strict=False).step_ticks
        assert 0 < steps[0] < 2**62
        assert (steps[1] < steps[0]) == bool(flag)


def test_among_options_a_block_without_a_switch_is_passed_over() -> None:
    constants: dict[str, int | str] = {"npus_per_dim[0]": 8, "algorithm[0]": "in_network", "bandwidth[0]": GB}
    constants |= {"latency[0]": 0, "tp": 8, "in_network_reduction": 1}
    domains = {"topology[0]": ("ring", "switch")}
    model = AnalyticalSimulator(PLAIN, {"global_batch": 64}, FAST, 1, constants, domains)
    result = model.evaluate({"topology[0]": np.array(["ring", "switch"])}, strict=False)
    assert result.step_ticks[0] > 2**62 > result.step_ticks[1] > 0
