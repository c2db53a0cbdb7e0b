"""Every command of the guides prints what the page shows; those of one page run in order in one empty folder."""

import doctest
from pathlib import Path

import pytest

from tests.integration.pages import DOCS, OWN_FILES, guides, masked, prepare, shown_in


@pytest.mark.parametrize("page", [*OWN_FILES, *guides()])
def test_the_commands_of_a_guide_print_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(page, tmp_path)
    commands = shown_in(page)
    assert commands
    for shown in commands:
        output = shown.ran()
        if shown.output.strip():
            assert masked(output) == masked(shown.output), shown.command


def test_the_python_page_says_what_python_says() -> None:
    failures, examples = doctest.testfile(
        str(DOCS / "python.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert examples > 30
    assert failures == 0
