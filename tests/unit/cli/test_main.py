"""Errors, exit codes and the options every command shares."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cosmic_opt.cli import count
from cosmic_opt.errors import EngineDisagreement, InfeasibleError, LimitError, SpecError
from tests.unit.cli.running import run

TABLE1 = "cosmic/table1-1024"
PROBLEM_COMMANDS = ("validate", "count", "enumerate", "sample", "simulate", "solve")
COMMANDS = ("list", *PROBLEM_COMMANDS, "collective", "validation")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `count` raise."""

    def install(error: BaseException) -> None:
        def fail(*arguments: object) -> None:
            raise error

        monkeypatch.setattr(count, "count_keys", fail)

    return install


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError("x", hint="y"), 2),
        (SpecError("x"), 2),
        (InfeasibleError("x", hint="y"), 3),
        (LimitError("x", hint="y"), 4),
        (MemoryError(), 4),
        (EngineDisagreement("x"), 70),
        (ZeroDivisionError("x"), 70),
        (AssertionError("x"), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_kind_of_error_has_its_exit_code_and_no_traceback(
    failing: Callable[[BaseException], None], error: BaseException, code: int
) -> None:
    failing(error)
    done = run("count", TABLE1)
    assert (done.code, done.out) == (code, "")
    assert "Traceback" not in done.err
    assert ("hint:" in done.err) == (code in (2, 3, 4))
    assert ("this is a bug of ours" in done.err) == (code == 70)


def test_a_bug_shows_its_traceback_when_asked(
    failing: Callable[[BaseException], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSMIC_OPT_DEBUG", "1")
    failing(ZeroDivisionError("x"))
    done = run("count", TABLE1)
    assert done.code == 70
    assert "bug of ours, please report it: ZeroDivisionError: x" in done.err
    assert "Traceback" in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_the_common_options(command: str) -> None:
    done = run(command, "--help")
    assert done.code == 0
    assert "--json" in done.out
    assert "--quiet" in done.out
    if command in PROBLEM_COMMANDS:
        for option in ("--set", "--fix", "--free", "--require", "--without", "--scope", "--objective", "--seed"):
            assert option in done.out
        assert "bandwidth[0]" in done.out


def test_version_is_printed() -> None:
    done = run("--version")
    assert (done.code, done.out.split()[0].rstrip(",")) == (0, "cosmic-opt")


@pytest.mark.parametrize("arguments", [(), ("cuont",), ("--jsn",), ("count",), ("count", "--x", TABLE1), ("",)])
def test_a_misspelt_command_line_is_refused_with_a_hint(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "hint:" in done.err


def test_a_misspelt_command_and_option_are_met_with_the_nearest() -> None:
    assert "count" in run("cuont").err
    assert "--seed" in run("count", TABLE1, "--sed", "1").err


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_given_twice_is_refused(command: str) -> None:
    done = run(command, "--json", "--json")
    assert done.code == 2
    assert "given twice" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fix", "tp=8", "--fix", "tp=4"), "given twice"),
        (("--set", "npus=8", "--set", "npus=4"), "given twice"),
        (("--fix", "tp=8", "--free", "tp"), "fixed and freed"),
    ],
)
def test_edits_that_contradict_each_other_are_refused(options: tuple[str, ...], words: str) -> None:
    done = run("count", TABLE1, *options)
    assert done.code == 2
    assert words in done.err


def test_a_member_may_be_fixed_apart_from_its_family() -> None:
    keys = run("validate", TABLE1, "--fix", "chunks=4", "--fix", "bandwidth[0]=100GB/s", "--json").keys
    assert keys["fixed"]["bandwidth[0]"] == 100_000_000_000
    assert "bandwidth[1]" in keys["free"]


@pytest.mark.parametrize("name", ["config.json", "trace.et"])
def test_a_configuration_or_trace_is_not_read_in_this_version(name: str) -> None:
    done = run("count", name)
    assert done.code == 2
    assert "not read in this version" in done.err
