"""What binding an instance gives, and how edits change it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.columns import MAX_MEMBERS
from cosmic_opt.catalog.store import instance_names
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.psa.quantity import Quantity
from tests.unit.catalog.files import bound, edited, size, write
from tests.unit.search.six import written

SYSTEM2 = "cosmic/gpt3-175b-system2"
GB = 10**9


def values(name: str, column: str, **options: list[str] | str) -> tuple[int | str, ...]:
    return edited(name, **options).parameter_set.column(column).values


# --- domains --------------------------------------------------------------------------------------------------


def test_full_stack_domain_is_the_models_values_and_the_systems_own() -> None:
    model = tuple(range(50 * GB, 501 * GB, 50 * GB))
    assert values(SYSTEM2, "bandwidth[0]") == tuple(sorted((*model, 375 * GB)))
    assert values(SYSTEM2, "bandwidth[1]") == tuple(sorted((*model, 175 * GB)))
    assert values(SYSTEM2, "bandwidth[3]") == model


@pytest.mark.parametrize("name", instance_names())
def test_every_scope_of_an_instance_lies_in_its_full_space(name: str) -> None:
    instance = bound(name)
    full = {column.name: column.values for column in edited(name, free=list(_parameters(name))).parameter_set.columns}
    for column in instance.parameter_set.columns:
        assert set(column.values) <= set(full[column.name])


def _parameters(name: str) -> dict[str, None]:
    return dict.fromkeys(column.parameter for column in bound(name).parameter_set.columns)


def test_fixed_by_the_scope_a_value_outside_the_domain_is_the_only_one() -> None:
    assert values(SYSTEM2, "bandwidth[0]", scope="workload") == (375 * GB,)
    assert values(SYSTEM2, "dp", scope="network") == (32,)
    assert values(SYSTEM2, "topology[3]", scope="workload") == ("switch",)


def test_free_adds_parameters_to_a_scope() -> None:
    assert len(values(SYSTEM2, "bandwidth[1]", scope="workload", free=["bandwidth"])) == 11
    assert len(values(SYSTEM2, "bandwidth[1]", scope="workload", free=["bandwidth[1]"])) == 11
    assert values(SYSTEM2, "bandwidth[0]", scope="workload", free=["bandwidth[1]"]) == (375 * GB,)


def test_fix_wins_over_free_and_the_last_fix_over_the_others() -> None:
    assert values(SYSTEM2, "tp", free=["tp"], fix=["tp=2", "tp=8"]) == (8,)
    assert values(SYSTEM2, "bandwidth[0]", fix=["bandwidth[0]=375 GB/s"]) == (375 * GB,)
    assert values(SYSTEM2, "topology[2]", fix=["topology=ring"]) == ("ring",)
    assert values(SYSTEM2, "topology[2]", fix=["topology=ring", "topology[2]=switch"]) == ("switch",)


def test_column_says_whether_it_is_free() -> None:
    instance = edited(SYSTEM2, scope="workload", fix=["tp=4"])
    assert {column.name for column in instance.parameter_set.columns if column.free} == {
        "dp",
        "sp",
        "pp",
        "weight_sharded",
    }


def test_baseline_is_the_systems_and_the_designs_value() -> None:
    baseline = bound(SYSTEM2).baseline
    assert (baseline["bandwidth[0]"], baseline["topology[3]"], baseline["chunks"], baseline["dp"]) == (
        375 * GB,
        "switch",
        4,
        32,
    )


# --- refusals of edits ----------------------------------------------------------------------------------------

REFUSED = [
    ({"fix": ["tp=3"]}, "--fix: 3 is not in the domain of 'tp'", "allowed: 1, 2, 4, 8, 16"),
    ({"fix": ["bandwidth[1]=375GB/s"]}, "--fix: 375 GB/s is not in the domain of 'bandwidth[1]'", "allowed: 50 GB/s"),
    ({"fix": ["bandwidth=375GB/s"]}, "--fix: 375 GB/s is not in the domain of 'bandwidth[1]'", "allowed: 50 GB/s"),
    ({"fix": ["bandwidth[0]=375 GB"]}, "'375 GB' is a size, but a bandwidth is meant", "write for example '50"),
    ({"fix": ["topology[0]=mesh"]}, "--fix: mesh is not in the domain of 'topology[0]'", "allowed: ring, switch"),
    ({"fix": ["topology[4]=ring"]}, "--fix: topology[4] does not exist", "indices run from 0 to 3"),
    ({"fix": ["tp[0]=2"]}, "--fix: 'tp' has no index", "write tp"),
    ({"fix": ["tq=2"]}, "--fix: unknown parameter 'tq'", None),
    ({"fix": ["tp=ring"]}, "--fix: ring is not in the domain of 'tp'", "allowed: 1, 2, 4"),
    ({"fix": ["tp=²"]}, "'²' is not a number with a unit", None),
    ({"fix": ["tp=" + "9" * 5000]}, "is too long for a number", None),
    ({"fix": ["tp"]}, "--fix: 'tp' is not name=value", "write --fix tp=8"),
    ({"fix": ["=8"]}, "--fix: '=8' is not name=value", "write --fix tp=8"),
    ({"set_": ["memory_capacity"]}, "'memory_capacity' is not name=value", "write --set memory_capacity=80GB"),
    ({"free": ["bandwith"]}, "--free: unknown parameter 'bandwith'", "did you mean 'bandwidth'?"),
    ({"free": ["bandwidth[7]"]}, "--free: bandwidth[7] does not exist", "indices run from 0 to 3"),
    ({"free": ["tp[0]"]}, "--free: 'tp' has no index", "write tp"),
    ({"free": [""]}, "--free: unknown parameter ''", None),
    ({"scope": "workloads"}, "--scope: unknown scope 'workloads'", "did you mean 'workload'?"),
    ({"objective": "speed"}, "--objective: unknown objective 'speed'", "known: step_time;"),
    (
        {"set_": ["memory=80GB"]},
        "--set memory: unknown datum 'memory'",
        "did you mean 'memory_bandwidth' or 'memory_capacity'",
    ),
    ({"set_": ["tp=8"]}, "--set tp: 'tp' is a parameter, not data", "use --fix tp=8"),
    ({"set_": ["bandwidth[0]=1GB/s"]}, "'bandwidth[0]' is a parameter, not data", "use --fix bandwidth[0]=1GB/s"),
    ({"set_": ["memory_capacity=80GB/s"]}, "'80GB/s' is a bandwidth, but a size is meant", "write for example '24"),
    ({"set_": ["memory_capacity=0"]}, "memory_capacity = 0 is out of range", "allowed: 1 B to 1 EB"),
    ({"set_": ["global_batch=0.5"]}, "'0.5' is not a whole number", None),
    ({"set_": ["latency=5"]}, "'5' needs a unit of time", "write for example '5 ns' or '5 us'"),
    ({"set_": ["latency[7]=5 ns"]}, "unknown datum 'latency[7]'", "did you mean 'latency[3]'"),
    ({"set_": ["price_rule=free"]}, "'free' is not a value of 'price_rule'", "allowed: libra, cosmic"),
    ({"set_": ["heads=7"]}, "96 key-value heads do not divide 7 heads", None),
    ({"without": ["fit"]}, "--without: there is no rule 'fit'", "did you mean 'fits'?"),
    ({"require": ["tp <="]}, "--require: expected a number, a name or '(', found the end", None),
    ({"require": ["tp <= 8 GB"]}, "'<=' mixes a size and a number without a unit", "give the parameter a unit"),
    ({"require": ["memory <= 8 GB"]}, "--require: unknown name 'memory'", "did you mean"),
]


@pytest.mark.parametrize(("options", "message", "hint"), REFUSED, ids=lambda case: str(case)[:40])
def test_edit_that_means_nothing_is_refused_with_its_option(
    options: dict[str, list[str] | str], message: str, hint: str | None
) -> None:
    with pytest.raises(SpecError) as caught:
        edited(SYSTEM2, **options)
    assert message in str(caught.value)
    assert hint is None or str(caught.value.hint).startswith(hint)


# --- data and rules -------------------------------------------------------------------------------------------


def test_set_changes_data_and_nothing_else() -> None:
    before, after = bound(SYSTEM2), edited(SYSTEM2, set_=["memory_capacity=80 GB", "latency=1 us", "layers=95"])
    assert after.npu.memory_capacity_bytes == after.data["memory_capacity"] == 80 * GB
    assert [after.data[f"latency[{d}]"] for d in range(4)] == [10**6] * 4
    assert after.workload.layers == after.data["layers"] == 95
    assert before.data["memory_capacity"] == 24 * GB
    assert size(before) < size(after)


def test_one_latency_is_set_alone() -> None:
    data = edited(SYSTEM2, set_=["latency[1]=2 us"]).data
    assert (data["latency[0]"], data["latency[1]"]) == (20_000, 2_000_000)


def test_required_rules_join_and_dropped_rules_go() -> None:
    instance = edited(SYSTEM2, require=["tp <= 8", "pp == 1"], without=["fits,inner"])
    names = [rule.name for rule in instance.parameter_set.constraints]
    assert names[-2:] == ["required_1", "required_2"]
    assert not {"fits", "inner"} & set(names)


def test_scope_brings_its_own_rules() -> None:
    names = [rule.name for rule in edited(SYSTEM2, scope="network").parameter_set.constraints]
    assert {"ring_follows", "direct_follows", "halving_follows"} <= set(names)


@pytest.mark.parametrize(
    ("options", "added"),
    [
        ({}, False),
        ({"objective": "step_time * network_cost"}, True),
        ({"objective": "step_time  *  network_cost"}, True),
        ({"require": ["network_cost <= 1000000000 $"]}, True),
        ({"require": ["network_cost <= 1000000000 $"], "without": ["priced"]}, False),
        ({"require": ["total_bandwidth <= 900 GB/s"]}, False),
    ],
)
def test_blocks_without_a_price_are_excluded_where_dollars_count(
    options: dict[str, list[str] | str], added: bool
) -> None:
    names = [rule.name for rule in edited("cosmic/table1-1024", **options).parameter_set.constraints]
    assert ("priced" in names) == added


def test_a_rule_reads_the_same_whatever_is_fixed_or_set() -> None:
    for rule in (
        "topology[0] != switch",
        "price_rule == libra implies tp == 1",
        "tier[1] == package",
        "tier[0] != pod",
    ):
        for options in ({}, {"fix": ["topology=ring"]}, {"set_": ["price_rule=libra"]}):
            instance = edited(SYSTEM2, require=[rule], **options)
            assert instance.parameter_set.constraints[-1].text == rule


def test_network_cost_follows_the_price_rule(tmp_path: Path) -> None:
    """By hand, 8 NPUs: 75 GB/s of links at 2 $; 50 GB/s of switch at link + switch + NIC, or at two links."""
    path = write(tmp_path)
    assert dollars(path, "libra") == 8 * 75 * 2 + round(8 * 50 * (4.5 + 13 + 31.6))
    assert dollars(path, "cosmic") == 8 * 75 * 2 + round(8 * 50 * (2 * 4.5 + 13 + 31.6))


def dollars(path: Path, rule: str) -> int:
    instance = edited(path, set_=[f"price_rule={rule}"])
    quantity = instance.parameter_set.quantities["network_cost"]
    assert isinstance(quantity, Quantity)
    baseline = {name: np.array([value]) for name, value in instance.baseline.items()}
    return sum(int(term.evaluate({name: baseline[name] for name in term.names})[0]) for term in quantity.terms)


# --- a user's own files ---------------------------------------------------------------------------------------


def test_own_files_are_found_beside_the_file_that_names_them(tmp_path: Path) -> None:
    instance = bound(write(tmp_path))
    assert instance.name == "instance"
    assert instance.npu.peak_flop_per_s == 100 * 10**12
    assert instance.npu.memory_capacity_bytes == instance.data["memory_capacity"] == 16 * GB
    assert (instance.workload.layers, instance.data["npus"], instance.dimensions) == (4, 8, 2)
    assert instance.parameter_set.column("bandwidth[0]").values == (50 * GB, 75 * GB, 100 * GB)
    assert instance.job["sequence"] == 128
    assert size(instance) == 3 * (2 * 2) * (3 * 2)


def test_scope_of_an_own_model_fixes_the_rest_to_the_systems_values(tmp_path: Path) -> None:
    instance = edited(write(tmp_path), scope="degrees")
    assert size(instance) == 2
    assert instance.parameter_set.column("bandwidth[0]").values == (75 * GB,)


def test_parts_may_be_written_in_place(tmp_path: Path) -> None:
    workload = "{name: w, layers: 2, hidden: 8, heads: 2, ffn: 8, sequence: 8, vocabulary: 10}"
    path = write(tmp_path, "instance.yaml", "parts/workload.yaml", workload)
    assert bound(path).workload.layers == 2
    device = "{name: d, peak: 1 TFLOPS, memory_bandwidth: 1 GB/s, memory_capacity: 1 GB}"
    path = write(tmp_path, "parts/system.yaml", "device.yaml", device)
    assert bound(path).npu.peak_flop_per_s == 10**12
    prices = "{name: p, tiers: {board: {link: 1 $}, rack: {link: 1 $, switch: 1 $}}}"
    path = write(tmp_path, "parts/system.yaml", "prices.yaml", prices)
    assert size(bound(path)) == 72


def test_what_the_model_does_not_declare_is_data_from_the_system(tmp_path: Path) -> None:
    path = write(tmp_path, "parts/model.yaml", "  world: dp * tp == npus", "  world: dp * tp == product(npus_per_dim)")
    instance = edited(path, require=["multidim == baseline", "algorithm[1] == direct", "latency[1] == 1 us"])
    assert size(instance) == 72
    assert instance.data["npus_per_dim[1]"] == 4


def test_bandwidth_that_is_no_parameter_still_has_a_total_and_a_cost(tmp_path: Path) -> None:
    """By hand, 8 NPUs on links: 75 GB/s at 2 $ and 50 GB/s at 4.5 $ are 3,000 $; three splits of eight."""
    line = "  bandwidth: {stack: network, per: dim, unit: bytes/s, domain: [50 GB/s, 100 GB/s]}\n"
    path = write(tmp_path, "parts/model.yaml", line, "")
    model = tmp_path / "parts/model.yaml"
    model.write_text(model.read_text().replace("topology, bandwidth]", "topology]"), encoding="utf-8")
    assert size(edited(path, require=["total_bandwidth <= 125 GB/s"])) == 3 * 4
    assert size(edited(path, require=["total_bandwidth < 125 GB/s"])) == 0
    assert size(edited(path, require=["network_cost <= 3000 $"])) == 3
    assert size(edited(path, require=["network_cost < 3000 $"])) == 0


def test_latency_may_be_a_parameter(tmp_path: Path) -> None:
    line = "  latency: {stack: network, per: dim, unit: time, domain: [20 ns, 1 us]}\n  chunks:"
    path = write(tmp_path, "parts/model.yaml", "  chunks:", line)
    instance = edited(path, free=["latency"], require=["sum(latency) <= 40 ns"])
    assert instance.parameter_set.column("latency[0]").values == (20_000, 1_000_000)
    assert size(instance) == 72


# --- hostile models and instances -----------------------------------------------------------------------------

MODEL, SYSTEM, INSTANCE = "parts/model.yaml", "parts/system.yaml", "instance.yaml"
HOSTILE = {
    "bandwidth without a unit": (MODEL, "50 GB/s, 100", "50, 100", MODEL, "50 what?"),
    "index of an unknown datum": (
        MODEL,
        "{dim: dims}",
        "{dim: dmis}",
        MODEL,
        "the index 'dim' needs the number 'dmis'",
    ),
    "index of a text": (MODEL, "{dim: dims}", "{dim: price_rule}", MODEL, "needs the number 'price_rule'"),
    "unused index of an unknown datum": (MODEL, "{dim: dims}", "{dim: dims, x: y}", MODEL, "the index 'x' needs"),
    "parameter named like a datum": (MODEL, "  chunks:", "  npus:", MODEL, "'npus' already names a number"),
    "parameter named like a quantity": (
        MODEL,
        "  chunks:",
        "  step_time:",
        MODEL,
        "'step_time' already names a number",
    ),
    "degree of nothing": (MODEL, "[1, 2, 4]", "[0, 2, 4]", MODEL, "'tp' cannot be 0"),
    "degree with a name": (MODEL, "[1, 2, 4]", "[one, two]", INSTANCE, "2 is not in the domain of 'tp'"),
    "unknown block": (MODEL, "[ring, switch]", "[ring, switch, mash]", MODEL, "'topology' cannot be 'mash'"),
    "domain of an unknown datum": (MODEL, "to: npus", "to: gpus", MODEL, "the domain names 'gpus'"),
    "rule on an unknown name": (MODEL, "== npus", "== gpus", MODEL, "unknown name 'gpus'"),
    "unknown workload": (INSTANCE, "parts/workload.yaml", "gpt5", INSTANCE, "unknown workload 'gpt5'"),
    "missing file": (INSTANCE, "parts/workload.yaml", "gone.yaml", INSTANCE, "there is no file 'gone.yaml'"),
    "wrong kind of file": (INSTANCE, "parts/workload.yaml", "parts/device.yaml", "parts/device.yaml", "this is a"),
    "other kind of workload": ("parts/workload.yaml", "transformer", "dlrm", "parts/workload.yaml", "unknown kind"),
    "other kind of job": (INSTANCE, "training", "dreaming", INSTANCE, "unknown kind of job 'dreaming'"),
    "no batch": (INSTANCE, ", global_batch: 64", "", INSTANCE, "the job gives no global_batch"),
    "batch of zero": (INSTANCE, "global_batch: 64", "global_batch: 0", INSTANCE, "global_batch = 0 is out of range"),
    "batch as a list": (INSTANCE, "global_batch: 64", "global_batch: [64]", INSTANCE, "expected a number"),
    "unknown datum": (INSTANCE, "price_rule", "price_rool", INSTANCE, "unknown datum 'price_rool'"),
    "datum twice": (INSTANCE, "16 GB", "16 GB, global_batch: 1", INSTANCE, "is given in job and in data"),
    "parameter as data": (INSTANCE, "16 GB", "16 GB, dp: 2", INSTANCE, "'dp' is a parameter of this model"),
    "wrong unit": (INSTANCE, "16 GB", "16 GB/s", INSTANCE, "'16 GB/s' is a bandwidth"),
    "unknown scope": (INSTANCE, "scope: all", "scope: al", INSTANCE, "unknown scope 'al'"),
    "unknown objective": (INSTANCE, "objective: step_time", "objective: speed", INSTANCE, "unknown objective 'speed'"),
    "design of an unknown parameter": (INSTANCE, "{dp: 2", "{dq: 2", INSTANCE, "unknown parameter 'dq'"),
    "design of the wrong kind": (INSTANCE, "tp: 2", "tp: ring", INSTANCE, "ring is not in the domain of 'tp'"),
    "design below one": (INSTANCE, "tp: 2", "tp: 0", INSTANCE, "0 is not in the domain of 'tp'"),
    "design with an unknown category": (
        INSTANCE,
        "tp: 2",
        "topology: [ring, rng]",
        INSTANCE,
        "rng is not in the domain of 'topology[1]'",
    ),
    "design for one dimension only": (
        INSTANCE,
        "tp: 2",
        "topology: [ring]",
        INSTANCE,
        "1 values of 'topology' for 2 dimensions",
    ),
    "rule name twice": (INSTANCE, "small_tp", "world", INSTANCE, "the rule 'world' is declared twice"),
    "no dimensions": (SYSTEM, "dimensions:", "dimensions: []\nx:", SYSTEM, "unknown key 'x'"),
    "unknown topology": (SYSTEM, "topology: ring", "topology: rong", SYSTEM, "unknown topology 'rong'"),
    "unknown algorithm": (SYSTEM, "algorithm: direct", "algorithm: diretc", SYSTEM, "unknown algorithm 'diretc'"),
    "no NPUs": (SYSTEM, "npus: 4", "npus: 0", SYSTEM, "0 is not positive"),
    "negative latency": (SYSTEM, "latency: 1 us", "latency: -1 us", SYSTEM, "'-1 us' is negative"),
    "latency without a unit": (SYSTEM, "latency: 1 us", "latency: 1", SYSTEM, "1 needs a unit of time"),
    "unknown setting of collectives": (SYSTEM, "chunks: 4", "chunk: 4", SYSTEM, "unknown key 'chunk'"),
    "setting of the wrong kind": (SYSTEM, "chunks: 4", "chunks: [4]", SYSTEM, "expected a whole number"),
    "unknown tier": (SYSTEM, "tier: rack", "tier: rock", SYSTEM, "no prices for the tier 'rock'"),
    "price in bytes": ("parts/prices.yaml", "13 $", "13 GB", "parts/prices.yaml", "is '13 GB'"),
    "price as a list": ("parts/prices.yaml", "13 $", "[13]", "parts/prices.yaml", "expected a price"),
    "negative price": ("parts/prices.yaml", "13 $", "-13 $", "parts/prices.yaml", "the price of a switch is -13"),
    "unknown part": ("parts/prices.yaml", "nic", "cable", "parts/prices.yaml", "unknown part 'cable'"),
    "device without memory": ("parts/device.yaml", "32 GB", "0 GB", "parts/device.yaml", "'0 GB' is not positive"),
}


@pytest.mark.parametrize(("file", "old", "new", "blamed", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_file_is_refused_by_name(
    tmp_path: Path, file: str, old: str, new: str, blamed: str, message: str
) -> None:
    path = write(tmp_path, file, old, new)
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        bound(path)
    where = caught.value.where
    assert where is not None
    assert where.file == str(tmp_path / blamed)
    assert where.line is not None


def test_parameter_fixed_by_the_scope_needs_a_value(tmp_path: Path) -> None:
    path = write(tmp_path, SYSTEM, "chunks: 4, ", "")
    path.write_text(path.read_text().replace(", chunks: 4}", "}"), encoding="utf-8")
    with pytest.raises(SpecError, match="the instance fixes 'chunks' but gives it no value") as caught:
        bound(path)
    assert caught.value.hint == "add it under 'design:', or free it with --free chunks"


def test_index_with_too_many_members_is_refused_before_columns_are_made(tmp_path: Path) -> None:
    path = write(tmp_path, MODEL, "{dim: dims}", "{dim: dims, byte: memory_capacity}")
    with pytest.raises(LimitError, match="the index 'byte' has 16,000,000,000 members") as caught:
        bound(path)
    assert caught.value.hint == f"at most {MAX_MEMBERS:,}"


def test_cost_without_prices_is_refused_by_the_objective_that_needs_it(tmp_path: Path) -> None:
    path = write(tmp_path, SYSTEM, "prices: prices.yaml\n", "")
    path.write_text(path.read_text().replace("objective: step_time", "objective: step_time * network_cost"), "utf-8")
    with pytest.raises(SpecError, match="the objective needs network_cost") as caught:
        bound(path)
    assert caught.value.hint == "give the system prices, and every dimension a tier"


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        ("network_cost <= 5 $", "give the system prices, and every dimension a tier"),
        ("unpriced_blocks == 0", "give the system prices, and every dimension a tier"),
        ("host_memory_per_npu <= 5 GB", "it needs a model with offloading knobs"),
        ("order_repeats == 0", "it needs the parameter 'order'"),
    ],
)
def test_a_quantity_that_the_problem_does_not_have_says_what_it_needs(tmp_path: Path, rule: str, hint: str) -> None:
    with pytest.raises(SpecError, match="is not known: ") as refused:
        _ = Problem.load(written(tmp_path)).require(rule).instance
    assert hint in str(refused.value.hint)
