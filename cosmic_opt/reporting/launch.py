"""What to type tomorrow: a calibrated design as the options of the framework or engine it runs on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.catalog.served import Serving
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.launch_entries import NO_OPTION, further_tokens, missing, notes_last
from cosmic_opt.reporting.megatron_launch import megatron_environment, megatron_options
from cosmic_opt.reporting.serving_launch import serving_options
from cosmic_opt.system.scale_up import scale_up
from cosmic_opt.workloads.knobs import DEFAULTS, knob_names
from cosmic_opt.workloads.stack import default_tensor_mode

TORCHTITAN_RECIPES: Mapping[str, list[str]] = {
    "bf16": [],
    "fp8-cs": ["--model.converters float8", "--float8.recipe_name tensorwise"],
    "fp8-rowwise": ["--model.converters float8", "--float8.recipe_name rowwise"],
    "mxfp8": ["--model.converters mx", "--mx.recipe_name mxfp8"],
}
TORCHTITAN_EXCHANGES = {"ring": "alltoall", "all_gather": "allgather"}
"""PyTorch's rotation of keys between context ranks; its all-to-all hands a block to the next rank, which is a ring."""
TORCHTITAN_SCHEDULES = {"one_f_one_b": "1F1B", "gpipe": "GPipe"}
MAXTEXT_RECIPES = {"bf16": [], "fp8": ["quantization=fp8"]}
MAXTEXT_REMAT = {"none": "minimal_with_context", "selective": "save_dot_with_context_except_mlp", "full": "full"}
"""Of its get_remat_policy: `minimal` would run attention again, and `none` names no policy, as `full` does."""


def launch_options(instance: BoundInstance, design: DesignBatch) -> list[str]:
    """Return the options, one entry each ("--micro-batch-size 1"); empty without a stack or an engine.

    They say how the job is cut, how it recomputes and overlaps, and in which precision; the model and the data are the
    user's own. Last come entries that begin with `NO_OPTION`: knobs that made the score and that cannot be typed. A
    stack whose options are not known has such an entry alone.
    """
    own = instance.calibrated
    if own is None:
        return []
    point = next(design.points())
    if isinstance(own, Serving):
        return serving_options(own, point)
    knobs: dict[str, Value] = {**DEFAULTS, **{name: instance.data[name] for name in DEFAULTS if name in instance.data}}
    knobs |= {knob: point[name] for knob, name in knob_names(point).items()}
    knobs["seq"], knobs["global_batch"] = instance.data["seq"], instance.data["global_batch"]
    split = knobs["sequence_parallel"] == 1
    latent = own.model.latent is not None
    default = default_tensor_mode(own.stack, own.recipe, sequence_parallel=split, latent=latent)
    knobs["tensor_overlap"] = point.get("tensor_overlap", default)
    knobs["gradient_overlap"] = point.get("gradient_overlap", own.stack.overlap.gradient)
    knobs["context_exchange"] = point.get("context_exchange", own.stack.context_exchange)
    knobs = _that_matter(knobs)
    match own.stack.framework:
        case "megatron-core":
            domain = scale_up(instance.dimensions, {**instance.data, **point})
            return megatron_options(knobs, own, domain.npus)
        case "torchtitan":
            return _torchtitan(knobs, own)
        case "maxtext":
            return _maxtext(knobs, own)
        case _:
            return [f"{NO_OPTION} stack={own.stack.name}"]


def launch_environment(instance: BoundInstance, options: Collection[str]) -> dict[str, str]:
    """Return the environment variables, by name, without which the framework refuses the options of a design."""
    own = instance.calibrated
    if isinstance(own, Calibrated) and own.stack.framework == "megatron-core":
        return megatron_environment(options, own.device)
    return {}


def launch_keys(instance: BoundInstance, design: DesignBatch) -> dict[str, object]:
    """Return the options and the environment as keys of an answer."""
    options = launch_options(instance, design)
    return {"launch": options, "environment": launch_environment(instance, options)}


def launch_text(instance: BoundInstance, design: DesignBatch) -> str:
    """Return what to set and what to type, empty where there is nothing to say."""
    options = launch_options(instance, design)
    environment = launch_environment(instance, options).items()
    return "\n".join([*(f"  set  {name}={value}" for name, value in environment), *_folded(options)])


