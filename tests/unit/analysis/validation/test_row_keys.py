"""Keys that rows of a kind do not have are named in the note, with what may be meant, and change nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import cosmic_opt.analysis.validation as package
from cosmic_opt.analysis.validation import ROW_KINDS, validate
from cosmic_opt.analysis.validation.files import shipped_files
from cosmic_opt.analysis.validation.kinds import RowKeys
from cosmic_opt.analysis.validation.row_keys import OTHER_NAMES, SHOWN_KEYS, unread
from tests.unit.analysis.validation.test_inference import ROW as INFERENCE
from tests.unit.analysis.validation.test_row_fields import GPT3
from tests.unit.analysis.validation.test_row_spelling import GEMM, REDUCE
from tests.unit.analysis.validation.test_training import ROW as TRAINING

KEYS = {name: ROW_KINDS.get(name).keys for name in ROW_KINDS}
READ = re.compile(r"""(?:row(?:\.get\(|\[)|(?:whole|text|number|flag|stated_or|whole_or)\(row, )"(\w+)\"""")


def note(row: dict[str, Any]) -> str:
    return str(validate([row]).rows[0].note)


@pytest.mark.parametrize(
    ("row", "change", "said"),
    [
        (TRAINING, {"zero_stage": 3}, "not read: zero_stage (did you mean zero?)"),
        (TRAINING, {"tp_comm_overlap": True}, "not read: tp_comm_overlap"),
        (TRAINING, {"tensor_overlap": "ring"}, "not read: tensor_overlap"),
        (TRAINING, {"recompute_layers": 4}, "not read: recompute_layers (did you mean recompute?)"),
        (TRAINING, {"interlave": 2, "EP": 1}, "not read: interlave (did you mean interleave?), EP (did you mean ep?)"),
        (TRAINING, {"network": TRAINING["network"] | {"nic": 1}}, "not read: network.nic"),
        (TRAINING, {"dims": TRAINING["dims"] | {"head-dim": 64}}, "not read: dims.head-dim (did you mean head_dim?)"),
        (INFERENCE, {"batch_size": 4}, "not read: batch_size (did you mean batch?)"),
        (INFERENCE, {"dp": 2}, "not read: dp"),
        (GPT3, {"dims": GPT3["dims"] | {"vocab_size": 1}}, "not read: dims.vocab_size (did you mean vocab?)"),
        (GEMM, {"transposed": True}, "not read: transposed"),
        (REDUCE, {"size_byte": 8}, "not read: size_byte (did you mean size_bytes?)"),
    ],
)
def test_a_key_that_is_not_read_is_named_and_changes_nothing(
    row: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    (found,), (plain,) = validate([row | change]).rows, validate([row]).rows
    assert str(found.note).endswith(said)
    assert "not read" not in str(plain.note)
    assert plain.predicted is not None
    assert (found.predicted, found.facts, found.confidence) == (plain.predicted, plain.facts, plain.confidence)


def test_a_row_that_is_refused_names_them_too() -> None:
    row = {key: value for key, value in TRAINING.items() if key != "gbs"} | {"global_batch_size": 1024}
    assert "'gbs' is not stated" in note(row)
    assert note(row).endswith("not read: global_batch_size (did you mean gbs?)")


def test_no_shipped_row_has_a_key_that_is_not_read() -> None:
    seen = set()
    for path in shipped_files():
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        for row in rows:
            kind = next(name for name in ROW_KINDS if ROW_KINDS.get(name).matches(row))
            seen.add(kind)
            assert unread(row, KEYS[kind]) is None
    assert seen == set(ROW_KINDS)


def test_every_key_that_the_package_reads_is_one_of_a_kind() -> None:
    known = {key for keys in KEYS.values() for key in (*keys.known, *(k for part in keys.parts.values() for k in part))}
    files = [path for path in Path(package.__file__).parent.glob("*.py") if "themis" not in path.name]
    read = {key for path in files for key in READ.findall(path.read_text(encoding="utf-8"))}
    assert {"zero", "fsdp", "seq", "engine", "nvls"} <= read
    assert read <= known


def test_a_null_says_nothing() -> None:
    assert unread({"zero_stage": None, "dims": {"vocab_size": None}}, KEYS["training"]) is None


def test_other_names_stand_for_keys_that_are_read() -> None:
    known = {key for keys in KEYS.values() for key in (*keys.read, *(k for part in keys.parts.values() for k in part))}
    assert set(OTHER_NAMES.values()) <= known
    assert not set(OTHER_NAMES) & known


@pytest.mark.parametrize("key", ["", " ", "ü" * 10**5, "\n", "None", "dims.heads"])
def test_any_key_is_named_briefly(key: str) -> None:
    assert len(str(unread({key: 1}, KEYS["training"]))) < 120


def test_many_keys_are_counted() -> None:
    found = unread({f"column {number}": 1 for number in range(1000)}, RowKeys(read=("m",)))
    assert str(found).endswith(f"{1000 - SHOWN_KEYS} more")
    assert str(found).count(",") == SHOWN_KEYS
