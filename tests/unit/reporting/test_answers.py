"""Log rows and gaps."""

from __future__ import annotations

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.reporting.answers import LOG_HEADER, gap_text, log_row, value_text
from cosmic_opt.reporting.designs import design_text, designs_keys, fixed_text, free_text
from cosmic_opt.search.objective import Objective, objective_of
from cosmic_opt.search.outcome import LogLine

STEP = Objective("step_time")
LLAMA = Problem.load("llama3-405b/h100-16k")


@pytest.mark.parametrize(("gap", "text"), [(0.0, "0 %"), (1e-9, "< 0.01 %"), (0.0123, "1.23 %"), (1.0, "100.00 %")])
def test_a_gap_above_zero_never_reads_as_zero(gap: float, text: str) -> None:
    assert gap_text(gap) == text


def test_a_row_stands_under_its_header() -> None:
    line = LogLine(1.5, 64, 968, 4_377_200_000_000, 4_000_000_000_000, 1936, "found")
    row = log_row(line, STEP)
    assert row.split() == ["1.50s", "64", "/", "968", "4.3772", "s", "4", "s", "8.62", "%", "1,936", "found"]
    assert LOG_HEADER.index("note") == row.index("found")
    empty = log_row(LogLine(0.0, 0, 0, None, None, 0), STEP)
    assert empty.split() == ["0.00s", "-", "-", "-", "-", "0"]


def test_values_carry_the_objectives_unit() -> None:
    parameter_set = LLAMA.parameter_set
    cost = objective_of("step_time * network_cost", parameter_set)
    bandwidth = objective_of("step_time * total_bandwidth", parameter_set)
    assert value_text(2 * 10**12, STEP) == "2 s"
    assert value_text(3 * 10**12 * 5, cost) == "15 s $"
    assert value_text(10**12 * 500 * 10**9, bandwidth) == "500 s GB/s"
    assert value_text(10**12, objective_of("throughput", parameter_set)) == "2,048 sequences/s"
    assert value_text(None, STEP) == "-"


def test_a_design_is_shown_by_stack_with_units() -> None:
    text = design_text(LLAMA.baseline())
    assert [line.split()[0] for line in text.splitlines()] == ["workload", "collective", "network"]
    assert "npus_per_dim [8, 2048]" in text
    assert "bandwidth [450 GB/s, 50 GB/s]" in text


def test_a_family_is_a_list_in_the_keys_of_a_design() -> None:
    (keys,) = designs_keys(LLAMA.baseline())
    assert keys["npus_per_dim"] == [8, 2048]
    assert (keys["dp"], keys["sp"]) == (128, 1)


def test_free_and_fixed_parameters_are_told_apart() -> None:
    parameter_set = LLAMA.free("bandwidth[1]").parameter_set
    assert free_text(parameter_set) == "dp, sp, tp, pp, zero_stage, micro_batch, recompute, bandwidth[1]"
    assert "bandwidth[0] 450 GB/s" in fixed_text(parameter_set)
    assert "algorithm [ring, ring]" in fixed_text(parameter_set)
