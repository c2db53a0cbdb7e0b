"""`count`: numbers worked by hand, engines that agree, reasons for zero."""

from __future__ import annotations

from functools import partial

import pytest

from cosmic_opt.feasibility.compile import CompileLimit
from cosmic_opt.feasibility.feasible_set import feasible_set
from tests.unit.cli.running import run

TABLE1 = "cosmic/table1-1024"
LLAMA = "llama3-405b/h100-16k"
SPLITS = 286  # C(13, 3): the ways to write 1024 = 2^10 as a product of four powers of two
SHAPES = 10  # C(5, 3): exponents 2 to 4 that sum to 10 over four dimensions


def test_the_published_space_without_memory_is_the_number_worked_by_hand() -> None:
    done = run("count", TABLE1, "--without", "fits", "--fix", "weight_sharded=1", "--json")
    blocks = 2 * 3**3  # no switch inside
    assert done.code == 0
    assert done.keys["value"] == SPLITS * 2 * 4 * 2 * SHAPES * blocks * 10**4 * 4**4
    assert done.keys["grid_size"] == 11**4 * 2 * 4 * 2 * 3**4 * 3**4 * 10**4 * 4**4
    assert done.keys["exact"] is True
    assert done.keys["schema"] == "cosmic-opt/count@1"


def test_components_multiply_to_the_count_and_to_the_grid() -> None:
    keys = run("count", TABLE1, "--json").keys
    value = grid = 1
    for part in keys["components"]:
        value *= part["value"]
        grid *= part["grid_size"]
    assert (value, grid) == (keys["value"], keys["grid_size"])
    assert f"{keys['value']:,}" == keys["value_text"]
    assert keys["seconds"] < 5


def test_text_shows_the_product_family_by_family() -> None:
    done = run("count", TABLE1, "--fix", "weight_sharded=1")
    assert "6,082,560,000,000 (6.083e12) feasible designs, exactly" in done.out
    assert "bandwidth[0..3]" in done.out
    assert "10 x 10 x 10 x 10" in done.out
    assert "fixed: weight_sharded 1" in done.out


@pytest.mark.parametrize("solver", ["exhaustive", "cp_sat"])
def test_cross_check_engines_count_the_same(solver: str) -> None:
    keys = run("count", LLAMA, "--solver", solver, "--json").keys
    assert (keys["value"], keys["engine"]) == (968, solver)


def test_zero_names_a_minimal_set_of_rules_and_ends_with_three() -> None:
    done = run("count", TABLE1, "--fix", "dp=1024", "--fix", "tp=2", "--json")
    assert (done.code, done.keys["value"]) == (3, 0)
    assert [rule["constraint"] for rule in done.keys["conflict"]] == ["world_size"]
    text = run("count", TABLE1, "--fix", "dp=1024", "--fix", "tp=2")
    assert "dp * sp * tp * pp == npus" in text.out
    assert "models/cosmic.yaml" in text.out


def test_two_required_rules_that_exclude_each_other_are_both_named() -> None:
    keys = run("count", TABLE1, "--require", "tp >= 8", "--require", "tp <= 4", "--json").keys
    assert [rule["constraint"] for rule in keys["conflict"]] == ["required_1", "required_2"]


def test_a_rule_on_the_step_gives_certified_limits() -> None:
    keys = run("count", LLAMA, "--require", "step_time <= 6 s", "--json").keys
    lower, upper = (keys["value"], keys["value"]) if keys["exact"] else (keys["lower"], keys["upper"])
    assert 0 < lower <= upper < 968


def test_an_impossible_rule_on_the_step_is_named() -> None:
    done = run("count", LLAMA, "--require", "step_time <= 1 ms", "--json")
    assert done.code == 3
    assert [rule["constraint"] for rule in done.keys["conflict"]] == ["required"]


def test_edits_change_the_count_and_not_the_file() -> None:
    before = run("count", LLAMA, "--json").keys["value"]
    tighter = run("count", LLAMA, "--set", "memory_capacity=40 GB", "--json").keys["value"]
    assert tighter < before == run("count", LLAMA, "--json").keys["value"]


def test_the_count_up_to_equivalence_leaves_out_the_order_of_service() -> None:
    keys = run("count", TABLE1, "--up-to-equivalence", "--json").keys
    assert (keys["inert"], keys["undecided"]) == (["scheduling_policy"], [])
    assert 2 * keys["distinct"] == keys["value"]
    assert keys["distinct"] == keys["distinct_lower"]
    assert f"{keys['distinct']:,}" == keys["distinct_text"]
    shown = run("count", TABLE1, "--up-to-equivalence").out
    about = "free, but without effect on the objective wherever the rules leave a choice: scheduling_policy"
    assert f"can change step_time\n{about}" in shown
    assert "every free knob matters" in run("count", LLAMA, "--up-to-equivalence").out


