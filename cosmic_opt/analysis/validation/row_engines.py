"""Which engine file the engine of a row means: by its name and release, never by where the row comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cosmic_opt.analysis.validation.kinds import Row, text
from cosmic_opt.analysis.validation.row_keys import RELEASES
from cosmic_opt.catalog.device_names import plain_name
from cosmic_opt.catalog.engines import engine_names
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.system.hardware import Device

Release = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Generation:
    """One engine file and the releases it describes; either end is None where every release counts."""

    engine: str
    first: Release | None = None
    last: Release | None = None


FAMILIES = {
    "tensorrtllm": (
        _Generation("tensorrt-llm", (0, 5), (0, 12)),
        _Generation("tensorrt-llm-2025", (1, 0), (1, 0)),
    ),
    "vllm": (_Generation("vllm", (0, 4), (0, 6)),),
    "vllmrocm": (_Generation("vllm-rocm", (0, 4), (0, 6)),),
    "fastertransformer": (_Generation("tensorrt-llm"),),
    "deepspeedgaudi": (_Generation("deepspeed-gaudi"),),
    "deepspeedmii": (_Generation("deepspeed-mii"),),
    "deepspeedinference": (_Generation("deepspeed-inference"),),
    "accelerate": (_Generation("accelerate"),),
}
"""Engine files by family, oldest first; the predecessor of TensorRT-LLM shares its kernels."""
ALIASES = {
    **{"trtllm": "tensorrtllm", "tensorrt": "tensorrtllm", "trt": "tensorrtllm"},
    **{"fastertransformertriton": "fastertransformer", "ft": "fastertransformer"},
    **{"optimumhabana": "deepspeedgaudi", "acceleratelayersequential": "accelerate", "hfaccelerate": "accelerate"},
    **{"mii": "deepspeedmii", "deepspeedfastgen": "deepspeedmii", "vllmamd": "vllmrocm"},
}
OFFLOADED = "deepspeedzero"
AMD, GAUDI = "mi", "gaudi"
"""How names of devices start whose builds of an engine are others."""
_RELEASE = re.compile(r"(?:^|[\s\-_(@:=v])v?(\d+(?:\.\d+)*)", re.IGNORECASE)


def engine_of(row: Row, device: Device) -> tuple[str, str | None]:
    """Return the engine file a row means, and what is assumed where it does not describe the row's release.

    Raises:
        SpecError: the engine is not stated, not known, or not modelled.
    """
    name = text(row, "engine").strip()
    shipped = {plain_name(each): each for each in engine_names()}
    if plain_name(name) in shipped and plain_name(name) not in FAMILIES:
        return shipped[plain_name(name)], None
    stem, release = _split(name)
    family = plain_name(stem)
    family = _for_device(ALIASES.get(family, family), device)
    if family.startswith(OFFLOADED):
        raise SpecError("weights gathered from other devices for each step are not modelled", hint="use tp or pp")
    if family not in FAMILIES:
        known = ["vLLM", "TensorRT-LLM", "DeepSpeed-MII", "DeepSpeed-Inference", *engine_names()]
        raise SpecError(f"unknown engine {name[:60]!r}", hint=nearest(name[:60], known))
    return _of_release(FAMILIES[family], release or _stated(row))


def _split(name: str) -> tuple[str, Release | None]:
    """Return the name without its release, and the release: "vLLM 0.6.3.post1" is ("vLLM", (0, 6, 3))."""
    found = _RELEASE.search(name)
    if found is None or found.start() == 0:
        return name, None
    return name[: found.start()], _numbers(found.group(1))


def _numbers(text: str) -> Release:
    return tuple(int(part[:9]) for part in text.split("."))


def _stated(row: Row) -> Release | None:
    for field in RELEASES:
        found = _RELEASE.search(str(row.get(field) or ""))
        if found is not None:
            return _numbers(found.group(1))
    return None


def _for_device(family: str, device: Device) -> str:
    """Return the build of an engine that a device has; plain DeepSpeed is the injected one but on Gaudi."""
    if family == "deepspeed":
        return "deepspeedgaudi" if device.name.startswith(GAUDI) else "deepspeedinference"
    return "vllmrocm" if family == "vllm" and device.name.startswith(AMD) else family


def _of_release(generations: tuple[_Generation, ...], release: Release | None) -> tuple[str, str | None]:
    """Return the newest generation that is not newer than the release, else the oldest; older rows name no release."""
    chosen = generations[0]
    if release is None or chosen.first is None:
        return chosen.engine, None
    padded = release + (0,) * (len(chosen.first) - len(release))  # "1" is 1.0
    for generation in generations[1:]:
        if generation.first is not None and padded >= generation.first:
            chosen = generation
    assert chosen.first is not None, "families have all ends or none"
    assert chosen.last is not None, "families have all ends or none"
    if chosen.first <= padded and padded[: len(chosen.last)] <= chosen.last:
        return chosen.engine, None
    known = _spelled(chosen.first) + ("" if chosen.first == chosen.last else f" to {_spelled(chosen.last)}")
    return chosen.engine, f"release {_spelled(release)} is predicted as {chosen.engine}, which describes {known}"


def _spelled(release: Release) -> str:
    return ".".join(map(str, release))
