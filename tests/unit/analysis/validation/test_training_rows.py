"""What a measured training row states or leaves open: its model, its stack and its schedule."""

from __future__ import annotations

from typing import Any

import pytest

from cosmic_opt.analysis.validation.training import predict_training
from cosmic_opt.analysis.validation.training_rows import read_model, read_row
from cosmic_opt.errors import SpecError
from tests.unit.analysis.validation.test_training import ROW, rows


def test_a_release_with_fused_experts_is_that_stack() -> None:
    row = ROW | {"stack": "megatron-te-2025"}
    assert read_row(row | {"release": "26.04.01"}).setup.stack.name == "megatron-te-2025"
    assert read_row(row | {"release": "26.06"}).setup.stack.name == "megatron-te-2026"


def test_a_clamped_gate_is_a_fact_of_the_layer_s_shape_never_of_a_name() -> None:
    mixture = next(row for row in rows().values() if row["model"] == "GPT OSS 120B")
    assert read_model(mixture).clamped_gate
    assert read_model(mixture | {"model": "ours"}).clamped_gate
    assert read_model(mixture | {"model": "ours", "dims": mixture["dims"] | {"layers": 24, "experts": 32}}).clamped_gate
    assert not read_model(mixture | {"dims": mixture["dims"] | {"hidden": 2048}}).clamped_gate
    assert not read_model(ROW | {"model": "GPT OSS 120B"}).clamped_gate


def test_expert_biases_are_as_stated_or_those_of_a_published_model_of_equal_layers() -> None:
    mixture = next(row for row in rows().values() if row["model"] == "GPT OSS 120B")
    assert read_model(mixture | {"model": "ours"}).mlp_biases
    assert not read_model(mixture | {"dims": mixture["dims"] | {"mlp_biases": False}}).mlp_biases
    assert not read_model(mixture | {"dims": mixture["dims"] | {"hidden": 2048}}).mlp_biases


def test_where_a_row_is_silent_norms_are_split_if_its_framework_overlaps_collectives_by_that() -> None:
    def split(**fields: object) -> bool:
        return read_row(
            {key: value for key, value in (ROW | fields).items() if value is not None}
        ).setup.sequence_parallel

    assert split(sequence_parallel=None, stack="megatron-te-2025", precision="bf16")
    assert not split(sequence_parallel=False, stack="megatron-te-2025", precision="bf16")
    assert not split(sequence_parallel=None, stack="megatron-2021")


DEEPSEEK = {
    "hidden": 7168,
    "layers": 61,
    "heads": 128,
    "attention": "MLA",
    "vocab": 129280,
    **{"experts": 256, "top_k": 8, "shared_experts": 1, "moe_ffn": 2048, "dense_layers": 3, "dense_ffn": 18432},
}


def test_routing_is_limited_as_the_row_states_or_as_in_a_published_model_of_equal_layers() -> None:
    def groups(**dims: int) -> tuple[int, int]:
        experts = read_model(ROW | {"model": "ours", "dims": DEEPSEEK | dims}).experts
        assert experts is not None
        return experts.groups, experts.group_top_k

    assert groups() == groups(layers=12) == (8, 4)
    assert groups(expert_groups=16, expert_group_top_k=2) == (16, 2)
    assert groups(expert_groups=0) == (0, 0)
    assert groups(hidden=4096) == groups(experts=128) == (0, 0)


def test_further_tokens_are_predicted_as_the_row_states_or_as_by_a_published_model_of_equal_layers() -> None:
    def layers(**dims: int | None) -> int:
        return read_model(ROW | {"model": "ours", "dims": DEEPSEEK | dims}).mtp_layers

    assert layers() == layers(mtp_layers=None) == 1
    assert layers(mtp_layers=0) == layers(hidden=4096) == 0
    assert layers(mtp_layers=2) == layers(mtp_layers=2, hidden=4096) == 2
    with pytest.raises(SpecError, match="mtp_layers"):
        layers(mtp_layers=-1)


def test_a_row_that_is_silent_about_further_tokens_says_what_is_assumed() -> None:
    def assumed(**dims: int) -> bool:
        row = ROW | {"dims": DEEPSEEK | dims, "tp": 8, "dp": 1, "gpus": 8, "ep": 8}
        return any("multi-token" in each for each in read_row(row).assumed)

    assert assumed()
    assert not assumed(mtp_layers=1)
    assert not assumed(mtp_layers=0)


@pytest.mark.parametrize(
    ("activation", "gated", "clamped"),
    [("gelu", False, False), ("swiglu", True, False), ("clamped_swiglu", True, True)],
)
def test_a_row_may_state_its_activation(activation: str, gated: bool, clamped: bool) -> None:
    dims = {key: value for key, value in ROW["dims"].items() if key != "gated_mlp"} | {"activation": activation}
    model = read_model(ROW | {"dims": dims})
    assert (model.gated_mlp, model.clamped_gate) == (gated, clamped)


