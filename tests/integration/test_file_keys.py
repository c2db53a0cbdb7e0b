"""docs/files.md names every key that a loader asks for; of workloads and data no other, with the defaults."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from cosmic_opt.analysis.validation.row_keys import TRAINING_KEYS
from cosmic_opt.analysis.validation.training import predict_training
from cosmic_opt.catalog import engines, hardware, instance_file, stacks
from cosmic_opt.catalog.data import JOB, MIX, SHAPE, SYSTEM
from cosmic_opt.catalog.parts import SYSTEM_READERS
from cosmic_opt.catalog.store import data_root, read_document
from cosmic_opt.errors import SpecError
from cosmic_opt.psa.document import Entry
from cosmic_opt.workloads.mixture import Experts, LatentAttention
from cosmic_opt.workloads.transformer import BIASES, Transformer
from tests.integration.pages import DOCS, prepare
from tests.integration.test_docs import rows

PAGE = "files.md"
TEXT = (DOCS / PAGE).read_text(encoding="utf-8")
BY_SHAPE = {"kv_heads": "`heads`", "head_dim": "`hidden / heads`"}
"""Keys with a default that other keys give."""


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Collect the keys of every mapping that loaders check key by key, those of models aside."""
    keys, own = set[str](), Entry.fields

    def fields_of(entry: Entry, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> dict[str, Entry]:
        if not str(entry.where.file).startswith("models/"):
            keys.update(required, optional)
        return own(entry, required=required, optional=optional)

    monkeypatch.setattr(Entry, "fields", fields_of)
    return keys


def shown(default: object) -> str:
    """Return how the page writes a default."""
    if default is MISSING:
        return "required"
    if isinstance(default, frozenset):
        return f"[{', '.join(BIASES)}]"
    return str(default).lower()


def missing(keys: set[str], *titles: str) -> set[str]:
    text = "".join(section(title) for title in titles)
    return {key for key in keys if f"`{key}`" not in text}


def test_every_key_of_an_instance_and_its_parts_is_on_the_page(asked: set[str], tmp_path: Path) -> None:
    prepare(PAGE, tmp_path)
    path = tmp_path / "my-system.yaml"
    path.write_text(
        path.read_text(encoding="utf-8") + "host: {capacity: 64 GB, bandwidth: 50 GB/s}\n", encoding="utf-8"
    )
    instance_file.load_instance(str(tmp_path / "my-instance.yaml"))
    assert asked > {"job", "dimensions", "tier", "host", "tiers", "power"}
    assert not missing(asked, "Instance", "Device", "System", "Prices")


def test_every_key_of_measured_constants_is_on_the_page(asked: set[str]) -> None:
    hardware.read_kernels(read_document(data_root() / "instances" / "_devices" / "h100-sxm.yaml", "device"))
    of_libraries = {"name", *hardware.KIND_KEYS, "pair_limit", "bandwidth_share", "startup_share", "point_to_point"}
    assert "inter_node_doubling" in asked
    assert not missing(asked - of_libraries, "Device")


def test_every_key_of_a_stack_an_engine_and_a_recipe_is_on_the_page(asked: set[str]) -> None:
    stacks.load_stack.__wrapped__("megatron-te-2026")
    assert "expert_bias_bytes" in asked
    assert not missing(asked, "Stack")
    asked.clear()
    engines.load_engine.__wrapped__("vllm")
    assert not missing(asked, "Engine")
    asked.clear()
    stacks.load_recipe.__wrapped__("fp8")
    engines.load_number_format.__wrapped__("fp8")
    assert not missing(asked - {"recipes", "schema", "source"}, "Precision")


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("| key | default", Transformer),
        ("| key of `experts`", Experts),
        ("| key of `latent`", LatentAttention),
    ],
)
def test_the_page_has_each_key_of_a_workload_and_its_default(header: str, kind: type) -> None:
    table = section("Workload")
    start = table.index(header)
    lines = table[start:].split("\n\n")[0].splitlines()[2:]
    told = {
        name: default
        for names, default, *_ in ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
        for name in re.findall(r"`(\w+)`", names)
    }
    known = {field.name: field for field in fields(kind)}
    assert told.keys() == known.keys()
    for name, field in known.items():
        assert told[name] == BY_SHAPE.get(name, shown(field.default)), name


def test_the_page_has_each_datum() -> None:
    told = {name for names, _ in rows(PAGE, "| name | meaning") for name in re.findall(r"`(\w+)`", names)}
    assert told == {*JOB, *SYSTEM, "mix"}
    assert all(name in section("Data") for name in (*MIX.choices, *SHAPE))


def test_the_page_has_each_part_with_a_price_and_each_format_of_a_system() -> None:
    assert all(f"`{part}`" in section("Prices") for part in ("link", "switch", "nic"))
    assert all(f"`{name}`" in section("System") for name in SYSTEM_READERS.names())


STEP = {
    **{"gpu": "H100", "gpus": 16, "metric": "step_time_s", "value": 10.0, "seq": 2048, "gbs": 512},
    **{"tp": 1, "pp": 1, "dp": 16, "precision": "bf16"},
    "dims": {"layers": 32, "hidden": 4096, "heads": 32, "vocab": 50368, "ffn": 16384},
    "network": {"gpus_per_node": 8, "scale_out_bytes_per_s": 50e9},
}
"""A measured step of the required columns alone."""


def test_the_page_has_each_column_of_a_measured_step_and_which_are_required() -> None:
    table = rows("cli.md", "| column | unless given")
    told = {name: default for names, default, _ in table for name in re.findall(r"`([\w.]+)`", names)}
    inner = {f"{part}.{key}" for part, keys in TRAINING_KEYS.parts.items() for key in keys}
    assert told.keys() == {*TRAINING_KEYS.read, *inner} - {*TRAINING_KEYS.parts, "time_ns", "cycles_ns"}
    assert predict_training(STEP).predicted
    required = {name for name, default in told.items() if "required" in default}
    flat = {f"{part}.{key}" for part in ("dims", "network") for key in STEP[part]}  # type: ignore[attr-defined]
    assert required == {*STEP.keys() - {"dims", "network"}, *flat}
    for name in required - {"value"}:
        part, _, key = name.rpartition(".")
        owner = STEP[part] if part else STEP
        left = {each: entry for each, entry in owner.items() if each != key}  # type: ignore[attr-defined]
        with pytest.raises(SpecError):
            predict_training({**STEP, part: left} if part else left)
