"""Fields of training and memory rows in any usual spelling: flags, recompute, sharding."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cosmic_opt.analysis.validation.kinds import Row, clip, whole
from cosmic_opt.errors import SpecError, nearest
from cosmic_opt.workloads.training import RECOMPUTE

YES, NO = ("true", "yes", "on", "1", "1.0"), ("false", "no", "off", "0", "0.0", "none", "")
CHOSEN = {
    **{name: name for name in RECOMPUTE},
    **dict.fromkeys(("no", "off", "false", "without", "disabled", "never"), "none"),
    **dict.fromkeys(("uniform", "all", "whole"), "full"),
}
PARTS = dict.fromkeys(("attention", "core", "attn", "op", "ops", "operators", "sac"), "selective")
PLAIN = dict.fromkeys(("activation", "activations", "gradient", "checkpointing", "recompute", "enabled"), "full")
"""Words of recompute choices: of any word in the first, else in the second, else in the third, the earliest counts."""
UNSTATED = frozenset(("not", "non", "unstated", "unknown", "unspecified", "undetermined"))
"""Words that say a choice is not stated."""
ATTENTIONS = {
    **dict.fromkeys(("mla", "multiheadlatent", "multiheadlatentattention", "latent", "latentattention"), "latent"),
    **dict.fromkeys(("gqa", "groupedquery", "groupedqueryattention"), "grouped"),
    **dict.fromkeys(("mqa", "multiquery", "multiqueryattention"), "one"),
    **dict.fromkeys(("mha", "multihead", "multiheadattention"), "all"),
}
"""Kinds of attention, by their letters."""
SHARDED = ("full_shard", "full", "zero3", "fsdp", "fsdp2", *YES[:3])
GRADIENTS_ONLY = ("shard_grad_op", "zero2", "_hybrid_shard_zero2", "hybrid_shard_zero2")
HYBRID = ("hybrid_shard", "hsdp", "hybrid", *GRADIENTS_ONLY[2:])
WHOLE = ("no_shard", "ddp", *NO)
BLOCK = re.compile(r"block(?:[\s:=_(]*|-)(\d{1,6})(?![\d.])|(?:full[\s(,:]*)?(\d{1,6})[\s_-]*layers?\W*$")
NUMBER = re.compile(r"[-+]?[\d.][\d.e+-]*")
DEFAULT_MODE = "DEFAULT"
REDUCED = {DEFAULT_MODE: None, "PURE": 2}
"""Bytes of a reduced gradient by the mode of mixed precision, as Composer names them; None: the stack's own."""
STAGES = 3
"""ZeRO's last stage."""

SIZES = {
    "seq": 'the tokens of a sequence, such as "seq": 4096',
    "gbs": 'the sequences of a step over all replicas, such as "gbs": 1024',
}
"""Sizes without which a job is none, and how to give them."""


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


def whole_or(fields: Row, key: str, default: int) -> int:
    """Return a positive whole number, or the default where the field is absent, null or 0.

    Raises:
        SpecError: the field is something else.
    """
    return whole(fields, key) if fields.get(key) else default


def check_sizes(row: Row, *keys: str) -> None:
    """Check that sizes of `SIZES` are stated, whatever they are.

    Raises:
        SpecError: one is absent or null.
    """
    for key in keys:
        if row.get(key) is None:
            raise SpecError(f"{key!r} is not stated: give {SIZES[key]}", hint=f"add {key!r} to the row")


def stated_or(row: Row, key: str, default: int) -> int:
    """Return a positive whole number, or the default where the row is silent or says null; a zero is no degree.

    Raises:
        SpecError: the field is something else.
    """
    return default if row.get(key) is None else whole(row, key)


def attention(dims: Row, heads: int) -> tuple[bool, int]:
    """Return whether attention is latent, and its key heads: as stated, or as many as its kind says.

    Raises:
        SpecError: an unknown kind, or one that contradicts the number of key heads or leaves it open.
    """
    stated = whole(dims, "kv_heads") if dims.get("kv_heads") is not None else None
    if dims.get("attention") is None:
        return False, stated or heads
    kind = ATTENTIONS.get(re.sub(r"[^a-z]", "", str(dims["attention"]).lower()))
    if kind is None:
        raise SpecError(f"'attention' is {clip(dims['attention'])}", hint="known: MHA, GQA, MQA, MLA")
    if kind == "grouped" and stated is None:
        raise SpecError("grouped-query attention without 'kv_heads'", hint="give dims.kv_heads")
    implied = {"one": 1, "all": heads}.get(kind, stated or heads)
    if stated is not None and stated != implied:
        raise SpecError(f"kv_heads {stated} contradicts the attention {clip(dims['attention'])}", hint="leave one out")
    return kind == "latent", implied


def recompute_name(row: Row) -> str | None:
    """Return "none", "selective" or "full" by the words of a row's recompute; None: not stated, or a number of layers.

    Raises:
        SpecError: it is stated in no known word, or is no word at all.
    """
    value = row.get("recompute")
    if value is None or recomputed_block(row) is not None:
        return None
    spelled = str(value).strip().lower() if isinstance(value, bool | int | float | str) else "?"
    words = [spelled] if NUMBER.fullmatch(spelled) else re.findall(r"[a-z0-9]+", spelled)
    if UNSTATED.intersection(words) or not spelled.strip(" -"):
        return None
    if words and words[0] in (*YES, *NO) and (len(words) == 1 or words[0].isalpha()):
        return "full" if words[0] in YES else "none"
    understood = () if any(word.isdigit() for word in words) else (CHOSEN, PARTS, PLAIN)
    for known in understood:
        for word in words:
            if word in known:
                return known[word]
    raise SpecError(
        f"'recompute' is {clip(value)}", hint=f"known: {', '.join(RECOMPUTE)}, block 4, 4 layers, not stated"
    )


def recomputed_block(row: Row) -> int | None:
    """Return how many layers of each (virtual) stage a row runs again, "block 4" or "4 layers"; None: it says neither.

    That is what Megatron-LM counts (`--recompute-num-layers`).
    """
    found = BLOCK.match(str(row.get("recompute") or "").strip().lower())
    return None if found is None else int(found[1] or found[2])


def sharding(row: Row) -> Sharding:
    """Return how the weights of a row are sharded; a number is the size of the group that shares them.

    Raises:
        SpecError: an unknown strategy, or no number of ranks.
    """
    value = row.get("fsdp")
    if isinstance(value, int | float) and not isinstance(value, bool):
        group = 0 if value == 0 else whole(row, "fsdp")
        return Sharding(group > 1, group=group if group > 1 else None)
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


def reduced_bytes(row: Row) -> int | None:
    """Return the bytes of a gradient in its reduction where all of a job is in 16 bits; None: the stack's own.

    Raises:
        SpecError: an unknown mode of mixed precision.
    """
    stated = row.get("mp_mode")
    mode = DEFAULT_MODE if stated in (None, "") else str(stated).strip().upper()
    if mode not in REDUCED:
        raise SpecError(f"'mp_mode' is {clip(row['mp_mode'])}", hint=f"known: {', '.join(REDUCED)}")
    return REDUCED[mode]
