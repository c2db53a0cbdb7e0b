"""Three ways to share a sequence."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.context import MERGE_BYTES, context_pass
from cosmic_opt.simulation.calibrated.groups import group_s
from cosmic_opt.simulation.calibrated.job import TrainingDesigns
from cosmic_opt.simulation.calibrated.layer import Pass
from tests.unit.simulation.calibrated.jobs import LLAMA_8B, setup

CP4 = TrainingDesigns.of(cp=4)
LONG, NONE = (Pass(np.array([each]), np.array([each])) for each in (100.0, 0.0))
ONE = np.ones(1)


def gathered() -> float:
    size = np.array([2.0 * 4096 * LLAMA_8B.kv_width])
    return float(group_s(setup(), "all_gather", np.array([4.0]), ONE, size)[0])


def test_a_ring_hides_behind_long_attention_and_merges_what_it_got() -> None:
    shown, hidden = context_pass(setup(context_exchange="ring"), CP4, LONG)
    merge = MERGE_BYTES * 3 * 1024 * 4096 / (0.62 * 3350e9)
    assert shown.forward_s == pytest.approx(merge)
    assert hidden.forward_s == pytest.approx(gathered())
    assert hidden.backward_s == pytest.approx(2 * gathered())


def test_a_ring_beside_nothing_shows_all() -> None:
    shown, hidden = context_pass(setup(context_exchange="ring"), CP4, NONE)
    assert shown.forward_s > gathered()
    assert hidden.both_s == 0


def test_a_gather_before_attention_never_hides() -> None:
    shown, hidden = context_pass(setup(context_exchange="all_gather"), CP4, LONG)
    assert shown.forward_s == pytest.approx(gathered())
    assert shown.backward_s == pytest.approx(2 * gathered())
    assert hidden.both_s == 0


def test_trading_tokens_for_heads_is_two_exchanges_each_way() -> None:
    shown, hidden = context_pass(setup(context_exchange="all_to_all"), CP4, LONG)
    there, back = (
        group_s(setup(), "all_to_all", np.array([4.0]), ONE, np.array([2.0 * 1024 * width])) for width in (6144, 4096)
    )
    assert shown.forward_s == pytest.approx(there + back)
    assert shown.backward_s == pytest.approx(there + back)
    assert hidden.both_s == 0


@pytest.mark.parametrize("exchange", ["ring", "all_gather", "all_to_all"])
def test_one_rank_exchanges_nothing(exchange: str) -> None:
    shown, hidden = context_pass(setup(context_exchange=exchange), TrainingDesigns.of(), NONE)
    assert shown.both_s == 0
    assert hidden.both_s == 0


def test_an_unknown_exchange_is_refused() -> None:
    with pytest.raises(SpecError, match="unknown context_exchange 'rings'") as error:
        setup(context_exchange="rings")
    assert error.value.hint is not None
    assert "ring" in error.value.hint
