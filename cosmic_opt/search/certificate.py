"""Certificates: an answer with its evidence, as a file that anyone can check again (`search.verify`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from typing import Any

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.digest import problem_digest, program_digest
from cosmic_opt.catalog.edits import Edits
from cosmic_opt.catalog.instance_file import InstanceSpec
from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.document import brief
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.json_document import read_json
from cosmic_opt.search.bounding import NO_LIMIT
from cosmic_opt.search.engine_names import ENGINES, EVENTS
from cosmic_opt.search.outcome import Outcome
from cosmic_opt.search.proof import Block, Proof, Simulated
from cosmic_opt.solvers.base import SolveStatus

SCHEMA = "cosmic-opt/certificate@2"
MAX_CHARACTERS = 400_000_000
OPTION = Where("--certificate")
WRITTEN = "give a file that 'solve --certificate' wrote"


@dataclass(frozen=True)
class Certificate:
    """What was asked, the answer, and why nothing better exists.

    `instance` is the name or path the problem was loaded from, `edits` the changes to it; with equal `problem` and
    `program` digests they mean the same today. `engine` is what scored, "analytical" or "events". `value` and `bound`
    are exact integers of the objective, `ticks` and `amount` the factors of the value. Without a feasible design the
    last four and `design` are None.
    """

    instance: str
    edits: Edits
    problem: str
    program: str
    version: str
    engine: str
    objective: str
    status: SolveStatus
    feasible_designs: int
    design: Mapping[str, Value] | None
    ticks: int | None
    amount: int | None
    value: int | None
    bound: int | None
    proof: Proof | None

    def text(self) -> str:
        """Return the file's content: JSON with a digest of everything else in it."""
        keys: dict[str, object] = {"schema": SCHEMA, **asdict(self)}
        keys["status"] = self.status.value
        keys["edits"] = {name: value for name, value in asdict(self.edits).items() if value}
        if self.proof is not None:
            keys["proof"] = {**asdict(self.proof), "blocks": [list(block) for block in self.proof.blocks]}
        keys["digest"] = _digest(keys)
        return json.dumps(keys, indent=1)


def certificate_of(source: str, spec: InstanceSpec, instance: BoundInstance, outcome: Outcome) -> Certificate:
    """Return the certificate of an answer.

    Raises:
        SpecError: an agent alone found it, or a limit left designs of a calibrated instance unscored: no evidence.
    """
    if outcome.proof is None and outcome.status is not SolveStatus.INFEASIBLE:
        raise _no_evidence(instance, outcome)
    found = outcome.scores is not None
    return Certificate(
        source,
        instance.edits,
        problem_digest(spec, instance),
        program_digest(),
        version("cosmic-opt"),
        outcome.engine,
        outcome.objective.name,
        outcome.status,
        outcome.feasible_designs,
        next(outcome.design.points()) if found else None,
        int(outcome.scores.evaluation.step_ticks[0]) if outcome.scores is not None else None,
        int(outcome.scores.amounts[0]) if outcome.scores is not None else None,
        outcome.value,
        outcome.bound,
        outcome.proof,
    )


def _no_evidence(instance: BoundInstance, outcome: Outcome) -> SpecError:
    if instance.calibrated is not None:
        hint = "raise the limit until every design is scored, and run no agent alone"
        return SpecError("designs that were not scored may be better", where=OPTION, hint=hint)
    if outcome.engine == EVENTS:
        hint = "give the search more time, and run no agent alone"
        return SpecError("the analytical optimum, from which events go on, is not proved", where=OPTION, hint=hint)
    return SpecError("an agent alone proves nothing", where=OPTION, hint="leave --no-hybrid out")


def read_certificate(text: str, file: str) -> Certificate:
    """Return the certificate that a file holds.

    Raises:
        SpecError: not JSON, not a certificate, a key missing, repeated or of the wrong kind, or a digest that does not
            match.
    """
    where = Where(file)
    if len(text) > MAX_CHARACTERS:
        raise SpecError("the file is too large for a certificate", where=where, hint=WRITTEN)
    keys = read_json(text, file, hint=WRITTEN)
    if not isinstance(keys, dict) or keys.get("schema") != SCHEMA:
        raise SpecError("this is no certificate", where=where, hint=WRITTEN)
    recorded = keys.pop("digest", None)
    if recorded != _digest(keys):
        raise SpecError("the file was changed: its digest does not match", where=where, hint="solve again")
    try:
        return _certificate(keys)
    except KeyError as error:
        said = f"the key {error.args[0]!r} is missing"
    except (TypeError, ValueError) as error:
        said = str(error)
    raise SpecError(f"the certificate is malformed: {said}", where=where, hint="solve again")


