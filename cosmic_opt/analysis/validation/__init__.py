"""Predictions beside reference numbers, row by row: nothing is skipped, and a row without a prediction says why."""

from cosmic_opt.analysis.validation import (  # noqa: F401 - enter their rows
    collectives,
    cosmic_runs,
    inference,
    kernels,
    memory,
    training,
)
from cosmic_opt.analysis.validation.files import shipped_files, validate, validate_file, validate_files
from cosmic_opt.analysis.validation.kinds import ROW_KINDS, Outcome, RowKind
from cosmic_opt.analysis.validation.regret import Regret
from cosmic_opt.analysis.validation.report import (
    Errors,
    Facts,
    GroupErrors,
    Ranked,
    RankGroup,
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
    "RankGroup",
    "Ranked",
    "Regret",
    "RowKind",
    "ValidationReport",
    "ValidationRow",
    "ValidationSummary",
    "shipped_files",
    "validate",
    "validate_file",
    "validate_files",
]
