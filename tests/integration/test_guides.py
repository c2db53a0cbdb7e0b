"""Every command of the guides prints what the page shows."""

import pytest

from tests.integration.pages import Shown, guides, masked, shown_in

COMMANDS = [shown for page in guides() for shown in shown_in(page)]


@pytest.mark.parametrize("shown", COMMANDS, ids=[f"{shown.page}: {shown.command[:60]}" for shown in COMMANDS])
def test_a_command_of_a_guide_prints_what_the_page_shows(shown: Shown) -> None:
    assert masked(shown.ran()) == masked(shown.output)


def test_every_guide_shows_a_command() -> None:
    assert {shown.page for shown in COMMANDS} == set(guides())
