"""One design by events: refused where an instance names a software stack or an engine."""

from __future__ import annotations

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.search.events import event_simulator_of
from cosmic_opt.search.score import simulator_of


@pytest.mark.parametrize("name", ["qwen3-32b/h100-64", "llama3-8b/h100-8-serving"], ids=["stack", "engine"])
def test_an_instance_with_a_stack_or_an_engine_has_no_events(name: str) -> None:
    instance = Problem.load(name).instance
    with pytest.raises(SpecError, match="names a software stack or an engine") as caught:
        event_simulator_of(instance, simulator_of(instance))
    assert caught.value.hint
