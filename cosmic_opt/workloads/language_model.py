"""The true matrix shapes of a language model: grouped-query or latent attention, dense or mixture-of-experts MLPs.

`Transformer` holds what the optimisation models declare; this is the wider shape that measured jobs need.
"""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.workloads.mixture import Experts, LatentAttention
from cosmic_opt.workloads.transformer import Transformer

__all__ = ["Experts", "LanguageModel", "LatentAttention", "Matmul", "language_model", "training_flops"]


@dataclass(frozen=True, slots=True)
class Matmul:
    """One linear map of a layer: `inputs` x `outputs` weights, one of the two divided by tp.

    Attributes:
        split: "outputs" (column parallel), "inputs" (row parallel) or "none" (whole on every rank).
    """

    name: str
    inputs: int
    outputs: int
    split: str

    @property
    def parameters(self) -> int:
        """Elements of the matrix."""
        return self.inputs * self.outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A decoder-only language model; sizes are counts of elements.

    Attributes:
        ffn: Width of the dense MLP, of one branch when `gated_mlp`; 0 where every layer has experts.
        dropout: Residual and attention dropout are trained with.
        tied_embeddings: The head reuses the token table.
        clamped_gate: The gate is clamped, scaled and shifted and its maps have biases (gpt-oss, arXiv 2508.10925,
            section 2), which no fused kernel covers.
        mlp_biases: Both maps of the MLP, or of each expert, have a bias.
        mtp_layers: Layers of multi-token prediction, trained and not served: each joins the last hidden states with the
            embedding of the next token (a map from 2 h to h), runs one more layer and the head again (DeepSeek-V3,
            section 2.2).
        latent: Latent attention instead of grouped-query attention.
        experts: The mixture of experts, or None for a dense model.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    gated_mlp: bool = True
    dropout: bool = False
    tied_embeddings: bool = False
    clamped_gate: bool = False
    mlp_biases: bool = False
    mtp_layers: int = 0
    latent: LatentAttention | None = None
    experts: Experts | None = None

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocabulary"):
            if getattr(self, field) < 1:
                raise SpecError(f"{field} is {getattr(self, field)}", where=Where(key=field), hint="at least 1")
        if self.experts is None and self.ffn < 1:
            raise SpecError("neither an MLP nor experts", where=Where(key="ffn"), hint="give ffn or experts")
        if self.mtp_layers < 0:
            raise SpecError(f"mtp_layers is {self.mtp_layers}", where=Where(key="mtp_layers"), hint="at least 0")

    @property
    def score_width(self) -> int:
        """Elements a token's query and key are compared on, all heads together."""
        per_head = self.head_dim if self.latent is None else self.latent.nope_dim + self.latent.rope_dim
        return self.heads * per_head

    @property
    def value_width(self) -> int:
        """Elements of a token's attention output, all heads together."""
        return self.heads * (self.head_dim if self.latent is None else self.latent.value_dim)

    @property
    def kv_width(self) -> int:
        """Elements of a token's keys and values, both together, as the attention kernel reads them."""
        if self.latent is not None:
            return self.score_width + self.value_width
        return 2 * self.kv_heads * self.head_dim

    @property
    def attention_matmuls(self) -> tuple[Matmul, ...]:
        """The linear maps around the attention core, in order."""
        out = Matmul("out", self.value_width, self.hidden, "inputs")
        if self.latent is None:
            return (Matmul("qkv", self.hidden, self.score_width + self.kv_width, "outputs"), out)
        rank = self.latent
        return (
            Matmul("query_down", self.hidden, rank.query_rank, "none"),
            Matmul("query_up", rank.query_rank, self.score_width, "outputs"),
            Matmul("kv_down", self.hidden, rank.kv_rank + rank.rope_dim, "none"),
            Matmul("kv_up", rank.kv_rank, self.heads * (rank.nope_dim + rank.value_dim), "outputs"),
            out,
        )

    def mlp_matmuls(self, ffn: int) -> tuple[Matmul, ...]:
        """Return the two maps of an MLP of width `ffn`; up and gate are one product when gated."""
        branches = 2 if self.gated_mlp else 1
        return (Matmul("up", self.hidden, branches * ffn, "outputs"), Matmul("down", ffn, self.hidden, "inputs"))

    @property
    def attention_parameters(self) -> int:
        """Weights of the attention maps of one layer."""
        return sum(matmul.parameters for matmul in self.attention_matmuls)

    @property
    def dense_mlp_parameters(self) -> int:
        """Weights every rank's tp group shares of one expert layer, or of the dense MLP: shared experts, router."""
        if self.experts is None:
            return sum(matmul.parameters for matmul in self.mlp_matmuls(self.ffn))
        shared = self.experts.shared * self.experts.ffn * self.hidden * (3 if self.gated_mlp else 2)
        return shared + self.hidden * self.experts.count

    @property
    def replicated_parameters(self) -> int:
        """Weights of one layer that every rank of a tp group holds whole: maps that are not split, and the router."""
        router = self.hidden * self.experts.count if self.experts is not None else 0
        return router + sum(matmul.parameters for matmul in self.attention_matmuls if matmul.split == "none")

    @property
    def expert_parameters(self) -> int:
        """Weights of all routed experts of one expert layer."""
        if self.experts is None:
            return 0
        return self.experts.count * sum(matmul.parameters for matmul in self.mlp_matmuls(self.experts.ffn))

    @property
    def head_parameters(self) -> int:
        """Weights of the output map."""
        return self.vocabulary * self.hidden

    @property
    def joining_matmul(self) -> Matmul:
        """The map of a layer of multi-token prediction, from a hidden state and an embedding to its input."""
        return Matmul("join", 2 * self.hidden, self.hidden, "outputs")

    def parameters(self) -> int:
        """Return the weights of the model as served; norms and biases (below 0.1 %) are not counted."""
        dense = self.experts.dense_layers if self.experts else 0
        layer = self.attention_parameters + self.dense_mlp_parameters + self.expert_parameters
        first = self.attention_parameters
        if self.experts and dense:
            first += sum(matmul.parameters for matmul in self.mlp_matmuls(self.experts.dense_ffn))
        tables = self.head_parameters * (1 if self.tied_embeddings else 2)
        return (self.layers - dense) * layer + dense * first + tables

    def trained_parameters(self) -> int:
        """Return the weights of the model with what predicts further tokens, whose embedding and head are shared."""
        layer = self.attention_parameters + self.dense_mlp_parameters + self.expert_parameters
        return self.parameters() + self.mtp_layers * (layer + self.joining_matmul.parameters)


