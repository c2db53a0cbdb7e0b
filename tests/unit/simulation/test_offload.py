"""Offloading to host memory: closed forms by hand, and what holds for every design."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import InfeasibleError, LimitError, SpecError
from cosmic_opt.simulation.analytical import AnalyticalSimulator
from cosmic_opt.simulation.events.simulator import EventSimulator
from cosmic_opt.workloads.memory import Designs, layer_activation_bytes
from cosmic_opt.workloads.training import OFFLOADS
from tests.unit.simulation.test_analytical_reference import (
    SHAPES,
    TEXT,
    columns,
    compiled_kernel,
    random_design,
    simulator,
)
from tests.unit.simulation.test_analytical_step import GB, PLAIN, build, parts

__all__ = ["compiled_kernel"]  # a fixture

SLOW_HOST = GB // 10
"""So slow that a layer's compute never hides its traffic."""
LAYER_BYTES = 2 * PLAIN.layer_parameters
BATCHES = 64


def alone(**flags: int | str) -> dict[str, int]:
    """The parts of a step on one NPU."""
    return parts(build(shape=(1,), host_bandwidth=SLOW_HOST, **flags))


def activation_bytes(model: AnalyticalSimulator) -> int:
    return int(layer_activation_bytes(PLAIN, model.job, Designs.of(model.job, {"tp": np.array([1])}))[0])


def ticks(moved: int) -> int:
    return round(moved * 10**12 / SLOW_HOST)


# by hand


def test_weights_are_read_once_each_way_and_written_once_a_step() -> None:
    with_it, without = alone(weight_offload=1), alone()
    layers = BATCHES * PLAIN.layers
    compute = without["forward compute"] + without["backward compute"]
    written = PLAIN.layers * ticks(LAYER_BYTES) - without["optimizer"]
    assert with_it["offload (exposed)"] == layers * 2 * ticks(LAYER_BYTES) - compute + written
    assert with_it["step"] - without["step"] == with_it["offload (exposed)"]


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_activations_are_written_forward_and_read_backward(recompute: str) -> None:
    with_it, without = alone(activation_offload=1, recompute=recompute), alone(recompute=recompute)
    moved = ticks(activation_bytes(build(recompute=recompute)))
    layers = BATCHES * PLAIN.layers
    forward = max(layers * moved, without["forward compute"])
    backward = max(layers * moved, without["backward compute"] + without["recompute"])
    compute = without["forward compute"] + without["backward compute"] + without["recompute"]
    assert with_it["offload (exposed)"] == forward + backward - compute
    assert with_it["step"] - without["step"] == with_it["offload (exposed)"]


def test_forward_reads_weights_while_it_writes_activations_and_backward_reads_both() -> None:
    with_it, without = alone(weight_offload=1, activation_offload=1), alone()
    kept = activation_bytes(build())
    assert kept > LAYER_BYTES
    passes = BATCHES * PLAIN.layers * (ticks(kept) + ticks(kept + LAYER_BYTES))
    written = PLAIN.layers * ticks(LAYER_BYTES) - without["optimizer"]
    compute = without["forward compute"] + without["backward compute"]
    assert with_it["offload (exposed)"] == passes - compute + written


def test_optimizer_states_pass_once_a_step_whatever_the_micro_batch() -> None:
    states = PLAIN.layers * ticks(12 * PLAIN.layer_parameters)
    for micro_batch in (1, 8):
        terms = alone(optimizer_offload=1, micro_batch=micro_batch)
        assert terms["offload (exposed)"] == states - terms["optimizer"]


def test_sharded_optimizer_states_are_that_much_less_traffic() -> None:
    flags = {"dp": 8, "optimizer_offload": 1, "host_bandwidth": SLOW_HOST}
    whole, sharded = (parts(build(zero_stage=stage, **flags)) for stage in (0, 1))
    assert whole["offload (exposed)"] + whole["optimizer"] == 8 * (sharded["offload (exposed)"] + sharded["optimizer"])


def test_a_host_fast_enough_hides_everything() -> None:
    flags = dict.fromkeys(OFFLOADS, 1)
    hidden = parts(build(shape=(1,), host_bandwidth=10**18, **flags))
    assert hidden["step"] == alone()["step"] + hidden["offload (exposed)"]
    nothing_else_to_do = round(PLAIN.layers * 14 * PLAIN.layer_parameters * 10**12 / 10**18)  # in the optimizer here
    assert hidden["offload (exposed)"] == nothing_else_to_do


# every design


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), host=st.integers(1, 400), more=st.integers(0, 400))
def test_offloading_more_or_to_a_slower_host_never_saves_time(seed: int, host: int, more: int) -> None:
    rng = random.Random(seed)
    design = random_design(rng, rng.choice(SHAPES), algorithm=("ring",) * 3)
    chosen = {name: rng.randrange(2) for name in OFFLOADS}
    ladder = [design, replace(design, **chosen), replace(design, **dict.fromkeys(OFFLOADS, 1))]
    slow, fast = (on_host(rate * GB).evaluate(columns(ladder)) for rate in (host, host + more))
    assert slow.step_ticks.tolist() == sorted(slow.step_ticks.tolist())
    assert np.all(fast.step_ticks <= slow.step_ticks)
    assert fast.step_ticks[0] == slow.step_ticks[0]


def on_host(bytes_per_s: int) -> AnalyticalSimulator:
    bound = simulator(TEXT, 3, SHAPES)
    job = {"global_batch": 48, "sequence": 2048}
    names = dict.fromkeys(bound.structural, ()) | {
        f"{name}[{dim}]": values
        for dim in range(3)
        for name, values in {"bandwidth": (), "latency": (), "algorithm": ("ring",)}.items()
    }
    for dim in range(3):
        names[f"npus_per_dim[{dim}]"] = tuple({shape[dim] for shape in SHAPES})
        names[f"topology[{dim}]"] = ("ring", "fully_connected", "switch")
    return AnalyticalSimulator(TEXT, job, bound.npu, 3, {"host_bandwidth": bytes_per_s}, names)


# what is refused


def test_offloading_without_a_host_takes_for_ever() -> None:
    with pytest.raises(LimitError, match="longer than 46 days"):
        build(shape=(1,), weight_offload=1).evaluate({})


def test_a_flag_that_is_none_is_refused() -> None:
    with pytest.raises(SpecError, match="weight_offload is 2"):
        build(weight_offload=2)


def test_the_event_simulator_refuses_offloading() -> None:
    design = replace(random_design(random.Random(1), (4, 8, 4), interleave=1), activation_offload=1)
    with pytest.raises((SpecError, InfeasibleError), match="no host memory") as caught:
        EventSimulator(simulator(TEXT, 3, SHAPES), {"scheduling_policy": "fifo"}).bind(design.columns())
    assert "activation_offload=0" in (caught.value.hint or "")