@pytest.mark.parametrize(
    ("dims", "hint"),
    [({"activation": "clamped_swigul"}, "clamped_swiglu"), ({"activation": "swiglu"}, "leave gated_mlp out")],
)
def test_an_activation_that_makes_no_sense_is_refused(dims: dict[str, str], hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_model(ROW | {"dims": ROW["dims"] | dims})
    assert hint in str(caught.value.hint)


def test_a_pipeline_without_a_micro_batch_takes_the_framework_s() -> None:
    row = ROW | {"mbs": None, "local_batch": 16, "pp": 4, "dp": 8}
    assert read_row(row).designs.micro_batch == 1
    assert read_row(row | {"stack": "torchtitan-2025"}).designs.micro_batch == 4


@pytest.mark.parametrize(
    ("stack", "release", "read"),
    [
        ("megatron-te-2025", "26.06", "megatron-te-2026"),
        ("megatron-te-2025", "26.06.01", "megatron-te-2026"),
        ("megatron-te-2025", "27.01", "megatron-te-2026"),
        (None, "26.08", "megatron-te-2026"),
        ("other", "26.08", "megatron-te-2026"),
        ("megatron-te-2025", "26.04.01", "megatron-te-2025"),
        *(
            ("megatron-te-2025", release, "megatron-te-2025")
            for release in ("main", "v3.1", "3.0", "26.13", "26.6", "")
        ),
        *(("torchtitan-2025", release, "torchtitan-2025") for release in ("v0.2", "3.0", "26.06", "99.12")),
        ("megatron-2021", "26.06", "megatron-2021"),
        ("megatron-te-2026", "25.11", "megatron-te-2026"),
    ],
)
def test_a_release_decides_only_between_generations_of_one_container(stack: str, release: str, read: str) -> None:
    assert read_row(ROW | {"stack": stack, "release": release, "precision": "bf16"}).setup.stack.name == read


INTERLEAVED = ROW | {"tp": 4, "pp": 4, "dp": 8, "interleave": 3, "mbs": 1}
REFUSED = "the schedule runs, though {} refuses to interleave 6 micro-batches over 4 stages"


@pytest.mark.parametrize("stack", ["megatron-2021", "megatron-te-2025", "megatron-te-2026"])
def test_a_schedule_that_megatron_refuses_is_predicted_and_said(stack: str) -> None:
    whole = predict_training(INTERLEAVED | {"stack": stack, "gbs": 64})
    assert "refuses" not in str(whole.note)
    outcome = predict_training(INTERLEAVED | {"stack": stack, "gbs": 48})
    assert outcome.predicted is not None
    assert f"assumed: {REFUSED.format(stack)}" in str(outcome.note)
    assert not outcome.primary


@pytest.mark.parametrize(
    "change",
    [
        {"stack": "torchtitan-2025", "precision": "bf16"},
        {"stack": "megatron-deepspeed-2021"},
        {"interleave": 1},
        {"pp": 1, "dp": 32, "gbs": 96},
        {"pp": 2, "dp": 16, "gbs": 96},
        {"gbs": 96, "mbs": 3},
    ],
)
def test_other_frameworks_and_whole_rounds_are_not_said_to_refuse(change: dict[str, Any]) -> None:
    outcome = predict_training(INTERLEAVED | {"gbs": 48} | change)
    assert outcome.predicted is not None
    assert "refuses" not in str(outcome.note)


@pytest.mark.parametrize(
    ("stack", "recipe"), [("torchtitan-2025", "fp8-cs"), ("maxtext-2025", "fp8"), ("megatron-te-2025", "fp8")]
)
def test_fp8_means_current_scaling_only_where_the_framework_has_no_delayed_scaling(stack: str, recipe: str) -> None:
    assert read_row(ROW | {"stack": stack, "precision": "fp8", "gpu": "H100"}).setup.recipe.name == recipe


@pytest.mark.parametrize(("mode", "size"), [("PURE", 2), ("pure", 2), (" Pure ", 2), ("DEFAULT", None), (None, None)])
def test_gradients_are_reduced_in_16_bits_where_the_job_is_however_that_is_spelled(
    mode: str | None, size: int | None
) -> None:
    assert read_row(ROW | {"mp_mode": mode}).setup.reduce_bytes == size


@pytest.mark.parametrize("mode", ["PURR", 2, 0, ["PURE"]])
def test_an_unknown_mode_of_mixed_precision_is_refused(mode: object) -> None:
    with pytest.raises(SpecError, match="'mp_mode' is") as raised:
        read_row(ROW | {"mp_mode": mode})
    assert "known: DEFAULT, PURE" in str(raised.value.hint)
