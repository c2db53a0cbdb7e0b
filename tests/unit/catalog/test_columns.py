from __future__ import annotations

import pytest

from cosmic_opt.errors import SpecError
from tests.unit.catalog.files import edited

SYSTEM2 = "cosmic/gpt3-175b-system2"


def test_a_value_outside_a_domain_is_answered_with_those_of_the_model_and_the_instance() -> None:
    with pytest.raises(SpecError, match=r"60 GB/s is not in the domain of 'bandwidth\[0\]'") as caught:
        edited(SYSTEM2, fix=["bandwidth[0]=60GB/s"])
    assert str(caught.value.hint).endswith("500 GB/s (375 GB/s is the instance's own)")
    with pytest.raises(SpecError) as caught:
        edited(SYSTEM2, fix=["bandwidth[2]=60GB/s"])
    assert str(caught.value.hint).endswith("450 GB/s, 500 GB/s")
