"""Loads software stacks and precision recipes: shipped ones by name, a user's own by path."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from pathlib import Path

from cosmic_opt.catalog.store import data_root, display, read_text, shared_names, shared_path
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.document import Entry, expect_schema, read_yaml
from cosmic_opt.workloads.stack import Accuracy, AttentionKernel, HostCost, Overlap, Recipe, Stack

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
    path = shared_path("stacks", name, Path(), Where(key="stack"))
    root = read_yaml(read_text(path), display(path))
    expect_schema(root, "stack")
    required = tuple(field.name for field in dataclasses.fields(Stack))
    fields = root.fields(required=required, optional=("schema", "source"))
    try:
        return Stack(
            name=fields["name"].text(),
            elementwise_fraction=_number(fields["elementwise_fraction"]),
            eager_traffic=_number(fields["eager_traffic"]),
            loss_bytes=_number(fields["loss_bytes"]),
            unscale_bytes=_number(fields["unscale_bytes"]),
            gradient_bytes=_numbers(fields["gradient_bytes"]),
            held_gradient_bytes=_number(fields["held_gradient_bytes"]),
            adam_bytes=_number(fields["adam_bytes"]),
            selective=fields["selective"].text(),
            single_nic_sharding=fields["single_nic_sharding"].flag(),
            splits_by_stages=fields["splits_by_stages"].flag(),
            scattered_sends=fields["scattered_sends"].flag(),
            tensor_mode=fields["tensor_mode"].text(),
            context_schedule=fields["context_schedule"].text(),
            context_exchange=fields["context_exchange"].text(),
            context_stated=fields["context_stated"].flag(),
            fused_experts=fields["fused_experts"].flag(),
            straggler_per_doubling=_number(fields["straggler_per_doubling"]),
            attention=_attention(fields["attention"]),
            host=_host(fields["host"]),
            overlap=_overlap(fields["overlap"]),
        )
    except SpecError as error:
        where = error.where if error.where and error.where.file else Where(display(path), key=_key(error))
        raise SpecError(error.message, where=where, hint=error.hint) from None


@cache
def load_recipe(name: str) -> Recipe:
    """Return a precision recipe by name, in any case.

    Raises:
        SpecError: there is no such recipe.
    """
    path = data_root() / "instances" / "_precisions" / "training.yaml"
    root = read_yaml(read_text(path), display(path))
    expect_schema(root, "precisions")
    recipes = root.fields(required=("recipes",), optional=("schema", "source"))["recipes"].mapping()
    if name.lower() not in recipes:
        raise SpecError(f"unknown precision {name!r}", where=Where(key="precision"), hint=nearest(name, recipes))
    fields = recipes[name.lower()].fields(
        required=("precision", "cast_bytes", "matmul_share", "gather_bytes", "block_scaled")
    )
    return Recipe(
        name.lower(),
        fields["precision"].text(),
        cast_bytes=_number(fields["cast_bytes"]),
        matmul_share=_number(fields["matmul_share"]),
        gather_bytes=_number(fields["gather_bytes"]),
        block_scaled=fields["block_scaled"].flag(),
    )


@cache
def load_accuracy(kind: str = "training") -> Accuracy:
    """Return how well measured jobs of a kind are predicted.

    Raises:
        SpecError: nothing is known about this kind, or its file is damaged.
    """
    path = shared_path("accuracy", kind, Path(), Where(key="kind"))
    root = read_yaml(read_text(path), display(path))
    expect_schema(root, "accuracy")
    fields = root.fields(required=("p90", "devices", "most_gpus", "most_tokens"), optional=("schema", "source"))
    return Accuracy(
        p90=_numbers(fields["p90"]),
        devices=frozenset(entry.text() for entry in fields["devices"].items()),
        most_gpus=fields["most_gpus"].integer(low=1),
        most_tokens=fields["most_tokens"].integer(low=1),
    )


def _attention(entry: Entry) -> AttentionKernel:
    fields = entry.fields(required=("kind", "forward_fraction", "backward_share", "square_share"))
    return AttentionKernel(
        fields["kind"].text(),
        _numbers(fields["forward_fraction"]),
        _number(fields["backward_share"]),
        _number(fields["square_share"]),
    )


def _host(entry: Entry) -> HostCost:
    fields = entry.fields(required=_HOST)
    return HostCost(**{key: _number(fields[key]) for key in _HOST})


def _overlap(entry: Entry) -> Overlap:
    fields = entry.fields(required=("gradient", "tensor_exposed", *_OVERLAP_SHARES))
    return Overlap(
        gradient=fields["gradient"].text(),
        tensor_exposed=_numbers(fields["tensor_exposed"]),
        **{key: _number(fields[key]) for key in _OVERLAP_SHARES},
    )


def _numbers(entry: Entry) -> dict[str, float]:
    return {key: _number(value) for key, value in entry.mapping().items()}


def _number(entry: Entry) -> float:
    """Return a finite number that is not negative."""
    value = entry.value
    if isinstance(value, str):  # YAML 1.1 reads 34e-6 as text
        try:
            value = float(value)
        except ValueError:
            raise entry.fail(f"{entry.value!r} is not a number", "write for example 34.0e-6") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise entry.fail("expected a number", "write for example 0.7")
    if not math.isfinite(value) or value < 0:
        raise entry.fail(f"{value} is not a usable number", "give a finite number, zero or more")
    return float(value)


def _key(error: SpecError) -> str | None:
    return error.where.key if error.where else None
