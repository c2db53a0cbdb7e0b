"""Single modules that run again: where Megatron-Core can, and what that makes of DeepSeek-V3's published split."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError

MIXTURE, DENSE = "mixtral-8x7b/h100-64", "llama3-70b/h100-64"
SPLIT = {"dp": 64, "tp": 1, "pp": 4, "cp": 1, "ep": 64, "interleave": 4, "micro_batch": 1, "zero_stage": 1}


@pytest.mark.parametrize(
    ("name", "changes", "rules"),
    [
        (MIXTURE, {"precision": "fp16"}, ["modules_of_stack"]),
        (MIXTURE, {"precision": "fp8"}, ["modules_of_stack"]),
        (MIXTURE, {"stack": "torchtitan-2025"}, ["modules_of_stack"]),
        (MIXTURE, {"stack": "maxtext-2025"}, ["modules_of_stack"]),
        (MIXTURE, {"stack": "megatron-2021"}, ["modules_of_stack"]),
        (DENSE, {"precision": "bf16"}, ["modules_of_experts"]),
        (DENSE, {"precision": "fp8-cs"}, ["modules_of_experts"]),
        (DENSE, {"precision": "fp8"}, ["modules_of_experts", "modules_of_stack"]),
    ],
)
def test_modules_run_again_in_mixtures_of_megatron_core_only(
    name: str, changes: dict[str, str], rules: list[str]
) -> None:
    problem = Problem.load(name).without("fits").set(**changes).fix(recompute="modules")
    assert problem.count().value == 0
    for rule in rules:
        problem = problem.without(rule)
    assert problem.count().value > 0


@pytest.mark.parametrize("precision", ["bf16", "fp8-cs"])
def test_a_mixture_of_megatron_core_may_run_modules_again(precision: str) -> None:
    assert Problem.load(MIXTURE).set(precision=precision).fix(recompute="modules").count().value > 0


def test_a_problem_without_a_stack_has_no_modules(tmp_path: Path) -> None:
    shipped = data_root() / "models" / "training.yaml"
    text = shipped.read_text(encoding="utf-8").replace("[none, selective, full]", "[none, modules, full]")
    (tmp_path / "training.yaml").write_text(text, encoding="utf-8")
    instance = (data_root() / "instances" / "llama3-405b" / "h100-16k.yaml").read_text(encoding="utf-8")
    (tmp_path / "own.yaml").write_text(instance.replace("model: training", "model: training.yaml"), encoding="utf-8")
    with pytest.raises(SpecError, match="'recompute' cannot be 'modules'") as caught:
        _ = Problem.load(str(tmp_path / "own.yaml")).instance
    assert caught.value.hint == "allowed: none, selective, full"


def test_a_job_without_a_stack_has_no_modules() -> None:
    with pytest.raises(SpecError, match="recompute is 'modules'"):
        _ = Problem.load("cosmic/gpt3-175b-system2").set(recompute="modules").instance


def test_torch_fsdp_has_no_modules() -> None:
    with pytest.raises(SpecError, match="not in the domain of 'recompute'"):
        _ = Problem.load("llama3-8b/h200-32-fsdp").fix(recompute="modules").instance


@pytest.mark.parametrize("precision", ["bf16", "mxfp8"])
def test_the_published_split_of_deepseek_fits_where_modules_run_again_and_no_optimum_is_slower(precision: str) -> None:
    """NVIDIA Megatron Bridge, 256 GB200: tp 1, pp 4, ep 64, four virtual stages, mla_up_proj run again."""
    problem = Problem.load("deepseek-v3/gb200-256").set(precision=precision)
    none, modules, full = (problem.fix(**SPLIT, recompute=each) for each in ("none", "modules", "full"))
    assert none.count().value == 0
    published, whole = (each.solve().value for each in (modules, full))
    assert problem.solve().value <= published < 0.9 * whole


def test_the_shipped_design_of_deepseek_is_the_published_split_and_fits() -> None:
    problem = Problem.load("deepseek-v3/gb200-256")
    design = problem.instance.baseline
    assert {name: design[name] for name in SPLIT} == SPLIT
    assert design["recompute"] == "modules"
    assert problem.fix(**design).count().value == 1
