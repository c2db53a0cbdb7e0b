"""What to type tomorrow: a served design as the options of its engine, one replica."""

from __future__ import annotations

from collections.abc import Mapping

from cosmic_opt.catalog.served import Serving
from cosmic_opt.psa.domain import Value
from cosmic_opt.reporting.launch_entries import NO_OPTION
from cosmic_opt.workloads.serving_quantities import KNOBS, POOLS, knob_name, pools_of

NARROW = 2
"""Bytes of an element from which on nothing has to be said about its width."""


def serving_options(serving: Serving, point: Mapping[str, Value]) -> list[str]:
    """Return the options, one entry each; empty where the engine's are not known.

    Those of two pools follow the pool's name; a pool that reads prompts has room for its batch of them in one pass.
    Where ranks share experts and shard attention, too, no option says so, and an entry tells it (`NO_OPTION`).
    """
    write = {"vllm": (_vllm, "--max-num-batched-tokens"), "tensorrt-llm": (_tensorrt, "--max_num_tokens")}
    own = [options for prefix, options in write.items() if serving.engine.name.startswith(prefix)]
    found: list[str] = []
    for pool in pools_of(point) if own else ():
        options, pass_tokens = own[0]
        knobs = {knob: int(point.get(knob_name(pool, knob), 1)) for knob in KNOBS}
        found += [f"{pool}:"] if pool else []
        found += options(serving, knobs)
        found += [f"{pass_tokens} {knobs['batch'] * serving.requests.prompt}"] if pool == POOLS[0] else []
        both = knobs["tp"] > 1 and knobs["ep"] > 1
        found += [f"{NO_OPTION} tp={knobs['tp']} with ep={knobs['ep']}"] if both else []
    return found


def _vllm(serving: Serving, knobs: Mapping[str, int]) -> list[str]:
    """Arguments of `vllm serve` (vllm/engine/arg_utils.py); its data parallel ranks share experts.

    With `--enable-expert-parallel` experts lie whole on all tensor and data parallel ranks (FusedMoEParallelConfig).
    """
    sizes = {
        "--tensor-parallel-size": knobs["tp"],
        "--pipeline-parallel-size": knobs["pp"],
        "--data-parallel-size": knobs["ep"],
    }
    found = [f"{option} {size}" for option, size in sizes.items() if size > 1]
    found += ["--enable-expert-parallel"] if knobs["ep"] > 1 else []
    found.append(f"--max-num-seqs {knobs['batch']}")
    numbers = serving.numbers
    found += [f"--quantization {numbers.compute}"] if numbers.compute == "fp8" else []
    return found + (["--kv-cache-dtype fp8"] if numbers.cache_bytes < NARROW else [])


def _tensorrt(serving: Serving, knobs: Mapping[str, int]) -> list[str]:
    """Arguments of `trtllm-serve` (tensorrt_llm/commands/serve.py); the checkpoint has the precision.

    Of `--tp_size` ranks `--ep_size` share each layer's experts, and attention is sharded over all of them, or over none
    with `enable_attention_dp`: then each has sequences of its own (tensorrt_llm/mapping.py).
    """
    sizes = {"--tp_size": knobs["tp"] * knobs["ep"], "--pp_size": knobs["pp"], "--ep_size": knobs["ep"]}
    found = [f"{option} {size}" for option, size in sizes.items() if size > 1]
    found.append(f"--max_batch_size {knobs['batch']}")
    found += ["--extra_llm_api_options FILE (enable_attention_dp: true)"] if knobs["ep"] > 1 else []
    return [*found, f"--kv_cache_free_gpu_memory_fraction {serving.engine.memory.share}"]
