"""Inference instances: what they may say, what is refused by name, and what is derived from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.served import Serving
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import CosmicError, SpecError

NAME = "llama3-70b/h100-8-serving"
SHIPPED = data_root() / "instances" / f"{NAME}.yaml"


def own(problem: Problem) -> Serving:
    found = problem.instance.calibrated
    assert isinstance(found, Serving)
    return found


def changed(tmp_path: Path, *changes: tuple[str, str]) -> Problem:
    text = SHIPPED.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    file = tmp_path / "own.yaml"
    file.write_text(text, encoding="utf-8")
    return Problem.load(str(file))


def test_an_engine_and_a_format_make_an_inference_instance() -> None:
    serving = own(Problem.load(NAME))
    assert (serving.engine.name, serving.numbers.name, serving.model.name) == ("vllm", "fp8", "llama3-70b")
    assert (serving.requests.prompt, serving.requests.output) == (1000, 200)
    data = Problem.load(NAME).instance.data
    assert (data["most_sequences"], data["scale_up"], data["experts"], data["npus"]) == (256, 8, 1, 8)


def test_cosmic_s_jobs_have_names() -> None:
    chat, asked = (own(Problem.load(f"gpt3-175b/a100-16-{name}-serving")).requests for name in ("chat", "qa"))
    assert (chat.prompt, chat.output, asked.prompt, asked.output) == (3000, 1000, 1000, 200)
    assert own(Problem.load(NAME).set(mix="chat")).requests == chat
    later = own(Problem.load(NAME).set(mix="chat").set(output=5)).requests
    assert (later.prompt, later.output) == (3000, 5)


def test_set_changes_the_engine_the_format_and_the_hardware() -> None:
    problem = Problem.load(NAME)
    assert own(problem.set(engine="tensorrt-llm")).engine.name == "tensorrt-llm"
    assert own(problem.set(precision="BF16")).numbers.name == "bf16"
    assert own(problem.set(memory_capacity="141 GB")).device.memory_bytes == 141e9
    assert own(problem.set(memory_bandwidth="4.8 TB/s")).device.memory_bytes_per_s == 4.8e12


def test_an_engine_of_ones_own_lies_beside_the_instance(tmp_path: Path) -> None:
    engine = data_root() / "instances" / "_engines" / "vllm.yaml"
    text = engine.read_text(encoding="utf-8").replace("name: vllm", "name: mine").replace("share: 0.9", "share: 0.5")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    problem = changed(tmp_path, ("engine: vllm", "engine: mine.yaml"))
    assert own(problem).engine.name == "mine"
    assert problem.count().value < Problem.load(NAME).count().value


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("prompt: 1000, ", "", "needs 'prompt'"),
        ("output: 200", "outputs: 200", "output"),
        ("prompt: 1000", "prompt: 0", "out of range"),
        ("prompt: 1000", "prompt: -5", "out of range"),
        ("prompt: 1000", "prompt: .nan", "prompt|number"),
        ("prompt: 1000", "prompt: 5 GB", "5 GB"),
        ("prompt: 1000", "prompt: [1, 2]", "expected a number"),
        ("prompt: 1000, output: 200", "mix: small talk", "small talk"),
        ("kind: inference", "kind: training", "engine"),
        ("kind: inference", "kind: serving", "unknown kind of job"),
        ("engine: vllm\n", "", "needs 'engine'"),
        ("engine: vllm", "engine: vlm", "vllm"),
        ("engine: vllm", "engine: vllm\nstack: megatron-te-2025", "'stack' is not for inference"),
        ("precision: fp8", "precision: mxfp8", "unknown precision"),
        ("precision: fp8", "precision: fp4", "fp4"),
        ("objective: throughput", "objective: step_time", "unknown objective"),
        ("system: dgx-h100-1024", "system: cosmic-system2", "no calibrated constants"),
        ("workload: llama3-70b", "workload: vit-base", "image model"),
        ("model: serving", "model: megatron", "megatron|npus|parameter|rule|name|global_batch|own"),
        ("data: {npus: 8}", "data: {npus: 8, global_batch: 64}", "global_batch"),
        ("data: {npus: 8}", "data: {npus: 0}", "npus"),
        ("data: {npus: 8}", "data: {npus: 8, tp: 4}", "parameter of this model"),
        ("batch: 64", "batch: 0", "batch"),
    ],
)
def test_a_damaged_instance_is_refused_by_name(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _ = changed(tmp_path, (old, new)).instance


def test_a_datum_that_the_engine_or_the_device_decides_is_refused() -> None:
    for name, value in (
        ("latency", "1 us"),
        ("seq", "4096"),
        ("recompute", "full"),
        ("stack", "torchtitan-2025"),
        ("host_capacity", "1 TB"),
    ):
        with pytest.raises(SpecError, match=name):
            _ = Problem.load(NAME).set(**{name: value}).instance


def test_a_format_without_matrix_units_is_refused() -> None:
    with pytest.raises(SpecError, match="fp8"):
        _ = Problem.load("gpt3-175b/a100-16-qa-serving").set(precision="fp8").instance


@pytest.mark.parametrize("npus", [1, 7, 1009])
def test_any_number_of_npus_is_a_problem(npus: int) -> None:
    problem = Problem.load("llama3-8b/h100-8-serving").set(npus=npus).fix(dp=npus)
    assert problem.parameter_set.column("tp").values[0] == 1
    assert problem.fix(tp=1, pp=1).count().value > 0


def test_training_and_analytical_instances_are_as_before() -> None:
    with pytest.raises(CosmicError, match="mix"):
        _ = Problem.load("llama3-70b/h100-64").set(mix="chat").instance
    with pytest.raises(SpecError, match="first_token_time"):
        _ = Problem.load("llama3-70b/h100-64").require("first_token_time <= 1 s").instance


def test_an_engine_fills_what_the_driver_reports_unless_the_memory_is_given() -> None:
    problem = Problem.load("llama3-70b/h200-8-serving")
    assert problem.instance.data["memory_capacity"] == own(problem).device.memory_bytes == 143_771 * 2**20
    for typed in ("141 GB", "21 GB"):
        changed = problem.set(memory_capacity=typed)
        assert changed.instance.data["memory_capacity"] == own(changed).in_memory.memory_bytes
        assert own(changed).device.memory_bytes == int(typed.split()[0]) * 10**9


@pytest.mark.parametrize("typed", [None, "110 GB", "141 GB"])
@pytest.mark.parametrize("name", ["deepseek-v3/h200-8-serving", "llama3-70b/h200-8-serving"])
def test_no_feasible_design_holds_more_than_the_memory(name: str, typed: str | None) -> None:
    problem = Problem.load(name)
    problem = problem if typed is None else problem.set(memory_capacity=typed)
    most = problem.require("memory_per_npu > memory_capacity").count()
    assert most.value == 0
