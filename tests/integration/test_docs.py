"""The pages under docs/ say what the program does: their commands are run and their tables checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from cosmic_opt.cli.main import build_app
from tests.integration.pages import DOCS, Shown, guides, masked, shown_in
from tests.unit.cli.running import run

TABLE1 = "cosmic/table1-1024"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def rows(page: str, header: str) -> list[list[str]]:
    """Return the cells of the table whose header line starts with `header`."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    start = lines.index(next(line for line in lines if line.startswith(header))) + 2
    found = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


@pytest.mark.parametrize("shown", shown_in("../README.md"), ids=lambda shown: shown.command)
def test_a_command_of_the_readme_runs_and_prints_what_it_shows(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = shown.ran()
    if shown.output.strip():
        assert masked(output) == masked(shown.output)


def test_the_readme_shows_the_output_of_the_main_job() -> None:
    assert any("proved optimal" in shown.output for shown in shown_in("../README.md"))


def test_the_readme_calls_the_guide_of_questions_as_it_calls_itself() -> None:
    title = (DOCS / "guide" / "questions.md").read_text(encoding="utf-8").splitlines()[0]
    assert f"[{' '.join(title.removeprefix('# ').split()[:2]).lower()}](docs/guide/questions.md)" in (
        DOCS / ".." / "README.md"
    ).read_text(encoding="utf-8")


def test_the_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = blocks("../README.md", "python")
    exec(program, {})
    assert int(capsys.readouterr().out) > 10**12


@pytest.mark.parametrize(("rule", "count", "meaning"), rows("rule-language.md", "| rule | feasible"))
def test_each_rule_of_the_page_counts_what_it_says(rule: str, count: str, meaning: str) -> None:
    done = run("count", TABLE1, "--require", rule.strip("`"), "--json")
    assert f"{done.keys['value']:,}" == count, meaning


@pytest.mark.parametrize(("rule", "why"), rows("rule-language.md", "| refused | why"))
def test_each_refused_rule_of_the_page_is_refused_with_a_hint(rule: str, why: str) -> None:
    done = run("count", TABLE1, "--require", rule.strip("`"))
    assert done.code == 2, why
    assert "hint:" in done.err


def test_the_quantities_of_the_page_are_those_of_an_instance() -> None:
    from cosmic_opt.api import Problem

    quantities = Problem.load("cosmic/placement-gpt3-175b-system2").scope("filling_order").parameter_set.quantities
    table = {name.strip("`"): unit for name, unit, _ in rows("rule-language.md", "| quantity | unit")}
    symbols = {"byte": "B", "byte/s": "B/s", "dollar": "$", "picosecond": "ps", "1": "1"}
    assert {name: symbols[unit] for name, unit in table.items()} == {n: q.unit.value for n, q in quantities.items()}


def test_the_quantities_of_a_system_on_the_page_are_those_of_a_priced_one() -> None:
    from cosmic_opt.api import Problem

    bare = Problem.load("cosmic/gpt3-13b-system2")
    bought = bare.set(device_price="5000 $", device_power="300 W").parameter_set.quantities
    table = {name.strip("`"): unit for name, unit, _ in rows("rule-language.md", "| quantity of a system")}
    symbols = {"dollar": "$", "watt": "W", "microjoule": "uJ"}
    own = bought.keys() - bare.parameter_set.quantities.keys()
    assert {name: symbols[unit] for name, unit in table.items()} == {name: bought[name].unit.value for name in own}


@pytest.mark.parametrize("page", guides())
def test_the_python_of_a_guide_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for program in blocks(page, "python"):
        exec(program, {})
        assert capsys.readouterr().out.strip()


def test_every_command_and_option_is_documented() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    commands = typer.main.get_command(build_app()).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        assert f"## {name}" in text, name
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert f"`{option}" in text, (name, option)


JSON_RUNS = {
    "count": ("count", "llama3-405b/h100-16k"),
    "validate": ("validate", "llama3-405b/h100-16k"),
    "simulate": ("simulate", "llama3-405b/h100-16k"),
    "solve": ("solve", "llama3-405b/h100-16k", "--quiet"),
    "list": ("list",),
    "collective": (
        *("collective", "--topology", "ring", "--npus", "4"),
        *("--bandwidth", "1GB/s", "--latency", "1us", "--size", "1MB"),
    ),
}


@pytest.mark.parametrize("command", JSON_RUNS)
def test_every_json_key_is_documented(command: str) -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {command}\n")[1].split("\n## ")[0] + text.split("\n## ")[1]
    for key in run(*JSON_RUNS[command], "--json").keys.keys() - {"schema"}:
        assert f"`{key}`" in section, key
