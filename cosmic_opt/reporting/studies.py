"""What studies hold: on the screen, as keys, and their evaluations as a table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cosmic_opt.psa.domain import Value
from cosmic_opt.reporting.numbers import exact, table
from cosmic_opt.simulation.analytical.layout import NO_TIME
from cosmic_opt.units import TICKS_PER_SECOND

if TYPE_CHECKING:
    from cosmic_opt.search.study import StudyReport
    from cosmic_opt.search.study_identity import Identity

ROWS = 10_000
"""Evaluations read at a time."""


@dataclass(frozen=True)
class Summary:
    """What a study holds.

    Attributes:
        identity: What it is of.
        evaluations, simulations: Designs scored by closed forms (or the calibrated model), and by events.
        batches: Times that agents were told scores.
        blocks, regions, kept: Blocks of regions bounded, the regions in them, and those that bounds left open.
        solved, solved_regions: Solutions of chunks of regions, and the regions in them.
        incumbents: (evaluations so far, value) of each best design so far; values are exact integers.
        answers: How each search on it ended.
    """

    identity: Identity
    evaluations: int
    simulations: int
    batches: int
    blocks: int
    regions: int
    kept: int
    solved: int
    solved_regions: int
    incumbents: tuple[tuple[int, int], ...]
    answers: tuple[dict[str, Any], ...]


def summary_of(identity: Identity, connection: sqlite3.Connection) -> Summary:
    """Return what a study holds; regions are counted against the last incumbent that they were bounded against."""

    def one(statement: str) -> int:
        (value,) = connection.execute(statement).fetchone()
        return int(value or 0)

    last = "FROM blocks WHERE against = (SELECT against FROM blocks ORDER BY number DESC LIMIT 1)"
    return Summary(
        identity,
        one("SELECT count(*) FROM evaluations"),
        one("SELECT count(*) FROM simulations"),
        one("SELECT count(*) FROM agents"),
        one(f"SELECT count(*) {last}"),
        one(f"SELECT sum(regions) {last}"),
        one(f"SELECT sum(open) {last}"),
        one("SELECT count(*) FROM solved"),
        one("SELECT sum(closed) FROM solved"),
        tuple(
            (evaluations, int(value))
            for evaluations, value in connection.execute("SELECT evaluations, value FROM incumbents ORDER BY number")
        ),
        tuple(json.loads(keys) for (keys,) in connection.execute("SELECT keys FROM answers ORDER BY number")),
    )


def summary_keys(file: str, summary: Summary) -> dict[str, object]:
    """Return a study as in `study list --json` and `study show --json`."""
    identity = summary.identity
    best = min((value for _, value in summary.incumbents), default=None)
    return {
        "file": file,
        "instance": identity.instance,
        "objective": json.loads(identity.content)["objective"],
        "seed": int(identity.seed),
        "search": identity.search,
        "problem": identity.problem,
        "program": identity.program,
        "version": identity.version,
        "evaluations": summary.evaluations,
        "simulations": summary.simulations,
        "batches": summary.batches,
        "blocks": summary.blocks,
        "regions_bounded": summary.regions,
        "regions_left_open": summary.kept,
        "solved": summary.solved,
        "regions_solved": summary.solved_regions,
        "incumbents": [{"evaluations": number, "value": str(value)} for number, value in summary.incumbents],
        "best": None if best is None else str(best),
        "answers": list(summary.answers),
    }


def summary_text(file: str, summary: Summary) -> str:
    """Return a study on one screen."""
    identity = summary.identity
    rows = [
        ("instance", identity.instance),
        ("objective", json.loads(identity.content)["objective"]),
        ("search", f"{identity.search}, seed {identity.seed}"),
        ("problem", f"digest {identity.problem[:16]}"),
        ("program", f"version {identity.version}, digest {identity.program[:16]}"),
        ("designs scored", f"{_designs(summary.evaluations, summary.simulations)} in {exact(summary.batches)} batches"),
        (
            "regions bounded",
            f"{exact(summary.regions)} in {exact(summary.blocks)} blocks, {exact(summary.kept)} left open",
        ),
        ("regions solved", f"{exact(summary.solved_regions)} in {exact(summary.solved)} chunks"),
        ("best", _best(summary)),
        ("answer", _answer(summary)),
    ]
    return f"{file}\n\n{table((), rows)}"


def list_text(found: list[tuple[str, Summary | str]]) -> str:
    """Return the studies of a folder, one a line; a file that cannot be read says why."""
    if not found:
        return "no studies"
    rows = []
    for name, summary in found:
        if isinstance(summary, str):
            rows.append((name, summary, "", "", ""))
            continue
        identity = summary.identity
        scored = f"{_designs(summary.evaluations, summary.simulations)} scored"
        rows.append((name, identity.instance, f"{identity.search}, seed {identity.seed}", scored, _answer(summary)))
    return table(("file", "instance", "search", "designs", "answer"), rows)


def report_text(report: StudyReport) -> str:
    """Return the line of the log about a search's study."""
    found = report.recalled
    designs = _designs(report.evaluations, report.simulations)
    text = (
        f"study {report.file}: {designs} designs, {exact(report.blocks)} blocks of bounds and "
        f"{exact(report.solved)} chunks of regions recorded"
    )
    if report.resumed:
        scores = _designs(found["evaluations"], found["simulations"])
        text += (
            f"; resumed: {scores} scores, {exact(found['blocks'])} and {exact(found['solved'])} "
            "were not worked out again"
        )
    if report.taken_over is not None:
        text += f"; the lock of {report.taken_over}, which has ended, was taken over"
    return text


def _designs(closed: int, events: int) -> str:
    """Return how many designs were scored, those by events apart."""
    return f"{exact(closed)} (and {exact(events)} by events)" if events else exact(closed)


def _best(summary: Summary) -> str:
    if not summary.incumbents:
        return "-"
    number, value = min(summary.incumbents, key=lambda pair: pair[1])
    return f"{exact(value)}, after {exact(number)} evaluations; {len(summary.incumbents)} incumbents"


def _answer(summary: Summary) -> str:
    if not summary.answers:
        return "none yet"
    last = summary.answers[-1]
    return f"{last['status']} ({last['stop']})"


def evaluation_rows(
    identity: Identity, connection: sqlite3.Connection
) -> Iterator[list[dict[str, Value | float | None]]]:
    """Yield the evaluations in blocks, in the order in which they were recorded; those by events come last.

    Each has `by_events` (0 or 1), its `number` among those, every column of the design in base units, `step_time_s`
    (null where the design cannot run), and the objective's `amount` in base units.
    """
    columns = json.loads(identity.content)["columns"]
    cursor = connection.execute(
        "SELECT 0 AS by_events, number, design, ticks, amount FROM evaluations"
        " UNION ALL SELECT 1, number, design, ticks, amount FROM simulations ORDER BY by_events, number"
    )
    while block := cursor.fetchmany(ROWS):
        rows: list[dict[str, Value | float | None]] = []
        for by_events, number, design, ticks, amount in block:
            codes = np.frombuffer(design, dtype="<i4").tolist()
            values = {name: values[code] for (name, _, values), code in zip(columns, codes, strict=True)}
            step = None if ticks == NO_TIME else ticks / TICKS_PER_SECOND
            own: dict[str, Value | float | None] = {"by_events": by_events, "number": number}
            rows.append({**own, **values, "step_time_s": step, "amount": amount})
        yield rows
