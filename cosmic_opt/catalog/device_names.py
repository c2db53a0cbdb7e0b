"""Names of devices as people, drivers and frameworks spell them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cosmic_opt.catalog.amounts import positive
from cosmic_opt.catalog.store import data_root, read_document, shared_names
from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.units import MAX_CHARACTERS, Unit

GB = 10**9
MEMORY_TOLERANCE = 0.08
"""How far a memory in a name may lie from a device's: GB for GiB is 7.4 %, "192 GB" of a B200 that leaves 180 6.7 %."""
NOISE = frozenset(
    (
        *("nvidia", "amd", "instinct", "intel", "habana", "google", "cloud", "aws", "amazon", "tesla", "dgx", "hgx"),
        *("tensor", "core", "gpu", "ai", "accelerator", "hpu", "chip", "oam", "mcm", "ac", "mba", "vf", "shared"),
        *("hbm", "hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6"),
    )
)
"""Words of a name that tell no device from another: vendors, brands, forms of delivery, kinds of memory."""
_MEMORY = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s*(?:gib|gb|g)(?![a-z0-9])")
_BARE = re.compile(r"(?<=[\s_-])(?<!litepod-)(?<!v5e-)(?<!v6e-)\d{2,3}(?![^\s_-])")
"""A memory without a unit, exactly a device's: a word after the first one, which may count boards ("40 A100")."""
_NUMBER = r"([1-9]\d{0,5})"
_COUNTS = re.compile(
    "|".join(
        (
            rf"(?:^|(?<=[\s_(])){_NUMBER}\s*[x×*][\s_-]*(?=[a-z])",  # 8x H100, gpu_8x_h100
            rf"(?:^|(?<=[\s_(])){_NUMBER}\s+(?=[a-z]+\d+s(?![a-z0-9]))",  # 8 H100s
            rf"(?:^|(?<=[\s_-]))\(?{_NUMBER}[\s_-]*gpus?\)?(?![a-z0-9])",  # HGX H100 8-GPU, DGX H100 (8 GPUs)
            rf"(?:[\s(_-]+[x×*]\s*|\s*[×*]\s*|(?<=[a-z0-9])(?<!mi\d\d\d)x){_NUMBER}\)?\s*$",  # H100 x 8, MI300Xx8
            rf"\s*:\s*{_NUMBER}\s*$",  # H100:8
            rf"(?:(?<=litepod)|(?<=v5e)|(?<=v6e))-{_NUMBER}\s*$",  # a slice of a TPU whose name counts chips
        )
    ),
    re.IGNORECASE,
)
"""A number of boards. "MI250X8" has none, since the MI250X is a board of its own."""
_PLURAL = re.compile(r"(?<=\d)s(?![A-Za-z0-9])")
_POWER = re.compile(r"\d+w")
_KIND = re.compile(r"(?<![a-z0-9])hbm\d[ex]?(?![a-z0-9])")


@dataclass(frozen=True, slots=True)
class Described:
    """What a name says: its words without `NOISE`, a memory in GB where it gives one, and kinds of memory."""

    words: tuple[str, ...]
    memory_gb: float | None
    kinds: frozenset[str] = frozenset()

    @property
    def stem(self) -> str:
        """The words in one, whatever the generation of the socket: SXM4, SXM5 and SXM are one.

        A name or alias that is spelled out comes first: A100-SXM is the device a100-sxm, A100-SXM4 the 80 GB board.
        """
        return re.sub(r"sxm\d", "sxm", "".join(self.words))

    @property
    def board(self) -> str:
        """The stem without a power limit, which drivers do not name: what they call an H100 of 96 GB and 500 W."""
        return Described(tuple(word for word in self.words if not _POWER.fullmatch(word)), None).stem


@dataclass(frozen=True, slots=True)
class _Spelling:
    """A name or alias of a shipped device, what it says, and the memory of the device."""

    spelled: str
    said: Described
    device: str
    memory_gb: float


