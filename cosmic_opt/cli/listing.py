"""`list`: what is shipped."""

from __future__ import annotations

import typer

from cosmic_opt.catalog.instance_file import load_instance
from cosmic_opt.catalog.store import (
    SHARED,
    data_root,
    display,
    instance_names,
    model_names,
    model_path,
    read_text,
    shared_names,
)
from cosmic_opt.cli.exits import DONE
from cosmic_opt.cli.options import Command, Json, Quiet
from cosmic_opt.cli.output import Output
from cosmic_opt.errors import Where
from cosmic_opt.psa.model_file import ModelSpec, read_model
from cosmic_opt.reporting.numbers import exact, table


def list_shipped(as_json: Json = False, quiet: Quiet = False) -> int:
    """List the instances, models and shared parts that are shipped."""
    instances = [_instance(name) for name in instance_names()]
    models = [{"name": model.name, "why": model.why} for model in map(load_model, model_names())]
    parts = {kind.removeprefix("_"): shared_names(kind.removeprefix("_")) for kind in SHARED}
    keys = {"instances": instances, "models": models, **parts}
    Output(as_json, quiet).result("list", keys, _text(instances, models, parts))
    return DONE


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command("list", cls=Command)(list_shipped)


def load_model(name: str) -> ModelSpec:
    """Return a shipped model."""
    path = model_path(name, data_root(), Where("NAME"))
    return read_model(read_text(path), display(path))


def _instance(name: str) -> dict[str, str | int]:
    spec = load_instance(name)
    return {
        "name": name,
        "why": spec.why,
        "model": spec.model.name,
        "workload": str(spec.workload["name"]),
        "system": spec.system.name,
        "npus": spec.npus,
    }


def _text(instances: list[dict[str, str | int]], models: list[dict[str, str]], parts: dict[str, list[str]]) -> str:
    rows = [(str(i["name"]), str(i["model"]), exact(int(i["npus"])), str(i["why"])) for i in instances]
    shown = table(("instance", "model", "NPUs", "what it is"), rows, right=(2,), indent=0)
    named = table(("model", "what it is"), [(model["name"], model["why"]) for model in models], indent=0)
    shared = table((), [(kind, ", ".join(names)) for kind, names in parts.items()], indent=0)
    return f"{shown}\n\n{named}\n\n{shared}"
