"""Where results and the log go."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Output:
    """Results on stdout, as text or as one JSON object; the log on stderr, unless `quiet`."""

    as_json: bool = False
    quiet: bool = False

    def result(self, command: str, keys: Mapping[str, object], text: str) -> None:
        """Print the answer of a command."""
        if self.as_json:
            print(json.dumps({"schema": f"cosmic-opt/{command}@1", **keys}, allow_nan=False))
        else:
            print(text)

    def log(self, text: str) -> None:
        """Print a line of the log."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)
