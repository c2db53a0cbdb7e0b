"""Instances that name a software stack: what they bind to, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError
from cosmic_opt.search.score import simulator_of

NAME = "llama3-70b/h100-64"


def test_a_stack_makes_an_instance_calibrated_and_its_absence_analytical() -> None:
    own = Problem.load(NAME).instance.calibrated
    assert own is not None
    assert (own.stack.name, own.recipe.name, own.device.name) == ("megatron-te-2025", "fp8", "h100-sxm")
    assert Problem.load("llama3-405b/h100-16k").instance.calibrated is None


def test_set_changes_stack_and_precision() -> None:
    own = Problem.load(NAME).set(stack="megatron-2021", precision="BF16").instance.calibrated
    assert own is not None
    assert (own.stack.name, own.recipe.name) == ("megatron-2021", "bf16")


def test_peak_and_memory_bandwidth_are_the_instance_s_own() -> None:
    own = Problem.load(NAME).set(peak="500 TFLOPS", memory_bandwidth="2 TB/s").instance.calibrated
    assert own is not None
    assert own.device.peak("bf16") == pytest.approx(500e12)
    assert own.device.peak("fp8") == pytest.approx(1000e12, rel=1e-3)
    assert own.device.memory_bytes_per_s == 2e12


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"stack": "megatron-te-205"}, "unknown stack", "megatron-te-2025"),
        ({"precision": "fp9"}, "unknown precision", "fp8"),
        ({"precision": "nvfp4"}, "no matrix peak in 'fp4'", "fp8"),
        ({"precision": "MXFP8"}, "'h100-sxm' has no block-scaled products: mxfp8", "precision=fp8"),
        ({"overlap_gradients": "1"}, "decided by the stack", "leave it out"),
        ({"latency[0]": "1 us"}, "decided by the stack", "leave it out"),
        ({"layers": "0"}, "out of range", "allowed"),
        ({"bandwidth[2]": "1 GB/s"}, "unknown datum", "bandwidth"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(changes: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(SpecError, match=message.replace("[", r"\[")) as caught:
        _ = Problem.load(NAME).set(**changes).instance
    assert hint in (caught.value.hint or "")


def test_a_precision_without_a_stack_is_refused() -> None:
    with pytest.raises(SpecError, match="needs a software stack"):
        _ = Problem.load("calculon/gpt3-175b-h100-1024").set(precision="fp8").instance


def _instance(folder: Path, **changes: str) -> str:
    keys = {
        "schema": "cosmic-opt/instance@1",
        "model": "megatron",
        "workload": "llama3-8b",
        "system": "dgx-h100-1024",
        "stack": "megatron-te-2025",
        "job": "{global_batch: 64}",
        "data": "{npus: 8}",
        "scope": "framework",
        **changes,
    }
    path = folder / "own.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items() if value), encoding="utf-8")
    return str(path)


def test_a_device_without_constants_is_refused(tmp_path: Path) -> None:
    name = _instance(tmp_path, system="cosmic-system2", data="{}")
    with pytest.raises(SpecError, match="no calibrated constants") as caught:
        _ = Problem.load(name).instance
    assert "leave 'stack' out" in (caught.value.hint or "")


def test_experts_need_a_stack(tmp_path: Path) -> None:
    name = _instance(tmp_path, workload="mixtral-8x7b", stack="")
    with pytest.raises(SpecError, match="mixtral-8x7b has experts, which only calibrated stacks run"):
        _ = Problem.load(name).instance
    assert Problem.load(name).set(stack="megatron-te-2025", npus=64).count().value > 0


def test_of_what_needs_a_stack_only_what_is_there_is_named() -> None:
    with pytest.raises(SpecError, match="has multi-token prediction, which only calibrated stacks run"):
        _ = Problem.load("cosmic/gpt3-175b-system2").set(mtp_layers=1).instance


def test_multi_token_prediction_of_a_served_model_is_refused_as_trained() -> None:
    with pytest.raises(SpecError, match="has no meaning here: layers of multi-token prediction, which are trained"):
        _ = Problem.load("llama3-70b/h100-8-serving").set(mtp_layers=1).instance


def test_experts_in_fp16_are_whole_on_every_rank() -> None:
    """Megatron-LM refuses expert parallelism in fp16; a dense model has none, whatever its stack and precision."""
    mixture = Problem.load("mixtral-8x7b/h100-64").set(precision="fp16")
    assert set(mixture.sample(200, seed=1).value_columns()["ep"]) == {1}
    assert mixture.fix(ep=8).count().value == 0
    wide = (
        mixture.set(precision="bf16").require("ep == 1").require("recompute != modules")
    )  # which need grouped products
    assert mixture.count().value == wide.count().value
    dense = Problem.load("llama3-70b/h100-64").set(stack="megatron-2021", precision="fp16")
    assert dense.count().value == dense.set(precision="bf16").count().value > 0


def test_multi_token_prediction_is_set_where_it_is_trained_by_a_calibrated_stack() -> None:
    own = [Problem.load("deepseek-v3/h100-1024").set(mtp_layers=count).instance.calibrated for count in (0, 2)]
    assert [each.model.mtp_layers for each in own if isinstance(each, Calibrated)] == [0, 2]
    for name, count, message in (
        ("deepseek-v3/h100-1024", -1, "out of range"),
        ("deepseek-v3/h200-8-serving", 1, "trained and not served"),
        ("cosmic/gpt3-13b-system2", 1, "multi-token prediction"),
    ):
        with pytest.raises(SpecError, match=message):
            _ = Problem.load(name).set(mtp_layers=count).instance


def test_an_image_model_has_no_calibrated_step(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="image model"):
        _ = Problem.load(_instance(tmp_path, workload="vit-base")).instance


def test_a_wrong_stack_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown stack") as caught:
        Problem.load(_instance(tmp_path, stack="megatron"))
    assert caught.value.where is not None
    assert (caught.value.where.line, caught.value.where.key) == (5, "stack")


def test_a_user_s_stack_file_lies_beside_the_instance(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[3] / "instances" / "_stacks" / "megatron-te-2025.yaml"
    text = shipped.read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.replace("name: megatron-te-2025", "name: mine"), encoding="utf-8")
    own = Problem.load(_instance(tmp_path, stack="mine.yaml")).instance.calibrated
    assert own is not None
    assert own.stack.name == "mine"


def test_the_precision_is_bf16_unless_given(tmp_path: Path) -> None:
    own = Problem.load(_instance(tmp_path)).instance.calibrated
    assert own is not None
    assert own.recipe.name == "bf16"


def test_a_model_with_the_analytical_simulator_s_knobs_is_refused() -> None:
    with pytest.raises(SpecError, match="decided by the stack"):
        _ = Problem.load("calculon/gpt3-175b-h100-1024").set(stack="megatron-te-2025").instance


def test_a_clamped_gate_costs_its_chain_of_kernels(tmp_path: Path) -> None:
    """The same job with the plain gate: other keys of the workload's file are equal."""
    shipped = data_root() / "instances" / "_workloads" / "gpt-oss-120b.yaml"
    plain = tmp_path / "plain.yaml"
    plain.write_text(shipped.read_text(encoding="utf-8").replace("clamped_gate: true\n", ""), encoding="utf-8")
    steps = []
    for workload in ("gpt-oss-120b", plain.as_posix()):
        problem = Problem.load(_instance(tmp_path, workload=workload, data="{npus: 64}")).without("fits")
        fixed = problem.fix(dp=64, tp=1, pp=1, cp=1, ep=64, interleave=1, micro_batch=1, recompute="none")
        columns = fixed.sample(1).value_columns()
        steps.append(int(simulator_of(fixed.instance).evaluate(columns).step_ticks[0]))
    assert steps[0] > 1.02 * steps[1]
