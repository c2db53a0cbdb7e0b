"""Where files live, and how a name becomes a file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cosmic_opt.errors import SpecError, Where, nearest
from cosmic_opt.psa.document import Entry, expect_schema, read_yaml

SHARED = ("_devices", "_systems", "_workloads", "_prices")
MAX_FILE_BYTES = 8_000_000


@cache
def data_root() -> Path:
    """Return the folder that holds `models/` and `instances/`: inside the wheel, or the repository's own."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "_data"
    return packaged if packaged.is_dir() else package.parent


def instance_names() -> list[str]:
    """Return the name of every shipped instance."""
    return list(_names(data_root() / "instances"))


def model_names() -> list[str]:
    """Return the name of every shipped model."""
    return list(_names(data_root() / "models"))


def shared_names(kind: str) -> list[str]:
    """Return the names of shared parts; `kind` is one of devices, systems, workloads, prices."""
    return list(_names(data_root() / "instances" / f"_{kind}"))


@cache
def _names(folder: Path) -> tuple[str, ...]:
    files = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return tuple(sorted(path.as_posix() for path in files if not path.parts[0].startswith("_")))


def instance_path(name: str) -> Path:
    """Return the file of an instance: a shipped name, or the path of a user's own file."""
    return _resolve(name, data_root() / "instances", instance_names(), "instance")


def model_path(name: str, beside: Path, where: Where) -> Path:
    """Return the file of a model, shipped or (a path) relative to the file that names it."""
    return _resolve(name, data_root() / "models", model_names(), "model", beside, where)


def shared_path(kind: str, name: str, beside: Path, where: Where) -> Path:
    """Return the file of a shared part, shipped or (a path) relative to the file that names it."""
    folder = data_root() / "instances" / f"_{kind}"
    return _resolve(name, folder, shared_names(kind), kind.removesuffix("s"), beside, where)


def _resolve(
    name: str, folder: Path, known: list[str], kind: str, beside: Path | None = None, where: Where | None = None
) -> Path:
    if name in known:
        return folder / f"{name}.yaml"
    own = Path(name) if beside is None else beside.parent / name
    if names_file(name, own):
        if not _is_file(own):
            raise SpecError(f"there is no file {name!r}", where=where, hint=nearest(name, known))
        return own
    raise SpecError(f"unknown {kind} {name!r}", where=where, hint=nearest(name, known))


def names_file(name: str, own: Path) -> bool:
    """Tell whether a name is a path: it ends as one of a YAML file, or there is a file `own`."""
    return name.endswith((".yaml", ".yml")) or _is_file(own)


def _is_file(path: Path) -> bool:
    """Tell whether a path is a file; a name no file system could hold is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        SpecError: missing, unreadable, too large, or not UTF-8 text.
    """
    where = Where(display(path))
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SpecError(
                f"the file has {path.stat().st_size:,} bytes", where=where, hint=f"at most {MAX_FILE_BYTES:,}"
            )
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SpecError(
            "the file is not UTF-8 text", where=where, hint="models, instances and their parts are YAML files"
        ) from None
    except OSError as error:
        raise SpecError(
            f"cannot read the file: {error.strerror}", where=where, hint="check its name and rights"
        ) from None


def read_document(path: Path, kind: str) -> Entry:
    """Return the YAML document of a file, of the schema `cosmic-opt/KIND@1`.

    Raises:
        SpecError: the file cannot be read, is no YAML, or is of another kind.
    """
    root = read_yaml(read_text(path), display(path))
    expect_schema(root, kind)
    return root


def display(path: Path) -> str:
    """Return how a message names a file: shipped files by their place in the data folder."""
    try:
        return path.resolve().relative_to(data_root()).as_posix()
    except ValueError:
        return str(path)