def plain_name(name: str) -> str:
    """Return a spelling reduced to lower-case letters and digits."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def describe(name: str) -> Described:
    """Return what a name says: `describe("NVIDIA A100-SXM4-40GB")` has the words a100, sxm4 and 40 GB.

    Of two different memories neither is meant: they stay words, and the name is no device's.
    """
    text = name.lower()
    sizes, kinds = {float(each) for each in _MEMORY.findall(text)}, frozenset(_KIND.findall(text))
    if len(sizes) != 1:
        return Described(_words(text), None, kinds)
    return Described(_words(_MEMORY.sub(" ", text)), sizes.pop(), kinds)


def _words(name: str) -> tuple[str, ...]:
    return tuple(word for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in NOISE)


@cache
def device_aliases() -> Mapping[str, str]:
    """Return the device of every known spelling, the spelling reduced to lower-case letters and digits."""
    return {plain_name(each.spelled): each.device for each in _spellings()}


@cache
def _spellings() -> tuple[_Spelling, ...]:
    """Return every name and alias of a shipped device with kernel constants."""
    found = []
    for device in shared_names("devices"):
        fields = read_document(shipped_file(device), "device").mapping()
        if "kernels" not in fields:
            continue
        memory_gb = positive(fields["memory_capacity"], Unit.BYTES) / GB
        aliases = [entry.text() for entry in (fields["aliases"].items() if "aliases" in fields else [])]
        found += [_Spelling(spelled, describe(spelled), device, memory_gb) for spelled in (device, *aliases)]
    return tuple(found)


def shipped_file(device: str) -> Path:
    """Return the file of a shipped device."""
    return data_root() / "instances" / "_devices" / f"{device}.yaml"


def device_named(name: str, *, where: Where | None = None) -> str:
    """Return the shipped device a name means, as a person, `nvidia-smi`, `rocm-smi` or PyTorch spells it.

    Case and separators do not matter, nor do vendors, brands, kinds of memory and a number of boards ("8x H100"); of
    boards that differ in memory only, the memory chooses, with a unit or without.

    Raises:
        SpecError: no such device; the boards of its family are named, or the nearest names.
    """
    one, _ = boards_named(name)
    device = _device(one)
    if device is not None:
        return device
    short = name[:MAX_CHARACTERS]
    shown, board = repr(name) if name == short else f"{short!r}…", _one_board(short)[0]
    raise SpecError(f"unknown device {shown}", where=where, hint=_hint(board, describe(board)))


def boards_named(name: str) -> tuple[str, int | None]:
    """Return the name of one board, and how many of it a name counts: ("H100", 8) of "8x H100".

    A name that counts none, or is no device's without its number, is returned as it is, with None.
    """
    if len(name) > MAX_CHARACTERS or _device(name) is not None:
        return name, None
    one, count = _one_board(name)
    boards = (each for each in (one, _PLURAL.sub("", one)) if _device(each) is not None)
    board = next(boards, None)
    return (name, None) if board is None else (board, count)


def _one_board(name: str) -> tuple[str, int | None]:
    """Return the name without its number of boards, if it has one, and that number."""
    counts = list(_COUNTS.finditer(name))
    if len(counts) != 1:
        return name, None
    (found,) = counts
    number = next(group for group in found.groups() if group is not None)
    return f"{name[: found.start()]} {name[found.end() :]}".strip(), int(number)


def _device(name: str) -> str | None:
    """Return the device a name of one board means: as it is spelled, else by its words and memory; None: no one."""
    aliases = device_aliases()
    if plain_name(name) in aliases:
        return aliases[plain_name(name)]
    if len(name) > MAX_CHARACTERS:
        return None
    known = aliases.get("".join(_words(name)))
    if known is not None and _has_memory_of(known, describe(name).kinds):
        return known
    found = (_described(said, tolerance) for said, tolerance in _readings(name))
    return next((device for device in found if device is not None), None)


def _readings(name: str) -> Iterator[tuple[Described, float]]:
    """Yield what a name may say, and how far its memory may be off: with a unit, else a lone number exactly."""
    yield describe(name), MEMORY_TOLERANCE
    numbers = _BARE.findall(name)
    if len(numbers) == 1 and not _MEMORY.search(name.lower()):
        yield replace(describe(_BARE.sub(" ", name)), memory_gb=float(numbers[0])), 0.0


def _described(said: Described, tolerance: float) -> str | None:
    """Return the one device of these words and, within a tolerance, this memory; None: no one, or several."""
    for chosen in _choices(_alike(said), said, tolerance):
        if len(chosen) == 1:
            return chosen.pop()
    return None


def _alike(said: Described) -> list[_Spelling]:
    """Return the spellings of the same words whose devices have no other kind of memory."""
    same = [each for each in _spellings() if said.words and said.stem in (each.said.stem, each.said.board)]
    return [each for each in same if _has_memory_of(each.device, said.kinds)]


def _choices(alike: list[_Spelling], said: Described, tolerance: float) -> list[set[str]]:
    """Return sets of devices that a stem means, the surest first; one of one device decides."""
    if said.memory_gb is None:
        plain = {each.device for each in alike if each.said.memory_gb is None}
        return [plain, {each.device for each in alike}]
    named = [each for each in alike if _close(said.memory_gb, each.said.memory_gb, tolerance)]
    exactly = {each.device for each in named if (each.said.stem, each.said.kinds) == (said.stem, said.kinds)}
    close = {each.device for each in alike if _close(said.memory_gb, each.memory_gb, tolerance)}
    return [exactly, {each.device for each in named}, close]


@cache
def _memory_kinds() -> Mapping[str, frozenset[str]]:
    """Return the kinds of memory that the spellings of a device name, of those that are told apart by it."""
    kinds: dict[str, frozenset[str]] = {}
    for each in _spellings():
        kinds[each.device] = kinds.get(each.device, frozenset()) | each.said.kinds
    return {device: known for device, known in kinds.items() if known}


def _has_memory_of(device: str, kinds: frozenset[str]) -> bool:
    known = _memory_kinds().get(device, kinds)
    return not kinds or bool(known & kinds)


def boards_left_open(name: str) -> tuple[str, ...]:
    """Return the devices that a name may mean: the one it is taken for, then others of another memory or power.

    Empty where the name leaves nothing open: almost everywhere.
    """
    one, _ = boards_named(name)
    taken = _device(one)
    if taken is None or taken not in _memory_kinds():
        return ()
    for said, tolerance in _readings(one):
        if said.kinds or said.memory_gb is None:
            continue
        named = (each for each in _alike(said) if _close(said.memory_gb, each.said.memory_gb, tolerance))
        others = {each.device for each in named if each.device in _memory_kinds()} - {taken}
        if others:
            return (taken, *sorted(others))
    return ()


def _close(memory_gb: float, other_gb: float | None, tolerance: float) -> bool:
    return other_gb is not None and abs(memory_gb / other_gb - 1) <= tolerance


def _hint(name: str, said: Described) -> str | None:
    """Return the boards of the same family, where a word of the name tells it, or the nearest spellings."""
    family = {each.device: each.memory_gb for each in _spellings() if said.words[:1] == each.said.words[:1]}
    if family:
        boards = ", ".join(f"{device} ({memory_gb:g} GB)" for device, memory_gb in sorted(family.items()))
        return f"this board is not modelled; of its family: {boards}; or give a file that refines one"
    return nearest(name, [*shared_names("devices"), *(each.spelled for each in _spellings())])
