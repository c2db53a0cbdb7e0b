"""`validate` and `list`: what is declared, what each rule does here, and what is shipped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cosmic_opt.catalog.store import data_root, instance_names, model_names
from tests.unit.cli.running import run

TABLE1 = "cosmic/table1-1024"
LLAMA = "llama3-405b/h100-16k"


OFTEN = [
    *("cosmic/gpt3-13b-system1", "cosmic/placement-gpt3-175b-system2", "cosmic/table1-1024", "llama3-405b/h100-16k"),
    *("llama3-8b/h100-8", "qwen3-30b-a3b/h100-16", "llama3-8b/h200-32-fsdp", "llama3-70b/h100-8-serving"),
]
SELDOM = [pytest.param(name, marks=pytest.mark.slow) for name in instance_names() if name not in OFTEN]


@pytest.mark.parametrize("name", [*OFTEN, *SELDOM])
def test_every_shipped_instance_is_valid_and_its_own_design_obeys_its_rules(name: str) -> None:
    keys = run("validate", name, "--json").keys
    assert keys["baseline"]["feasible"] is True
    assert keys["feasible_designs"] > 0
    assert keys["warnings"] == []


@pytest.mark.parametrize("name", model_names())
def test_every_shipped_model_is_valid(name: str) -> None:
    done = run("validate", name, "--json")
    assert (done.code, done.keys["kind"], done.keys["name"]) == (0, "model", name)
    assert "well formed" in run("validate", name).out


def test_each_rule_is_judged_alone() -> None:
    rules = {rule["constraint"]: rule for rule in run("validate", TABLE1, "--json").keys["rules"]}
    grid = 11**4 * 2 * 2 * 4 * 2 * 3**4 * 3**4 * 10**4 * 4**4
    assert rules["world_size"]["keeps"] * 11**4 == 286 * grid
    assert rules["inner"]["keeps"] * 3 == 2 * grid
    assert rules["inner"]["verdict"] == "keeps 66.7 %"


def test_a_rule_that_is_always_or_never_true_is_said_so() -> None:
    done = run("validate", TABLE1, "--require", "tp >= 1", "--require", "tp == 3", "--json")
    verdicts = {rule["constraint"]: rule["verdict"] for rule in done.keys["rules"]}
    assert (verdicts["required_1"], verdicts["required_2"]) == ("always true here", "never true here")
    assert done.code == 3
    assert any("required_2" in warning for warning in done.keys["warnings"])


def test_a_baseline_that_breaks_a_rule_is_shown() -> None:
    done = run("validate", LLAMA, "--require", "tp <= 4")
    assert done.code == 0
    assert "the instance's own design breaks" in done.out
    keys = run("validate", LLAMA, "--require", "tp <= 4", "--json").keys
    assert [rule["constraint"] for rule in keys["baseline"]["violations"]] == ["required"]


def test_an_instance_without_a_design_has_none_to_judge(tmp_path: Path) -> None:
    shipped = (data_root() / "instances" / "llama3-70b" / "h100-64.yaml").read_text(encoding="utf-8")
    kept = "".join(line for line in shipped.splitlines(keepends=True) if not line.startswith("design:"))
    file = tmp_path / "mine.yaml"
    file.write_text(kept, encoding="utf-8")
    done, keys = run("validate", str(file)), run("validate", str(file), "--json").keys
    said = "the instance has no design of its own to judge: nothing gives dp, tp, pp, "
    assert (done.code, keys["baseline"]) == (0, None)
    assert said in done.out
    assert "own design breaks" not in done.out
    file.write_text(f"{kept}design: {{dp: 2, tp: 4, pp: 8}}\n", encoding="utf-8")
    assert "nothing gives cp, interleave," in run("validate", str(file)).out


def test_a_rule_on_memory_over_many_designs_is_judged_by_some_that_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("validate", "llama3-8b/h100-8", "--fix", "micro_batch=1", "--json")
    counted = run(*asked).keys
    with monkeypatch.context() as patch:
        patch.setattr("cosmic_opt.reporting.problems.MOST_ALONE", 1)
        drawn = run(*asked).keys
    fits = [next(rule for rule in keys["rules"] if rule["constraint"] == "fits") for keys in (counted, drawn)]
    assert fits[1]["keeps"] is None
    share = re.fullmatch(r"keeps ([0-9.]+) % of 16,384 drawn", fits[1]["verdict"])
    assert share is not None
    assert float(share[1]) / 100 == pytest.approx(fits[0]["keeps"] / counted["grid_size"], abs=0.02)
    others = [[rule for rule in keys["rules"] if rule["constraint"] != "fits"] for keys in (counted, drawn)]
    assert others[0] == others[1]


def test_a_rule_on_the_step_is_checked_for_its_form_only() -> None:
    keys = run("validate", LLAMA, "--require", "step_time <= 1 s", "--json").keys
    assert keys["rules"][-1]["verdict"] == "checked by simulation"
    assert run("validate", LLAMA, "--require", "step_time >= 1 s").code == 2


def test_free_and_fixed_parameters_are_listed() -> None:
    keys = run("validate", LLAMA, "--fix", "tp=8", "--json").keys
    assert keys["free"]["zero_stage"] == [0, 1, 2, 3]
    assert (keys["fixed"]["tp"], keys["fixed"]["bandwidth[0]"]) == (8, 450_000_000_000)


def test_an_objective_without_prices_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "schema: cosmic-opt/instance@1\nmodel: training\nworkload: llama3-8b\nscope: workload\n"
        "job: {global_batch: 64}\n"
        "system: {name: s, device: h100-sxm, collectives: {chunks: 1, multidim: baseline},"
        " dimensions: [{topology: switch, npus: 8, bandwidth: 450 GB/s, latency: 1 us, algorithm: ring}]}\n"
    )
    assert run("validate", str(file)).code == 0
    done = run("validate", str(file), "--objective", "step_time * network_cost")
    assert done.code == 2
    assert "network_cost" in done.err


def test_a_model_file_is_validated_and_cannot_be_edited(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("schema: cosmic-opt/model@1\nname: m\nparameters: {a: {stack: compute, domain: [1, 2]}}\n")
    assert run("validate", str(file), "--json").keys["parameters"][0]["name"] == "a"
    assert run("validate", str(file), "--fix", "a=1").code == 2
    file.write_text("schema: cosmic-opt/model@1\nname: m\nparameters: {a: {stak: compute, domain: [1, 2]}}\n")
    done = run("validate", str(file))
    assert done.code == 2
    assert "m.yaml:3" in done.err
    assert "did you mean 'stack'" in done.err


def test_list_names_everything_that_is_shipped() -> None:
    keys = run("list", "--json").keys
    assert [instance["name"] for instance in keys["instances"]] == instance_names()
    assert [model["name"] for model in keys["models"]] == model_names()
    by_name = {each["name"]: (each["npus"], each["model"], each["workload"]) for each in keys["instances"]}
    assert by_name["cosmic/gpt3-13b-system1"] == (512, "cosmic", "gpt3-13b")
    assert by_name["llama3-70b/h100-64"] == (64, "megatron", "llama3-70b")
    assert "h100-sxm" in keys["devices"]
    out = run("list").out
    assert all(name in out for name in instance_names())


def test_free_parameters_without_effect_are_named() -> None:
    keys = run("validate", "cosmic/gpt3-175b-system2", "--json").keys
    assert (keys["inert"], keys["undecided"]) == (["scheduling_policy"], [])
    pipelines = (f"--fix={value}" for value in ("dp=1", "sp=1", "tp=64", "pp=16"))
    idle = ("validate", "cosmic/gpt3-175b-system2", *pipelines)
    assert (
        "free, but without effect on the objective wherever the rules leave a choice: scheduling_policy, algorithm[3]"
        in run(*idle).out
    )


def test_values_that_the_system_adds_to_the_domains_are_named() -> None:
    keys = run("validate", "cosmic/gpt3-175b-system2", "--json").keys
    assert keys["own_values"] == {"bandwidth[0]": 375 * 10**9, "bandwidth[1]": 175 * 10**9}
    text = run("validate", "cosmic/gpt3-175b-system2").out
    assert "beside the model's values: bandwidth[0] 375 GB/s, bandwidth[1] 175 GB/s" in text
    fixed = run("validate", "cosmic/gpt3-175b-system2", "--scope", "workload")
    assert "beside the model's values" not in fixed.out


def test_no_shipped_model_is_extended_where_the_instance_has_its_values() -> None:
    assert run("validate", LLAMA, "--json").keys["own_values"] == {}
