"""Exit codes: the contract with scripts."""

from __future__ import annotations

DONE = 0
REJECTED = 1
BAD_INPUT = 2
INFEASIBLE = 3
LIMIT = 4
BUG = 70
INTERRUPTED = 130
