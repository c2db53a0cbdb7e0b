"""Fields of training and memory rows in any usual spelling: flags, recompute, sharding."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cosmic_opt.analysis.validation.kinds import Row, clip
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.workloads.training import RECOMPUTE

YES, NO = ("true", "yes", "on", "1", "1.0"), ("false", "no", "off", "0", "0.0", "none", "")
RECOMPUTED = {"uniform": "full", "checkpointing": "full", "activation": "full", "attention": "selective"}
"""Other first words of recompute choices."""
SHARDED = ("full_shard", "full", "zero3", "fsdp", "fsdp2", *YES[:3])
GRADIENTS_ONLY = ("shard_grad_op", "zero2", "_hybrid_shard_zero2", "hybrid_shard_zero2")
HYBRID = ("hybrid_shard", "hsdp", "hybrid", *GRADIENTS_ONLY[2:])
WHOLE = ("no_shard", "ddp", *NO)
BLOCK = re.compile(r"block\D*(\d{1,6})")
STAGES = 3
"""ZeRO's last stage."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a row shards weights: over all replicas or not at all, gathered again in backward, `hybrid` inside a node.

    `group` is the number of ranks that share a copy where the row states it.
    """

    sharded: bool
    reshard: bool = True
    hybrid: bool = False
    group: int | None = None


def flag(row: Row, key: str) -> bool | None:
    """Return a truth value however it is spelled; None where the row does not say.

    Raises:
        SpecError: neither true nor false.
    """
    value = row.get(key)
    if value is None:
        return None
    word = str(value).strip().lower() if isinstance(value, bool | int | float | str) else "?"
    if word in YES or word in NO:
        return word in YES
    raise SpecError(f"{key!r} is {clip(value)}", hint="write true or false")


def recompute_name(row: Row) -> str | None:
    """Return "none", "selective" or "full" by the first word of a row's recompute; None where it states another."""
    value = row.get("recompute")
    if value is None:
        return None
    word = re.split(r"[^a-z0-9]+", str(value).strip().lower())[0]
    if word in RECOMPUTE:
        return word
    if word in NO[:4] and word:
        return "none"
    return "full" if word in YES else RECOMPUTED.get(word)


def recomputed_block(row: Row) -> int | None:
    """Return how many layers of each (virtual) stage a row runs again, "block 4"; None where it says otherwise."""
    found = BLOCK.match(str(row.get("recompute") or "").strip().lower())
    return None if found is None else int(found[1])


def sharding(row: Row) -> Sharding:
    """Return how the weights of a row are sharded; a number is the size of the group that shares them.

    Raises:
        SpecError: an unknown strategy.
    """
    value = row.get("fsdp")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Sharding(value > 1, group=int(value) if value > 1 else None)
    word = re.sub(r"[\s\-.]+", "_", str("" if value is None else value).strip().lower()).replace(
        "shardingstrategy_", ""
    )
    if word in WHOLE:
        return Sharding(False)
    if word in (*SHARDED, *GRADIENTS_ONLY, *HYBRID):
        return Sharding(True, reshard=word not in GRADIENTS_ONLY, hybrid=word in HYBRID)
    known = ("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD")
    raise SpecError(f"'fsdp' is {clip(value)}", hint=nearest(word[:60].upper(), known))


def zero_stage(row: Row, default: int) -> int:
    """Return ZeRO's stage, 0 to 3, or the default where the row does not say.

    Raises:
        SpecError: another stage.
    """
    value = row.get("zero")
    if value is None:
        return default
    if isinstance(value, bool) or value not in range(STAGES + 1):
        raise SpecError(f"'zero' is {clip(value)}", hint="stages are 0 to 3")
    return int(value)
