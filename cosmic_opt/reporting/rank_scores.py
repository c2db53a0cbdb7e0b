"""A step of every rank as text and keys: what slow ranks cost, and who waits for whom."""

from __future__ import annotations

import numpy as np

from cosmic_opt.reporting.numbers import percent, table
from cosmic_opt.search.every_rank import AXES, RankReport
from cosmic_opt.simulation.events.rank_step import WAITS
from cosmic_opt.units import TICKS_PER_SECOND, show_seconds

SHOWN = 3
"""Ranks that wait longest, and least, of those named."""
_SLOW = 8
"""Slow ranks named in the text."""
_WORDS = {
    "tensor": "tensor-parallel communication",
    "context": "sequence-parallel communication",
    "data": "weights and gradients",
    "pipeline": "messages from other stages",
    "step": "gradients of all ranks",
}


def rank_keys(report: RankReport) -> dict[str, object]:
    """Return the step of every rank, ready for JSON."""
    step, equal = report.step.step_ticks, report.equal_ticks
    longest, least = _ranked(report)
    waits = report.step.waits
    return {
        "ranks": report.ranks,
        "slow": [
            {"rank": rank, **report.place(rank), "factor": float(factor)} for rank, factor in report.slowdown.items()
        ],
        "step_time_s": step / TICKS_PER_SECOND,
        "equal_step_time_s": equal / TICKS_PER_SECOND,
        "cost_s": (step - equal) / TICKS_PER_SECOND,
        "equals_folded": step == equal,
        "waits": {
            f"{group}_s": {
                "mean": float(waits[:, place].mean()) / TICKS_PER_SECOND,
                "longest": int(waits[:, place].max()) / TICKS_PER_SECOND,
                "rank": int(waits[:, place].argmax()),
            }
            for place, group in enumerate(WAITS)
        },
        "wait_longest": [_rank_keys(report, rank) for rank in longest],
        "wait_least": [_rank_keys(report, rank) for rank in least],
        "events": report.step.events,
    }


def rank_text(report: RankReport) -> str:
    """Return what the ranks do beside the score of the step."""
    waits = report.step.waits
    longest, least = _ranked(report)
    groups = [
        (
            _WORDS[group],
            _seconds(float(waits[:, place].mean())),
            _seconds(int(waits[:, place].max())),
            str(int(waits[:, place].argmax())),
        )
        for place, group in enumerate(WAITS)
        if waits[:, place].any()
    ]
    ranks = [_rank_row(report, rank) for rank in dict.fromkeys((*longest, *reversed(least)))]
    parts = [f"  every rank by itself, {report.ranks:,} of them\n{_cost_text(report)}"]
    if groups:
        parts.append(table(("compute waits for", "mean", "longest", "rank"), groups, right=(1, 2, 3)))
    parts.append(table(("longest and least", *AXES, "waits", "mostly for"), ranks, right=(0, 1, 2, 3, 4, 5)))
    return "\n\n".join(parts)


def _cost_text(report: RankReport) -> str:
    step, equal = report.step.step_ticks, report.equal_ticks
    if not report.slowdown:
        return f"  no rank is slow: the step is the folded one to the tick, {_seconds(step)}"
    named = [f"{rank} ({float(factor):g} times as long)" for rank, factor in list(report.slowdown.items())[:_SLOW]]
    more = f", {len(report.slowdown) - _SLOW} more" if len(report.slowdown) > _SLOW else ""
    change = step - equal
    cost = f"{_seconds(abs(change))} ({percent(abs(change) / equal)}) {'longer' if change >= 0 else 'shorter'}"
    return (
        f"  slow compute: rank {', '.join(named)}{more}\n"
        f"  step {_seconds(step)}, without slow ranks {_seconds(equal)}: {cost}"
    )


def _ranked(report: RankReport) -> tuple[list[int], list[int]]:
    """Return the ranks that wait longest and least, of equal ones those of the least numbers."""
    total = report.step.waits.sum(axis=1)
    return np.argsort(-total, kind="stable")[:SHOWN].tolist(), np.argsort(total, kind="stable")[:SHOWN].tolist()


def _rank_keys(report: RankReport, rank: int) -> dict[str, object]:
    waits = report.step.waits[rank]
    groups = {f"{group}_s": int(ticks) / TICKS_PER_SECOND for group, ticks in zip(WAITS, waits, strict=True)}
    return {"rank": rank, **report.place(rank), "wait_s": int(waits.sum()) / TICKS_PER_SECOND, **groups}


def _rank_row(report: RankReport, rank: int) -> tuple[str, ...]:
    waits = report.step.waits[rank]
    mostly = _WORDS[WAITS[int(waits.argmax())]] if waits.any() else "nothing"
    return (str(rank), *map(str, report.place(rank).values()), _seconds(int(waits.sum())), mostly)


def _seconds(ticks: float) -> str:
    return show_seconds(ticks / TICKS_PER_SECOND)
