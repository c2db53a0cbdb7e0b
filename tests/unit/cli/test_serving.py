"""Served models on the command line: one design, the best one, fronts, sweeps, differences, in text and JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.unit.cli.running import run

NAME = "llama3-70b/h100-8-serving"
POOLS = "llama3-70b/h200-16-pools-serving"
LIMIT = ("--require", "output_token_time <= 30 ms")


def test_simulate_gives_every_metric_and_both_breakdowns() -> None:
    keys = run("simulate", NAME, "--json").keys
    metrics = keys["metrics"]
    assert keys["engine"] == "calibrated"
    assert sum(keys["breakdown"].values()) == pytest.approx(metrics["output_token_time_s"])
    assert sum(keys["first_token"].values()) == pytest.approx(metrics["first_token_time_s"])
    assert metrics["users"] == 2 * 64
    assert metrics["requests_per_s"] == pytest.approx(metrics["throughput_tokens_per_s"] / 200)
    assert metrics["memory_bytes"] == sum(
        keys["memory"][f"{part}_bytes"] for part in ("weights", "kv_cache", "workspace")
    )
    assert keys["prediction"]["low_s"] < metrics["output_token_time_s"] < keys["prediction"]["high_s"]
    assert keys["launch"][:2] == ["--tensor-parallel-size 4", "--max-num-seqs 64"]


def test_two_pools_have_a_memory_and_options_each() -> None:
    keys = run("simulate", POOLS, "--json").keys
    assert set(keys["memory"]) == {"prefill", "decode"}
    assert [option for option in keys["launch"] if option.endswith(":")] == ["prefill:", "decode:"]
    out = run("simulate", POOLS).out
    assert "memory of one NPU, decode pool" in out
    assert "no pair of pools was measured" in out


def test_a_design_beyond_a_limit_is_refused_by_every_command() -> None:
    refused = run("simulate", NAME, *LIMIT, "--json")
    assert refused.code == 3
    assert [rule["rule"] for rule in refused.keys["violations"]] == [LIMIT[1]]
    assert run("solve", NAME, "--require", "output_token_time <= 1 ms", "--quiet").code == 3
    assert run("pareto", NAME, "--require", "output_token_time <= 1 ms", "--quiet").code == 3
    assert "no feasible design" in run("explain", NAME, "--require", "output_token_time <= 1 ms", "--quiet").out


def test_enumerate_gives_metrics_as_rules_and_as_simulate_call_them() -> None:
    names = "first_token_time,output_token_time_s,throughput,throughput_per_npu,users,kv_cache_per_npu"
    lines = [json.loads(line) for line in run("enumerate", NAME, "--with", names, *LIMIT).out.splitlines()]
    assert len(lines) == 399
    assert all(line["output_token_time_s"] <= 30e-3 for line in lines)
    assert {"first_token_time_s", "throughput_tokens_per_s", "kv_cache_per_npu_bytes"} <= set(lines[0])
    refused = run("enumerate", NAME, "--with", "step_time")
    assert refused.code == 2
    assert "step_time" in refused.err


def test_without_the_cache_rule_what_fits_is_admitted_and_the_rest_warned_of() -> None:
    options = ("--without", "fits", "--set", "precision=bf16", "--fix", "tp=2", "--fix", "dp=1", "--fix", "batch=256")
    keys = run("simulate", NAME, *options, "--json").keys
    assert 0 < keys["metrics"]["users"] < 256
    assert "admits fewer" in keys["warnings"][0]


def test_what_if_and_sweep_show_the_metrics_of_serving(tmp_path: Path) -> None:
    out = run("what-if", NAME, "--set", "precision=bf16", "--quiet").out
    assert "throughput_tokens_per_s_per_npu" in out
    assert "-45.36 %" in out
    file = tmp_path / "sweep.csv"
    assert run("sweep", NAME, "--over", "tp=2,4", "--out", str(file), "--quiet").code == 0
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert [row["tp"] for row in rows] == ["2", "4"]
    assert float(rows[0]["users"]) == 1024


def test_pareto_takes_rates_and_times_and_says_what_it_takes() -> None:
    keys = run("pareto", NAME, "--json", "--quiet").keys
    assert keys["objectives"] == ["throughput_per_npu", "output_token_time"]
    rates = [point["throughput_per_npu"] for point in keys["points"]]
    times = [point["output_token_time_s"] for point in keys["points"]]
    assert rates == sorted(rates, reverse=True)
    assert times == sorted(times, reverse=True)
    for wrong in ("", "throughput", "throughput,throughput", "throughput,", "a,b,c,d"):
        assert run("pareto", NAME, "--objectives", wrong).code == 2


def test_a_front_that_a_time_limit_ended_is_not_called_proved() -> None:
    over = ("pareto", NAME, "--time-limit", "1 us", "--quiet")
    done = run(*over, "--json")
    assert done.code == 4
    assert (done.keys["status"], done.keys["stop"], done.keys["points"]) == ("unknown", "time limit", [])
    assert done.keys["designs_scored"] == 0
    assert "no design was scored before the limit: time limit" in run(*over).out
    lasting = run("pareto", NAME, "--time-limit", "1 h", "--quiet")
    assert lasting.code == 0
    assert "3,208 feasible designs, proved: every design scored" in lasting.out


def test_a_front_that_no_design_reaches_is_proved_empty() -> None:
    """A block without one allowed design has no amounts to look at."""
    fast = run("pareto", NAME, "--require", "throughput >= 1000000000", "--json", "--quiet")
    assert (fast.code, fast.keys["status"], fast.keys["points"]) == (3, "infeasible", [])
    idle = ("llama3-405b/h200-8-serving", "--without", "fits", "--fix", "tp=1", "--fix", "pp=1", "--quiet")
    held = run("pareto", *idle)  # no replica of one NPU holds the weights
    assert held.code == 3
    assert "no design can run, proved" in held.out
    assert "designs that obey the rules can run: no sequence fits beside the weights" in held.out


def test_a_design_that_admits_no_sequence_is_never_the_answer() -> None:
    loose = ("llama3-405b/h200-8-serving", "--without", "fits", "--quiet", "--json")
    keys = run("solve", *loose, "--top", "10000").keys
    assert keys["feasible_designs"] == 7_168
    assert (keys["cannot_run"]["designs"], keys["cannot_run"]["looked_at"]) == (3_584, 7_168)
    assert len(keys["top"]) == 3_584  # the other half has no time and no rate
    best = run("solve", "llama3-405b/h200-8-serving", "--quiet", "--json").keys
    assert keys["objective"] == best["objective"]
    refused = run("solve", "llama3-405b/h200-8-serving", "--without", "fits", "--fix", "tp=1", "--fix", "pp=1")
    assert refused.code == 3
    assert "no sequence fits beside the weights" in refused.out


def test_an_optimum_that_admits_no_sequence_says_so() -> None:
    least = ("optimise", "llama3-405b/h200-8-serving", "--minimise", "dp * tp * pp")
    over = run(*least, "--without", "fits", "--json").keys
    assert over["objective"]["value"] == 1
    assert over["cannot_run"]["reason"] == "no sequence fits beside the weights"
    assert "it cannot run, though it obeys every rule: no sequence fits" in run(*least, "--without", "fits").out
    assert run(*least, "--json").keys["cannot_run"] is None
    assert "cannot run" not in run(*least).out


def test_compare_puts_two_servers_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(json.dumps({"dp": 1, "tp": 8, "batch": 128}), encoding="utf-8")
    out = run("compare", NAME, "--design", str(file)).out
    assert "first_token_time_s" in out
    assert "knobs that differ" in out


def test_a_certificate_is_written_and_verifies(tmp_path: Path) -> None:
    file = tmp_path / "best.json"
    assert run("solve", NAME, *LIMIT, "--certificate", str(file), "--quiet").code == 0
    assert run("verify", str(file)).code == 0


def test_nothing_is_written_where_nothing_can_be(tmp_path: Path) -> None:
    done = run("solve", NAME, "--certificate", str(tmp_path / "gone" / "best.json"), "--quiet")
    assert done.code == 2
    assert "hint:" in done.err


def test_validate_and_count_know_the_rules() -> None:
    keys = run("validate", NAME, "--json").keys
    assert keys["baseline"]["feasible"]
    assert {"fits", "engine_limit", "whole_kv_heads"} <= {rule["constraint"] for rule in keys["rules"]}
    assert run("count", NAME, *LIMIT, "--json").keys["value"] == 399


def test_an_answer_names_the_releases_that_its_engine_stands_for() -> None:
    assert "engine vllm (releases: 0.4 to 0.6, 2024), precision fp8" in run("simulate", NAME).out
