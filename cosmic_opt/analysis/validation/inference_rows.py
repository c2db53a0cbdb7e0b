"""Measured inference as rows state it: fields to a setup, a design and requests, and what had to be assumed.

Every rule reads fields; none reads where a row comes from or how far off it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from cosmic_opt.analysis.validation.kinds import Row, clip, number, text, whole
from cosmic_opt.analysis.validation.row_boards import board_of, limit_notes, open_board
from cosmic_opt.analysis.validation.row_checks import check_experts, check_stages, uneven_parts
from cosmic_opt.analysis.validation.row_engines import engine_of
from cosmic_opt.analysis.validation.row_fields import stated_or
from cosmic_opt.analysis.validation.training_rows import read_model
from cosmic_opt.catalog.device_names import plain_name
from cosmic_opt.catalog.engines import load_engine, load_number_format
from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.serving_job import ServingDesigns, ServingSetup
from cosmic_opt.system.hardware import Device
from cosmic_opt.workloads.kv_cache import holdings
from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.requests import Requests

FORMATS = {
    **dict.fromkeys(("fp16bf16", "float16", "half", "weightfp16kvcachefp16"), "fp16"),
    **dict.fromkeys(("bfloat16", "bf16fp16"), "bf16"),
    **dict.fromkeys(("weightfp16kvcachefp8", "weightfp16kvcacheint8"), "fp16-kv8"),
    **dict.fromkeys(("weightfp8kvcachefp8", "fp8e4m3", "w8a8fp8"), "fp8"),
    **dict.fromkeys(("weightfp8kvcachefp16", "weightfp8kvcachebf16"), "fp8-kv16"),
    **dict.fromkeys(("nvfp4", "fp4e2m1"), "fp4"),
    **dict.fromkeys(("weightint8kvcacheint8", "weightint8kvcachefp8"), "int8-kv8"),
    **dict.fromkeys(("int8weights", "w8a16", "int8weightonly"), "int8"),
    **dict.fromkeys(("w4a16", "awq", "gptq", "int4weights", "int4weightonly"), "int4"),
}
"""Other spellings of number formats, by their letters and digits."""
SATURATED = (
    *("engine chosen", "chosen by the engine", "saturating", "saturated", "max", "maximum", "auto"),
    *("dynamic", "in flight batching", "inflight batching", "continuous batching"),
)
"""What a batch that is text says where the engine runs as many sequences as it admits, between commas or brackets."""
MOST_DIGITS = 18
LINK_RATE = "scale_up_bytes_per_s"
UNNAMED_FORMAT = "fp16"
SHORT_PROMPT = 16
"""Tokens of a prompt that is only called short."""
EMULATED = ("fp8", "fp4")
"""Formats that a device without matrix units for them converts in software."""


@dataclass(frozen=True, slots=True)
class InferenceRow:
    """A row as a job: `assumed` says what its fields leave open, which makes it a secondary row.

    `saturated`: the engine chooses the batch, and `designs` start from one sequence.
    """

    setup: ServingSetup
    designs: ServingDesigns
    requests: Requests
    assumed: tuple[str, ...]
    saturated: bool


def read_row(row: Row) -> InferenceRow:
    """Return the job and design of a row.

    Raises:
        SpecError: a field without which there is no prediction is missing or makes no sense.
    """
    device = _device(row)
    engine, release = engine_of(row, device)
    numbers = load_number_format(_format(row))
    model, batch = read_served_model(row), stated_batch(row)
    setup = ServingSetup(
        model=model,
        device=device,
        engine=load_engine(engine),
        numbers=numbers,
        parallel_block=bool(row["dims"].get("parallel_block")),
    )
    designs = ServingDesigns.of(
        tp=_tensor_degree(row),
        pp=stated_or(row, "pp", 1),
        ep=stated_or(row, "ep", 1),
        batch=1 if batch is None else batch,
    )
    if row.get("gpus") is not None and designs.gpus[0] != whole(row, "gpus"):
        raise SpecError(f"tp, pp and ep make {designs.gpus[0]:g} GPUs, not {row['gpus']}", hint="state all degrees")
    check_stages(model, int(designs.pp[0]))
    check_experts(model, int(designs.ep[0]))
    requests = _requests(row)
    assumed = (*_assumed(row, setup, designs, requests), *([] if release is None else [release]))
    return InferenceRow(setup, designs, requests, assumed, batch is None)


def read_served_model(row: Row) -> LanguageModel:
    """Return the model's shape; the width of an expert is the row's `ffn` unless it gives `moe_ffn`.

    Raises:
        SpecError: the dimensions are missing or make no sense.
    """
    dims = row.get("dims")
    if isinstance(dims, dict) and dims.get("experts") and not dims.get("moe_ffn"):
        dims = {**dims, "moe_ffn": dims.get("ffn"), "ffn": 0}
    return read_model({**row, "dims": dims}, dropout=False)


def _device(row: Row) -> Device:
    """Return the device, its links at the rate the row states."""
    device, network = board_of(row), row.get("network")
    if network is None:
        return device
    if not isinstance(network, dict):
        raise SpecError(f"'network' is {clip(network)}", hint=f"write {{{LINK_RATE!r}: 450e9}}")
    if LINK_RATE not in network or device.fabric is None:
        return device
    return replace(device, fabric=replace(device.fabric, link_bytes_per_s=number(network, LINK_RATE)))


def _format(row: Row) -> str:
    if row.get("precision") is None:
        return UNNAMED_FORMAT
    name = text(row, "precision").strip().lower()
    return FORMATS.get(plain_name(name), name.replace("_", "-"))


def _tensor_degree(row: Row) -> int:
    """Return tp; where a row is silent, all of its GPUs that no other degree takes."""
    if row.get("tp") is not None:
        return whole(row, "tp")
    others = stated_or(row, "pp", 1) * stated_or(row, "ep", 1)
    return max(1, whole(row, "gpus") // others)


def stated_batch(row: Row) -> int | None:
    """Return the sequences of a batch, None where the engine chooses them; digits may be text.

    Raises:
        SpecError: neither a positive whole number nor text that says the batch is saturated.
    """
    value = row.get("batch")
    if not isinstance(value, str):
        return whole(row, "batch")
    plain = value.strip().lower()
    if re.fullmatch(rf"[0-9]{{1,{MOST_DIGITS}}}", plain):
        return whole({"batch": int(plain)}, "batch")
    parts = (" ".join(re.findall(r"[a-z]+", part)) for part in re.split(r"[,;()]", plain))
    if not re.search(r"\d", plain) and any(part in SATURATED for part in parts):
        return None
    raise SpecError(
        f"'batch' is {clip(value)}, no number and not 'saturated'",
        hint=f"write a number, or one of: {', '.join(SATURATED)}",
    )


def _requests(row: Row) -> Requests:
    if row.get("new_tokens"):
        return Requests(SHORT_PROMPT, whole(row, "new_tokens"))
    return Requests(whole(row, "input_tokens"), whole(row, "output_tokens") if "output_tokens" in row else 1)


def _assumed(row: Row, setup: ServingSetup, designs: ServingDesigns, requests: Requests) -> tuple[str, ...]:
    """Return what a row leaves open or the model leaves out, by field (the rules of primary rows)."""
    board = open_board(row)
    found = [*([] if board is None else [board]), *limit_notes(row)]
    tokens = requests.prompt + requests.output
    held = holdings(setup, designs, designs.sequences * tokens)
    if any(np.any(each.cache_bytes + each.weights_bytes > setup.device.memory_bytes) for each in held):
        found.append("cache and weights exceed the stated memory: the engine swaps, or the memory is another")
    uneven = " and ".join(uneven_parts(setup.model, int(designs.tp[0]), splits_experts=True))
    if uneven:
        found.append(f"tp does not divide the {uneven}: every rank is taken to have an equal share")
    if np.any((designs.pp > 1) & (designs.batch > 1)):
        found.append("a pipeline with a batch: its micro-batches are not stated")
    widened = "kvcachefp8" in plain_name(str(row.get("precision")))
    if widened and not any(name in setup.device.peak_flop_per_s for name in EMULATED):
        found.append("an fp8 cache on a device without fp8: converted in software")
    if setup.engine.name in ("deepspeed-mii", "deepspeed-inference", "accelerate", "vllm-rocm"):
        found.append("an engine with few or early rows: only ranks count")
    if row.get("precision") is None:
        found.append(f"the precision is not stated: {UNNAMED_FORMAT}")
    if row.get("tp") is None and designs.gpus[0] > 1:
        found.append("the split is not stated: tensor parallelism over all GPUs")
    if row.get("prompt") is not None and not row.get("input_tokens"):
        found.append(f"the prompt is only called {row['prompt']}: {SHORT_PROMPT} tokens")
    if "assumed" in str(row.get("notes")):
        found.append("the row states that its output length is assumed")
    return tuple(found)
