"""The outcome of a verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from cosmic_opt.reporting.numbers import table

if TYPE_CHECKING:
    from cosmic_opt.search.certificate import Certificate
    from cosmic_opt.search.verify import Check


def verification_keys(certificate: Certificate, checks: Sequence[Check], seconds: float) -> dict[str, object]:
    """Return the object of `verify --json`."""
    return {
        "accepted": all(check.passed for check in checks),
        "instance": certificate.instance,
        "status": certificate.status.value,
        "objective": certificate.objective,
        "checks": [asdict(check) for check in checks],
        "seconds": seconds,
    }


def verification_text(certificate: Certificate, checks: Sequence[Check], seconds: float) -> str:
    """Return a verification for a person: the verdict, then check by check."""
    accepted = all(check.passed for check in checks)
    verdict = "accepted" if accepted else "REJECTED"
    head = f"{verdict}: {certificate.instance}, {certificate.objective}, {certificate.status.value}"
    rows = [("ok" if check.passed else "WRONG", check.name, check.found) for check in checks]
    return f"{head}\n\n{table(('', 'derived again', 'found'), rows)}\n\nverified in {seconds:.3g} s"
