"""The model file: what it declares, and hostile files refused with file, line and key."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.store import data_root, model_names
from cosmic_opt.errors import SpecError
from cosmic_opt.psa.domain import DivisorsOf, Explicit, PowersOf, Range
from cosmic_opt.psa.model_file import ModelSpec, read_model
from cosmic_opt.units import Unit

MODEL = """\
schema: cosmic-opt/model@1
name: example
why: an example
indices: {dim: dims}
parameters:
  dp: {stack: workload, domain: {powers_of: 2, from: 2, to: npus}, why: replicas}
  pp: {stack: workload, domain: {divisors_of: layers}}
  flag: {stack: compute, domain: [false, true]}
  topology: {stack: network, per: dim, domain: [ring, switch]}
  bandwidth: {stack: network, per: dim, unit: bytes/s, domain: {range: [50 GB/s, 500 GB/s], step: 50 GB/s}}
  delay: {stack: network, unit: time, domain: [500 ns, 1 us]}
constraints:
  world: {rule: dp * pp == npus, why: every NPU is used}
  inner:
    topology[0]
    != switch
scopes:
  small: {free: [dp], why: degrees only, constraints: {tight: dp <= 4}}
"""


def read(text: str = MODEL) -> ModelSpec:
    return read_model(text, "m.yaml")


def test_parameters_keep_stack_domain_unit_and_index() -> None:
    parameters = read().parameters
    assert parameters["dp"].domain == PowersOf(2, 2, "npus")
    assert parameters["pp"].domain == DivisorsOf("layers")
    assert parameters["flag"].domain == Explicit((0, 1))
    assert parameters["topology"].domain == Explicit(("ring", "switch"))
    assert parameters["bandwidth"].domain == Range(50 * 10**9, 500 * 10**9, 50 * 10**9)
    assert parameters["delay"].domain == Explicit((500_000, 1_000_000))
    assert (parameters["bandwidth"].unit, parameters["bandwidth"].per) == (Unit.BYTES_PER_S, ("dim",))
    assert (parameters["dp"].stack, parameters["dp"].why, parameters["dp"].where.line) == ("workload", "replicas", 6)


def test_rules_and_scopes_keep_their_text_reason_and_place() -> None:
    model = read()
    assert model.rules["world"].why == "every NPU is used"
    assert model.rules["inner"].text == "topology[0] != switch"
    assert str(model.rules["world"].where) == "m.yaml:13: constraints.world.rule"
    scope = model.scopes["small"]
    assert (scope.free, scope.rules["tight"].text) == (("dp",), "dp <= 4")


@pytest.mark.parametrize("name", model_names())
def test_shipped_model_is_read_and_says_where_it_comes_from(name: str) -> None:
    text = (data_root() / "models" / f"{name}.yaml").read_text(encoding="utf-8")
    model = read_model(text, f"{name}.yaml")
    assert model.name == name
    assert "source:" in text
    assert all(rule.why for rule in model.rules.values())


HOSTILE = {
    "no schema": ("schema: cosmic-opt/model@1\n", "", 1, None, "the key 'schema' is missing"),
    "an instance": ("model@1", "instance@1", 1, "schema", "this is a 'cosmic-opt/instance@1' file"),
    "unknown top key": ("why: an", "whi: an", 3, "whi", "unknown key 'whi'"),
    "no name": ("name: example\n", "", 1, None, "the key 'name' is missing"),
    "name is a list": ("name: example", "name: [a]", 2, "name", "expected text, found a list"),
    "unknown stack": ("stack: compute", "stack: computer", 8, "parameters.flag.stack", "unknown stack 'computer'"),
    "unknown unit": ("unit: bytes/s", "unit: GB/s", 10, "parameters.bandwidth.unit", "unknown unit 'GB/s'"),
    "unknown index": (
        "per: dim, domain: [ring",
        "per: d, domain: [ring",
        9,
        "parameters.topology.per",
        "unknown index 'd'",
    ),
    "keyword as a name": ("  flag:", "  implies:", 8, "parameters.implies", "'implies' cannot be a name"),
    "name with a dash": ("  flag:", "  my-flag:", 8, "parameters.my-flag", "'my-flag' cannot be a name"),
    "name no rule can write": ("  flag:", "  größe:", 8, "parameters.größe", "'größe' cannot be a name"),
    "truth value as a name": ("  flag:", "  yes:", 5, "parameters", "the key True is not text"),
    "number as a name": ("  flag:", "  12:", 5, "parameters", "the key 12 is not text"),
    "name twice": ("  flag:", "  dp:", 8, "parameters", "the key 'dp' appears twice"),
    "empty domain": ("[false, true]", "[]", 8, "parameters.flag.domain", "the domain is empty"),
    "value twice": ("[false, true]", "[1, true]", 8, "parameters.flag.domain", "1 is listed twice"),
    "mixed domain": ("[false, true]", "[0, on_chip]", 8, "parameters.flag.domain", "mixes numbers and categories"),
    "list in a domain": ("[false, true]", "[[0], 1]", 8, "parameters.flag.domain.0", "expected a number"),
    "nothing in a domain": ("[false, true]", "[0, ~]", 8, "parameters.flag.domain.1", "expected a number"),
    "half a value": ("[false, true]", "[0, 0.5]", 8, "parameters.flag.domain.1", "0.5 is not a whole number"),
    "domain is a number": ("[false, true]", "2", 8, "parameters.flag.domain", "expected 'key: value' lines"),
    "two kinds of domain": (
        "{divisors_of: layers}",
        "{divisors_of: 4, powers_of: 2, to: 8}",
        7,
        "parameters.pp.domain",
        "or has one of range",
    ),
    "unknown kind of domain": (
        "{divisors_of: layers}",
        "{multiples_of: 2}",
        7,
        "parameters.pp.domain",
        "or has one of",
    ),
    "no upper bound": ("from: 2, to: npus", "from: 2", 6, "parameters.dp.domain", "the key 'to' is missing"),
    "base one": ("powers_of: 2", "powers_of: 1", 6, "parameters.dp.domain.powers_of", "1 is out of range"),
    "wrong unit": ("50 GB/s, 500", "50 GB, 500", 10, "parameters.bandwidth.domain.range.0", "'50 GB' is a size"),
    "three ends": (
        "500 GB/s], step",
        "500 GB/s, 1 GB/s], step",
        10,
        "parameters.bandwidth.domain.range",
        "has two ends",
    ),
    "step zero": ("step: 50 GB/s", "step: 0", 10, "parameters.bandwidth.domain.step", "step must be a positive number"),
    "a range of two steps": (
        "step: 50 GB/s",
        "step: 1, per_doubling: 4",
        10,
        "parameters.bandwidth.domain",
        "one of step, per_doubling",
    ),
    "a range without a step": (
        ", step: 50 GB/s}",
        "}",
        10,
        "parameters.bandwidth.domain",
        "one of step, per_doubling",
    ),
    "no steps per doubling": (
        "step: 50 GB/s",
        "per_doubling: 0",
        10,
        "parameters.bandwidth.domain.per_doubling",
        "0 is out of range",
    ),
    "time without a unit": ("[500 ns, 1 us]", "[500, 1 us]", 11, "parameters.delay.domain.0", "needs a unit of time"),
    "no parameters": (
        MODEL[MODEL.index("parameters:") :],
        "parameters: {}\n",
        5,
        "parameters",
        "at least one parameter",
    ),
    "rules as a list": ("constraints:\n", "constraints: []\nx:\n", 13, "x", "unknown key 'x'"),
    "rule without text": ("{rule: dp * pp == npus, why", "{why", 13, "constraints.world", "the key 'rule' is missing"),
    "rule is a number": ("    topology[0]\n    != switch", "    7", 14, "constraints.inner", "expected text, found 7"),
    "rule that is no rule": ("dp * pp == npus", "dp * pp = npus", 13, "constraints.world.rule", "'=' does not belong"),
    "rule named like a keyword": ("  inner:", "  in:", 14, "constraints.in", "'in' cannot be a name"),
    "scope frees the unknown": ("free: [dp]", "free: [dq]", 18, "scopes.small.free.0", "unknown parameter 'dq'"),
    "scope frees one twice": ("free: [dp]", "free: [dp, dp]", 18, "scopes.small.free.1", "'dp' is free twice"),
    "scope frees a text": ("free: [dp]", "free: dp", 18, "scopes.small.free", "expected a list"),
    "scope frees nothing": ("free: [dp], ", "", 18, "scopes.small", "the key 'free' is missing"),
}


@pytest.mark.parametrize(("old", "new", "line", "key", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_model_is_refused_with_file_line_and_key(
    old: str, new: str, line: int, key: str | None, message: str
) -> None:
    assert MODEL.count(old) == 1
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        read(MODEL.replace(old, new))
    where = caught.value.where
    assert where is not None
    assert (where.file, where.line, where.key) == ("m.yaml", line, key)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.integers(0, len(MODEL)), st.integers(0, 30), st.text(max_size=12))
def test_any_change_of_a_model_is_read_or_refused_in_the_file(start: int, length: int, new: str) -> None:
    assert refusal(MODEL[:start] + new + MODEL[start + length :]) in ("", "m.yaml")


_LINES = MODEL.splitlines(keepends=True)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(_LINES), max_size=20).map("".join))
def test_any_lines_of_a_model_are_read_or_refused_in_the_file(text: str) -> None:
    assert refusal(_LINES[0] + text) in ("", "m.yaml")


def refusal(text: str) -> str | None:
    """Return the file an error names; no text when there is none."""
    try:
        read(text)
    except SpecError as error:
        return error.where.file if error.where else None
    return ""
