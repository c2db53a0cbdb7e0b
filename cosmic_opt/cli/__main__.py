"""`python -m cosmic_opt.cli` is `cosmic-opt`."""

from __future__ import annotations

import sys

from cosmic_opt.cli.main import main

sys.exit(main())
