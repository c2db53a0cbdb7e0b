"""The modules of a layer that Megatron-Core can run again by themselves, whose outputs it does not keep then.

`layernorm`, `moe_act` and `mla_up_proj` of --recompute-modules (NVIDIA/Megatron-LM, megatron/core/transformer:
transformer_layer.py, moe/experts.py and multi_latent_attention.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_opt.workloads.language_model import LanguageModel, Matmul


@dataclass(frozen=True, slots=True)
class ModuleWidths:
    """Elements per token that the modules of one layer write, whole on all ranks of a tensor group.

    Attributes:
        norms: Outputs of norms that are kernels of their own: in front of latent attention and in front of experts;
            others are part of the map they feed (Transformer Engine), which `layernorm` leaves alone.
        activation: Outputs of the activation of routed experts, balanced; shared experts and dense MLPs have none.
        up_maps: The maps of latent attention from compressed vectors to queries, and to keys and values.
    """

    norms: int
    activation: int
    up_maps: tuple[Matmul, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What --recompute-modules calls them."""
        given = {"layernorm": self.norms, "moe_act": self.activation, "mla_up_proj": self.up_maps}
        return tuple(name for name, module in given.items() if module)


def module_widths(model: LanguageModel) -> ModuleWidths:
    """Return the widths of the modules of one layer of the model."""
    experts, latent = model.experts, model.latent is not None
    return ModuleWidths(
        norms=(int(latent) + int(experts is not None)) * model.hidden,
        activation=0 if experts is None else experts.top_k * experts.ffn,
        up_maps=tuple(each for each in model.attention_matmuls if each.name in ("query_up", "kv_up")),
    )
