"""What is typed runs the design that was scored: options of vLLM and TensorRT-LLM, read as these engines read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import data_root
from cosmic_opt.psa.domain import Value
from cosmic_opt.reporting.launch import NO_OPTION, launch_options, launch_text

NAME, POOLS = "mixtral-8x7b/h100-8-serving", "llama3-70b/h200-16-pools-serving"
ENGINES = ["vllm", "vllm-rocm", "tensorrt-llm", "tensorrt-llm-2025"]
RULES = ("fits", "whole_attention", "whole_kv_heads", "inside")


@dataclass(frozen=True)
class Ranks:
    """One replica: ranks that shard attention and groups of them with sequences of their own; the same of experts."""

    attention_tp: int
    attention_dp: int
    expert_tp: int
    expert_ep: int
    pp: int


def scored(knobs: dict[str, int]) -> Ranks:
    """Return what the score means: `ep` groups of `tp` ranks; experts are dealt to groups, and each is split in one."""
    return Ranks(knobs["tp"], knobs["ep"], knobs["tp"], knobs["ep"], knobs["pp"])


def values(options: list[str]) -> dict[str, int]:
    split = [option.split() for option in options]
    return {words[0]: int(words[1]) for words in split if len(words) == 2 and words[1].isdigit()}


def read_by_tensorrt(options: list[str]) -> Ranks:
    """Return the ranks of `Mapping`: experts over ep, the rest of tp splits each; attention over all ranks or none."""
    typed = values(options)
    tp, ep = typed.get("--tp_size", 1), typed.get("--ep_size", 1)
    apart = any("enable_attention_dp: true" in option for option in options)
    return Ranks(1 if apart else tp, tp if apart else 1, tp // ep, ep, typed.get("--pp_size", 1))


def read_by_vllm(options: list[str]) -> Ranks:
    """Return the ranks of `FusedMoEParallelConfig`: experts whole over all ranks, or else split over all of them."""
    typed = values(options)
    tp, dp = typed.get("--tensor-parallel-size", 1), typed.get("--data-parallel-size", 1)
    experts = (1, tp * dp) if "--enable-expert-parallel" in options else (tp * dp, 1)
    return Ranks(tp, dp, *experts, typed.get("--pipeline-parallel-size", 1))


def read(engine: str, options: list[str]) -> Ranks:
    return read_by_vllm(options) if engine.startswith("vllm") else read_by_tensorrt(options)


def served(engine: str, **knobs: Value) -> Problem:
    return Problem.load(NAME).set(engine=engine, npus=64).without(*RULES).fix(dp=1, batch=8, **knobs)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_design_that_the_rules_allow_is_typed_as_it_is_scored(engine: str) -> None:
    problem = Problem.load(NAME).set(engine=engine, npus=64).without("fits").fix(dp=1, batch=8)
    points = [point for chunk in problem.enumerate() for point in chunk.points()]
    assert {(point["tp"], point["ep"]) for point in points} >= {(1, 1), (8, 1), (1, 8)}
    for point in points:
        knobs = {name: int(point[name]) for name in ("tp", "pp", "ep")}
        options = launch_options(problem.instance, problem.fix(**knobs).baseline())
        assert read(engine, options) == scored(knobs)
        assert f"{'--max-num-seqs' if engine.startswith('vllm') else '--max_batch_size'} 8" in options
        assert not any(option.startswith(NO_OPTION) for option in options)


@pytest.mark.parametrize("engine", ENGINES)
def test_shared_experts_beside_sharded_attention_are_no_design_of_an_engine(engine: str) -> None:
    both = served(engine, tp=2, pp=1, ep=4)
    options = launch_options(both.instance, both.baseline())
    assert read(engine, options) != scored({"tp": 2, "pp": 1, "ep": 4})
    assert options[-1] == f"{NO_OPTION} tp=2 with ep=4"
    allowed = Problem.load(NAME).set(engine=engine, npus=64).without("fits")
    assert allowed.fix(tp=2, ep=4).count().value == 0
    assert allowed.fix(tp=2, ep=1).count().value > 0
    assert allowed.fix(tp=1, ep=4).count().value > 0


def test_both_pools_are_typed_as_they_are_scored(tmp_path: Path) -> None:
    text = (data_root() / "instances" / f"{POOLS}.yaml").read_text(encoding="utf-8")
    own = tmp_path / "pools.yaml"
    own.write_text(text.replace("workload: llama3-70b", "workload: mixtral-8x7b"), encoding="utf-8")
    problem = Problem.load(str(own)).without("prefill_fits", "decode_fits")
    for pool in ("prefill", "decode"):
        assert problem.fix({f"{pool}_tp": 2, f"{pool}_ep": 4}).count().value == 0
    design = problem.fix(prefill_tp=4, prefill_pp=2, decode_tp=1, decode_ep=8).baseline()
    options = launch_options(problem.instance, design)
    reads, writes = options[: options.index("decode:")], options[options.index("decode:") :]
    assert read_by_tensorrt(reads) == scored({"tp": 4, "pp": 2, "ep": 1})
    assert read_by_tensorrt(writes) == scored({"tp": 1, "pp": 1, "ep": 8})
    shared = launch_options(problem.instance, problem.fix(prefill_tp=1, prefill_pp=1, prefill_ep=4).baseline())
    assert read_by_tensorrt(shared[: shared.index("decode:")]) == scored({"tp": 1, "pp": 1, "ep": 4})


@pytest.mark.parametrize(
    ("engine", "option"), [("vllm", "--max-num-batched-tokens"), ("tensorrt-llm-2025", "--max_num_tokens")]
)
def test_a_pool_reads_its_batch_of_prompts_in_one_pass(engine: str, option: str) -> None:
    problem = Problem.load(POOLS).set(engine=engine).fix(prefill_batch=4)
    options = launch_options(problem.instance, problem.baseline())
    assert f"{option} {4 * 3000}" in options[: options.index("decode:")]
    assert not any(each.startswith(option) for each in options[options.index("decode:") :])


def test_each_pool_begins_a_line() -> None:
    problem = Problem.load(POOLS)
    lines = launch_text(problem.instance, problem.baseline()).splitlines()
    assert lines[0].startswith("  type prefill: --tp_size 2")
    assert sum(line.startswith("       decode: --tp_size 4") for line in lines) == 1
