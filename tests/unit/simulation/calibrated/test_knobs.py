"""Every knob a framework has is reachable from an instance, and changes the step or the memory."""

from __future__ import annotations

from typing import Any

import pytest

from cosmic_opt.api import Problem

DENSE = {"dp": 2, "tp": 4, "pp": 8, "cp": 1, "interleave": 5, "micro_batch": 1, "recompute": "none", "zero_stage": 1}
SHARDED = {"dp": 16, "tp": 1, "cp": 2, "micro_batch": 1, "recompute": "full", "zero_stage": 3}
MIXTURE = {"dp": 32, "tp": 1, "pp": 2, "cp": 1, "ep": 8, "interleave": 1, "micro_batch": 1, "recompute": "none"}
KNOBS = [
    ("llama3-70b/h100-64", DENSE, {"dp": 1, "tp": 8}, {}),
    ("llama3-70b/h100-64", DENSE, {"pp": 4, "tp": 8}, {}),
    ("llama3-70b/h100-64", DENSE, {"cp": 2, "dp": 1}, {}),
    ("llama3-70b/h100-64", DENSE, {"interleave": 10}, {}),
    ("llama3-70b/h100-64", DENSE, {"micro_batch": 2}, {}),
    ("llama3-70b/h100-64", DENSE, {"recompute": "full"}, {}),
    ("llama3-70b/h100-64", DENSE | {"recompute": "full"}, {"recompute_layers": 1}, {"recompute_layers": 0}),
    ("llama3-70b/h100-64", DENSE, {"zero_stage": 0}, {}),
    ("llama3-70b/h100-64", DENSE, {"sequence_parallel": 0}, {"sequence_parallel": 1}),
    ("llama3-70b/h100-64", DENSE, {"tensor_overlap": "none"}, {"tensor_overlap": "user_buffer"}),
    ("llama3-70b/h100-64", DENSE, {"gradient_overlap": "none"}, {"gradient_overlap": "window"}),
    *(
        ("llama3-70b/h100-64", DENSE | {"interleave": 1}, {"pipeline_schedule": other}, {"pipeline_schedule": base})
        for base, other in (("one_f_one_b", "gpipe"), ("one_f_one_b", "zero_bubble"))
    ),
    *(
        ("llama3-70b/h100-64", DENSE | {"cp": 2, "dp": 1}, {"context_exchange": other}, {"context_exchange": "ring"})
        for other in ("all_gather", "all_to_all")
    ),
    ("llama3-8b/h200-32-fsdp", SHARDED | {"dp": 32, "cp": 1}, {"zero_stage": 0}, {}),
    ("llama3-8b/h200-32-fsdp", SHARDED, {"reshard_after_forward": 0}, {"reshard_after_forward": 1}),
    ("llama3-8b/h200-32-fsdp", SHARDED, {"prefetch": 0}, {"prefetch": 1}),
    ("llama3-8b/h200-32-fsdp", SHARDED, {"shard_replicas": 4}, {"shard_replicas": 1}),
    ("llama3-8b/h200-32-fsdp", SHARDED, {"context_exchange": "ring"}, {"context_exchange": "all_gather"}),
    ("llama3-8b/h200-32-fsdp", SHARDED, {"recompute_layers": 7}, {"recompute_layers": 0}),
    ("mixtral-8x7b/h100-64", MIXTURE, {"ep": 1}, {}),
    ("mixtral-8x7b/h100-64", MIXTURE, {"recompute": "modules"}, {}),
    ("mixtral-8x7b/h100-64", MIXTURE, {"expert_load_percent": 125}, {"expert_load_percent": 100}),
]


def scored(name: str, point: dict[str, Any]) -> tuple[object, object]:
    """Return the step and the memory of a design; whether it fits does not matter here."""
    problem = Problem.load(name).without("fits")
    optional = [knob for knob in point if knob not in problem.baseline().value_columns()]
    fixed = (problem.free(*optional) if optional else problem).fix(**point)
    report = fixed.simulate(fixed.baseline() if optional == [] else fixed.sample(1))
    return report.metrics["step_time_s"], report.metrics["memory_bytes"]


@pytest.mark.parametrize(("name", "point", "change", "base"), KNOBS)
def test_a_knob_changes_the_step(
    name: str, point: dict[str, Any], change: dict[str, Any], base: dict[str, Any]
) -> None:
    before, after = scored(name, point | base), scored(name, point | base | change)
    assert before != after
