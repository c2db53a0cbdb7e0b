"""The consoles of the documentation: a command after `$`, then what it prints."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cosmic_opt.cli.exits import DONE, INFEASIBLE
from tests.unit.cli.running import run

DOCS = Path(__file__).resolve().parents[2] / "docs"
MASKS = (
    (r"(counted by \w+ in) \S+ s", r"\1 T"),
    (r"(designs scored(?: by events)?,) \S+ s;", r"\1 T;"),
    (r"(cp_sat in|milp in|highs in) \S+ s", r"\1 T"),
    (r"(verified in) \S+ s", r"\1 T"),
    (r"(digest) [0-9a-f]{16}", r"\1 D"),
)
QUICKSTART = "quickstart.md"
MODEL_FILES = "model-files.md"
FILES = "files.md"
COST_MODEL = "cost-model.md"
OWN_FILES = {
    QUICKSTART: ("my-cluster.yaml",),
    MODEL_FILES: ("my-model.yaml", "my-instance.yaml"),
    FILES: ("my-workload.yaml", "my-device.yaml", "my-prices.yaml", "my-system.yaml", "my-instance.yaml"),
    COST_MODEL: ("by-hand.yaml",),
}
"""The files that the commands of a page read: its blocks of YAML, in order."""
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """One command of a page and the output the page shows for it."""

    page: str
    command: str
    output: str

    def ran(self) -> str:
        """Run the command in this process and return what it prints."""
        done = run(*shlex.split(self.command))
        assert done.code in (DONE, INFEASIBLE), done.err
        return done.out


def masked(text: str) -> str:
    """Return text without the seconds that one run took."""
    for pattern, shown in MASKS:
        text = re.sub(pattern, shown, text)
    return text.rstrip()


def shown_in(page: str) -> list[Shown]:
    """Return the commands of a page under docs/, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = []
    for console in _CONSOLE.findall(text):
        for part in console.split("$ cosmic-opt ")[1:]:
            command, _, output = part.partition("\n")
            found.append(Shown(page, command, output))
    return found


def prepare(page: str, folder: Path) -> None:
    """Write the files that the commands of a page read."""
    if page in OWN_FILES:
        blocks = re.findall(r"^```yaml\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)
        for name, block in zip(OWN_FILES[page], blocks, strict=True):
            (folder / name).write_text(block, encoding="utf-8")


def refresh(page: str) -> int:
    """Rewrite the outputs of a page that are no longer what the program prints; return how many."""
    path, changed = DOCS / page, 0
    text = path.read_text(encoding="utf-8")
    commands = shown_in(page)
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        prepare(page, Path(folder))
        outputs = [shown.ran().rstrip() + "\n" for shown in commands]
    for shown, output in zip(commands, outputs, strict=True):
        if shown.output.strip() and masked(output) != masked(shown.output):
            old = f"$ cosmic-opt {shown.command}\n{shown.output}"
            text = text.replace(old, f"$ cosmic-opt {shown.command}\n{output}")
            changed += 1
    path.write_text(text, encoding="utf-8")
    return changed


def guides() -> list[str]:
    """Return the pages under docs/guide/ that show a command."""
    pages = sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "guide").glob("*.md"))
    return [page for page in pages if shown_in(page)]


if __name__ == "__main__":
    for name in ("../README.md", *OWN_FILES, *guides()):
        sys.stdout.write(f"{name}: {refresh(name)} outputs rewritten\n")
