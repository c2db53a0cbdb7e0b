"""Serving setups that tests share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cosmic_opt.catalog.engines import load_engine, load_number_format
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.simulation.calibrated.serving_job import ServingSetup
from cosmic_opt.workloads.language_model import Experts, LanguageModel, LatentAttention

LLAMA_8B = LanguageModel(
    name="llama3-8b", layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocabulary=128256
)
LLAMA_70B = LanguageModel(
    name="llama3-70b", layers=80, hidden=8192, heads=64, kv_heads=8, head_dim=128, ffn=28672, vocabulary=128256
)
MIXTRAL = replace(LLAMA_8B, name="mixtral-8x7b", vocabulary=32000, ffn=0, experts=Experts(count=8, top_k=2, ffn=14336))
LATENT = replace(LLAMA_8B, name="latent", kv_heads=32, latent=LatentAttention())


def server(
    model: LanguageModel = LLAMA_8B, gpu: str = "h100-sxm", engine: str = "vllm", numbers: str = "fp16", **fields: Any
) -> ServingSetup:
    """Return a setup; `fields` replaces further inputs."""
    return ServingSetup(
        model=model, device=load_device(gpu), engine=load_engine(engine), numbers=load_number_format(numbers), **fields
    )
