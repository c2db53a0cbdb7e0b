"""The NumPy checker: which rows of codes satisfy the lowered model. It re-checks every point a solver returns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import EngineDisagreement
from cosmic_opt.ir.model import Conditional, Constraint, Linear, LoweredModel, Product, Table
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.parameter_set import ParameterSet
from cosmic_opt.psa.quantity import Values

Codes = NDArray[np.integer]
BoolArray = NDArray[np.bool_]

_SAFE = 2**62


def complete(model: LoweredModel, designs: Codes) -> tuple[NDArray[np.int32], BoolArray]:
    """Return design codes with the helper columns filled in, and which designs every definition covers."""
    codes = np.zeros((len(designs), len(model.columns)), dtype=np.int32)
    codes[:, : model.designs] = designs[:, : model.designs]
    covered = np.ones(len(designs), dtype=bool)
    for table in model.definitions:
        *inputs, output = table.columns
        keys = _row_keys(table.rows[:, :-1], inputs, model)
        order = np.argsort(keys, kind="stable")
        wanted = _row_keys(codes[:, inputs], inputs, model)
        found = np.searchsorted(keys[order], wanted)
        found = np.minimum(found, len(keys) - 1) if len(keys) else found
        hit = keys[order][found] == wanted if len(keys) else np.zeros(len(codes), dtype=bool)
        codes[hit, output] = table.rows[order, -1][found[hit]]
        covered &= hit
    return codes, covered


def satisfied(constraint: Constraint, model: LoweredModel, codes: Codes) -> BoolArray:
    """Return which rows (all columns, helpers included) satisfy one constraint."""
    match constraint:
        case Linear(columns, weights, lower, upper, _):
            return _within(_total(columns, weights, codes, product=False), lower, upper)
        case Product(columns, factors, lower, upper, _):
            return _within(_total(columns, factors, codes, product=True), lower, upper)
        case Table(columns, rows, _):
            keys = np.sort(_row_keys(rows, columns, model))
            wanted = _row_keys(codes[:, list(columns)], columns, model)
            if len(keys) == 0:
                return np.zeros(len(codes), dtype=bool)
            return np.asarray(keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted)
        case Conditional(column, body, _):
            return np.asarray((codes[:, column] != 1) | satisfied(body, model, codes))


def check(model: LoweredModel, designs: Codes) -> BoolArray:
    """Return which designs (codes of the design columns) satisfy the whole lowered model."""
    verdict = np.ones(len(designs), dtype=bool)
    for column, codes in enumerate(model.allowed[: model.designs]):
        verdict &= np.isin(designs[:, column], codes)
    full, covered = complete(model, designs)
    verdict &= covered
    for constraint in model.constraints:
        verdict &= satisfied(constraint, model, full)
    return verdict


def recheck(model: LoweredModel, parameter_set: ParameterSet, designs: Codes, engine: str) -> None:
    """Raise EngineDisagreement unless every design satisfies both the lowered model and the declared rules."""
    if not len(designs):
        return
    bad = ~check(model, designs)
    if not bad.any():
        bad = ~feasible(parameter_set.batch(designs))
    if bad.any():
        point = next(parameter_set.batch(designs[bad][:1]).points())
        raise EngineDisagreement(f"{engine} returned a design that breaks a rule: {point}")


def _within(total: Values, lower: int | None, upper: int | None) -> BoolArray:
    verdict = np.ones(len(total), dtype=bool)
    if lower is not None:
        verdict &= np.asarray(total >= lower, dtype=bool)
    if upper is not None:
        verdict &= np.asarray(total <= upper, dtype=bool)
    return verdict


def _total(columns: tuple[int, ...], weights: tuple[tuple[int, ...], ...], codes: Codes, *, product: bool) -> Values:
    """Return the sum or product of weights per row, in Python integers when it may pass 2^62."""
    bound = 1
    for row in weights:
        largest = max((abs(weight) for weight in row), default=0)
        bound = bound * max(1, largest) if product else bound + largest
    dtype: type = object if bound >= _SAFE else np.int64
    total: Values = np.full(len(codes), int(product), dtype=dtype)
    for column, row in zip(columns, weights, strict=True):
        values: Values = np.array(row, dtype=dtype)[codes[:, column]]
        total = total * values if product else total + values
    return total


def _row_keys(rows: Codes, columns: tuple[int, ...] | list[int], model: LoweredModel) -> Values:
    """Return one integer per row: the mixed-radix number of its codes."""
    sizes = [model.columns[column].size for column in columns]
    wide = float(np.prod(np.array(sizes, dtype=float))) >= _SAFE
    keys: Values = np.zeros(len(rows), dtype=object if wide else np.int64)
    for position, size in enumerate(sizes):
        keys = keys * size + rows[:, position].astype(object if wide else np.int64)
    return keys
