"""Public shapes the tests of this package share."""

from cosmic_opt.workloads.transformer import Transformer

GPT3_175B = Transformer(
    name="gpt3-175b",
    layers=96,
    hidden=12288,
    heads=96,
    kv_heads=96,
    head_dim=128,
    ffn=49152,
    sequence=2048,
    vocabulary=50257,
    positions=2048,
    tied_embeddings=True,
)


def llama(name: str, layers: int, hidden: int, heads: int, ffn: int) -> Transformer:
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=8,
        head_dim=128,
        ffn=ffn,
        sequence=8192,
        vocabulary=128256,
        gated_mlp=True,
        norm="rmsnorm",
        biases=frozenset(),
        dropout=False,
    )


LLAMA3_8B = llama("llama3-8b", 32, 4096, 32, 14336)
LLAMA3_70B = llama("llama3-70b", 80, 8192, 64, 28672)
LLAMA3_405B = llama("llama3-405b", 126, 16384, 128, 53248)


def vit(name: str, layers: int, hidden: int, heads: int) -> Transformer:
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=64,
        ffn=4 * hidden,
        sequence=197,
        positions=197,
        causal=False,
        patch_size=16,
        channels=3,
        classes=1000,
    )


VIT_BASE = vit("vit-base", 12, 768, 12)
VIT_LARGE = vit("vit-large", 24, 1024, 16)
ALL = (GPT3_175B, LLAMA3_8B, LLAMA3_70B, LLAMA3_405B, VIT_BASE, VIT_LARGE)
