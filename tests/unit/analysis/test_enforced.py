"""What simulators ask of every design is never relaxed away: each repair leaves designs that run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_opt.analysis import relaxation
from cosmic_opt.analysis.change import Drop
from cosmic_opt.analysis.enforced import enforced
from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import InfeasibleError
from cosmic_opt.psa.evaluate import holds
from tests.unit.cli.running import run
from tests.unit.search.six import written

SYSTEM1 = Problem.load("cosmic/gpt3-175b-system1")
SERVED = Problem.load("llama3-405b/h200-8-serving")


def dropped(problem: Problem) -> set[str]:
    """Return the rules that some repair drops."""
    changes = [change for repair in problem.explain().repairs for change in repair.relaxation.changes]
    return {change.rule.name for change in changes if isinstance(change, Drop)}


def asked_of(problem: Problem) -> dict[str, np.ndarray]:
    """Return which designs of a small grid obey each thing that is asked."""
    parameter_set = problem.parameter_set
    sizes = [len(column.values) for column in parameter_set.columns]
    grid = parameter_set.batch(np.indices(sizes).reshape(len(sizes), -1).T)
    return {rule.name: holds(rule, grid) for rule in enforced(problem.instance, parameter_set)}


def test_the_analytical_simulator_asks_for_degrees_that_fill_the_network(tmp_path: Path) -> None:
    """48 NPUs have 10 divisors; 45 of the 1,000 triples of them multiply to 48."""
    six = Problem.load(written(tmp_path)).fix(algorithm="ring", bandwidth="50 GB/s")
    (world,) = asked_of(six).values()
    assert (len(world), int(world.sum())) == (1000, 45)


def test_it_runs_exactly_the_designs_that_obey_what_is_asked(tmp_path: Path) -> None:
    six = Problem.load(written(tmp_path)).fix(algorithm="ring", bandwidth="50 GB/s").without("world_size")
    found = six.cannot_run()
    assert found is not None
    assert (found.designs, found.looked_at) == (955, 1000)


def test_extents_must_place_the_degrees() -> None:
    placed = Problem.load("cosmic/placement-gpt3-175b-system2").scope("full_stack")
    names = {rule.name for rule in enforced(placed.instance, placed.parameter_set)}
    assert names == {
        "the simulator's world size",
        *(f"the simulator's placement of {group}" for group in ("tp", "sp", "dp", "pp")),
        *(f"the simulator's filling of dimension {dim}" for dim in range(4)),
    }


def test_a_served_model_must_hold_a_sequence() -> None:
    loose = SERVED.without("fits", "npus_given", "engine_limit").fix(dp=1, batch=1)
    (held,) = asked_of(loose).values()
    assert 0 < int(held.sum()) < len(held)


def test_a_calibrated_step_asks_for_whole_groups_of_experts() -> None:
    """dp from 1 to 64, tp and cp 1, ep 1, 2, 4 or 8: 7 + 6 + 5 + 4 of the 28 pairs divide."""
    mixture = Problem.load("mixtral-8x7b/h100-64").fix(tp=1, cp=1)
    small = mixture.fix(pp=1, interleave=1, micro_batch=1, recompute="none", zero_stage=1, sequence_parallel=0)
    (whole,) = asked_of(small).values()
    assert (len(whole), int(whole.sum())) == (28, 22)


def test_no_repair_leaves_groups_of_experts_larger_than_the_job() -> None:
    assert "experts_inside" not in dropped(Problem.load("mixtral-8x7b/h100-64").set(npus=7))


def test_no_repair_drops_a_rule_that_the_simulator_enforces() -> None:
    tight = SYSTEM1.set(memory_capacity="1 GB")
    assert dropped(tight) == {"fits"}
    for repair in tight.explain().repairs:
        assert Problem(tight.spec, repair.edits).cannot_run() is None


def test_a_shape_of_other_npus_is_not_repaired_by_dropping_one_of_two_rules() -> None:
    """3 x 4 x 4 x 4 NPUs are 192, and degrees for 1,024 cannot fill them: another shape has to be allowed."""
    small = SYSTEM1.fix({f"npus_per_dim[{dim}]": 4 for dim in range(3)}).fix({"npus_per_dim[3]": 4})
    repairs = small.explain().repairs
    assert repairs
    assert not dropped(small) & {"world_size", "shape"}


def test_a_served_model_without_room_is_not_repaired_by_dropping_that_it_fits() -> None:
    narrow = SERVED.fix(tp=1, pp=1)
    assert dropped(narrow) == set()
    assert narrow.explain().repairs
    loose = narrow.without("fits")
    with pytest.raises(InfeasibleError, match="no sequence fits"):
        loose.simulate(loose.sample(1))


def test_what_leaves_nothing_that_runs_is_left_out_and_what_is_needed_beside_it_is_found(tmp_path: Path) -> None:
    """Another dp leaves designs, all with an algorithm that a dimension of 6 has not: pp = 12 or a ring helps, too."""
    asked = (written(tmp_path), "--fix", "pp=1", "--fix", "algorithm=halving_doubling", "--require", "dp == 5")
    done = run("explain", *asked, "--json")
    first, second, *others = done.keys["relaxations"]
    assert {first["change"], second["change"]} == {
        "'dp == 5' becomes 'dp == 4' and allow pp = 12 (now 1)",
        "'dp == 5' becomes 'dp == 4' and allow algorithm[0] = ring (now halving_doubling)",
    }
    assert {each["cost_exact"] for each in (first, second)} == {"6/5"}
    assert all(each["proved"] for each in (first, second, *others))
    assert done.keys["searched"]["left_out"] >= 1
    assert done.keys["searched"]["complete"]
    ring = run("explain", asked[0], "--fix", "pp=1", "--fix", "algorithm=ring", "--require", "dp == 5", "--json")
    assert [each["proved"] for each in ring.keys["relaxations"]] == [True, True]


ODD = ("--set", "npus=420", "--without", "fits", "--require", "all(algorithm[d] == halving_doubling for d in dim)")
"""420 NPUs have factors 3, 5 and 7, so that some dimension is no power of two, as halving and doubling needs."""


@pytest.mark.parametrize("limit", ["1", "2", "5"])
def test_a_limit_counts_only_what_is_offered(limit: str, tmp_path: Path) -> None:
    """Without the ring on dimension 0, designs are left and none runs."""
    asked = ("explain", odd(tmp_path), *ODD, "--require", "algorithm[0] == ring", "--limit", limit, "--json")
    (way,) = run(*asked).keys["relaxations"]
    assert way["change"].startswith("drop required_1 ")
    assert (way["cost"], way["feasible_designs"]) == (10, 18_177_608_908_800)


def test_a_rule_is_dropped_beside_one_after_which_nothing_runs(tmp_path: Path) -> None:
    done = run("explain", odd(tmp_path), *ODD, "--require", "tp <= 0", "--json")
    ways = {tuple(way["edits"]): way["feasible_designs"] for way in done.keys["relaxations"]}
    assert ways["--set", "npus=420", "--without", "fits"] == 72_710_435_635_200
    assert done.keys["searched"] == {"left_out": 1, "complete": True}


def test_a_search_that_reaches_its_limit_says_what_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaxation, "MOST_BLOCKS", 1)
    out = run("explain", odd(tmp_path), *ODD, "--require", "tp <= 0").out
    assert "no change was found that leaves a design which can run" in out
    assert "looked at: 1 change that leaves designs, none of which was seen to run" in out
    assert "reached its limit (60 s, or 64 changes after which nothing runs): there may be others" in out


def odd(folder: Path) -> str:
    """Write COSMIC's 13-billion-parameter GPT-3 with dimensions of 3, 5 and 7 NPUs allowed, and return its path."""
    root = data_root()
    model = (root / "models" / "cosmic.yaml").read_text()
    model = model.replace("domain: [4, 8, 16]", "domain: [2, 3, 4, 5, 7, 8, 16]")
    model = model.replace("{powers_of: 2, from: 1, to: npus}", "{divisors_of: npus}")
    (folder / "odd.yaml").write_text(model, encoding="utf-8")
    instance = (root / "instances" / "cosmic" / "gpt3-13b-system2.yaml").read_text()
    path = folder / "instance.yaml"
    path.write_text(instance.replace("model: cosmic\n", "model: ./odd.yaml\n"), encoding="utf-8")
    return str(path)
