"""Orders of Themis and switches that reduce are knobs like others: counted, simulated, solved, verified by commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.running import run

SCHEDULES = "cosmic/gpt3-175b-system2-schedules"
EVENTS = ("--engine", "events")
FOUR = ("--fix", "chunks=4", "--fix", "scheduling_policy=fifo")


def simulated(*options: str) -> dict[str, Any]:
    return run("simulate", SCHEDULES, *FOUR, *options, *EVENTS, "--json").keys


def test_a_dimension_without_a_switch_reduces_nothing() -> None:
    """Three policies, four cuts, three ways over dimensions; five algorithms on the switch, four elsewhere."""
    assert run("count", SCHEDULES, "--json").keys["value"] == 3 * 4 * 3 * 4 * 4 * 4 * 5
    without = run("count", SCHEDULES, "--set", "in_network_reduction=0", "--json").keys["value"]
    assert without == 3 * 4 * 3 * 4 * 4 * 4 * 4


def test_an_instance_that_says_nothing_of_its_switches_has_none_that_reduce(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[3] / "instances" / "cosmic" / "gpt3-175b-system2-schedules.yaml"
    lines = shipped.read_text(encoding="utf-8").splitlines()
    own = tmp_path / "plain.yaml"
    own.write_text("\n".join(line for line in lines if "in_network_reduction" not in line), encoding="utf-8")
    assert run("count", str(own), "--json").keys["value"] == 3 * 4 * 3 * 4 * 4 * 4 * 4
    assert run("count", str(own), "--set", "in_network_reduction=1", "--json").keys["value"] == 3 * 4 * 3 * 4**3 * 5
    assert run("count", "cosmic/gpt3-175b-system2", "--require", "in_network_reduction == 0").code == 0
    assert run("count", "cosmic/gpt3-175b-system2", "--require", "in_network_reduction == 1").code == 3
    assert run("count", "llama3-8b/h100-8", "--require", "in_network_reduction == 0").code == 2


def test_without_switches_that_reduce_the_rest_is_solved() -> None:
    best = run("solve", SCHEDULES, *FOUR, "--set", "in_network_reduction=0", "--json").keys
    assert (best["status"], best["feasible_designs"]) == ("optimal", 3 * 4**4)
    assert "in_network" not in best["design"].values()


@pytest.mark.parametrize("multidim", ["baseline", "blueconnect", "themis"])
def test_every_way_over_dimensions_is_played_and_never_below_its_bound(multidim: str) -> None:
    keys = simulated("--fix", f"multidim={multidim}")
    assert keys["design"]["multidim"] == multidim
    assert 0 < keys["analytical_step_time_s"] <= keys["metrics"]["step_time_s"]


WAYS = ("blueconnect", "themis")


def test_themis_leaves_less_data_parallel_traffic_exposed_than_blueconnect() -> None:
    exposed = [simulated("--fix", f"multidim={way}")["exposed_communication"]["data_s"] for way in WAYS]
    assert exposed[1] < 0.9 * exposed[0]


def test_a_switch_that_reduces_carries_less() -> None:
    """All-reduces of gradients cross the switch once instead of twice; gathers are as long as before."""
    replicated = ("--fix", "multidim=baseline", "--fix", "weight_sharded=0")
    direct, reducing = (simulated(*replicated, "--fix", f"algorithm[3]={way}") for way in ("direct", "in_network"))
    assert reducing["utilisation"][3] < 0.7 * direct["utilisation"][3]


def test_the_best_schedule_by_events_is_proved_and_verified(tmp_path: Path) -> None:
    certificate = tmp_path / "best.json"
    where = (*FOUR, "--fix", "algorithm[0]=ring", "--fix", "algorithm[1]=direct", "--fix", "algorithm[2]=ring")
    best = run("solve", SCHEDULES, *where, *EVENTS, "--certificate", str(certificate), "--json").keys
    designs = 3 * 5
    assert (best["status"], best["feasible_designs"]) == ("optimal", designs)
    every = [
        simulated(*where[4:], "--fix", f"multidim={way}", "--fix", f"algorithm[3]={last}")["metrics"]["step_time_s"]
        for way in ("baseline", *WAYS)
        for last in ("ring", "direct", "halving_doubling", "double_binary_tree", "in_network")
    ]
    assert best["metrics"]["step_time_s"] == min(every)
    assert run("verify", str(certificate)).code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fix", "algorithm[1]=in_network"), "reduces"),
        (("--fix", "algorithm[3]=in_network", "--set", "in_network_reduction=0"), "reduces"),
        (("--fix", "multidim=thetis"), "did you mean|allowed"),
    ],
)
def test_what_no_switch_can_do_is_refused(options: tuple[str, ...], words: str) -> None:
    done = run("simulate", SCHEDULES, *options, *EVENTS)
    assert done.code in (2, 3)
    assert any(word in done.err + done.out for word in words.split("|"))
