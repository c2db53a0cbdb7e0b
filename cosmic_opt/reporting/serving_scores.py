"""The score of one served design: how long users wait, how many there may be, where a token's time goes."""

from __future__ import annotations

from collections.abc import Mapping

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.served import Serving
from cosmic_opt.reporting.numbers import percent, rate, shares, table
from cosmic_opt.reporting.system_scores import system_text
from cosmic_opt.search.report import Report
from cosmic_opt.system.hardware import Origin
from cosmic_opt.units import Unit, show, show_seconds
from cosmic_opt.workloads.serving_quantities import ServingMemory

PARTS = ("weights", "kv_cache", "workspace")


def memory_keys(pools: Mapping[str, ServingMemory]) -> dict[str, object]:
    """Return the bytes of one NPU, part by part; one object for each pool where there are two."""
    found = {
        pool: {f"{part}_bytes": _bytes(memory, part) for part in (*PARTS, "room")} for pool, memory in pools.items()
    }
    return dict(found.get("", found))


def serving_text(report: Report, pools: Mapping[str, ServingMemory], instance: BoundInstance) -> str:
    """Return the score on one screen, without the design itself."""
    parts = [_rates(report), _certainty(report, instance), _breakdown(report)]
    parts += [_memory(pool, memory, instance) for pool, memory in pools.items()]
    return "\n\n".join(filter(None, [*parts, system_text(report, "an output token")]))


def serving_warnings(pools: Mapping[str, ServingMemory]) -> list[str]:
    """Return what a person must know before trusting the design."""
    return [
        f"a full batch{f' of the {pool} pool' if pool else ''} needs {show(_bytes(memory, 'kv_cache'), Unit.BYTES)} of "
        f"cache where the engine leaves {show(max(_bytes(memory, 'room'), 0), Unit.BYTES)}: it admits fewer sequences"
        for pool, memory in pools.items()
        if _bytes(memory, "kv_cache") > _bytes(memory, "room")
    ]


def _bytes(memory: ServingMemory, part: str) -> int:
    return int(getattr(memory, f"{part}_bytes")[0])


def _rates(report: Report) -> str:
    metrics = report.metrics
    token = float(metrics["output_token_time_s"] or 0)
    rows = [
        ("first token", show_seconds(float(metrics["first_token_time_s"] or 0)), "after a request is admitted"),
        ("next tokens", show_seconds(token), f"each: {rate(1 / token)} tokens/s of one answer"),
        (
            "throughput",
            f"{rate(metrics['throughput_tokens_per_s'])} tokens/s",
            f"{rate(metrics['throughput_tokens_per_s_per_npu'])} per NPU, "
            f"{rate(metrics['requests_per_s'])} requests/s, on {metrics['npus_used']} NPUs",
        ),
        ("users", f"{metrics['users']}", "requests under way at once"),
        ("one batch", show_seconds(float(metrics["batch_time_s"] or 0)), "until its last answer, where it comes alone"),
    ]
    return table((), rows)


def _certainty(report: Report, instance: BoundInstance) -> str:
    """Return how sure the time between tokens is, and what decides it that nobody states."""
    assert report.prediction is not None, "a server is calibrated"
    low, high = (show_seconds(seconds) for seconds in report.prediction.interval)
    assert isinstance(instance.calibrated, Serving), "the caller has a server"
    data, engine = instance.data, instance.calibrated.engine
    releases = f" (releases: {engine.releases})" if engine.releases else ""
    lines = [
        f"  measured times between tokens lie between {low} and {high} nine times in ten ({report.prediction.group})",
        f"  engine {data['engine']}{releases}, precision {data['precision']}; the hidden input that moves it most: "
        f"{report.prediction.hidden_input}",
        *origin_lines(report.prediction.origin),
        *(f"  extrapolates: {each}" for each in report.prediction.extrapolates),
    ]
    return "\n".join(lines)


def origin_lines(origin: Origin | None) -> list[str]:
    """Return what a calibrated device was fitted to, and that nobody measured how far off it is now."""
    if origin is None:
        return []
    known = {"row": origin.rows, "step": origin.steps}
    fitted = " and ".join(f"{number:,} measured {what}{'s'[: number != 1]}" for what, number in known.items() if number)
    return [f"  device {origin.device}, calibrated on {fitted}; the interval is still that of {origin.device}"]


def _breakdown(report: Report) -> str:
    token, first = report.terms_s, report.first_token_s
    names = [name for name in {**token, **first} if token.get(name, 0) > 0 or first.get(name, 0) > 0]
    own = [[times.get(name, 0.0) for name in names] for times in (token, first)]
    cells = [[show_seconds(seconds) if seconds else "" for seconds in times] for times in own]
    parts = [[share if seconds else "" for share, seconds in zip(shares(times), times, strict=True)] for times in own]
    sums = [show_seconds(sum(times)) for times in own]
    rows = list(zip(names, cells[0], parts[0], cells[1], parts[1], strict=True))
    rows.append(("together", sums[0], "100.0 %", sums[1], "100.0 %"))
    header = ("where the time goes", "next token", "share", "first token", "share")
    return f"{table(header, rows, right=(1, 2, 3, 4))}\n  bottleneck of the next token: {report.bottleneck}"


def _memory(pool: str, memory: ServingMemory, instance: BoundInstance) -> str:
    capacity, room = int(instance.data["memory_capacity"]), _bytes(memory, "room")
    rows = [(part.replace("kv_", "kv "), show(_bytes(memory, part), Unit.BYTES), "") for part in PARTS]
    cache = _bytes(memory, "kv_cache")
    rows[1] = (
        rows[1][0],
        rows[1][1],
        f"{percent(cache / room)} of the room for it, {show(room, Unit.BYTES)}" if room > 0 else "no room",
    )
    total = int(memory.total_bytes[0])
    rows.append(("total", show(total, Unit.BYTES), f"{percent(total / capacity)} of {show(capacity, Unit.BYTES)}"))
    where = f"memory of one NPU, {pool} pool" if pool else "memory of one NPU"
    return table((where, "bytes", ""), rows, right=(1,))
