"""The instance file: what binds a model to a workload, a job and a system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cosmic_opt.catalog.calibrated_names import own_file, read_software
from cosmic_opt.catalog.job_kinds import KINDS, SOFTWARE, TRAINING, JobKind
from cosmic_opt.catalog.parts import System, read_system, read_workload
from cosmic_opt.catalog.store import display, instance_path, model_path, read_text
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.document import Entry, expect_schema, read_yaml
from cosmic_opt.psa.model_file import ModelSpec, Rule, read_model, read_rules


@dataclass(frozen=True)
class InstanceSpec:
    """An instance as written: parts loaded, numbers not yet bound.

    `data` and `design` keep their entries, since their units are known only once the model is. `workload_entry` holds
    what `workload` was read from. `software` holds `stack` or `engine`, and `precision`, where the file gives them.
    """

    name: str
    why: str
    model: ModelSpec
    workload: Mapping[str, object]
    workload_entry: Entry
    system: System
    data: Mapping[str, Entry]
    design: Mapping[str, Entry]
    scope: str | None
    rules: Mapping[str, Rule]
    objective: str
    root: Entry
    software: Mapping[str, str] = field(default_factory=dict)
    kind: JobKind = TRAINING

    @property
    def where(self) -> Where:
        """The file."""
        return self.root.where

    @property
    def npus(self) -> int:
        """NPUs of the job: a part of the system where the data say so."""
        own = self.data.get("npus")
        return self.system.npus if own is None else own.integer(low=1)


def load_instance(name: str) -> InstanceSpec:
    """Return the instance called `name` (a shipped name, or the path of a YAML file) with all its parts.

    Raises:
        SpecError: with file, line, key and a hint.
    """
    path = instance_path(name)
    return read_instance(read_text(path), path, name if not path.suffix or name != str(path) else path.stem)


def read_instance(text: str, path: Path, fallback_name: str = "instance") -> InstanceSpec:
    """Return the instance that `text`, the content of `path`, declares."""
    root = read_yaml(text, display(path))
    expect_schema(root, "instance")
    fields = root.fields(
        required=("schema", "model", "workload", "system", "job"),
        optional=("name", "why", "source", "data", "design", "scope", "constraints", "objective", *SOFTWARE),
    )
    own_model = model_path(fields["model"].text(), path, fields["model"].where)
    model = read_model(read_text(own_model), display(own_model))
    scope = fields["scope"].text() if "scope" in fields else None
    if scope is not None and scope not in model.scopes:
        raise fields["scope"].fail(f"unknown scope {scope!r}", nearest(scope, model.scopes))
    kind = _kind(fields)
    objective = fields["objective"].text() if "objective" in fields else kind.objectives[0]
    workload, workload_entry = read_workload(fields["workload"], path)
    return InstanceSpec(
        name=fields["name"].text() if "name" in fields else fallback_name,
        why=fields["why"].text() if "why" in fields else "",
        model=model,
        workload=workload,
        workload_entry=workload_entry,
        system=read_system(fields["system"], path),
        data=_data(fields),
        design=fields["design"].mapping() if "design" in fields else {},
        scope=scope,
        rules=read_rules(fields["constraints"]) if "constraints" in fields else {},
        objective=objective,
        root=root,
        software=_software(fields, kind, path),
        kind=kind,
    )


def _kind(fields: Mapping[str, Entry]) -> JobKind:
    """Return the kind of the job; training where it is not said."""
    entry = fields["job"].mapping().get("kind")
    if entry is None:
        return TRAINING
    if entry.text() not in KINDS:
        raise entry.fail(f"unknown kind of job {entry.value!r}", f"known: {', '.join(KINDS)}")
    return KINDS[entry.text()]


def _software(fields: Mapping[str, Entry], kind: JobKind, path: Path) -> dict[str, str]:
    """Return the stack or engine and the precision, checked; a user's file is found beside the instance."""
    found = {}
    for name in SOFTWARE:
        if name in fields:
            if name not in kind.software:
                raise fields[name].fail(f"{name!r} is not for {kind.name}", f"write {' and '.join(kind.software)}")
            found[name] = read_software(kind, name, own_file(fields[name].text(), path), fields[name].where)
    return found


def _data(fields: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the entries of `job:` and `data:` together; a name may stand in one of them only."""
    data: dict[str, Entry] = {}
    for section in ("job", "data"):
        for key, entry in fields[section].mapping().items() if section in fields else ():
            if key in data:
                raise SpecError(f"{key!r} is given in job and in data", where=entry.where, hint="keep one of the two")
            data[key] = entry
    data.pop("kind", None)
    return data
