"""Loads software stacks and precision recipes: shipped ones by name, a user's own by path."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

from cosmic_opt.catalog.software_files import blaming, find_precision, number, numbers, open_software
from cosmic_opt.catalog.store import read_document, shared_names, shared_path
from cosmic_opt.errors import Where
from cosmic_opt.psa.document import Entry
from cosmic_opt.workloads.stack import Accuracy, AttentionKernel, Coverage, HostCost, Overlap, Recipe, Stack

_HOST = (
    "launch_s",
    "node_skew",
    "forward_launches",
    "backward_launches",
    "micro_batch_s",
    "exchange_s",
    "optimizer_s",
    "routed_forward_s",
    "routed_backward_s",
)
_FLAGS = ("caches_weights", "pads_vocabulary", "repeats_keys", "context_blocks", "whole_rounds", "sends_once_per_rank")
"""False where a file does not say."""
_BYTES = ("context_sum_bytes", "expert_bias_bytes")
_OVERLAP_SHARES = ("hidden_window", "least_exposed", "fsdp_exposed", "pipeline_exposed", "dispatch_exposed")


def stack_names() -> list[str]:
    """Return the names of the shipped stacks."""
    return shared_names("stacks")


@cache
def load_stack(name: str) -> Stack:
    """Return a stack by its shipped name, or from a user's file.

    Raises:
        SpecError: there is no such stack, or its file does not describe one.
    """
    root, file = open_software("stack", name)
    required = tuple(field.name for field in dataclasses.fields(Stack) if field.default is dataclasses.MISSING)
    fields = root.fields(required=required, optional=("schema", "source", "framework", *_FLAGS, *_BYTES))
    flags = {name: fields[name].flag() for name in _FLAGS if name in fields}
    with blaming(file):
        return Stack(
            name=fields["name"].text(),
            elementwise_fraction=number(fields["elementwise_fraction"]),
            eager_traffic=number(fields["eager_traffic"]),
            loss_bytes=number(fields["loss_bytes"]),
            gradient_bytes=numbers(fields["gradient_bytes"]),
            held_gradient_bytes=number(fields["held_gradient_bytes"]),
            adam_bytes=number(fields["adam_bytes"]),
            selective=fields["selective"].text(),
            single_nic_sharding=fields["single_nic_sharding"].flag(),
            splits_by_stages=fields["splits_by_stages"].flag(),
            scattered_sends=fields["scattered_sends"].flag(),
            tensor_mode=fields["tensor_mode"].text(),
            context_schedule=fields["context_schedule"].text(),
            context_exchange=fields["context_exchange"].text(),
            context_stated=fields["context_stated"].flag(),
            fused_experts=fields["fused_experts"].flag(),
            straggler_per_doubling=number(fields["straggler_per_doubling"]),
            attention=_attention(fields["attention"]),
            host=_host(fields["host"]),
            overlap=_overlap(fields["overlap"]),
            context_sum_bytes=number(fields["context_sum_bytes"]) if "context_sum_bytes" in fields else 2.0,
            expert_bias_bytes=_both_passes(fields.get("expert_bias_bytes")),
            framework=fields["framework"].text() if "framework" in fields else "",
            shipped=name in shared_names("stacks"),
            **flags,
        )


@cache
def load_recipe(name: str) -> Recipe:
    """Return a precision recipe by name, in any case.

    Raises:
        SpecError: there is no such recipe.
    """
    fields = find_precision("training", name).fields(
        required=("precision", "cast_bytes", "matmul_share", "gather_bytes", "block_scaled", "user_buffers"),
        optional=("cast_weight_bytes", "narrow_parameters", "expert_groups", "modules_again"),
    )
    return Recipe(
        name.lower(),
        fields["precision"].text(),
        cast_bytes=number(fields["cast_bytes"]),
        matmul_share=number(fields["matmul_share"]),
        gather_bytes=number(fields["gather_bytes"]),
        block_scaled=fields["block_scaled"].flag(),
        user_buffers=fields["user_buffers"].flag(),
        cast_weight_bytes=number(fields["cast_weight_bytes"]) if "cast_weight_bytes" in fields else 0.0,
        narrow_parameters="narrow_parameters" in fields and fields["narrow_parameters"].flag(),
        expert_groups="expert_groups" not in fields or fields["expert_groups"].flag(),
        modules_again="modules_again" not in fields or fields["modules_again"].flag(),
    )


@cache
def load_accuracy(kind: str = "training") -> Accuracy:
    """Return how well measured jobs of a kind are predicted.

    Raises:
        SpecError: nothing is known about this kind, or its file is damaged.
    """
    path = shared_path("accuracy", kind, Path(), Where(key="kind"))
    root = read_document(path, "accuracy")
    required = ("p90", "devices", "most_gpus", "most_tokens")
    fields = root.fields(required=required, optional=("schema", "source", "most_degrees", "covers", "few"))
    degrees = fields["most_degrees"].mapping() if "most_degrees" in fields else {}
    covers = fields["covers"].mapping() if "covers" in fields else {}
    few = fields["few"].mapping() if "few" in fields else {}
    return Accuracy(
        p90=numbers(fields["p90"]),
        devices=frozenset(entry.text() for entry in fields["devices"].items()),
        most_gpus=fields["most_gpus"].integer(low=1),
        most_tokens=fields["most_tokens"].integer(low=1),
        most_degrees={name: entry.integer(low=1) for name, entry in degrees.items()},
        covers={group: _coverage(entry) for group, entry in covers.items()},
        few={group: entry.integer(low=1) for group, entry in few.items()},
    )


def _coverage(entry: Entry) -> Coverage:
    fields = entry.fields(required=("precisions", "loads"))
    return Coverage(*(frozenset(each.text() for each in fields[key].items()) for key in ("precisions", "loads")))


def _attention(entry: Entry) -> AttentionKernel:
    fields = entry.fields(required=("kind", "forward_fraction", "backward_share", "square_share"))
    return AttentionKernel(
        fields["kind"].text(),
        numbers(fields["forward_fraction"]),
        number(fields["backward_share"]),
        number(fields["square_share"]),
    )


def _both_passes(entry: Entry | None) -> tuple[float, float]:
    """Return an amount forward and backward, none where the file is silent."""
    if entry is None:
        return 0.0, 0.0
    fields = entry.fields(required=("forward", "backward"))
    return number(fields["forward"]), number(fields["backward"])


def _host(entry: Entry) -> HostCost:
    fields = entry.fields(required=_HOST)
    return HostCost(**{key: number(fields[key]) for key in _HOST})


def _overlap(entry: Entry) -> Overlap:
    fields = entry.fields(required=("gradient", "tensor_exposed", *_OVERLAP_SHARES))
    return Overlap(
        gradient=fields["gradient"].text(),
        tensor_exposed=numbers(fields["tensor_exposed"]),
        **{key: number(fields[key]) for key in _OVERLAP_SHARES},
    )
