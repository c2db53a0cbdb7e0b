"""`simulate`: one screen for a design that obeys the rules, a refusal for one that does not."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.unit.cli.running import run

COSMIC = "cosmic/gpt3-175b-system2"
LLAMA = "llama3-405b/h100-16k"


def test_the_breakdown_adds_up_to_the_step() -> None:
    keys = run("simulate", COSMIC, "--json").keys
    assert keys["schema"] == "cosmic-opt/simulate@1"
    assert math.isclose(sum(keys["breakdown"].values()), keys["metrics"]["step_time_s"], rel_tol=1e-12)
    assert keys["violations"] == []


def test_the_memory_parts_add_up_to_the_footprint() -> None:
    keys = run("simulate", LLAMA, "--json").keys
    parts = sum(value for name, value in keys["memory"].items() if name.endswith("_bytes"))
    assert parts == keys["metrics"]["memory_bytes"] <= keys["metrics"]["memory_capacity_bytes"]


def test_achieved_flops_are_the_model_flops_over_time_and_below_the_peak() -> None:
    metrics = run("simulate", LLAMA, "--json").keys["metrics"]
    assert 0 < metrics["model_flop_fraction"] < 1
    assert math.isclose(metrics["model_flop_per_s_per_npu"] / 989.5e12, metrics["model_flop_fraction"])


def test_printed_percentages_add_up_to_one_hundred() -> None:
    out = run("simulate", COSMIC).out
    table = out[out.index("where the time goes") :].split("\n  step ")[0].splitlines()[1:]
    assert round(sum(float(line.split()[-2]) for line in table), 1) == 100.0


def test_text_fits_one_screen_and_names_what_matters() -> None:
    out = run("simulate", COSMIC).out
    assert len(out.splitlines()) < 50
    for words in ("bottleneck", "COSMIC's own formula", "faithful total", "of the peak", "$ 8,775,680", "free"):
        assert words in out


def test_cosmics_footprint_is_shown_only_where_a_rule_speaks_of_it() -> None:
    assert "COSMIC's own formula" not in run("simulate", LLAMA).out


def test_a_design_that_breaks_rules_is_refused_and_each_rule_is_named() -> None:
    done = run("simulate", LLAMA, "--fix", "tp=16", "--json")
    assert (done.code, done.keys["metrics"], done.keys["breakdown"]) == (3, None, None)
    assert [rule["constraint"] for rule in done.keys["violations"]] == ["world_size", "whole_kv_heads"]
    first = done.keys["violations"][0]
    assert (first["rule"], first["where"].split(":")[0]) == ("dp * sp * tp * pp == npus", "models/training.yaml")
    assert first["why"]
    assert "refused" in run("simulate", LLAMA, "--fix", "tp=16").out


def test_a_rule_on_the_step_is_checked_too() -> None:
    done = run("simulate", LLAMA, "--require", "step_time <= 1 s", "--json")
    assert (done.code, done.keys["violations"][0]["constraint"]) == (3, "required")


def test_a_faithful_footprint_above_capacity_is_warned_about() -> None:
    wide = ("--fix", "weight_sharded=0", "--fix", "dp=1", "--fix", "sp=32", "--fix", "tp=32", "--without", "fits")
    done = run("simulate", COSMIC, *wide, "--set", "memory_capacity=10 GB", "--json")
    assert done.code == 0
    assert "exceeds the memory" in done.keys["warnings"][0]
    assert "TOO MUCH" in run("simulate", COSMIC, *wide, "--set", "memory_capacity=10 GB").out


def test_a_design_file_may_leave_the_scope_and_carry_units(tmp_path: Path) -> None:
    file = tmp_path / "design.yaml"
    file.write_text("tp: 4\ndp: 256\nbandwidth: [900 GB/s, 25 GB/s]\nalgorithm[1]: direct\n")
    design = run("simulate", LLAMA, "--design", str(file), "--json").keys["design"]
    assert (design["tp"], design["bandwidth"]) == (4, [900_000_000_000, 25_000_000_000])
    assert design["algorithm"] == ["ring", "direct"]


def test_fix_wins_over_the_design_file() -> None:
    design = json.dumps({"dp": 256, "tp": 2, "chunks": 16})
    keys = run("simulate", LLAMA, "--design", "-", "--fix", "tp=4", "--json", stdin=design).keys
    assert (keys["design"]["tp"], keys["design"]["dp"], keys["design"]["chunks"]) == (4, 256, 16)


def test_a_line_of_sample_is_a_design(tmp_path: Path) -> None:
    line = run("sample", COSMIC, "--seed", "5").out
    file = tmp_path / "design.json"
    file.write_text(line)
    done = run("simulate", COSMIC, "--design", str(file), "--json")
    assert done.code == 0
    assert done.keys["design"] == json.loads(line)


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ("", "empty"),
        ("[1, 2]", "key: value"),
        ("{tpp: 8}", "did you mean"),
        ("{tp: .nan}", "not a number"),
        ("{tp: null}", "found nothing"),
        ("{tp: 4.5}", "whole number"),
        ("{tp: -8}", "allowed"),
        ("{tp: 1e400}", "out of range"),
        ("{tp: 7}", "allowed"),
        ("{bandwidth: 50 GB/s}", "expected a list"),
        ("{bandwidth: [50 GB/s]}", "one value per dimension"),
        ("{bandwidth: [50 GB, 50 GB]}", "a bandwidth is meant"),
        ("{'bandwidth[9]': 50 GB/s}", "indices run from 0 to 1"),
        ("{'bandwidth[0]': 50 GB/s, bandwidth: [50 GB/s, 50 GB/s]}", "given twice"),
        ("{'tp[0]': 8}", "unknown parameter"),
        ("{tp: 4, tp: 8}", "appears twice"),
        ("{tp: 4}\n{tp: 8}", "not YAML"),
        ("{topology: [rng, ring]}", "allowed: ring"),
    ],
)
def test_a_design_that_means_nothing_is_refused_with_a_hint(design: str, words: str) -> None:
    done = run("simulate", LLAMA, "--design", "-", stdin=design)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "hint:" in done.err


def test_a_free_parameter_without_any_value_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "bare.yaml"
    file.write_text(
        "schema: cosmic-opt/instance@1\nmodel: cosmic\nworkload: gpt3-13b\nsystem: cosmic-system1\n"
        "job: {global_batch: 512}\ndata: {cosmic_layers: 4}\nscope: full_stack\n"
    )
    done = run("simulate", str(file))
    assert done.code == 2
    assert "'dp' is free, and the instance gives it no value of its own" in done.err
    assert "give a design (--design FILE), or --fix dp=1" in done.err
    (tmp_path / "some.json").write_text("{}")
    assert "nothing gives 'dp' a value" in run("simulate", str(file), "--design", str(tmp_path / "some.json")).err


def test_a_calibrated_step_says_that_attention_counts_by_its_causal_half() -> None:
    assert "PFLOPS (attention: causal half)" in run("simulate", "llama3-70b/h100-64").out
    assert "attention: causal half" not in run("simulate", LLAMA).out


def test_a_design_of_more_npus_than_there_are_says_so_plainly() -> None:
    asked = ("simulate", "llama3-70b/h100-64", "--without", "world_size", "--fix")
    more, exact = (run(*asked, f"dp={degree}", "--json").keys["warnings"] for degree in (4, 2))
    assert more[0].startswith("the design uses 128 NPUs and there are 64: ")
    assert not any("NPUs" in warning for warning in exact)
    assert "warning: the design uses 128 NPUs and there are 64" in run(*asked, "dp=4").out


def test_a_fabric_that_grew_says_so() -> None:
    larger = ("--set", "npus=2048", "--set", "global_batch=4096", "--fix", "dp=64")
    keys = run("simulate", "llama3-70b/h100-64", *larger, "--json").keys
    assert keys["warnings"] == [
        "2,048 NPUs on a system of 1,024: its outermost network is taken to reach all of them at its own rate and price"
    ]


def test_a_design_of_a_larger_cluster_has_rates_of_the_npus_that_it_uses() -> None:
    loose = ("cosmic/gpt3-13b-system2", "--set", "npus=100", "--without", "world_size", "--without", "shape", "--json")
    keys = run("simulate", *loose).keys
    own = run("simulate", "cosmic/gpt3-13b-system2", "--json").keys
    assert keys["metrics"]["step_time_s"] == own["metrics"]["step_time_s"]
    assert keys["metrics"]["model_flop_fraction"] == own["metrics"]["model_flop_fraction"] < 1
    assert keys["warnings"][0].startswith("the design uses 1,024 NPUs and there are 100: ")


def test_terms_that_take_no_time_stand_in_the_breakdown_of_every_design() -> None:
    dense, mixture = (
        run("simulate", name, "--json").keys["breakdown"] for name in ("llama3-70b/h100-64", "deepseek-v3/h100-1024")
    )
    assert {*mixture} - {*dense} == {"dispatch_s", "multi_token_prediction_s"}
    assert {*dense} <= {*mixture}
    assert dense["context_parallel_s"] == mixture["context_parallel_s"] == 0.0