def language_model(workload: Transformer) -> LanguageModel:
    """Return the shape of a declared transformer.

    Raises:
        SpecError: `workload` is an image model.
    """
    if workload.is_vision:
        raise SpecError(f"{workload.name} is an image model", hint="calibrated predictions cover language models")
    return LanguageModel(
        name=workload.name,
        layers=workload.layers,
        hidden=workload.hidden,
        heads=workload.heads,
        kv_heads=workload.kv_heads,
        head_dim=workload.head_dim,
        ffn=workload.ffn,
        vocabulary=workload.vocabulary,
        gated_mlp=workload.gated_mlp,
        dropout=workload.dropout,
        tied_embeddings=workload.tied_embeddings,
        clamped_gate=workload.clamped_gate,
        mlp_biases="mlp" in workload.biases,
        mtp_layers=workload.mtp_layers,
        latent=workload.latent,
        experts=workload.experts,
    )


def training_flops(
    model: LanguageModel, sequences: float, sequence: int, passes: int, *, causal: bool = False
) -> float:
    """Return FLOPs of a step: `passes` through the layers and three through the head.

    96 B s L h^2 (1 + s/6h + V/16Lh) for GPT with full recompute, which is a fourth pass (Narayanan 2021, eq. 3). That
    counts attention in full, a `causal` model needs half of it. Of routed experts only the ones a token visits count.
    Multi-token prediction counts, as in Megatron-LM: a layer, its joining map and the head once more each.
    """
    tokens = sequences * sequence
    weights = model.attention_parameters + model.dense_mlp_parameters
    if model.experts is not None:
        weights += model.expert_parameters * model.experts.top_k // model.experts.count
    attention = (1 if causal else 2) * tokens * sequence * (model.score_width + model.value_width)
    layers = (model.layers + model.mtp_layers) * (2 * tokens * weights + attention)
    joins = model.mtp_layers * 2 * tokens * model.joining_matmul.parameters
    return passes * (layers + joins) + 6 * tokens * (1 + model.mtp_layers) * model.head_parameters
