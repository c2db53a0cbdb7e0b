"""Exact shape algebra of a transformer: parameters and FLOPs from its dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any, Literal

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.workloads.mixture import Experts, LatentAttention, read_part

NORMS = ("layernorm", "rmsnorm")
BIASES = ("qkv", "out", "mlp")

Norm = Literal["layernorm", "rmsnorm"]
Recompute = Literal["none", "selective", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A stack of identical pre-norm transformer layers between an embedding and a head.

    A text model has a `vocabulary`; an image model (ViT) has `patch_size`, `channels` and `classes` instead.
    Every size is a count of elements; nothing here knows a precision or a device.

    Attributes:
        heads: Query heads; `kv_heads` divides them (grouped-query attention when smaller).
        head_dim: Width of one head; `heads * head_dim` may differ from `hidden` (GPT-3 13B).
        ffn: Width inside the MLP, of one branch when `gated_mlp`.
        sequence: Tokens of one sequence unless a job says otherwise.
        clamped_gate: The gate is clamped, scaled and shifted, a chain of kernels; only calibrated stacks know its cost.
        mtp_layers: Layers of multi-token prediction trained behind the last one (`LanguageModel`), likewise.
        tied_embeddings: The head reuses the token table.
        positions: Rows of the learned position table; 0 means rotary embeddings of queries and keys.
        biases: Which linear maps have one: "qkv", "out" (attention output), "mlp" (both MLP maps).
        dropout: Residual and attention dropout are trained with, so their masks are kept for backward.
        experts: A mixture of experts in place of the dense MLP; `latent` attention in place of grouped queries. The
            closed forms below are those of dense layers; `language_model` has the others.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    sequence: int
    vocabulary: int = 0
    gated_mlp: bool = False
    tied_embeddings: bool = False
    positions: int = 0
    causal: bool = True
    norm: Norm = "layernorm"
    biases: frozenset[str] = frozenset(BIASES)
    dropout: bool = True
    patch_size: int = 0
    channels: int = 0
    classes: int = 0
    experts: Experts | None = None
    latent: LatentAttention | None = None
    clamped_gate: bool = False
    mtp_layers: int = 0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def is_vision(self) -> bool:
        """Whether tokens are image patches and the head classifies."""
        return self.patch_size > 0

    @property
    def is_dense(self) -> bool:
        """Whether every layer has a dense MLP and plain attention, as the closed forms assume."""
        return self.experts is None and self.latent is None

    @property
    def query_width(self) -> int:
        """Elements of all query heads of one token."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Elements of all key heads (or all value heads) of one token."""
        return self.kv_heads * self.head_dim

    @property
    def norm_parameters(self) -> int:
        """Scale, and for a layer norm also shift, of one normalisation."""
        return self.hidden * (2 if self.norm == "layernorm" else 1)

    @property
    def layer_matrix_parameters(self) -> int:
        """Elements of the weight matrices of one layer: qkv, attention output, up (and gate), down."""
        assert self.is_dense, "closed forms are of dense layers"
        attention = self.hidden * (2 * self.query_width + 2 * self.kv_width)
        return attention + self.hidden * self.ffn * (3 if self.gated_mlp else 2)

    @property
    def layer_replicated_parameters(self) -> int:
        """The part of `layer_parameters` that every tensor-parallel rank holds whole.

        Norms, and the biases of the two row-parallel maps (Shoeybi 2019, section 3).
        """
        row_biases = ("out" in self.biases) + ("mlp" in self.biases)
        return 2 * self.norm_parameters + row_biases * self.hidden

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer; 12 h^2 + 13 h for GPT (Narayanan 2021, eq. 2)."""
        qkv_bias = ("qkv" in self.biases) * (self.query_width + 2 * self.kv_width)
        up_bias = ("mlp" in self.biases) * self.ffn * (2 if self.gated_mlp else 1)
        return self.layer_matrix_parameters + qkv_bias + up_bias + self.layer_replicated_parameters

    @property
    def embedding_replicated_parameters(self) -> int:
        """The part of `embedding_parameters` each tensor-parallel rank holds whole."""
        class_token_and_patch_bias = 2 * self.hidden if self.is_vision else 0
        return self.positions * self.hidden + class_token_and_patch_bias

    @property
    def embedding_parameters(self) -> int:
        """Token table (or patch projection and class token) and position table."""
        inputs = self.patch_size**2 * self.channels if self.is_vision else self.vocabulary
        return inputs * self.hidden + self.embedding_replicated_parameters

    @property
    def output_matrix_parameters(self) -> int:
        """Elements of the matrix the head multiplies by, whether or not it is tied to the embedding."""
        return self.hidden * self.outputs

    @property
    def outputs(self) -> int:
        """Logits of one prediction: the vocabulary, or the classes of an image model."""
        return self.classes if self.is_vision else self.vocabulary

    @property
    def head_parameters(self) -> int:
        """Final norm and output map; a tied map is counted with the embedding."""
        output = 0 if self.tied_embeddings else self.output_matrix_parameters
        class_bias = self.classes if self.is_vision else 0
        return self.norm_parameters + output + class_bias

    def parameters(self) -> int:
        """Return the number of trained parameters of the whole model."""
        return self.layers * self.layer_parameters + self.embedding_parameters + self.head_parameters

    def layer_flops(self, tokens: int, context: int) -> int:
        """Return forward FLOPs of one layer: 24 T h^2 + 4 T s h for GPT (Narayanan 2021, appendix).

        Args:
            tokens: Tokens processed.
            context: Keys each token attends to; the whole sequence when the causal mask is not exploited.
        """
        return tokens * (2 * self.layer_matrix_parameters + self.attention_flops_per_key * context)

    @property
    def attention_flops_per_key(self) -> int:
        """Forward FLOPs of the attention core per query token and key (two products)."""
        return 4 * self.query_width

    def head_flops(self, sequences: int, sequence: int) -> int:
        """Return forward FLOPs of the embedding and output products of `sequences` sequences.

        A text head predicts at every token, an image head once a sequence; a table look-up costs nothing.
        """
        if not self.is_vision:
            return 2 * sequences * sequence * self.output_matrix_parameters
        patches = 2 * sequences * sequence * self.patch_size**2 * self.channels * self.hidden
        return patches + 2 * sequences * self.output_matrix_parameters

    def training_flops(self, sequences: int, sequence: int, recompute: Recompute = "none") -> int:
        """Return the FLOPs of one step over `sequences` sequences, attention counted in full.

        72 B s L h^2 (1 + s/6h + V/12Lh) for GPT, 96 B s L h^2 (1 + s/6h + V/16Lh) with full recompute
        (Narayanan 2021, eq. 3); backward costs twice the forward pass.
        """
        tokens = sequences * sequence
        layer = self.layer_flops(tokens, sequence)
        again = {"none": 0, "selective": tokens * sequence * self.attention_flops_per_key, "full": layer}[recompute]
        return self.layers * (3 * layer + again) + 3 * self.head_flops(sequences, sequence)


def from_mapping(data: Mapping[str, Any], where: Where) -> Transformer:
    """Return the workload a parsed workload file (`cosmic-opt/workload@1`, kind transformer) describes.

    Keys are the attributes of `Transformer`; `kv_heads` defaults to `heads`, `head_dim` to `hidden / heads`.
    `schema`, `kind` and `source` are the file's own and not looked at.

    Args:
        data: The file's mapping.
        where: The file, for messages; the key is filled in here.

    Raises:
        SpecError: a key is unknown or missing, or a value is of the wrong type or makes no sense.
    """
    known = {field.name: field for field in fields(Transformer)}
    for key in data:
        if key not in known and key not in ("schema", "kind", "source"):
            message, hint = f"unknown key {key!r} of a transformer", nearest(str(key), known)
            raise SpecError(message, where=replace(where, key=str(key)), hint=hint)
    values = {name: _read(data[name], field, where) for name, field in known.items() if name in data}
    if "experts" in values:
        _set_dense_width(values, where)
    if "heads" in values:
        values.setdefault("kv_heads", values["heads"])
    heads = max(values.get("heads", 1), 1)
    if "hidden" in values and values["hidden"] % heads == 0:
        values.setdefault("head_dim", values["hidden"] // heads)
    for name, field in known.items():
        if name not in values and field.default is MISSING:
            message = f"a transformer needs {name}"
            raise SpecError(message, where=replace(where, key=name), hint=f"add {name} to the workload")
    try:
        return Transformer(**values)
    except SpecError as error:
        field_key = error.where.key if error.where else None
        raise SpecError(error.message, where=replace(where, key=field_key), hint=error.hint) from None


def _set_dense_width(values: dict[str, Any], where: Where) -> None:
    """Give a mixture the width of its dense layers, which may be 0; the file states it once."""
    width = values["experts"].dense_ffn
    if values.setdefault("ffn", width) != width:
        hint = "leave ffn out: experts have their own, dense layers dense_ffn"
        raise SpecError("a mixture of experts has no other MLP", where=replace(where, key="ffn"), hint=hint)


def _read(value: Any, field: Field[Any], where: Where) -> Any:
    """Return one value of the file as the type its field has."""
    where = replace(where, key=field.name)
    if field.name == "experts":
        return read_part(Experts, value, where)
    if field.name == "latent":
        return read_part(LatentAttention, value, where)
    if field.name == "biases":
        if not isinstance(value, list):
            hint = f"write a list of {', '.join(BIASES)}; [] for none"
            raise SpecError(f"{value!r} is not a list", where=where, hint=hint)
        return frozenset(str(entry) for entry in value)
    if field.type == "bool":
        if not isinstance(value, bool):
            raise SpecError(f"{value!r} is not true or false", where=where, hint="write true or false")
        return value
    if field.type == "int":
        if not isinstance(value, int) or isinstance(value, bool):
            raise SpecError(f"{value!r} is not a whole number", where=where, hint="write for example 96")
        return value
    if not isinstance(value, str):
        raise SpecError(f"{value!r} is not text", where=where, hint="write a name")
    return value


def _check(workload: Transformer) -> None:
    """Raise a SpecError with the offending field as key unless the shape makes sense."""
    for field in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "sequence"):
        if getattr(workload, field) < (field != "ffn" or workload.experts is None):
            raise _error(f"{field} is {getattr(workload, field)}", field, "it must be at least 1")
    if workload.heads % workload.kv_heads:
        message = f"{workload.kv_heads} key-value heads do not divide {workload.heads} heads"
        raise _error(message, "kv_heads", "each key-value head serves the same number of query heads")
    if workload.norm not in NORMS:
        raise _error(f"unknown norm {workload.norm!r}", "norm", nearest(workload.norm, NORMS))
    for bias in sorted(workload.biases - set(BIASES)):
        raise _error(f"unknown bias {bias!r}", "biases", nearest(bias, BIASES))
    if 0 < workload.positions < workload.sequence:
        message = f"{workload.positions} learned positions cannot place {workload.sequence} tokens"
        raise _error(message, "positions", f"use at least {workload.sequence}, or 0 for rotary embeddings")
    if workload.experts is not None and workload.experts.dense_layers >= workload.layers:
        hint = f"fewer than {workload.layers}"
        raise _error(f"{workload.experts.dense_layers} dense layers", "experts.dense_layers", hint)
    if workload.clamped_gate and not workload.gated_mlp:
        raise _error("a clamped gate without a gate", "clamped_gate", "write gated_mlp: true, or leave it out")
    if workload.mtp_layers < 0 or (workload.mtp_layers and workload.is_vision):
        hint = "give the layers that predict further tokens of a text, or leave it out"
        raise _error(f"mtp_layers is {workload.mtp_layers}", "mtp_layers", hint)
    if workload.is_vision and not workload.is_dense:
        raise _error("an image model with experts or latent attention", "experts", "leave them out")
    _check_ends(workload)


def _check_ends(workload: Transformer) -> None:
    vision = (workload.patch_size, workload.channels, workload.classes)
    if min(vision) < 0 or workload.vocabulary < 0 or workload.positions < 0:
        raise _error("a size is negative", None, "vocabulary, positions and patch sizes are 0 or more")
    if workload.vocabulary == 0 and min(vision) == 0:
        raise _error(
            "neither a text nor an image model",
            "vocabulary",
            "give vocabulary, or all of patch_size, channels and classes",
        )
    if workload.vocabulary > 0 and max(vision) > 0:
        raise _error("both a vocabulary and image patches", "vocabulary", "leave out one of the two")
    if workload.is_vision and workload.tied_embeddings:
        raise _error("an image model cannot tie its embeddings", "tied_embeddings", "leave it out")


def _error(message: str, field: str | None, hint: str | None) -> SpecError:
    return SpecError(message, where=Where(key=field), hint=hint)
