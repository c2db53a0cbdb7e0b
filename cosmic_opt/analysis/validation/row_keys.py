"""The keys each kind of row has: others change nothing, so that the note of a row names those."""

from __future__ import annotations

from cosmic_opt.analysis.validation.kinds import Row, RowKeys
from cosmic_opt.errors import nearest

SHOWN_KEYS, SHOWN_CHARACTERS = 8, 40
NOT_READ = "not read: "
"""How the note on such keys begins."""
COMMON = (
    *("id", "file", "source", "prov", "model", "metric", "value", "time_ns", "cycles_ns", "fold", "notes", "derived"),
    *("gpu", "gpus", "memory_type", "memory_bandwidth_bytes_per_s", "power_w"),
)
DIMS = (
    *("hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "gated_mlp", "activation", "vocab", "attention"),
    *("experts", "top_k", "moe_ffn", "shared_experts", "dense_layers", "dense_ffn"),
    *("expert_groups", "expert_group_top_k", "mlp_biases", "mtp_layers"),
)
RELEASES = ("engine_release", "engine_version", "release", "version")
"""Where a row may state the release of its engine apart from the name."""
TRAINING_KEYS = RowKeys(
    read=(
        *COMMON,
        *("dims", "network", "seq", "gbs", "mbs", "local_batch", "tp", "pp", "dp", "cp", "ep", "interleave", "stack"),
        *("release", "precision", "recompute", "sequence_parallel", "zero", "fsdp", "act_cpu_offload", "mp_mode"),
    ),
    facts=(
        *("grad_accum", "params", "params_b", "section", "round", "submission", "consistent", "steps_sampled"),
        *("mfu_percent", "hfu_percent", "peak_percent", "tflops_per_gpu", "model_tflops_per_gpu", "peak_mem_gib"),
        "days_for_300b_tokens",
    ),
    parts={"dims": DIMS, "network": ("gpus_per_node", "scale_up_bytes_per_s", "scale_out_bytes_per_s", "note")},
)
INFERENCE_KEYS = RowKeys(
    read=(
        *COMMON,
        *("dims", "network", "engine", *RELEASES, "precision", "batch", "tp", "pp", "ep"),
        *("input_tokens", "output_tokens", "new_tokens", "prompt"),
    ),
    facts=("phase",),
    parts={"dims": (*DIMS, "parallel_block"), "network": ("scale_up_bytes_per_s", "note")},
)
KERNEL_KEYS = RowKeys(
    read=(
        *COMMON,
        *("kernel", "precision", "m", "n", "k", "batch", "seq", "context", "heads", "kv_heads", "head_dim", "dims"),
        "tp",
    ),
    facts=("phase", "peak_tflops"),
    parts={"dims": ("hidden", "heads", "ffn", "layers")},
)
COLLECTIVE_KEYS = RowKeys(
    read=(
        *COMMON,
        *("collective", "size_bytes", "library", "nvls", "topology", "nodes", "gpus_per_node", "gpus_per_domain"),
        *("scale_up_bytes_per_s", "scale_out_bytes_per_s"),
    ),
    facts=("size_convention",),
)
MEMORY_KEYS = RowKeys(
    read=(*COMMON, "dims", "seq", "mbs", "tp", "pp", "interleave", "recompute", "sequence_parallel"),
    parts={"dims": DIMS},
)
COSMIC_RUN_KEYS = RowKeys(read=(*COMMON, "workload", "system", "network"))
OTHER_NAMES = {
    **dict.fromkeys(("zero_stage", "zero_optimization_stage"), "zero"),
    **dict.fromkeys(("global_batch", "global_batch_size"), "gbs"),
    **dict.fromkeys(("micro_batch", "micro_batch_size"), "mbs"),
    **dict.fromkeys(("sequence", "sequence_length", "seq_len", "seq_length"), "seq"),
    **dict.fromkeys(("vpp", "virtual_pipeline", "virtual_stages"), "interleave"),
    **{"weight_sharded": "fsdp", "framework": "stack", "dtype": "precision", "batch_size": "batch"},
    **{"device": "gpu", "num_gpus": "gpus", "npus": "gpus", "world_size": "gpus"},
    **{"hidden_size": "hidden", "num_layers": "layers", "num_hidden_layers": "layers", "intermediate_size": "ffn"},
    **{"num_attention_heads": "heads", "num_key_value_heads": "kv_heads", "vocab_size": "vocab"},
}
"""Names that others give to these keys, too unlike them to be found by spelling."""


def unread(row: Row, keys: RowKeys) -> str | None:
    """Return what of a row is not read, as its note says; None: all is. A null says nothing."""
    found = [_named("", str(key), keys.read) for key in row if row[key] is not None and key not in keys.known]
    for part, known in keys.parts.items():
        inner = row.get(part)
        if isinstance(inner, dict):
            found += [
                _named(f"{part}.", str(key), known) for key in inner if inner[key] is not None and key not in known
            ]
    if not found:
        return None
    more = [f"{len(found) - SHOWN_KEYS} more"] if len(found) > SHOWN_KEYS else []
    return f"{NOT_READ}{', '.join([*found[:SHOWN_KEYS], *more])}"


def _named(place: str, key: str, read: tuple[str, ...]) -> str:
    """Return a key and, in brackets, the one that it may stand for."""
    short = key if len(key) <= SHOWN_CHARACTERS else f"{key[:SHOWN_CHARACTERS]}…"
    shown = short if key.strip() and key.isprintable() else repr(short)
    plain = key[:SHOWN_CHARACTERS].strip().lower().replace("-", "_")
    meant = OTHER_NAMES.get(plain, plain)
    hint = f"did you mean {meant}?" if meant in read else nearest(plain, read)
    close = hint is not None and hint.startswith("did you mean")
    return f"{place}{shown} ({str(hint).replace(chr(39), '')})" if close else f"{place}{shown}"