def _that_matter(knobs: Mapping[str, Value]) -> dict[str, Value]:
    """Return the knobs, those of what the design does not have at their plainest value."""
    plain: dict[str, Value] = {}
    if knobs["pp"] == 1:
        plain |= {"pipeline_schedule": DEFAULTS["pipeline_schedule"], "interleave": 1}
    if knobs["tp"] == 1:
        plain |= {"tensor_overlap": "none"}
    if knobs["zero_stage"] != 3:
        plain |= {"reshard_after_forward": 1, "prefetch": 1, "shard_replicas": 1}
    return {**knobs, **plain}


def _torchtitan(knobs: Mapping[str, Value], own: Calibrated) -> list[str]:
    """Fields of TorchTitan's job configuration (torchtitan/config/job_config.py, 2025)."""
    sharded = knobs["zero_stage"] == 3
    reshard = "always" if knobs["reshard_after_forward"] == 1 else "never"
    found = [
        *_torchtitan_copies(int(knobs["dp"]), int(knobs["shard_replicas"]) if sharded else int(knobs["dp"])),
        f"--parallelism.tensor_parallel_degree {knobs['tp']}",
        f"--parallelism.context_parallel_degree {knobs['cp']}",
        *([f"--parallelism.expert_parallel_degree {knobs['ep']}"] if knobs["ep"] != 1 else []),
        *_torchtitan_batch(knobs, own.model.layers),
        f"--training.seq_len {knobs['seq']}",
        "--training.compile",
        *_torchtitan_recompute(str(knobs["recompute"]), int(knobs["recompute_layers"]), own.model.layers),
        *([f"--parallelism.fsdp_reshard_after_forward {reshard}"] if sharded else []),
        *(["--parallelism.enable_async_tensor_parallel"] if knobs["tensor_overlap"] == "async" else []),
        *TORCHTITAN_RECIPES.get(own.recipe.name, [f"{NO_OPTION} precision={own.recipe.name}"]),
    ]
    known: dict[str, Collection[Value]] = {
        "zero_stage": (0, 3) if _torchtitan_replicates(knobs) else (3,),
        "prefetch": (1,),
        "tensor_overlap": ("none", "async"),
        "gradient_overlap": ("window", own.stack.overlap.gradient),
        "expert_load_percent": (100,),
        "sequence_parallel": (0, 1) if knobs["tp"] == 1 else (1,),
    }
    exchange = TORCHTITAN_EXCHANGES.get(str(knobs["context_exchange"]))
    if knobs["cp"] != 1 and exchange is not None:
        found.append(f"--parallelism.context_parallel_rotate_method {exchange}")
    elif knobs["cp"] != 1:
        known["context_exchange"] = tuple(TORCHTITAN_EXCHANGES)
    return notes_last(found + further_tokens(own) + missing(knobs, known))


def _torchtitan_replicates(knobs: Mapping[str, Value]) -> bool:
    """Return whether whole weights are possible: context ranks always shard them, DDP is for a mesh of dp alone."""
    alone = knobs["dp"] == 1 or (knobs["tp"] == 1 and knobs["pp"] == 1)
    return bool(knobs["cp"] == 1 and alone)


def _torchtitan_copies(dp: int, copies: int) -> list[str]:
    """Return over how many ranks a copy of the weights is sharded, and how many copies there are, 1 by default."""
    shard = f"--parallelism.data_parallel_shard_degree {dp // copies}"
    return [shard] if copies == 1 else [f"--parallelism.data_parallel_replicate_degree {copies}", shard]


