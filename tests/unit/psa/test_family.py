"""Families over one or two indices: names, rules that name a group, what is refused."""

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.psa.evaluate import feasible
from cosmic_opt.psa.family import Family, IndexSet, numbered, split_member
from cosmic_opt.psa.model_file import read_model
from tests.strategies import brute_force, declare, whole_grid

GROUP = IndexSet("group", ("tp", "dp"))
MODEL = """\
schema: cosmic-opt/model@1
name: grid
indices: {dim: dims, group: [tp, dp]}
parameters:
  tp: {stack: workload, domain: [1, 2, 4, 8]}
  dp: {stack: workload, domain: [1, 2, 4, 8]}
  extent: {stack: workload, per: [group, dim], domain: [1, 2, 4]}
constraints:
"""


def rules(*texts: str) -> str:
    return MODEL + "\n".join(f"  r{at}: {{rule: '{text}'}}" for at, text in enumerate(texts))


def test_members_vary_their_last_index_fastest() -> None:
    family = Family("extent", (GROUP, numbered("dim", 2)))
    assert family.members == ("extent[tp,0]", "extent[tp,1]", "extent[dp,0]", "extent[dp,1]")
    assert family.indices == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert family.size == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("extent[tp, 0]", ("extent", ("tp", "0"))),
        ("extent[tp,0]", ("extent", ("tp", "0"))),
        ("bandwidth[3]", ("bandwidth", ("3",))),
        ("tp", ("tp", None)),
        ("bandwidth[]", ("bandwidth[]", None)),
        ("bandwidth[3", ("bandwidth[3", None)),
        ("bandwidth[-1]", ("bandwidth[-1]", None)),
    ],
)
def test_a_member_is_split_at_its_brackets(text: str, expected: tuple[str, tuple[str, ...] | None]) -> None:
    assert split_member(text) == expected


def test_a_group_in_brackets_is_a_member_and_outside_a_parameter() -> None:
    problem = declare(rules("product(extent[tp, d] for d in dim) == tp", "extent[dp, 1] == 1"), {"dims": 2})
    grid = problem.batch(whole_grid(problem))
    kept = grid.take(feasible(grid)).value_columns()
    assert (kept["extent[tp,0]"] * kept["extent[tp,1]"] == kept["tp"]).all()
    assert set(kept["extent[dp,1]"]) == {1}
    # tp follows from its two extents: 3 * 3 of them, less 4 * 4 = 16; dp 4 values, extent[dp,0] 3
    assert len(kept["tp"]) == 8 * 4 * 3


def test_a_loop_runs_over_groups() -> None:
    problem = declare(rules("all(product(extent[g, d] for g in group) == 4 for d in dim)"), {"dims": 2})
    # (1,4), (2,2), (4,1) on each dimension, tp and dp free
    assert len(brute_force(problem)) == 9 * 16


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extent[pp, 0] == 1", "'pp' is no group"),
        ("extent[tp] == 1", "'extent' has 2 indices, not 1"),
        ("extent[tp, 0, 1] == 1", "'extent' has 2 indices, not 3"),
        ("extent[tp, 7] == 1", "does not exist"),
        ("extent[2, 0] == 1", "does not exist"),
        ("extent[0, tp] == 1", "an index must be a constant"),
        ("extent == 1", "one value per index"),
        ("all(extent[d, 0] == 1 for d in dim)", "'d' runs over dim, this index of 'extent' is a group"),
        ("all(extent[tp, g] == 1 for g in group)", "'g' runs over group, this index of 'extent' is a dim"),
    ],
)
def test_an_index_without_a_member_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        declare(rules(text), {"dims": 2})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("group: [tp, dp]", "group: [tp, tp]", "lists each of its members once"),
        ("group: [tp, dp]", "group: []", "lists each of its members once"),
        ("group: [tp, dp]", "group: [3, 4]", "expected text"),
        ("per: [group, dim]", "per: [dim, dim]", "two different ones"),
        ("per: [group, dim]", "per: []", "two different ones"),
        ("per: [group, dim]", "per: [grp, dim]", "unknown index 'grp'"),
        ("domain: [1, 2, 4]}", "domain: {permutations_of: dim}}", "no index with named members"),
        ("domain: [1, 2, 4]}", "domain: [1, 2], optional: maybe}", "expected true or false"),
    ],
)
def test_a_hostile_declaration_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_model(rules("tp == 1").replace(old, new), "model.yaml")


def test_a_rule_waits_for_optional_parameters_only() -> None:
    waiting = MODEL + "  r: {rule: tp == 1, when: extent}\n"
    with pytest.raises(SpecError, match="'extent' is no optional parameter"):
        read_model(waiting, "model.yaml")
    optional = waiting.replace("domain: [1, 2, 4]}", "domain: [1, 2, 4], optional: true}")
    assert read_model(optional, "model.yaml").rules["r"].when == ("extent",)


def test_permutations_are_categories_in_lexicographic_order() -> None:
    text = rules("tp == 1").replace("domain: [1, 2, 4]}", "domain: {permutations_of: group}}")
    domain = read_model(text, "model.yaml").parameters["extent"].domain
    assert domain.resolve({}, read_model(text, "model.yaml").where) == ("tp_dp", "dp_tp")
