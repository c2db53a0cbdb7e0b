"""Inference engines and number formats, by name and from a user's file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.engines import check_devices, engine_names, load_engine, load_number_format
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError
from cosmic_opt.workloads.engine import share_on

SHIPPED = data_root() / "instances" / "_engines" / "vllm.yaml"


@pytest.mark.parametrize("name", engine_names())
def test_every_shipped_engine_loads_under_its_own_name_and_states_its_sources(name: str) -> None:
    assert load_engine(name).name == name
    sources = (SHIPPED.parent / f"{name}.yaml").read_text(encoding="utf-8").partition("\nsource:")[2]
    for part in ("host", "attention", "memory", "kernels", "expert_rows", "weight_only_fraction", "overlaps_stages"):
        assert f"\n  {part}: " in sources


def test_times_and_sizes_are_read_with_their_units() -> None:
    engine = load_engine("vllm")
    assert engine.host.step_s == pytest.approx(1.4e-3)
    assert engine.kernel_s == pytest.approx(2.5e-6)
    assert engine.attention.head_bytes_per_s == 150e9
    assert engine.memory.workspace_bytes == 1e9


def test_only_an_engine_that_says_so_fuses_a_clamped_gate() -> None:
    assert [name for name in engine_names() if load_engine(name).fused_clamped_gate] == ["tensorrt-llm-2025"]


def test_only_one_engine_captures_steps_hides_its_host_and_narrows_apart() -> None:
    for engine in map(load_engine, engine_names()):
        newest = engine.name == "tensorrt-llm-2025"
        assert engine.overlaps_host is engine.quantises_apart is newest
        assert bool(engine.graph_batches) is newest
        assert engine.product_depth_s == ({"fp4": pytest.approx(0.75e-9)} if newest else {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("graph_batches: [8, 4]", r"graph_batches is \[8, 4\]"),
        ("graph_batches: [4, 4]", r"graph_batches is \[4, 4\]"),
        ("graph_batches: [0, 4]", "0"),
        ("graph_batches: [-1]", "-1"),
        ("graph_batches: [1.5]", "whole number"),
        ("graph_batches: [.nan]", "whole number"),
        ("graph_batches: [1, 99999999999999999999999]", "allowed: 1 to 1000000000"),
        ("graph_batches: 8", "expected a list"),
        ("graph_batch: [8]", "graph_batch"),
        ("overlaps_host: 1", "overlaps_host|true"),
        ("product_depth: {fp4: -1 ns}", "below zero"),
        ("product_depth: {fp4: fast}", "fast"),
        ("product_depth: {fp4: 1 GB}", "1 GB"),
        ("product_depth: {fp9: 1 ns}", "unknown precision 'fp9'"),
        ("product_depth: [1 ns]", "key: value"),
    ],
)
def test_captured_steps_and_depths_that_make_no_sense_are_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"{SHIPPED.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    with pytest.raises(SpecError, match=message):
        load_engine(str(path))


def test_the_longest_prefix_of_a_device_names_its_share() -> None:
    shares = {"mi300": 0.3, "mi300x-oam": 0.4}
    assert share_on(shares, "mi300x") == 0.3
    assert share_on(shares, "mi300x-oam-2") == 0.4
    assert share_on(shares, "h100") is None


@pytest.mark.parametrize(
    ("device", "share"),
    [
        ("mi325x", 0.3),
        ("MI355X", 0.3),
        ("mi210", 0.6),
        ("mi100", 0.3),  # as near to both: the smaller one
        ("h100", None),
        ("m300", None),
        ("", None),
    ],
)
def test_a_device_that_is_not_named_has_the_share_of_its_nearest_relative(device: str, share: float | None) -> None:
    assert share_on({"mi300": 0.3, "mi250": 0.6}, device) == share


def test_a_board_no_one_measured_has_the_shares_of_its_family_in_every_engine() -> None:
    for engine in map(load_engine, engine_names()):
        for shares in (engine.matmul_share, engine.attention.memory_share, engine.prefill_fraction):
            assert share_on(shares, "mi325x") == share_on(shares, "mi355x") == share_on(shares, "mi300x")


def test_an_unknown_engine_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(SpecError, match="tensorrt-llm"):
        load_engine("tensorrt")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("elementwise_fraction: 0.7", "elementwise_fraction: fast", "not a number"),
        ("elementwise_fraction: 0.7", "elementwise_fraction: -1", "not a usable number"),
        ("elementwise_fraction: 0.7", "elementwise_fraction: 0", "elementwise_fraction is 0"),
        ("elementwise_fraction: 0.7\n", "", "is missing"),
        ("grouped_reads: 1.8", "grouped_reads: 0", "grouped_reads is 0"),
        ("grouped_reads: 1.8", "grouped_reads: 0.5", "grouped_reads is 0.5"),
        ("narrow_reads: 1.6", "narrow_reads: 0.5", "narrow_reads is 0.5"),
        ("elementwise_fraction: 0.7", "elementwise_fraction: 7", "elementwise_fraction is 7"),
        ("weight_only_fraction: 0.7", "weight_only_fraction: 1.01", "weight_only_fraction is 1.01"),
        ("matmul_share: {}", "matmul_share: {h100: 9}", "matmul_share is 9"),
        ("prefill_fraction: {}", "prefill_fraction: {h100: 2}", "prefill_fraction is 2"),
        ("memory_share: {}", "memory_share: {h100: 9.0}", "attention.memory_share is 9.0"),
        ("memory_share: {}", "memory_share: {h100: 1.81}", "attention.memory_share is 1.81"),
        ("output_share: 0.8", "output_share: 5", "output_share is 5"),
        ("memory: {share: 0.9", "memory: {share: 1.5", "memory.share is 1.5"),
        ("matmul_share: {}", "matmul_share: {h100: 0}", "matmul_share is 0"),
        ("block_tokens: 16", "block_tokens: 0", "0"),
        ("block_tokens: 16", "block_tokens: 99999999999999999999999", "allowed: 1 to 1000000000"),
        ("most_sequences: 256", "most_sequences: 99999999999999999999999", "allowed: 1 to 1000000000"),
        ("expert_rows: 16", "expert_rows: 99999999999999999999999", "allowed: 1 to 1000000000"),
        ("head_rate: 150 GB/s", "head_rate: 0 GB/s", "not positive"),
        ("step: 1.4 ms", "step: -1 ms", "-1 ms"),
        ("step: 1.4 ms", "step: 1.4 ms, stop: 1 ms", "unknown key"),
        ("overlaps_stages: false\n", "overlaps_stages: false\nfused_clamped_gate: often\n", "often"),
        ("schema: cosmic-opt/engine@1", "schema: cosmic-opt/device@1", "expected|device@1"),
    ],
)
def test_a_damaged_engine_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / "own.yaml"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SpecError, match=message) as refusal:
        load_engine(str(file))
    assert refusal.value.where is not None
    assert refusal.value.where.file is not None


def test_a_format_is_found_in_any_case() -> None:
    fp4 = load_number_format("FP4")
    assert (fp4.compute, fp4.weight_bytes, fp4.cache_bytes) == ("fp4", 0.5625, 1)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(SpecError, match="fp8"):
        load_number_format("fp9")


@pytest.mark.parametrize("name", engine_names())
def test_every_share_of_a_shipped_engine_is_for_some_device(name: str) -> None:
    check_devices(load_engine(name), "h100-sxm", name)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("matmul_share: {}", "matmul_share: {h999: 0.5}", "matmul_share"),
        ("matmul_share: {}", "matmul_share: {h100: 0.5, '': 0.5}", "matmul_share"),
        ("prefill_fraction: {}", "prefill_fraction: {h100-sxm-96-gb: 0.5}", "prefill_fraction"),
        ("memory_share: {}", "memory_share: {nvidia: 0.5}", "attention.memory_share"),
    ],
)
def test_a_share_for_no_device_is_refused_unless_it_is_the_users_own(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(SHIPPED.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    engine = load_engine(str(file))
    with pytest.raises(SpecError, match="no device's name begins with") as refusal:
        check_devices(engine, "h100-sxm", "own.yaml")
    assert refusal.value.hint
    assert str(refusal.value.where) == f"own.yaml: {key}"
    if "h999" in new:
        check_devices(engine, "H999-prototype", "own.yaml")


def test_a_cache_is_read_faster_than_the_memory_only_where_its_keys_are_read_again() -> None:
    """On MI250 a group of heads reads its keys up to eight times, at 1.37 of the memory's rate: less than once each."""
    attention = load_engine("vllm-rocm").attention
    assert 1 < attention.memory_share["mi250"] < attention.grouped_reads
    one = replace(attention, grouped_reads=1.0)
    with pytest.raises(SpecError, match=r"memory_share is 1\.37") as refusal:
        replace(load_engine("vllm-rocm"), attention=one)
    assert "at most grouped_reads, 1:" in str(refusal.value.hint)


def test_an_instance_refuses_an_engine_with_a_share_for_no_device(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(SHIPPED.read_text(encoding="utf-8").replace("matmul_share: {}", "matmul_share: {h999: 0.5}"))
    with pytest.raises(SpecError, match="'h999'"):
        Problem.load("llama3-70b/h100-8-serving").set(engine=str(file)).count()
