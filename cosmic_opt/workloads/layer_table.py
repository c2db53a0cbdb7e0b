"""Layer tables (ASTRA-sim 1.0, Themis, LIBRA): per layer three computations, each followed by a collective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cosmic_opt._registry import Registry


class Policy(StrEnum):
    """How a training loop runs a table; the names are ASTRA-sim 1.0's. LIBRA's tables name none: nothing overlaps."""

    MICRO = "MICRO"
    DATA = "DATA"
    DLRM = "HYBRID_DLRM"
    TRANSFORMER = "HYBRID_TRANSFORMER"
    TRANSFORMER_AGAIN = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
    NO_OVERLAP = "LIBRA"


@dataclass(frozen=True, slots=True)
class LayerWork:
    """A computation in ns and the collective of `size_bytes` after it; `collective` is "" for none."""

    compute_ns: int
    collective: str = ""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableLayer:
    """One layer; `update_ns` passes after its weight gradients are reduced."""

    name: str
    forward: LayerWork
    input_gradient: LayerWork
    weight_gradient: LayerWork
    update_ns: int


@dataclass(frozen=True, slots=True)
class LayerTable:
    """A workload, layers in forward order.

    Attributes:
        policy: How it runs.
        layers: At least one.
        model_npus: NPUs of a model-parallel group, from the innermost dimension on; 1 where the table names none.
        last_bottom: DLRM: the last layer of the bottom MLP; layer 0 is the embedding.
        checkpoints: Layers whose input is kept.
        initiates: Layers whose backward pass begins with the forward pass from the checkpoint before.
    """

    policy: Policy
    layers: tuple[TableLayer, ...]
    model_npus: int = 1
    last_bottom: int = 0
    checkpoints: frozenset[int] = frozenset()
    initiates: frozenset[int] = frozenset()


LAYER_TABLE_READERS: Registry[Callable[[Path], LayerTable]] = Registry("table format")
"""Readers of layer tables by format; `interop` enters them."""
