"""Domains of the frameworks' models hold what a job of any number of layers and any batch may choose."""

from __future__ import annotations

import pytest

from cosmic_opt.api import Problem


def columns(problem: Problem) -> dict[str, tuple[object, ...]]:
    return {column.name: column.values for column in problem.parameter_set.columns}


def test_every_number_of_virtual_stages_up_to_24_is_tried() -> None:
    assert columns(Problem.load("llama3-70b/h100-64"))["interleave"] == tuple(range(1, 25))


def test_layers_of_another_number_have_virtual_stages_of_their_own() -> None:
    """44 layers on four stages are 4 pieces of 11 or 44 of one; 45, 46 and 47 slots are no multiple of four."""
    problem = Problem.load("llama3-70b/h100-64").set(layers=44).without("fits")
    found = problem.fix(pp=4, dp=4, tp=4, micro_batch=1).sample(200, seed=0)
    assert set(found.values("interleave").tolist()) == {1, 11}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("llama3-70b/h100-64", (1, 2, 4, 8, 16)), ("gpt3-175b/h100-1536", (1, 2, 3, 4, 6, 8, 12, 16))],
)
def test_a_micro_batch_is_every_divisor_of_the_batch_up_to_16(name: str, sizes: tuple[int, ...]) -> None:
    assert columns(Problem.load(name))["micro_batch"] == sizes
    assert columns(Problem.load("llama3-8b/h200-32-fsdp"))["micro_batch"] == (1, 2, 4, 8, 16)
