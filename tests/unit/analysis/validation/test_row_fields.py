"""Fields of training and memory rows in other spellings mean the same; what means nothing is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cosmic_opt.analysis.validation.inference import predict_inference
from cosmic_opt.analysis.validation.memory import predict_memory
from cosmic_opt.analysis.validation.row_fields import flag, recompute_name, recomputed_block, sharding, zero_stage
from cosmic_opt.analysis.validation.training import predict_training
from cosmic_opt.analysis.validation.training_rows import read_model, read_row
from cosmic_opt.errors import SpecError
from tests.unit.analysis.validation.test_inference import ROW as INFERENCE
from tests.unit.analysis.validation.test_training import ROW

GPT3: dict[str, Any] = {
    "dims": {"hidden": 12288, "layers": 96, "heads": 96, "ffn": 49152, "vocab": 51200},
    **{"seq": 2048, "mbs": 1, "tp": 8, "pp": 8, "gpus": 64, "gpu": "A100-80GB", "metric": "activations_gib"},
}
SBH_GIB = 2048 * 12288 / 2**30


def activations(**change: Any) -> float:
    found = predict_memory(GPT3 | change).predicted
    assert found is not None
    return found


def test_full_recompute_keeps_the_inputs_of_layers_only() -> None:
    assert activations(recompute="full") == 2 * SBH_GIB * 96 == 4.5
    assert activations(recompute="Full (uniform)", sequence_parallel=True) == 4.5 / 8
    assert activations(recompute="full", interleave=3) == 4.5 * (1 + 7 / 24)


def test_selective_recompute_has_any_spelling() -> None:
    expected = SBH_GIB * (10 + 24 / 8) * 96
    for spelled in ("selective", "Selective", "selective (attention)", "selective-attention"):
        assert activations(recompute=spelled) == pytest.approx(expected)


@pytest.mark.parametrize("spelled", [1, "true", "Yes", "on", 1.0])
def test_a_flag_has_any_spelling(spelled: object) -> None:
    shared = activations(recompute="none", sequence_parallel=True)
    assert activations(recompute="none", sequence_parallel=spelled) == shared
    assert activations(recompute="none", sequence_parallel="false") == activations(recompute="none") > shared


def test_memory_has_any_unit_and_stages_are_not_interleaved_unless_stated() -> None:
    none = activations(recompute="none")
    assert activations(recompute="none", interleave=1) == none
    assert activations(recompute="none", metric="activation_memory_gb") == pytest.approx(none * 2**30 / 1e9)
    assert predict_memory(GPT3).note == "assumed: no recompute"
    assert not predict_memory(GPT3).primary


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recompute": "some"}, "'recompute' is 'some'"),
        ({"recompute": "full", "tp": 7}, "tp 7 does not divide the 96 heads"),
        ({"recompute": "full", "dims": GPT3["dims"] | {"kv_heads": 12}}, "tp 8 does not divide the 12 kv_heads"),
        ({"recompute": "full", "tp": 10**12}, "does not divide"),
        ({"recompute": "full", "pp": 5}, "pp 5 does not divide the 96 layers"),
        ({"sequence_parallel": "perhaps"}, "'sequence_parallel' is 'perhaps'"),
        ({"sequence_parallel": [1]}, "'sequence_parallel' is"),
        ({"metric": "weights_gb"}, "unknown metric"),
    ],
)
def test_memory_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        predict_memory(GPT3 | change)


def step(**change: Any) -> float:
    found = predict_training(ROW | change).predicted
    assert found is not None
    return found


def test_recompute_of_a_row_has_any_spelling() -> None:
    assert step(recompute="Full") == step(recompute="uniform") == step(recompute=True) == step()
    assert step(recompute="None") == step(recompute="off") == step(recompute=False) == step(recompute="none")
    for spelled in ("Full", "block 4", True, "No"):
        assert read_row(ROW | {"recompute": spelled}).recompute_stated


def test_a_block_of_layers_runs_again_in_every_stage() -> None:
    shares = read_row(ROW | {"recompute": "block 9"}).designs.recompute.layers
    np.testing.assert_array_equal(shares, [9 / 36])
    staged = read_row(ROW | {"recompute": "Block(9)", "pp": 2, "dp": 16, "interleave": 2}).designs.recompute.layers
    np.testing.assert_array_equal(staged, [1.0])


@pytest.mark.parametrize(
    ("value", "sharded", "reshard", "hybrid"),
    [
        ("FULL_SHARD", True, True, False),
        ("full_shard", True, True, False),
        ("ShardingStrategy.FULL_SHARD", True, True, False),
        (True, True, True, False),
        ("true", True, True, False),
        (8, True, True, False),
        ("shard-grad-op", True, False, False),
        ("HYBRID_SHARD", True, True, True),
        ("_HYBRID_SHARD_ZERO2", True, False, True),
        ("NO_SHARD", False, True, False),
        (False, False, True, False),
        (None, False, True, False),
        (0, False, True, False),
        (1, False, True, False),
    ],
)
def test_sharding_has_any_spelling(value: object, sharded: bool, reshard: bool, hybrid: bool) -> None:
    found = sharding({"fsdp": value})
    assert (found.sharded, found.reshard, found.hybrid) == (sharded, reshard, hybrid)


def test_hybrid_sharding_and_activations_in_host_memory_are_named() -> None:
    row = ROW | {"stack": "fsdp-2023", "tp": 1, "dp": 128, "fsdp": "HYBRID_SHARD", "act_cpu_offload": True}
    outcome = predict_training(row)
    assert not outcome.primary
    assert "copied between groups" in str(outcome.note)
    assert "activations in host memory" in str(outcome.note)


def test_hybrid_sharding_is_one_copy_a_node_unless_its_group_is_stated() -> None:
    row = ROW | {"stack": "fsdp-2023", "tp": 1, "dp": 128}
    copies = {
        value: float(read_row(row | {"fsdp": value}).designs.shard_replicas[0])
        for value in ("HYBRID_SHARD", 8, 16, 128, "FULL_SHARD", "NO_SHARD")
    }
    assert copies == {"HYBRID_SHARD": 16, 8: 16, 16: 8, 128: 1, "FULL_SHARD": 1, "NO_SHARD": 1}
    hybrid, full = (predict_training(row | {"fsdp": value}).predicted for value in ("HYBRID_SHARD", "FULL_SHARD"))
    assert hybrid != full


def test_a_hybrid_job_inside_one_node_has_one_copy_and_a_rank_that_fills_the_node_its_own() -> None:
    row = ROW | {"stack": "fsdp-2023", "tp": 1, "fsdp": "HYBRID_SHARD"}
    inside = read_row(row | {"dp": 4, "gpus": 4, "gbs": 512})
    assert inside.designs.shard_replicas == 1
    assert read_row(row | {"tp": 8, "dp": 16}).designs.shard_replicas == 16


SHARDED = ROW | {"stack": "fsdp-2023", "tp": 1, "dp": 128, "fsdp": "FULL_SHARD"}
THREES = {"gpus_per_node": 3, "scale_out_bytes_per_s": 25e9}


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), -4, 0.5, 10**400])
def test_a_number_of_sharding_ranks_is_whole(value: float) -> None:
    with pytest.raises(SpecError, match="'fsdp' is"):
        predict_training(SHARDED | {"fsdp": value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fsdp": 7}, "fsdp 7: groups of 7 do not divide the 128 ranks"),
        ({"fsdp": 1000}, "groups of 1000 do not divide the 128 ranks"),
        ({"fsdp": 256}, "groups of 256 do not divide the 128 ranks"),
        ({"fsdp": 2, "dp": 32, "cp": 4}, "groups of 2 do not divide the 128 ranks of dp 32 and cp 4"),
        ({"fsdp": "HYBRID_SHARD", "network": THREES}, "nodes of 3 GPUs: groups of 3 do not divide"),
    ],
)
def test_sharding_groups_that_do_not_come_out_even_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        predict_training(SHARDED | change)


@pytest.mark.parametrize("spelled", ["MLA", "mla", "Multi-head Latent", "multi-head latent attention", "latent"])
def test_latent_attention_has_any_spelling(spelled: str) -> None:
    assert read_model(ROW | {"dims": ROW["dims"] | {"attention": spelled}}).latent is not None


@pytest.mark.parametrize(
    ("kind", "stated", "kv_heads"),
    [("mha", None, 32), ("MHA", 32, 32), ("mqa", None, 1), ("Multi-Query", 1, 1), ("gqa", 8, 8), (None, 8, 8)],
)
def test_a_kind_of_attention_says_how_many_key_heads_there_are(kind: str, stated: int | None, kv_heads: int) -> None:
    model = read_model(ROW | {"dims": ROW["dims"] | {"attention": kind, "kv_heads": stated}})
    assert (model.latent, model.kv_heads) == (None, kv_heads)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"attention": "mala"}, "'attention' is 'mala'"),
        ({"attention": True}, "'attention' is True"),
        ({"attention": ""}, "'attention' is ''"),
        ({"attention": "gqa", "kv_heads": None}, "without 'kv_heads'"),
        ({"attention": "mha", "kv_heads": 8}, "kv_heads 8 contradicts the attention 'mha'"),
        ({"attention": "mqa", "kv_heads": 8}, "kv_heads 8 contradicts"),
        ({"kv_heads": 7}, "kv_heads 7 does not divide the 32 heads"),
        ({"kv_heads": 64}, "kv_heads 64 does not divide the 32 heads"),
    ],
)
def test_attention_that_makes_no_sense_is_refused(dims: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_model(ROW | {"dims": ROW["dims"] | dims})


EXPERTS = ROW["dims"] | {"experts": 256, "top_k": 8, "moe_ffn": 2048, "layers": 61, "dense_ffn": 18432}
TWELVE_KEYS = ROW["dims"] | {"hidden": 6144, "heads": 24, "kv_heads": 12}
MIXTURE = ROW | {"dims": EXPERTS, "stack": "megatron-te-2025", "precision": "bf16", "gpu": "H100"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ep": 7}, "ep 7 does not divide the 256 experts"),
        ({"ep": 256}, "ep 256 does not divide the 128 ranks"),
        ({"ep": 512}, "ep 512 does not divide the 256 experts"),
        ({"dims": EXPERTS | {"dense_layers": 100}}, "dense_layers 100 of 61 leave no layer with experts"),
        ({"dims": EXPERTS | {"dense_layers": 61}}, "dense_layers 61 of 61"),
        ({"dims": ROW["dims"], "ep": 8}, "the model has no experts"),
        ({"gbs": 513}, "gbs 513 is no multiple of dp 32 times mbs 4"),
        ({"gbs": 64}, "gbs 64 is no multiple"),
        ({"tp": 64, "dp": 2}, "tp 64 does not divide the 32 heads"),
        ({"tp": 8, "dp": 16, "dims": TWELVE_KEYS}, "tp 8 does not divide the 12 kv_heads"),
        ({"dims": ROW["dims"] | {"ffn": 28673}, "tp": 8, "dp": 16}, "tp 8 does not divide the 28673 ffn columns"),
        ({"dims": EXPERTS | {"dense_layers": 3, "dense_ffn": 18434}}, "tp 4 does not divide the 18434 dense_ffn"),
        ({"dims": EXPERTS | {"shared_experts": 1, "moe_ffn": 2046}}, "the 2046 columns of shared experts"),
        ({"tp": 1, "dp": 1, "pp": 128}, "pp 128 of 61 layers leaves stages empty"),
        ({"pp": 2, "dp": 16, "interleave": 40}, "pp 2 and interleave 40 of 61 layers leaves 19 of 80 places empty"),
        ({"cp": 8, "dp": 4, "seq": 7}, "cp 8 does not cut a sequence of 7 tokens in 16 equal pieces"),
        ({"cp": 8, "dp": 4, "seq": 100}, "cp 8 does not cut a sequence of 100 tokens"),
        ({"cp": 8, "dp": 4, "seq": 8200}, "cp 8 does not cut a sequence of 8200 tokens"),
        ({"cp": 3, "dp": 4, "gpus": 48, "gbs": 512, "seq": 8192}, "cp 3 does not cut a sequence of 8192 tokens"),
        ({"dims": ROW["dims"] | {"layers": 80}, "tp": 1, "dp": 2, "pp": 64}, "pp 64 of 80 layers leaves 48 of 128"),
        ({"dims": ROW["dims"] | {"layers": 61}, "tp": 1, "dp": 16, "pp": 8, "interleave": 11}, "leaves 27 of 88"),
    ],
)
def test_a_job_that_no_framework_runs_is_refused(change: dict[str, Any], message: str) -> None:
    assert predict_training(MIXTURE | {"ep": 8, "dims": EXPERTS | {"dense_layers": 3}}).predicted is not None
    with pytest.raises(SpecError, match=message):
        predict_training(MIXTURE | change)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        *((each, "full") for each in ("full recompute", "activation checkpointing", "activation recompute: full")),
        *((each, "full") for each in ("uniform", "all layers", "gradient checkpointing", "checkpointing of all")),
        *((each, "selective") for each in ("activation checkpointing, selective", "core_attn", "per-op", "sac")),
        *((each, "none") for each in ("no recompute", "without", "Disabled", "activation checkpointing off")),
        *((each, None) for each in ("not stated", "not stated in the table", "unknown", "", " - ")),
        *(("1.0", "full"), ("0.0", "none"), ("Full.", "full"), ("yes, all", "full")),
    ],
)
def test_any_word_may_say_what_runs_again(spelled: str, name: str | None) -> None:
    assert recompute_name({"recompute": spelled}) == name


@pytest.mark.parametrize(
    "spelled", ["9 layers", "9 Layers", "9-layers", "full (9 layers)", "full, 9 layers", "block 9"]
)
def test_a_number_of_layers_runs_again_in_every_stage(spelled: str) -> None:
    row = ROW | {"recompute": spelled}
    assert read_row(row).designs.recompute.layers == 9 / 36
    assert read_row(row).assumed == ()
    staged = read_row(row | {"pp": 2, "dp": 16})
    assert staged.designs.recompute.layers == 9 / 18
    assert "each (virtual) stage" in staged.assumed[0]
    assert recompute_name(row) is None


@pytest.mark.parametrize(
    "spelled",
    [
        *("block: -4", "block -4", "block 1.5", "1.5 layers", "1/2 of the layers", "full 4 of 48 layers"),
        *("full 1/2 layers", "full every 2 layers", "full, -4 layers", "block 9999999"),
    ],
)
def test_a_part_of_the_layers_that_is_no_whole_number_of_a_stage_is_refused(spelled: str) -> None:
    with pytest.raises(SpecError, match="'recompute' is"):
        read_row(ROW | {"recompute": spelled})


def test_words_around_a_number_in_a_name_count_and_a_negated_one_states_nothing() -> None:
    assert recompute_name({"recompute": "blockwise fp8, none"}) == "none"
    assert recompute_name({"recompute": "non-selective"}) is None


def test_no_key_heads_are_refused() -> None:
    with pytest.raises(SpecError, match="kv_heads"):
        read_row(ROW | {"dims": ROW["dims"] | {"kv_heads": 0}})


def test_more_layers_than_a_stage_has_do_not_run_again() -> None:
    with pytest.raises(SpecError, match="36 layers run again, of 18 of a"):
        read_row(ROW | {"recompute": "36 layers", "pp": 2, "dp": 16})


def test_a_micro_batch_of_0_is_not_stated() -> None:
    assert "micro-batch is not stated" in str(predict_training(ROW | {"mbs": 0}).note)


@pytest.mark.parametrize("value", [5, -1, 1.5, True, "two", float("nan")])
def test_zero_has_four_stages(value: object) -> None:
    with pytest.raises(SpecError, match="'zero' is"):
        zero_stage({"zero": value}, 0)
    assert [zero_stage({"zero": stage}, 3) for stage in (0, 1, 2, 3, None)] == [0, 1, 2, 3, 3]


def test_slow_links_inside_a_node_slow_the_step_and_the_boards_own_do_not() -> None:
    network = ROW["network"]
    rates = (1e9, 20e9, 150e9, 300e9, 600e9)
    slow, bridge, half, own, both = (step(network=network | {"scale_up_bytes_per_s": rate}) for rate in rates)
    assert slow > bridge > own == half == both == step()


def test_a_job_inside_one_node_needs_no_rate_between_nodes() -> None:
    row = ROW | {"dp": 2, "gpus": 8, "network": {"gpus_per_node": 8}}
    assert predict_training(row).predicted == predict_training(row | {"network": ROW["network"]}).predicted
    with pytest.raises(SpecError, match="'scale_out_bytes_per_s' is None"):
        predict_training(ROW | {"network": {"gpus_per_node": 8}})


@pytest.mark.parametrize(
    ("metric", "known", "factor"),
    [
        ("step_time_ms", "step_time_s", 1e3),
        ("Iteration Time (ms)", "step_time_s", 1e3),
        ("tokens/sec/GPU", "tokens_per_s_per_gpu", 1),
        ("Tokens per second", "tokens_per_s", 1),
        ("TFLOPS/GPU", "tflops_per_gpu", 1),
    ],
)
def test_metrics_of_steps_have_other_names_and_units(metric: str, known: str, factor: float) -> None:
    assert step(metric=metric) == pytest.approx(factor * step(metric=known))


def test_precisions_have_dashes_or_underscores() -> None:
    row = {"gpu": "H100", "stack": "megatron-te-2025"}
    assert step(**row, precision="fp8_cs") == step(**row, precision="FP8-CS")


@pytest.mark.parametrize(
    "value",
    [
        *("maybe", "offload", "gradients", "see the text", "3", "1.5", "-1", "1e3", "nan", "fulll", "?" * 300, "..."),
        *(3.5, 1.5, -1, 1e30, 10**30, float("nan"), float("inf"), [1], ["full"], [], {}, {"full": 1}),
    ],
)
def test_a_recompute_that_is_stated_in_no_known_word_is_refused(value: object) -> None:
    assert recomputed_block({"recompute": value}) is None
    with pytest.raises(SpecError, match="'recompute' is") as caught:
        predict_training(ROW | {"recompute": value})
    assert "known: none, selective, full" in str(caught.value.hint)
    assert len(str(caught.value)) < 400


def test_a_flag_that_is_absent_is_neither() -> None:
    assert flag({}, "absent") is None


@pytest.mark.parametrize("key", ["interleave", "ep", "cp", "tp", "pp", "dp"])
@pytest.mark.parametrize("zero", [0, 0.0, False])
def test_a_zero_that_is_written_is_no_degree(key: str, zero: object) -> None:
    with pytest.raises(SpecError, match=f"'{key}' is {zero}"):
        predict_training(ROW | {key: zero})


@pytest.mark.parametrize("key", ["pp", "ep"])
def test_a_zero_is_no_degree_of_a_deployment(key: str) -> None:
    with pytest.raises(SpecError, match=f"'{key}' is 0"):
        predict_inference(INFERENCE | {key: 0})
    with pytest.raises(SpecError, match=f"'{key}' is 0"):
        predict_inference(INFERENCE | {key: 0, "tp": None})
    assert predict_inference(INFERENCE | {key: None}) == predict_inference(INFERENCE)


def test_a_zero_interleaves_no_stages_in_memory() -> None:
    with pytest.raises(SpecError, match="'interleave' is 0"):
        activations(recompute="none", interleave=0)
    assert activations(recompute="none", interleave=None) == activations(recompute="none")


def test_a_degree_that_is_null_is_not_stated() -> None:
    silent = {key: value for key, value in ROW.items() if key not in ("cp", "ep", "interleave")}
    nulls = dict.fromkeys(("cp", "ep", "interleave"))
    assert predict_training(silent | nulls) == predict_training(silent)
