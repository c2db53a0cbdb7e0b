"""Jobs and designs the tests share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.catalog.stacks import load_recipe, load_stack
from cosmic_opt.simulation.calibrated.job import TrainingSetup
from cosmic_opt.workloads.language_model import Experts, LanguageModel, LatentAttention

GPT_175B = LanguageModel(
    name="gpt3",
    layers=96,
    hidden=12288,
    heads=96,
    kv_heads=96,
    head_dim=128,
    ffn=49152,
    vocabulary=51200,
    gated_mlp=False,
    dropout=True,
    tied_embeddings=True,
)
LLAMA_8B = LanguageModel(
    name="llama3-8b", layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocabulary=128256
)
LLAMA_405B = LanguageModel(
    name="llama3-405b", layers=126, hidden=16384, heads=128, kv_heads=8, head_dim=128, ffn=53248, vocabulary=128256
)
QWEN_30B = LanguageModel(
    name="qwen3-30b",
    layers=48,
    hidden=2048,
    heads=32,
    kv_heads=4,
    head_dim=128,
    ffn=0,
    vocabulary=151936,
    experts=Experts(count=128, top_k=8, ffn=768),
)
DEEPSEEK = LanguageModel(
    name="deepseek-v3",
    layers=61,
    hidden=7168,
    heads=128,
    kv_heads=128,
    head_dim=128,
    ffn=0,
    vocabulary=129280,
    latent=LatentAttention(),
    experts=Experts(count=256, top_k=8, ffn=2048, shared=1, dense_layers=3, dense_ffn=18432, groups=8, group_top_k=4),
)
DEEPSEEK_MTP = replace(DEEPSEEK, mtp_layers=1)
NICS = {"a100-80": 25e9, "h100-sxm": 50e9, "b200": 50e9, "gb200": 50e9, "mi300x": 50e9}
NODES = {"a100-80": 8, "h100-sxm": 8, "b200": 8, "gb200": 72, "mi300x": 8}


def setup(
    model: LanguageModel = LLAMA_8B,
    *,
    device: str = "h100-sxm",
    stack: str = "megatron-te-2025",
    recipe: str = "bf16",
    sequence: int = 4096,
    global_batch: int = 256,
    **changes: Any,
) -> TrainingSetup:
    fields: dict[str, Any] = {
        "model": model,
        "device": load_device(device),
        "stack": load_stack(stack),
        "recipe": load_recipe(recipe),
        "sequence": sequence,
        "global_batch": global_batch,
        "gpus_per_node": NODES[device],
        "nic_bytes_per_s": NICS[device],
    }
    return TrainingSetup(**(fields | changes))
