"""`python -m cosmic_opt.cli` is `cosmic-opt`."""

from __future__ import annotations

import sys


def start() -> int:
    """Run the command of this process and return its exit code, also where it is interrupted while it still loads."""
    try:
        from cosmic_opt.cli.main import main  # takes a second

        return main()
    except KeyboardInterrupt:
        from cosmic_opt.cli.exits import INTERRUPTED

        print("interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(start())