def _torchtitan_batch(knobs: Mapping[str, Value], layers: int) -> list[str]:
    """Return the batch of a rank; a pipeline cuts what a rank gets of the global batch into micro-batches itself."""
    whole = f"--training.global_batch_size {knobs['global_batch']}"
    if knobs["pp"] == 1:
        return [f"--training.local_batch_size {knobs['micro_batch']}", whole]
    looped = knobs["interleave"] != 1
    slots = -(-layers // (int(knobs["pp"]) * int(knobs["interleave"])))
    known = {**TORCHTITAN_SCHEDULES, "one_f_one_b": "Interleaved1F1B"} if looped else TORCHTITAN_SCHEDULES
    schedule = known.get(str(knobs["pipeline_schedule"]))
    named = f"--parallelism.pipeline_parallel_schedule {schedule}"
    return [
        f"--training.local_batch_size {int(knobs['global_batch']) // int(knobs['dp'])}",
        whole,
        f"--parallelism.pipeline_parallel_degree {knobs['pp']}",
        f"--parallelism.pipeline_parallel_microbatch_size {knobs['micro_batch']}",
        f"--parallelism.pipeline_parallel_layers_per_stage {slots}",
        f"{NO_OPTION} pipeline_schedule={knobs['pipeline_schedule']}" if schedule is None else named,
    ]


def _torchtitan_recompute(recompute: str, chosen: int, layers: int) -> list[str]:
    """Return how it recomputes; some layers are every n-th, floor(layers / n) of them."""
    mode, option = "--activation_checkpoint.mode", "--activation_checkpoint.selective_ac_option"
    if recompute == "selective":
        return [f"{mode} selective", f"{option} op"]
    if recompute == "modules":
        return [f"{NO_OPTION} recompute={recompute}"]
    if recompute != "full" or not chosen:
        return [f"{mode} {recompute}"]
    every = layers // min(chosen, layers)
    if layers // every == chosen:
        return [f"{mode} selective", f"{option} {every}"]
    return [f"{mode} full", f"{NO_OPTION} recompute_layers={chosen}"]


def _maxtext(knobs: Mapping[str, Value], own: Calibrated) -> list[str]:
    """Keys of MaxText's configuration (MaxText/configs/base.yml, 2025), given as key=value."""
    chips = int(knobs["tp"]) * int(knobs["cp"])
    passes = int(knobs["global_batch"]) // (int(knobs["dp"]) * int(knobs["micro_batch"]))
    found = [
        *_maxtext_copies(int(knobs["dp"]), int(knobs["shard_replicas" if knobs["zero_stage"] == 3 else "dp"])),
        f"ici_tensor_parallelism={knobs['tp']}",
        f"ici_context_parallelism={knobs['cp']}",
        *([f"ici_expert_parallelism={knobs['ep']}"] if knobs["ep"] != 1 else []),
        f"per_device_batch_size={int(knobs['micro_batch']) / chips:g}",
        *([f"gradient_accumulation_steps={passes}"] if passes > 1 else []),
        f"max_target_length={knobs['seq']}",
        *[f"remat_policy={policy}" for name, policy in MAXTEXT_REMAT.items() if name == knobs["recompute"]],
        *MAXTEXT_RECIPES.get(own.recipe.name, [f"{NO_OPTION} precision={own.recipe.name}"]),
    ]
    known: dict[str, Collection[Value]] = {
        "pp": (1,),
        "zero_stage": (0, 3) if knobs["cp"] == 1 else (3,),  # the axis `context` shards weights, too
        "reshard_after_forward": (1,),
        "prefetch": (1,),
        "recompute": tuple(MAXTEXT_REMAT),
        "recompute_layers": (0,),
        "tensor_overlap": ("none", own.stack.tensor_mode),
        "gradient_overlap": (own.stack.overlap.gradient,),
        "expert_load_percent": (100,),
    }
    if knobs["cp"] != 1 and knobs["context_exchange"] in ("ring", "all_gather"):
        found.append(f"context_parallel_strategy={knobs['context_exchange']}")
    elif knobs["cp"] != 1:
        known["context_exchange"] = ("ring", "all_gather")
    return notes_last(found + further_tokens(own) + missing(knobs, known))


def _maxtext_copies(dp: int, copies: int) -> list[str]:
    """Return how many copies of the weights there are, and over how many chips each is sharded."""
    sizes = {"data": copies, "fsdp": dp // copies}
    return [f"ici_{name}_parallelism={size}" for name, size in sizes.items() if size != 1] or ["ici_fsdp_parallelism=1"]


def _folded(options: Collection[str]) -> list[str]:
    """Return the lines of the options as a command line is written; a pool, and what has none, begins a line."""
    lines: list[str] = []
    line = "  type"
    for option in options:
        note = option.startswith(NO_OPTION)
        begins = note or (option.endswith(":") and line != "  type")
        if begins or len(line) + len(option) > 100:
            lines, line = [*lines, line], "  " if note else "      "
        line += f"{' ' * (not note)}{option}"
    return [each for each in [*lines, line] if each != "  type"]
