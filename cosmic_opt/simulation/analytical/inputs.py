"""From named columns and constants to the kernel's input rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.quantity import Values
from cosmic_opt.simulation.analytical.layout import CATEGORIES, EXPLICIT, MAX_DIMENSIONS, Option, Scalar
from cosmic_opt.workloads.placement import GROUPS, ORDERS
from cosmic_opt.workloads.training import TrainingJob

IntArray = NDArray[np.int64]

SCALARS = tuple(scalar.name.lower() for scalar in Scalar if scalar is not Scalar.COUNT)
OPTIONS = tuple(option.name.lower() for option in Option if option is not Option.COUNT)

IN_NETWORK = "in_network_reduction"
"""The flag that says whether the system's switches add and copy messages."""

DEFAULTS: dict[str, int | str] = {
    "dp": 1,
    "tp": 1,
    "pp": 1,
    "sp": 1,
    "chunks": 1,
    "multidim": "blueconnect",
    "overlap_gradients": 1,
    "overlap_weights": 1,
    "causal_half": 0,
    "order": ORDERS[0],
    IN_NETWORK: 0,
}
"""What holds where neither a column nor a constant says otherwise; the job's own defaults come from its class."""

WEIGHT_SHARDED_STAGE = 3
"""COSMIC's weight_sharded 1 is ZeRO stage 3, 0 is stage 0."""


@dataclass(frozen=True, slots=True)
class InputColumns:
    """Where each name goes in an input row, and what every other place holds.

    Attributes:
        base: int64 [width], the constants (and anything in the places of columns).
        places: Column name to its place.
        categories: Column name to its category, for columns of text.
        scale: Column name to a factor (weight_sharded counts three ZeRO stages).
        dimensions: Network dimensions.
        explicit: Whether a row gives its extents.
    """

    base: IntArray
    places: Mapping[str, int]
    categories: Mapping[str, str]
    scale: Mapping[str, int]
    dimensions: int
    explicit: bool

    @property
    def structural(self) -> int:
        """The width of the part of a row before the options."""
        return len(self.base) - self.dimensions * Option.COUNT

    def fill(self, columns: Mapping[str, Values], start: int, stop: int, rows: IntArray) -> None:
        """Write rows start..stop of `columns` into `rows` [stop - start, width].

        A category may be given as text, or as integer codes in the order of `layout.CATEGORIES`.
        """
        width = rows.shape[1]
        rows[:] = self.base[:width]
        for name, place in self.places.items():
            if place < width:
                values = columns[name][start:stop]
                coded = _codes(self.categories[name], values) if values.dtype.kind in "UO" else values
                rows[:, place] = coded * self.scale[name] if name in self.scale else coded

    def length(self, columns: Mapping[str, Values], names: Sequence[str]) -> int:
        """Return the number of rows of the columns called `names`.

        Raises:
            SpecError: one is missing, or they differ in length, or hold no whole numbers.
        """
        lengths = set()
        for name in names:
            if name not in columns:
                raise SpecError(f"column {name!r} is missing", where=Where(key=name), hint=nearest(name, columns))
            allowed = "iubUO" if name in self.categories else "iub"
            if columns[name].dtype.kind not in allowed:
                raise SpecError(f"{name} must be whole numbers", where=Where(key=name), hint="give base units")
            lengths.add(len(columns[name]))
        if len(lengths) > 1:
            raise SpecError("columns differ in length", hint=f"lengths: {sorted(lengths)}")
        return lengths.pop() if lengths else 1


def bind_columns(
    job: TrainingJob,
    constants: Mapping[str, int | str],
    columns: Sequence[str],
    dimensions: int,
) -> InputColumns:
    """Decide for every place of an input row whether a column or a constant fills it.

    Raises:
        SpecError: a place has neither, a category is unknown, or both ways of naming sharding are used.
    """
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise SpecError(f"{dimensions} network dimensions", hint=f"1 to {MAX_DIMENSIONS} are simulated")
    if "weight_sharded" in columns and "zero_stage" in columns:
        raise SpecError("weight_sharded and zero_stage both vary", hint="weight_sharded 1 is zero_stage 3: keep one")
    known: dict[str, int | str] = {**DEFAULTS, **{name: getattr(job, name) for name in SCALARS if hasattr(job, name)}}
    known.update(constants)
    explicit = any(name in columns or name in constants for name in extent_names(dimensions))
    if explicit and "order" in columns:
        raise SpecError("order and extents both vary", hint="extents already say where groups lie: keep one")
    base, places, categories = [], {}, {}
    for place, name in enumerate(input_names(dimensions, explicit=explicit)):
        base.append(0)
        category = name.split("[")[0]
        if name in columns:
            places[name] = place
        elif name == "zero_stage" and "weight_sharded" in columns:
            places["weight_sharded"] = place
        else:
            base[-1] = _constant(name, known)
        if category in CATEGORIES:
            categories[name] = category
    if explicit:
        base[Scalar.ORDER] = EXPLICIT
    scale = {"weight_sharded": WEIGHT_SHARDED_STAGE}
    return InputColumns(np.array(base, dtype=np.int64), places, categories, scale, dimensions, explicit)


def input_names(dimensions: int, *, explicit: bool = False) -> tuple[str, ...]:
    """Return the names of an input row in order: scalars, NPUs and options per dimension; extents before options."""
    npus = [f"npus_per_dim[{dim}]" for dim in range(dimensions)]
    options = [f"{option}[{dim}]" for dim in range(dimensions) for option in OPTIONS]
    return (*SCALARS, *npus, *(extent_names(dimensions) if explicit else ()), *options)


def extent_names(dimensions: int) -> tuple[str, ...]:
    """Return the names of the extents, a group's dimensions side by side."""
    return tuple(f"extent[{group},{dim}]" for group in GROUPS for dim in range(dimensions))


def category_code(category: str, value: str) -> int:
    """Return the kernel's code of a category's value, or raise a SpecError that names the nearest."""
    names = CATEGORIES[category]
    if value not in names:
        raise SpecError(f"unknown {category} {value!r}", where=Where(key=category), hint=nearest(value, names))
    return names.index(value)


def _constant(name: str, known: Mapping[str, int | str]) -> int:
    if name not in known:
        raise SpecError(f"{name} is neither a column nor given", where=Where(key=name), hint=f"give {name}")
    value = known[name]
    category = name.split("[")[0]
    if isinstance(value, str):
        if category not in CATEGORIES:
            raise SpecError(f"{name} is {value!r}, a whole number is meant", where=Where(key=name), hint="base units")
        return category_code(category, value)
    return int(value)


def _codes(category: str, values: Values) -> IntArray:
    codes = np.full(len(values), -1, dtype=np.int64)
    for code, name in enumerate(CATEGORIES[category]):
        codes[values == name] = code
    if len(codes) and codes.min() < 0:
        category_code(category, str(values[int(codes.argmin())]))
    return codes
