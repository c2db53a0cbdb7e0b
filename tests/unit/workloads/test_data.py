"""The workload files and the reader; the numbers of system, device and price files."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.units import Unit, parse, parse_exact
from cosmic_opt.workloads.transformer import from_mapping

INSTANCES = Path(__file__).parents[3] / "instances"
FILES = sorted(path for folder in INSTANCES.glob("_*") for path in folder.glob("*.yaml"))

GOOD = {"name": "tiny", "layers": 2, "hidden": 64, "heads": 4, "ffn": 256, "sequence": 32, "vocabulary": 100}


def load(path: Path) -> dict[str, Any]:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(data, dict)
    return data


def named(folder: str, name: str) -> dict[str, Any]:
    return load(INSTANCES / folder / f"{name}.yaml")


@pytest.mark.parametrize(
    ("name", "parameters", "tolerance"),
    [
        ("gpt3-175b", 174.6e9, 0.005),
        ("gpt3-13b", 13.0e9, 0.015),
        ("vit-base", 86.6e6, 0.005),
        ("vit-large", 304e6, 0.005),
        ("llama3-8b", 8_030_261_248, 0),
        ("llama3-70b", 70_553_706_496, 0),
        ("llama3-405b", 405_853_388_800, 0),
    ],
)
def test_a_workload_file_has_the_published_number_of_parameters(name: str, parameters: float, tolerance: float) -> None:
    assert from_mapping(named("_workloads", name), Where(file=name)).parameters() == pytest.approx(
        parameters, rel=tolerance, abs=0
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_data_file_is_named_after_its_file_and_cites_its_source(path: Path) -> None:
    data = load(path)
    assert data.get("name", path.stem) == path.stem  # tables of constants have no name of their own
    assert data["schema"].startswith("cosmic-opt/")
    assert data["source"]


@pytest.mark.parametrize(
    ("name", "tflops", "memory_gb_per_s", "capacity_gb"),
    [
        ("cosmic-system1", 459, 2765, 24),
        ("cosmic-system2", 10, 50, 24),
        ("cosmic-system3", 900, 3000, 24),
        ("a100-80", 312, 2039, 80),
        ("h100-sxm", 989.5, 3350, 80),
        ("h200-sxm", 989.5, 4800, 141),
        ("b200", 2250, 8000, 180),
        ("tpu-v5p", 459, 2765, 95),
    ],
)
def test_a_device_has_its_data_sheet_numbers(name: str, tflops: float, memory_gb_per_s: int, capacity_gb: int) -> None:
    device = named("_devices", name)
    assert parse(device["peak"], Unit.FLOP_PER_S) == int(tflops * 10**12)
    assert parse(device["memory_bandwidth"], Unit.BYTES_PER_S) == memory_gb_per_s * 10**9
    assert parse(device["memory_capacity"], Unit.BYTES) == capacity_gb * 10**9
    assert set(device["source"]) - {"installed_memory", "power", "compute_capability"} == {
        "peak",
        "memory_bandwidth",
        "memory_capacity",
    }


@pytest.mark.parametrize(
    ("name", "npus", "per_link_gb_per_s", "links"),
    [
        ("cosmic-system1", (4, 4, 4, 8), (100, 100, 100, 50), (2, 2, 2, 1)),
        ("cosmic-system2", (4, 8, 4, 8), (187.5, 25, 75, 100), (2, 7, 2, 1)),
        ("cosmic-system3", (8, 16, 4, 4), (128.5714286, 100, 25, 6.25), (7, 1, 2, 2)),
        ("dgx-h100-16k", (8, 2048), (25, 50), (18, 1)),
    ],
)
def test_a_dimension_has_the_bandwidth_of_all_its_links(
    name: str, npus: tuple[int, ...], per_link_gb_per_s: tuple[float, ...], links: tuple[int, ...]
) -> None:
    dimensions = named("_systems", name)["dimensions"]
    assert tuple(dimension["npus"] for dimension in dimensions) == npus
    for dimension, link, count in zip(dimensions, per_link_gb_per_s, links, strict=True):
        assert parse(dimension["bandwidth"], Unit.BYTES_PER_S) == pytest.approx(link * count * 1e9, rel=1e-8)
        assert parse(dimension["latency"], Unit.TIME) > 0


@pytest.mark.parametrize("path", sorted((INSTANCES / "_systems").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_system_names_a_device_and_prices_that_cover_its_tiers(path: Path) -> None:
    system = load(path)
    assert (INSTANCES / "_devices" / f"{system['device']}.yaml").exists()
    tiers = named("_prices", system["prices"])["tiers"]
    for dimension in system["dimensions"]:
        price = tiers[dimension["tier"]]
        assert "link" in price
        assert dimension["topology"] != "switch" or "switch" in price


def test_libra_prices_are_the_published_dollars_per_gigabyte_per_second() -> None:
    tiers = named("_prices", "libra")["tiers"]
    dollars = {tier: {part: float(parse_exact(text)[0]) for part, text in row.items()} for tier, row in tiers.items()}
    assert dollars == {
        "chiplet": {"link": 2.0},
        "package": {"link": 4.0, "switch": 13.0},
        "node": {"link": 4.0, "switch": 13.0},
        "pod": {"link": 7.8, "switch": 18.0, "nic": 31.6},
    }


def test_heads_and_their_width_have_the_usual_defaults() -> None:
    workload = from_mapping(GOOD, Where())
    assert (workload.kv_heads, workload.head_dim) == (4, 16)


@pytest.mark.parametrize(
    ("change", "key", "hint"),
    [
        ({"layer": 2}, "layer", "layers"),
        ({"layers": "two"}, "layers", "96"),
        ({"layers": True}, "layers", "96"),
        ({"layers": None}, "layers", "96"),
        ({"heads": 5}, "head_dim", "head_dim"),
        ({"heads": 0}, "heads", "at least 1"),
        ({"gated_mlp": "yes"}, "gated_mlp", "true"),
        ({"biases": "qkv"}, "biases", "list"),
        ({"biases": ["qvk"]}, "biases", "qkv"),
        ({"norm": 3}, "norm", "name"),
        ({"kv_heads": 3}, "kv_heads", "query heads"),
    ],
)
def test_a_bad_workload_file_is_refused_at_its_key(change: dict[str, Any], key: str, hint: str) -> None:
    with pytest.raises(SpecError) as refused:
        from_mapping({**GOOD, **change}, Where(file="tiny.yaml"))
    assert refused.value.where == Where(file="tiny.yaml", key=key)
    assert hint in str(refused.value.hint)


def test_a_missing_size_is_named() -> None:
    with pytest.raises(SpecError, match=r"tiny.yaml: layers: a transformer needs layers"):
        from_mapping({key: value for key, value in GOOD.items() if key != "layers"}, Where(file="tiny.yaml"))
