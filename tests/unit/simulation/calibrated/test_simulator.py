"""The calibrated model as a problem's simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.api import Problem
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.search.score import kernel_columns, simulator_of
from cosmic_opt.simulation.analytical.layout import NO_TIME
from cosmic_opt.simulation.calibrated.simulator import CalibratedSimulator
from cosmic_opt.simulation.calibrated.step import step_time
from cosmic_opt.workloads.knobs import DEFAULTS, designs_of

NAME = "llama3-70b/h100-64"


def simulator(problem: Problem) -> CalibratedSimulator:
    found = simulator_of(problem.instance)
    assert isinstance(found, CalibratedSimulator)
    return found


MIXTURE = Problem.load("mixtral-8x7b/h100-64")
MIXTURE_SIMULATOR = simulator(MIXTURE)


def test_ticks_are_the_step_s_seconds_and_the_terms_add_up() -> None:
    problem = Problem.load(NAME)
    batch = problem.sample(200, seed=1)
    own = simulator(problem)
    evaluation = own.evaluate(batch.value_columns())
    assert np.array_equal(evaluation.terms.sum(axis=1), evaluation.step_ticks)
    columns = batch.value_columns()
    for row in range(0, 200, 20):
        knobs = {
            name: np.atleast_1d(columns[name][row] if name in columns else default)
            for name, default in DEFAULTS.items()
        }
        setup = own.setup_for((("sequence_parallel", int(knobs["sequence_parallel"][0])),))
        designs, split = designs_of(knobs, setup.stack.selective, setup.model.layers)
        assert split[0] == setup.sequence_parallel
        step = step_time(setup, designs)
        assert abs(evaluation.step_ticks[row] - float(step.step_s[0]) * 1e12) <= len(own.terms)
        assert evaluation.micro_batches[row] == designs.micro_batches(setup)[0]


def test_categories_may_be_text_or_codes() -> None:
    problem = Problem.load(NAME).free("tensor_overlap")
    batch = problem.sample(300, seed=2)
    own = simulator(problem)
    text, codes = own.evaluate(batch.value_columns()), own.evaluate(kernel_columns(batch))
    assert np.array_equal(text.terms, codes.terms)


def test_an_overlap_mode_leaves_its_own_share_of_tensor_traffic() -> None:
    problem = Problem.load(NAME)
    hidden, exposed = (problem.free("tensor_overlap").fix(tensor_overlap=mode) for mode in ("user_buffer", "none"))
    ticks = [
        simulator(each)
        .evaluate(each.baseline().value_columns())
        .terms[0, simulator(each).terms.index("tensor_parallel")]
        for each in (hidden, exposed)
    ]
    assert ticks[0] / ticks[1] == pytest.approx(0.5, rel=1e-6)


def test_a_precision_without_user_buffers_leaves_one_mode() -> None:
    wide, narrow = (
        Problem.load("llama3-70b/gb200-64").set(precision=name).free("tensor_overlap") for name in ("mxfp8", "nvfp4")
    )
    for problem, modes in ((wide, {"none", "user_buffer"}), (narrow, {"none"})):
        assert set(problem.sample(200, seed=3).value_columns()["tensor_overlap"]) == modes


def test_rows_do_not_depend_on_their_neighbours() -> None:
    problem = Problem.load("qwen3-30b-a3b/h100-16")
    batch = problem.sample(64, seed=4)
    own, columns = simulator(problem), batch.value_columns()
    together = own.evaluate(columns)
    for row in (0, 31, 63):
        alone = own.evaluate({name: values[row : row + 1] for name, values in columns.items()})
        assert np.array_equal(alone.terms[0], together.terms[row])


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_any_feasible_design_of_a_mixture_has_a_positive_step_and_terms(seed: int) -> None:
    evaluation = MIXTURE_SIMULATOR.evaluate(kernel_columns(MIXTURE.sample(8, seed=seed)))
    assert (evaluation.step_ticks > 0).all()
    assert (evaluation.terms >= 0).all()


def test_columns_that_no_calibrated_step_reads_are_inert(tmp_path: Any) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "schema: cosmic-opt/instance@1\nmodel: training\nworkload: llama3-8b\nsystem: dgx-h100-1024\n"
        "stack: megatron-te-2025\njob: {global_batch: 1024}\nscope: workload_and_collective\n",
        encoding="utf-8",
    )
    problem = Problem.load(str(path))
    own = simulator(problem)
    assert {"chunks", "multidim"} < set(own.inert)
    assert own.knobs["cp"] == "sp"
    batch = problem.sample(40, seed=5)
    assert (own.evaluate(batch.value_columns()).step_ticks > 0).all()


def test_a_free_bandwidth_is_the_network_card_s() -> None:
    problem = Problem.load(NAME)
    own = simulator(problem)
    slow = simulator(problem.set(**{"bandwidth[1]": "10 GB/s"}))
    columns = problem.baseline().value_columns()
    assert slow.evaluate(columns).step_ticks[0] > own.evaluate(columns).step_ticks[0]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(SpecError, match="'dp' is missing"):
        simulator(Problem.load(NAME)).evaluate({"tp": np.array([1])})


def test_a_step_beyond_the_clock_is_an_error_or_no_time() -> None:
    problem = Problem.load(NAME).without("fits").set(global_batch=10**9)
    own, columns = simulator(problem), problem.baseline().value_columns()
    with pytest.raises(LimitError, match="46 days"):
        own.evaluate(columns)
    evaluation = own.evaluate(columns, strict=False)
    assert evaluation.step_ticks[0] == NO_TIME
    assert not evaluation.terms.any()


def test_rings_of_one_tier_are_one_torus() -> None:
    torus = simulator(Problem.load("llama3-70b/tpu-v5p-512-fsdp")).setup_for(())
    assert (torus.gpus_per_node, torus.device.fabric and torus.device.fabric.link_bytes_per_s) == (8960, 600e9)
    node = simulator(Problem.load("llama3-70b/gb200-64")).setup_for(())
    assert (node.gpus_per_node, node.nic_bytes_per_s) == (72, 50e9)


@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_a_faster_ring_does_not_break_the_torus(dimension: int) -> None:
    problem = Problem.load("llama3-70b/tpu-v5p-512-fsdp").without("fits").fix(dp=4, tp=8, cp=16, micro_batch=1)
    columns = problem.baseline().value_columns()
    faster = simulator(problem.set(**{f"bandwidth[{dimension}]": "220 GB/s"}))
    assert faster.evaluate(columns).step_ticks <= simulator(problem).evaluate(columns).step_ticks


def test_a_ring_of_another_tier_lies_outside_the_torus(tmp_path: Any) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "schema: cosmic-opt/instance@1\nname: own\nmodel: fsdp\nworkload: llama3-8b\nsystem: trn2-ultraserver-64\n"
        "stack: maxtext-2025\njob: {global_batch: 64}\ndata: {npus: 64}\nscope: framework\n",
        encoding="utf-8",
    )
    chips = simulator(Problem.load(str(own))).setup_for(())
    assert (chips.gpus_per_node, chips.nic_bytes_per_s) == (16, 64e9)
    assert chips.device.fabric is not None
    assert chips.device.fabric.link_bytes_per_s == 640e9
