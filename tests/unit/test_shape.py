"""Every module is of a size that is read at once."""

from __future__ import annotations

from pathlib import Path

import cosmic_opt

MODULES = sorted(Path(cosmic_opt.__file__).parent.rglob("*.py"))
MOST_LINES = 400


def test_no_module_has_more_than_400_lines() -> None:
    lines = {module.name: len(module.read_text(encoding="utf-8").splitlines()) for module in MODULES}
    assert lines
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
