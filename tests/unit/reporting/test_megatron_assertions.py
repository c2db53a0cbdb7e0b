"""What Megatron-LM asserts of its options, as facts: an option implies others, and no launch line breaks one.

Read in NVIDIA/Megatron-LM: megatron/training/arguments.py (`validate_args`), megatron/core/transformer/
transformer_config.py, megatron/core/distributed/distributed_data_parallel_config.py, pipeline_parallel_layer_layout.py
and multi_token_prediction.py, 2025 to 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.catalog.stacks import load_recipe
from cosmic_opt.catalog.store import instance_names
from cosmic_opt.reporting.launch import NO_OPTION, launch_keys, launch_options
from cosmic_opt.workloads.language_model import LanguageModel
from tests.unit.reporting.test_megatron_launch import stages_of

TP, PP, CP, EP = (f"--{kind}-parallel-size" for kind in ("tensor-model", "pipeline-model", "context", "expert-model"))
VIRTUAL, LAYOUT = "--num-virtual-stages-per-pipeline-rank", "--pipeline-model-parallel-layout"
ACCOUNTS = ("--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split")
OVERLAP, FLEX = "--overlap-moe-expert-parallel-comm", "--moe-flex-dispatcher-backend"
METHOD, AGAIN, MODULES = "--recompute-method", "--recompute-num-layers", "--recompute-modules"
OPTIONAL = (
    *("gradient_overlap", "tensor_overlap", "context_exchange", "pipeline_schedule"),
    *("recompute_layers", "expert_load_percent"),
)
PRECISIONS = ("fp16", "bf16", "fp8", "fp8-cs", "mxfp8", "nvfp4")


class Line:
    """A launch line as Megatron-LM parses it."""

    def __init__(self, options: list[str], model: LanguageModel, npus: int) -> None:
        pairs = [option.partition(" ")[::2] for option in options if not option.startswith(NO_OPTION)]
        self.given = {name: value.strip('"') for name, value in pairs}
        assert len(self.given) == len(pairs), "an option is typed once"
        self.model, self.npus = model, npus

    def __contains__(self, option: str) -> bool:
        return option in self.given

    def has(self, *options: str) -> bool:
        return all(option in self for option in options)

    def lacks(self, *options: str) -> bool:
        return not any(option in self for option in options)

    def value(self, option: str) -> str:
        return self.given.get(option, "")

    def size(self, option: str) -> int:
        return int(self.given.get(option, 1))

    def stages(self) -> list[str]:
        return stages_of(self.value(LAYOUT))

    @property
    def virtual(self) -> int:
        """Virtual stages of a pipeline stage."""
        return len(self.stages()) // self.size(PP) if LAYOUT in self else self.size(VIRTUAL)

    @property
    def data_parallel(self) -> int:
        return self.npus // (self.size(TP) * self.size(PP) * self.size(CP))


@dataclass(frozen=True)
class Fact:
    """Where `when` holds, so does `then`."""

    name: str
    when: Callable[[Line], bool]
    then: Callable[[Line], bool]


def implies(option: str, *others: str) -> Fact:
    return Fact(f"{option} implies {', '.join(others)}", lambda line: option in line, lambda line: line.has(*others))


def excludes(option: str, *others: str) -> Fact:
    return Fact(f"{option} excludes {', '.join(others)}", lambda line: option in line, lambda line: line.lacks(*others))


FACTS = (
    excludes("--fp16", "--bf16", EP, "--moe-grouped-gemm", "--grad-reduce-in-bf16"),
    excludes("--fp8-format", "--fp4-format"),
    implies("--moe-grouped-gemm", "--bf16"),
    implies("--overlap-param-gather", "--use-distributed-optimizer", "--overlap-grad-reduce"),
    implies("--fp8-param-gather", "--fp8-format", "--use-distributed-optimizer"),
    implies("--reuse-grad-buf-for-mxfp8-param-ag", "--fp8-param-gather", "--overlap-param-gather"),
    Fact(
        "parameters in MXFP8 reuse the buffer of gradients",
        lambda line: "--fp8-param-gather" in line and line.value("--fp8-recipe") == "mxfp8",
        lambda line: line.has("--reuse-grad-buf-for-mxfp8-param-ag", "--overlap-grad-reduce"),
    ),
    implies("--sequence-parallel", TP),
    implies("--tp-comm-overlap", "--sequence-parallel"),
    Fact(
        "experts and tensor parallelism need sequence parallelism and state the split of an expert",
        lambda line: line.model.experts is not None and TP in line,
        lambda line: line.has("--sequence-parallel", "--expert-tensor-parallel-size"),
    ),
    Fact(
        "expert groups divide the experts and the ranks of a stage",
        lambda line: EP in line,
        lambda line: (
            line.model.experts is not None
            and line.model.experts.count % line.size(EP) == 0
            and (line.npus // line.size(PP)) % line.size(EP) == 0
        ),
    ),
    Fact(
        "selective recompute has no method and no number of layers",
        lambda line: line.value("--recompute-granularity") == "selective",
        lambda line: line.lacks(METHOD, AGAIN),
    ),
    Fact(
        "full recompute has a method and a number of layers",
        lambda line: line.value("--recompute-granularity") == "full",
        lambda line: line.has(METHOD, AGAIN),
    ),
    Fact(
        "modules that run again are of selective recompute, in grouped products and without delayed scaling",
        lambda line: MODULES in line,
        lambda line: (
            line.value("--recompute-granularity") == "selective"
            and "--moe-grouped-gemm" in line
            and line.value("--fp8-recipe") != "delayed"
        ),
    ),
    Fact(
        "up projections that run again are those of latent attention, which the activation of experts comes with",
        lambda line: MODULES in line,
        lambda line: line.value(MODULES) == "layernorm moe_act" + (" mla_up_proj" if line.model.latent else ""),
    ),
    Fact(
        "uniform recompute of multi-token prediction is of one layer at a time",
        lambda line: "--mtp-num-layers" in line and line.value(METHOD) == "uniform",
        lambda line: line.size(AGAIN) == 1,
    ),
    implies(VIRTUAL, PP),
    Fact(
        "an interleaved schedule runs whole rounds of micro-batches",
        lambda line: line.virtual > 1,
        lambda line: (
            line.size("--global-batch-size") // line.data_parallel // line.size("--micro-batch-size") % line.size(PP)
            == 0
        ),
    ),
    excludes(LAYOUT, VIRTUAL, *ACCOUNTS),
    Fact(
        "stages without a layout hold equally many layers, slots of embedding and loss counted",
        lambda line: PP in line and LAYOUT not in line,
        lambda line: (
            (line.model.layers + sum(each in line for each in ACCOUNTS)) % (line.size(PP) * line.size(VIRTUAL)) == 0
        ),
    ),
    Fact(
        "a layout begins with the embedding, ends with the loss and holds every layer once",
        lambda line: LAYOUT in line,
        lambda line: (
            len(line.stages()) % line.size(PP) == 0
            and "".join(line.stages()) == f"E{'t' * line.model.layers}{'m' * line.model.mtp_layers}L"
        ),
    ),
    Fact(
        "layers of multi-token prediction are all in one stage, the last of its rank",
        lambda line: LAYOUT in line and "--mtp-num-layers" in line,
        lambda line: "m" * line.size("--mtp-num-layers") in line.stages()[-1],
    ),
    implies(OVERLAP, EP, "--bf16", "--moe-token-dispatcher-type"),
    excludes(OVERLAP, METHOD, AGAIN),
    Fact(
        "dispatch beside compute needs virtual stages under a pipeline",
        lambda line: line.has(OVERLAP, PP),
        lambda line: line.virtual > 1,
    ),
    Fact(
        "dispatch beside compute takes one layer of multi-token prediction at most",
        lambda line: line.has(OVERLAP, "--mtp-num-layers"),
        lambda line: line.size("--mtp-num-layers") == 1,
    ),
    Fact(
        "a flexible dispatcher names its backend, needs several ranks and probabilities in fp32",
        lambda line: line.value("--moe-token-dispatcher-type") == "flex",
        lambda line: line.has(FLEX, EP) and line.value("--moe-router-dtype") == "fp32",
    ),
    implies("--moe-pad-expert-input-to-capacity", "--moe-expert-capacity-factor"),
    Fact(
        "DeepEP does not pad",
        lambda line: line.value(FLEX) == "deepep",
        lambda line: line.lacks("--moe-pad-expert-input-to-capacity"),
    ),
    Fact(
        "heads are whole on a rank of a tensor group, and key heads are split evenly or copied equally often",
        lambda line: TP in line,
        lambda line: (
            line.model.heads % line.size(TP) == 0
            and (line.model.kv_heads % line.size(TP) == 0 or line.size(TP) % line.model.kv_heads == 0)
        ),
    ),
    Fact(
        "a sequence is cut in two pieces a context rank",
        lambda line: CP in line,
        lambda line: line.size("--seq-length") % (2 * line.size(CP)) == 0,
    ),
    implies("--cp-comm-type", CP),
    Fact(
        "every replica runs whole micro-batches",
        lambda line: True,
        lambda line: line.size("--global-batch-size") % (line.data_parallel * line.size("--micro-batch-size")) == 0,
    ),
)


def megatron_names() -> list[str]:
    """Return the shipped instances that a stack of Megatron-Core trains."""
    problems = {name: Problem.load(name).instance.calibrated for name in instance_names()}
    return [
        name for name, own in problems.items() if isinstance(own, Calibrated) and own.stack.framework == "megatron-core"
    ]


NAMES = megatron_names()


def line_of(problem: Problem, options: list[str]) -> Line:
    own = problem.instance.calibrated
    assert isinstance(own, Calibrated)
    return Line(options, own.model, int(problem.instance.data["npus"]))


def sampled(name: str, precision: str, **data: int) -> list[Line]:
    """Return the lines of feasible designs with every knob freed, whether they fit or not; none without the units."""
    shipped = Problem.load(name)
    own = shipped.instance.calibrated
    assert isinstance(own, Calibrated)
    recipe = load_recipe(precision)
    if recipe.precision not in own.device.peak_flop_per_s or (recipe.block_scaled and own.device.before_blackwell):
        return []
    problem = shipped.set(precision=precision, **data).without("fits").free(*OPTIONAL)
    designs = problem.sample(40, seed=7)
    rows = (designs.take([row]) for row in range(len(designs)))
    return [line_of(problem, launch_options(problem.instance, row)) for row in rows]


def broken(lines: list[Line]) -> Mapping[str, dict[str, str]]:
    return {fact.name: line.given for line in lines for fact in FACTS if fact.when(line) and not fact.then(line)}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NAMES)
def test_no_design_breaks_what_megatron_asserts(name: str, precision: str) -> None:
    assert not broken(sampled(name, precision))


@pytest.mark.parametrize("mtp_layers", [0, 2])
def test_no_number_of_layers_ahead_breaks_what_megatron_asserts(mtp_layers: int) -> None:
    assert not broken(sampled("deepseek-v3/h100-1024", "fp8", mtp_layers=mtp_layers))


def test_every_fact_is_about_some_design() -> None:
    cases = [
        *[("deepseek-v3/gb200-256", precision) for precision in PRECISIONS],
        *[("mixtral-8x7b/h100-64", "bf16"), ("llama3-405b/gb200-256", "mxfp8"), ("llama3-70b/h100-64", "fp8")],
    ]
    lines = [line for case in cases for line in sampled(*case)]
    assert [fact.name for fact in FACTS if not any(fact.when(line) for line in lines)] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_proved_optimum_breaks_what_megatron_asserts(name: str) -> None:
    problem = Problem.load(name)
    found = problem.solve().design
    keys = launch_keys(problem.instance, found)
    options = keys["launch"]
    assert isinstance(options, list)
    assert not broken([line_of(problem, options)])
    assert not any(NO_OPTION in option for option in options)
