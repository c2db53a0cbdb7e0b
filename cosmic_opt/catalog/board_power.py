"""The power of a device's board: `power` of its file, else of that of the device its kernels refine or are like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cosmic_opt.catalog.store import data_root, read_document, shared_names
from cosmic_opt.errors import nearest
from cosmic_opt.psa.document import Entry
from cosmic_opt.units import Unit, show

POWER = "power"
UNKNOWN = "none"
FORMER = "power_w"
"""What kernels once called it, in watts."""
MOST_WATTS = 10**6
LINKS = ("refines", "like")
"""A section may refine that of a shipped file of the same device, or be like another device's."""
MOST_LINKS = 4


def board_power(root: Entry) -> int | None:
    """Return the watts of the board of a device file; None where no file gives them, or the nearest says `none`.

    Raises:
        SpecError: no positive power of at most 1 MW, or a link to no shipped device.
    """
    found = (fields[POWER] for fields in linked_files(root, "kernels") if POWER in fields)
    return next((watts(entry) for entry in found), None)


def watts(entry: Entry) -> int | None:
    """Return a power in watts, None where it says `none`."""
    if entry.value == UNKNOWN:
        return None
    value = entry.quantity(Unit.POWER)
    if not 0 < value <= MOST_WATTS:
        allowed = f"allowed: above 0, up to {show(MOST_WATTS, Unit.POWER)}; write {UNKNOWN} where it is not published"
        raise entry.fail(f"{entry.value!r} is no power of a board", allowed)
    return value


def linked_files(root: Entry, section: str) -> Iterator[Mapping[str, Entry]]:
    """Yield the keys of a device file, then of each file its section refers to, nearest first.

    Raises:
        SpecError: a link to no shipped device, or to one without the section, or too many.
    """
    fields, followed = root.mapping(), 0
    while True:
        here = fields[section].mapping() if section in fields else {}
        if FORMER in here:
            raise here[FORMER].fail(f"unknown key {FORMER!r}", f"give the board's power at the top: '{POWER}: 700 W'")
        yield fields
        link = next((here[key] for key in LINKS if key in here), None)
        if link is None:
            return
        name, followed = link.text(), followed + 1
        if name not in shared_names("devices") or followed > MOST_LINKS:
            raise link.fail(f"no device {name!r} to refer to", nearest(name, shared_names("devices")))
        fields = read_document(data_root() / "instances" / "_devices" / f"{name}.yaml", "device").mapping()
        if section not in fields:
            raise link.fail(f"{name!r} has no {section!r} section", "name a device that has one")
