"""Every module and function is of a size that is read at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import cosmic_opt

MODULES = sorted(Path(cosmic_opt.__file__).parent.rglob("*.py"))
TESTS = sorted(Path(__file__).parents[1].rglob("*.py"))
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 50


@pytest.mark.parametrize("modules", [MODULES, TESTS], ids=["package", "tests"])
def test_no_module_has_more_than_400_lines(modules: list[Path]) -> None:
    lines = {str(module): len(module.read_text(encoding="utf-8").splitlines()) for module in modules}
    assert lines
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_no_function_has_more_than_50_lines() -> None:
    long = [
        f"{module.name}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    ]
    assert long == []
