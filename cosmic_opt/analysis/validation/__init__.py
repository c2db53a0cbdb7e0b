"""Predictions beside reference numbers, row by row: nothing is skipped, and a row without a prediction says why."""

from cosmic_opt.analysis.validation import collectives, inference, kernels, memory, training  # noqa: F401 - enter their rows
from cosmic_opt.analysis.validation.files import shipped_files, validate, validate_file, validate_files
from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, RowKind
from cosmic_opt.analysis.validation.report import (
    Errors,
    Facts,
    GroupErrors,
    ValidationReport,
    ValidationRow,
    ValidationSummary,
)

__all__ = [
    "ROW_KINDS",
    "Errors",
    "Facts",
    "GroupErrors",
    "Outcome",
    "RowKind",
    "ValidationReport",
    "ValidationRow",
    "ValidationSummary",
    "shipped_files",
    "validate",
    "validate_file",
    "validate_files",
]
