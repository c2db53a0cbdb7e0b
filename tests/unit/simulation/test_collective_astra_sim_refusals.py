"""Collectives on which ASTRA-sim fails, that mean nothing, or that are too large: refused by name."""

import math
from dataclasses import replace
from typing import Any

import pytest

from cosmic_opt.errors import InfeasibleError, LimitError, SpecError
from cosmic_opt.simulation.collective.astra_sim import run_case
from tests.unit.simulation.test_collective_astra_sim import RING_OF_8


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"endpoint_delay_ns": 0}, "assertion"),
        ({"chunks": 0}, "divides by zero"),
        ({"memory_gb_per_s": 0.0}, "divides by zero"),
        ({"collective": "all_gather", "size_bytes": 3, "chunks": 4}, "loops"),
        ({"groups": ((3,),)}, "never completes"),
        ({"npus_per_dim": (1,)}, "exit"),
        ({"npus_per_dim": (6,), "algorithms": ("halvingDoubling",)}, "unfinished"),
        ({"npus_per_dim": (6,), "algorithms": ("doubleBinaryTree",)}, "crashes"),
        ({"algorithms": ("halvingDoubling",), "collective": "all_to_all"}, "exits"),
        ({"algorithms": ("doubleBinaryTree",), "groups": ((0, 1),)}, "reads a ring as a tree"),
        ({"involved_dims": (False,)}, "involved"),
        ({"algorithms": ()}, "empty"),
        (
            {
                "topologies": ("ring", "ring"),
                "npus_per_dim": (4, 4),
                "bandwidth_gib_per_s": (1.0, 1.0),
                "latency_ns": (1.0, 1.0),
                "algorithms": ("doubleBinaryTree",),
            },
            "leaves NPUs out",
        ),
        ({"algorithms": ("ring", "ring")}, "longer"),
    ],
)
def test_inputs_on_which_astra_sim_fails_name_the_reason(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InfeasibleError, match=reason) as caught:
        run_case(replace(RING_OF_8, **changes))
    assert caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"topologies": ("torus",)},
        {"latency_ns": (1.0, 2.0)},
        {"latency_ns": (-1.0,)},
        {"latency_ns": (math.nan,)},
        {"bandwidth_gib_per_s": (0.0,)},
        {"npus_per_dim": (8.0,)},
        {"algorithms": ("tree",)},
        {"algorithms": (7,)},
        {"collective": "broadcast"},
        {"multidim": "themis"},
        {"size_bytes": -1},
        {"size_bytes": 2**62},
        {"active_chunks": 0},
        {"memory_gb_per_s": math.nan},
        {"groups": ((0, 8),)},
        {"groups": ((0, 1), (1, 2))},
        {"involved_dims": (1,)},
    ],
)
def test_a_case_that_means_nothing_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        replace(RING_OF_8, **changes)
    assert caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"npus_per_dim": (10**9,)},
        {"chunks": 10**12},
        {"bandwidth_gib_per_s": (1e-300,)},
        {"endpoint_delay_ns": 2**61},
        {"npus_per_dim": (2**16,), "algorithms": ("doubleBinaryTree",), "chunks": 64},
    ],
)
def test_what_is_too_large_to_simulate_is_said_so(changes: dict[str, Any]) -> None:
    with pytest.raises(LimitError) as caught:
        run_case(replace(RING_OF_8, **changes))
    assert caught.value.hint