def test_under_a_rule_on_the_step_the_count_up_to_equivalence_is_a_range() -> None:
    keys = run("count", TABLE1, "--up-to-equivalence", "--require", "step_time <= 500 s", "--json").keys
    assert keys["distinct_lower"] == -(-keys["lower"] // 2)
    assert keys["distinct_lower"] <= keys["distinct"] <= keys["upper"]


def test_nothing_is_equivalent_when_nothing_is_feasible() -> None:
    done = run("count", TABLE1, "--up-to-equivalence", "--require", "tp == 3", "--json")
    assert done.code == 3
    assert "distinct" not in done.keys


def test_a_diagram_that_outgrows_memory_gives_two_certified_limits_and_ends_with_four(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = run("count", TABLE1, "--json").keys
    narrow = partial(feasible_set, limit=CompileLimit(arcs=50), width=2)
    monkeypatch.setattr("cosmic_opt.api.feasibility.feasible_set", narrow)
    done = run("count", TABLE1, "--json")
    keys = done.keys
    assert (done.code, keys["exact"], keys["diagram"], keys["components"]) == (4, False, None, [])
    assert keys["lower"] <= exact["value"] <= keys["upper"] == keys["value"]
    assert keys["outgrown_at"] in {"dp", "sp", "tp", "pp"}
    text = run("count", TABLE1)
    assert text.code == 4
    assert "certified by a narrower diagram and a coarser one" in text.out
    assert f"{keys['lower']:,}" in text.out
    assert "hint:" in text.out
    refused = run("enumerate", TABLE1, "--limit", "1")
    assert (refused.code, refused.out) == (4, "")
    assert "at least" in refused.err


def test_the_size_of_the_diagram_is_a_key_and_a_line_on_stderr() -> None:
    done = run("count", LLAMA, "--json")
    shape = done.keys["diagram"]
    assert shape["width"] <= shape["nodes"] <= shape["arcs"] + 20
    assert sum(part["diagram"]["arcs"] for part in done.keys["components"]) <= shape["arcs"]
    assert f"width {shape['width']:,}" in done.err
    assert run("count", LLAMA, "--quiet").err == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "explain finds the cheapest changes, drop a rule that need not hold for you (--without stages), or free"),
        (("--require", "dp > 240"), "explain finds the cheapest changes, leave out a --require, or free"),
        (("--without", "stages", "--without", "whole_batch", "--fix", "tp=16", "--fix", "pp=16"), "hint: explain"),
    ],
)
def test_the_hint_never_offers_to_drop_the_rule_that_ties_the_degrees_to_the_npus(
    options: tuple[str, ...], said: str
) -> None:
    name = ("llama3-70b/h100-64", "--set", "npus=240", "--set", "global_batch=1024")
    done = run("count", *name, *options)
    assert (done.code, "world_size" in done.out or "dp > 240" in done.out) == (3, True)
    assert said in done.out
    assert "--without world_size" not in done.out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--require", "memory_per_npu <= 75"), "75 what?"),
        (("--require", "75 >= memory_per_npu"), "75 what?"),
        (("--require", "memory_per_npu - 3 <= 75 GB"), "3 what?"),
        (("--require", "total_bandwidth >= 400"), "400 what?"),
        (("--set", "memory_capacity=141"), "141 what?"),
        (("--set", "bandwidth[1]=50"), "50 what?"),
    ],
)
def test_a_typed_number_of_bytes_without_its_unit_is_refused(option: tuple[str, str], said: str) -> None:
    done = run("count", "llama3-70b/h100-64", *option)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert f"hint: write '{said.removesuffix(' what?')} GB" in done.err


@pytest.mark.parametrize("rule", ["memory_per_npu <= 80000000000", "memory_per_npu > 0", "memory_per_npu >= 75 B"])
def test_bytes_that_may_be_meant_are_not_refused(rule: str) -> None:
    assert run("count", "llama3-70b/h100-64", "--require", rule, "--json").keys["value"] == 2759


def test_one_design_is_counted_in_the_singular() -> None:
    done = run("count", "llama3-70b/h100-64", "--require", "energy <= 431532 J")
    assert "llama3-70b/h100-64 (scope framework): 1 feasible design, exactly" in done.out


def test_numbers_too_large_for_a_diagram_are_counted_one_by_one() -> None:
    ask = ("count", "cosmic/gpt3-13b-system1", "--scope", "workload", "--json", "--require")
    small = run(*ask, "2 * tp + dp >= 6").keys
    rule = f"tp * {2**62} + dp * {2**61} >= {2**62} * 3"
    refused = run(*ask, rule)
    assert refused.code == 4
    assert "adds numbers beyond 2^62" in refused.err
    assert "count --solver exhaustive" in refused.err
    keys = run(*ask, rule, "--solver", "exhaustive").keys
    assert 0 < keys["value"] == small["value"] < 360
    assert (keys["exact"], keys["components"], keys["diagram"]) == (True, [], None)
