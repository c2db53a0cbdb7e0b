"""The boards a row names: how many ("8x H100" is `gpus: 8`), which of those that share a name, under which limit."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cosmic_opt.analysis.validation.kinds import Row, clip, number, text, whole
from cosmic_opt.catalog.device_names import boards_left_open, boards_named, plain_name
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError
from cosmic_opt.system.hardware import Device

BANDWIDTH_TOLERANCE = 0.15
"""How far a stated bandwidth of memory may lie from a board's; those of one name differ by about twice that."""
TELLING = ("memory_type", "memory_bandwidth_bytes_per_s", "power_w")
"""Fields that tell boards of one name apart; elsewhere they must agree with the board, or limit its power."""
_KIND = re.compile(r"(?:hbm|gddr|lpddr|ddr)(?:\d[ex]?)?")


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
        return {**row, "gpu": agreed.pop()} if len(agreed) == 1 else row
    said = ", ".join(f"{key} {clip(row[key])}" for key in stated)
    raise SpecError(f"gpu {clip(row['gpu'])} with {said} is none of {_shown(boards)}", hint="correct these fields")


def board_of(row: Row) -> Device:
    """Return the device of a row as its fields state it: `as_stated` of the one its name means.

    Raises:
        SpecError: an unknown device, or one that its fields contradict.
    """
    return as_stated(load_device(text(row, "gpu")), row)


def as_stated(device: Device, row: Row) -> Device:
    """Return the board under the power limit a row states, checked against the memory it states.

    Raises:
        SpecError: the memory is another board's, or the board has no such limit.
    """
    boards = {device.name: device}
    for key in TELLING[:2]:
        if row.get(key) is not None and not _agreeing(boards, row, key):
            said = f"gpu {clip(row.get('gpu', device.name))} with {key} {clip(row[key])}"
            raise SpecError(f"{said} is not {_shown(boards)}", hint="correct this field, or name the board")
    if row.get("power_w") is None:
        return device
    stated_w = number(row, "power_w")
    return device.limited_to(stated_w) if device.power_w else device


def limit_notes(row: Row, own: Device | None = None) -> list[str]:
    """Return under which power limit a row's board is read, where it is not its own."""
    own = load_device(text(row, "gpu")) if own is None else own
    stated = as_stated(own, row)
    if row.get("power_w") is not None and not own.power_w:
        return [f"the limit of {own.name} is not known: power_w is not used"]
    return [] if stated is own else [f"at {stated.power_w:g} W, where no row was measured"]


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
    """Return the boards that have what a field says: memory, its bandwidth, or a limit they have or may be set to."""
    if key == "memory_type":
        kind = _kind(text(row, key))
        return {name for name, device in boards.items() if _may_be(device.memory_type, kind)}
    stated = number(row, key)
    if key == "power_w":
        own = {name for name, device in boards.items() if device.power_w == stated}
        return own or {name for name, device in boards.items() if device.power_w > stated}
    rates = {name: device.memory_bytes_per_s for name, device in boards.items()}
    return {name for name, rate in rates.items() if abs(stated / rate - 1) <= BANDWIDTH_TOLERANCE}


def _kind(spelled: str) -> str | None:
    """Return a kind of memory in lower case, "hbm3e" of "HBM3e 141 GB"; None: this is none."""
    found = _KIND.match(plain_name(spelled))
    return None if found is None else found[0]


def _may_be(known: str | None, kind: str | None) -> bool:
    """Tell whether a kind may be a device's; "HBM" may be any of them, as all may where the device's is not known."""
    return kind is not None and (known is None or kind in (plain_name(known), plain_name(known).rstrip("0123456789ex")))


def _shown(boards: Mapping[str, Device]) -> str:
    shown = []
    for name, device in boards.items():
        memory = " ".join(filter(None, (f"{device.memory_bytes_per_s / 1e12:.3g} TB/s", device.memory_type)))
        shown.append(f"{name} ({memory}, {device.power_w:g} W)")
    return " and ".join(shown)
