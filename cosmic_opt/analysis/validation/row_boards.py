"""The boards a row names: how many ("8x H100" is `gpus: 8`), and which of those that share a name."""

from __future__ import annotations

from collections.abc import Mapping

from cosmic_opt.analysis.validation.kinds import Row, clip, number, text, whole
from cosmic_opt.catalog.device_names import boards_left_open, boards_named, device_named
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError
from cosmic_opt.system.hardware import Device

BANDWIDTH_TOLERANCE = 0.15
"""How far a stated bandwidth of memory may lie from a board's; those of one name differ by more than twice that."""
TELLING = ("memory_type", "memory_bandwidth_bytes_per_s", "power_w")
"""Fields that tell boards of one name apart; elsewhere the name does."""


def stated_boards(row: Row) -> Row:
    """Return the row with one board in `gpu`, that which its fields tell, and the number beside its name in `gpus`.

    Raises:
        SpecError: the number is not that of `gpus`, or no multiple of `tp`; no board of the name has what is stated.
    """
    row = _counted(row)
    boards = _boards_of(row)
    stated = [key for key in TELLING if row.get(key) is not None]
    if not boards or not stated:
        return row
    agreed = set(boards).intersection(*(_agreeing(boards, row, key) for key in stated))
    if agreed:
        return {**row, "gpu": agreed.pop()}
    said = ", ".join(f"{key} {clip(row[key])}" for key in stated)
    raise SpecError(f"gpu {clip(row['gpu'])} with {said} is none of {_shown(boards)}", hint="correct these fields")


def open_board(row: Row) -> str | None:
    """Return which board a name is taken for that several have; None: the row leaves nothing open."""
    boards = _boards_of(row)
    if not boards:
        return None
    taken, *others = boards
    kept, rest = (_shown({name: boards[name] for name in names}) for names in ([taken], others))
    return f"{clip(row['gpu'])} is taken for {kept}, not {rest}: {' or '.join(TELLING)} would tell"


def _counted(row: Row) -> Row:
    gpu = row.get("gpu")
    one, count = boards_named(gpu) if isinstance(gpu, str) else ("", None)
    if count is None:
        return row
    hint = "leave the number out of 'gpu', or make it that of all boards of the job"
    if row.get("gpus") is not None and whole(row, "gpus") != count:
        raise SpecError(f"gpu {clip(gpu)} counts {count}, but gpus is {clip(row['gpus'])}", hint=hint)
    if row.get("tp") is not None and count % whole(row, "tp"):
        raise SpecError(f"gpu {clip(gpu)} counts {count}, but tp is {clip(row['tp'])}", hint=hint)
    return {**row, "gpu": one, "gpus": count}


def _boards_of(row: Row) -> Mapping[str, Device]:
    gpu = row.get("gpu")
    return {name: load_device(name) for name in boards_left_open(gpu)} if isinstance(gpu, str) else {}


def _agreeing(boards: Mapping[str, Device], row: Row, key: str) -> set[str]:
    """Return the boards that have what a field says: a kind of memory, a bandwidth, the least power that is enough."""
    if key == "memory_type":
        return {device_named(f"{text(row, 'gpu')} {text(row, key)}")}
    stated = number(row, key)
    if key == "power_w":
        enough = {name: device.power_w for name, device in boards.items() if device.power_w >= stated}
        return {name for name, power_w in enough.items() if power_w == min(enough.values())}
    rates = {name: device.memory_bytes_per_s for name, device in boards.items()}
    return {name for name, rate in rates.items() if abs(stated / rate - 1) <= BANDWIDTH_TOLERANCE}


def _shown(boards: Mapping[str, Device]) -> str:
    shown = [
        f"{name} ({device.memory_bytes_per_s / 1e12:.3g} TB/s, {device.power_w:g} W)" for name, device in boards.items()
    ]
    return " and ".join(shown)