def _digest(keys: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()


def _certificate(keys: Mapping[str, Any]) -> Certificate:
    """Return the certificate that decoded JSON spells; KeyError, TypeError or ValueError where it spells none."""
    _refuse_unknown(keys, Certificate, "schema")
    return Certificate(
        _text(keys["instance"]),
        _edits(_mapping(keys["edits"])),
        _text(keys["problem"]),
        _text(keys["program"]),
        _text(keys["version"]),
        _engine(keys["engine"]),
        _text(keys["objective"]),
        _status(keys["status"]),
        _whole(keys["feasible_designs"]),
        None if keys["design"] is None else _design(_mapping(keys["design"])),
        _whole_or_none(keys["ticks"]),
        _whole_or_none(keys["amount"]),
        _whole_or_none(keys["value"]),
        _whole_or_none(keys["bound"]),
        None if keys["proof"] is None else _proof(_mapping(keys["proof"])),
    )


def _refuse_unknown(keys: Mapping[str, Any], kind: type, *others: str) -> None:
    unknown = keys.keys() - {field.name for field in fields(kind)} - set(others)
    if unknown:
        raise ValueError(f"unknown keys {brief(sorted(unknown))}")


def _design(keys: Mapping[str, Any]) -> dict[str, Value]:
    return {name: value if isinstance(value, str) else _whole(value) for name, value in keys.items()}


def _proof(keys: Mapping[str, Any]) -> Proof:
    _refuse_unknown(keys, Proof)
    against = keys["against"]
    blocks = tuple(
        Block(_machine(start), _machine(regions), _whole(designs), _whole_or_none(least))
        for start, regions, designs, least in (_items(block, 4) for block in _items(keys["blocks"]))
    )
    solved = tuple(map(_machine, _items(keys["solved"])))
    if against is not None:
        ticks, amount = _items(against, 2)
        against = _machine(ticks), _machine(amount)
    simulated = keys["simulated"]
    if simulated is not None:
        limit, designs = _items(simulated, 2)
        simulated = Simulated(_whole(limit), _whole(designs))
    return Proof(against, blocks, solved, _whole(keys["nodes"]), simulated)


def _edits(keys: Mapping[str, Any]) -> Edits:
    if keys.keys() - {field.name for field in fields(Edits)}:
        raise ValueError("unknown edits")
    listed = {name: _items(keys.get(name, [])) for name in ("set", "fix", "free", "require", "without")}
    pairs = {name: tuple((_text(key), _text(text)) for key, text in _pairs(listed[name])) for name in ("set", "fix")}
    names = {name: tuple(map(_text, listed[name])) for name in ("free", "require", "without")}
    texts = {name: None if keys.get(name) is None else _text(keys[name]) for name in ("scope", "objective")}
    return Edits(**pairs, **names, **texts)  # type: ignore[arg-type]


def _items(value: Any, count: int | None = None) -> list[Any]:
    """Return a list, of so many items where that is given."""
    if not isinstance(value, list) or (count is not None and len(value) != count):
        raise TypeError(f"{brief(value)} is no list" + ("" if count is None else f" of {count}"))
    return value


def _pairs(values: list[Any]) -> list[list[Any]]:
    return [_items(value, 2) for value in values]


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{brief(value)} is no mapping")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{brief(value)} is no text")
    return value


def _status(value: Any) -> SolveStatus:
    if value not in [status.value for status in SolveStatus]:
        raise ValueError(f"{brief(value)} is no status")
    return SolveStatus(value)


def _engine(value: Any) -> str:
    if value not in ENGINES:
        raise ValueError(f"{brief(value)} is no engine")
    return _text(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{brief(value)} is no whole number")
    return value


def _machine(value: Any) -> int:
    """Return a whole number that compiled code can hold."""
    if _whole(value) > NO_LIMIT:
        raise ValueError(f"{brief(value)} is too large")
    return int(value)


def _whole_or_none(value: Any) -> int | None:
    return None if value is None else _whole(value)
