"""What replaces the dense MLP and plain attention of a transformer layer: a mixture of experts, latent attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, TypeVar

from cosmic_opt.errors import SpecError, Where, nearest

Part = TypeVar("Part", "Experts", "LatentAttention")


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention; the defaults are DeepSeek-V3's (arXiv 2412.19437, section 4.2)."""

    query_rank: int = 1536
    kv_rank: int = 512
    nope_dim: int = 128
    rope_dim: int = 64
    value_dim: int = 128

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                value = getattr(self, field.name)
                raise SpecError(f"{field.name} is {value}", where=Where(key=field.name), hint="at least 1")


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture-of-experts MLP in place of the dense one.

    Attributes:
        count: Routed experts of one layer.
        top_k: Routed experts of one token.
        ffn: Width of one expert (each is a gated MLP).
        shared: Experts every token visits.
        dense_layers: First layers that keep a dense MLP of width `dense_ffn`.
        groups: Groups of consecutive experts that routing is limited by; 0: it is not (DeepSeek-V3, section 2.1.2,
            with a group for each node).
        group_top_k: Groups that the experts of one token lie in.
    """

    count: int
    top_k: int
    ffn: int
    shared: int = 0
    dense_layers: int = 0
    dense_ffn: int = 0
    groups: int = 0
    group_top_k: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < (field.default is MISSING):
                value = getattr(self, field.name)
                hint = "at least 1" if field.default is MISSING else "0 or more"
                raise SpecError(f"{field.name} is {value}", where=Where(key=field.name), hint=hint)
        if self.top_k > self.count:
            raise SpecError(f"top_k {self.top_k} of {self.count} experts", hint="1 <= top_k <= count")
        if self.dense_layers and not self.dense_ffn:
            raise SpecError(f"{self.dense_layers} dense layers of no width", hint="give dense_ffn")
        if (self.groups > 0) != (self.group_top_k > 0) or self.group_top_k > self.groups:
            raise SpecError(
                f"group_top_k {self.group_top_k} of {self.groups} groups", hint="1 <= group_top_k <= groups"
            )
        if self.groups and self.count % self.groups:
            raise SpecError(f"{self.count} experts in {self.groups} groups", hint="groups are of equal size")
        if self.groups and self.top_k > self.count // self.groups * self.group_top_k:
            raise SpecError(
                f"top_k {self.top_k} from {self.group_top_k} groups of {self.count // self.groups}",
                hint="a larger group_top_k",
            )


def read_part(kind: type[Part], data: Any, where: Where) -> Part:
    """Return the part a mapping of whole numbers spells; `where.key` names the part.

    Raises:
        SpecError: no mapping, an unknown or missing key, no whole number, or numbers that make no sense.
    """
    known = {field.name: field for field in fields(kind)}
    if not isinstance(data, Mapping):
        raise SpecError(f"{data!r} is not a mapping", where=where, hint=f"give {', '.join(known)}")
    for key, value in data.items():
        own = replace(where, key=f"{where.key}.{key}")
        if key not in known:
            raise SpecError(f"unknown key {key!r} of {where.key}", where=own, hint=nearest(str(key), known))
        if not isinstance(value, int) or isinstance(value, bool):
            raise SpecError(f"{value!r} is not a whole number", where=own, hint="write for example 8")
    for name, field in known.items():
        if field.default is MISSING and name not in data:
            raise SpecError(f"{where.key} needs {name}", where=where, hint=f"add {name}")
    try:
        return kind(**data)
    except SpecError as error:
        inner = f"{where.key}.{error.where.key}" if error.where and error.where.key else where.key
        raise SpecError(error.message, where=replace(where, key=inner), hint=error.hint) from None
