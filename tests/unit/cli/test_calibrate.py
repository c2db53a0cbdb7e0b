"""`calibrate`: a device file from measured rows; hostile files end in a hint and leave nothing behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.errors import SpecError
from cosmic_opt.system.hardware import Origin
from tests.unit.analysis.measured_steps import STEP as MEASURED
from tests.unit.cli.running import run

DATA = Path(__file__).parents[3] / "benchmarks" / "data"
DOCS = Path(__file__).parents[3] / "docs" / "cli.md"
HEADER = "kernel,precision,m,n,k,value\n"
ROW = "gemm,bf16,64,4096,4096,1.5e-05\n"


def write(folder: Path, text: str, name: str = "rows.csv") -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_file_is_written_that_loads_as_the_device_with_the_fitted_constants(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    done = run("calibrate", "--device", "H100", "--rows", str(DATA / "kernels.json"), "--out", str(out), "--json")
    assert done.code == 0, done.err
    device = load_device(str(out))
    assert (device.name, device.extrapolates) == ("h100-sxm-calibrated", ())
    after = {change["constant"]: change["after"] for change in done.keys["changes"]}
    assert device.gemm.simple.memory_fraction == pytest.approx(after["gemm.simple.memory_fraction"], rel=1e-4)
    assert device.attention.decode_launch_s == pytest.approx(after["attention.decode_launch_s"], rel=1e-4)
    assert device.fabric == load_device("h100-sxm").fabric


def test_the_file_says_where_it_comes_from(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    run("calibrate", "--device", "h100", "--rows", write(tmp_path, HEADER + ROW), "--out", str(out), "--quiet")
    text = out.read_text(encoding="utf-8")
    assert "fitted by cosmic-opt calibrate on 1 rows of rows.csv (sha256 " in text
    assert "starting from h100-sxm" in text
    assert str(tmp_path) not in text


def test_a_written_file_is_a_device_of_a_system(tmp_path: Path) -> None:
    run("calibrate", "--device", "h100", "--rows", write(tmp_path, HEADER + ROW), "--out", str(tmp_path / "my.yaml"))
    root = Path(__file__).parents[3] / "instances"
    instance = (root / "llama3-405b" / "h100-16k.yaml").read_text(encoding="utf-8")
    system = (root / "_systems" / "dgx-h100-16k.yaml").read_text(encoding="utf-8")
    (tmp_path / "system.yaml").write_text(system.replace("device: h100-sxm", "device: my.yaml"), encoding="utf-8")
    changed = instance.replace("system: dgx-h100-16k", "system: system.yaml")
    assert changed != instance
    done = run("count", write(tmp_path, changed, "instance.yaml"), "--json")
    assert done.keys["value"] == run("count", "llama3-405b/h100-16k", "--json").keys["value"]


def test_errors_before_and_after_constants_and_residuals_are_printed(tmp_path: Path) -> None:
    done = run("calibrate", "--device", "a100-80", "--rows", str(DATA / "collectives.json"))
    assert done.code == 0
    for part in ("before", "after", "fabric.efficiency", "largest residuals", "left out", "held out"):
        assert part in done.out
    assert len(done.out.splitlines()) < 60


def test_every_json_key_is_documented() -> None:
    section = DOCS.read_text(encoding="utf-8").split("\n## calibrate\n")[1]
    keys = run("calibrate", "--device", "gb200", "--rows", str(DATA / "collectives.json"), "--json").keys
    for key in keys.keys() - {"schema"}:
        assert f"`{key}`" in section, key
    for name in ("errors", "changes", "residuals"):
        for key in keys[name][0]:
            assert key in section, key


STEP: dict[str, Any] = MEASURED | {"value": 2.6}


@pytest.mark.parametrize(
    ("factor", "message"), [(1e-9, "is not usable"), (1e-3, "cannot be explained"), (1e3, "cannot be explained")]
)
def test_steps_in_another_unit_are_refused_and_nothing_is_written(factor: float, message: str, tmp_path: Path) -> None:
    steps = write(tmp_path, json.dumps([STEP | {"value": 2.6 * factor}]), "steps.json")
    out = tmp_path / "mine.yaml"
    done = run("calibrate", "--device", "h100", "--steps", steps, "--out", str(out))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "unit of 'value'" in done.err
    assert not out.exists()


def test_the_text_says_how_many_rows_are_left_out_and_why() -> None:
    done = run("calibrate", "--device", "a100-80", "--rows", str(DATA / "kernels.json"))
    assert done.out.startswith("a100-80: 1 rows fitted, 387 left out")
    assert "113  of another device: a100-sxm" in done.out


def test_a_written_file_has_the_mode_that_the_users_umask_leaves(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    before = os.umask(0o022)
    try:
        run("calibrate", "--device", "h100", "--rows", write(tmp_path, HEADER + ROW), "--out", str(out), "--quiet")
    finally:
        os.umask(before)
    assert out.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_few_own_steps_refine_and_the_file_says_so(tmp_path: Path) -> None:
    steps = write(tmp_path, json.dumps([STEP]), "steps.json")
    out = tmp_path / "mine.yaml"
    done = run("calibrate", "--device", "h100", "--steps", steps, "--out", str(out), "--json")
    assert done.code == 0, done.err
    assert {change["constant"] for change in done.keys["changes"]} >= {"gemm.sustained.bf16", "fabric.nic_efficiency"}
    assert "no longer predicts independently" in out.read_text(encoding="utf-8")
    device = load_device(str(out))
    assert device.sustained_fraction("bf16") < load_device("h100").sustained_fraction("bf16")
    assert (device.board, device.origin) == ("h100-sxm", Origin("h100-sxm", rows=0, steps=1))


def test_steps_of_a_csv_file_are_those_of_a_json_file(tmp_path: Path) -> None:
    flat = {key: entry for key, entry in STEP.items() if not isinstance(entry, dict)}
    flat |= {f"{part}.{key}": entry for part in ("dims", "network") for key, entry in STEP[part].items()}
    files = {"steps.csv": f"{','.join(flat)}\n{','.join(map(str, flat.values()))}\n", "steps.json": json.dumps([STEP])}
    done = [
        run("calibrate", "--device", "h100", "--steps", write(tmp_path, text, name), "--json")
        for name, text in files.items()
    ]
    assert done[0].keys == done[1].keys
    assert done[0].keys["warnings"] == []


def test_a_misspelt_key_of_steps_or_rows_is_named_once(tmp_path: Path) -> None:
    steps = write(tmp_path, json.dumps([STEP | {"interleav": 2}, STEP | {"interleav": 2}]), "steps.json")
    done = run("calibrate", "--device", "h100", "--steps", steps)
    assert done.out.count("warning: not read: interleav (did you mean interleave?) (2 rows)") == 1
    rows = write(tmp_path, HEADER.replace("value", "value,precison") + ROW.replace("\n", ",bf16\n"))
    keys = run("calibrate", "--device", "h100", "--rows", rows, "--json").keys
    assert keys["warnings"] == ["not read: precison (did you mean precision?) (1 row)"]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("recompute", "recompute is not stated: what memory implies is assumed (2 rows)"),
        ("stack", "the software stack is not named: megatron-te-2025 assumed (2 rows)"),
        pytest.param("mbs", "the micro-batch is not stated: the framework's default (2 rows)", marks=pytest.mark.slow),
    ],
)
def test_what_steps_leave_open_is_said_once_with_the_number_of_its_rows(key: str, said: str, tmp_path: Path) -> None:
    silent = {name: value for name, value in STEP.items() if name != key}
    steps = write(tmp_path, json.dumps([silent, silent]), "steps.json")
    assert run("calibrate", "--device", "h100", "--steps", steps).out.count(f"warning: {said}") == 1
    assert run("calibrate", "--device", "h100", "--steps", steps, "--json").keys["warnings"] == [said]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"value": 2600},
            "odd is 1,000 times longer than the other steps would have it: probably in milliseconds; it is left",
        ),
        ({"value": 0.0433}, "60 times shorter than the other steps would have it: probably in minutes"),
        ({"value": 2600, "metric": "tokens_per_s"}, "times longer than the other steps would have it: check its unit"),
        ({"value": 2600, "metric": "step_time_ms"}, None),
        ({"value": 8.3}, "odd is 3.2 times longer than the other steps would have it, and fitted: check its job"),
        ({"value": 5.0}, "odd is 1.9 times longer than"),
        ({"value": 1.9}, "odd is 1.4 times shorter than"),
        ({"value": 2.8}, None),
    ],
)
def test_one_step_in_another_unit_is_named(change: dict[str, Any], said: str | None, tmp_path: Path) -> None:
    rows = [*([STEP] * 3), STEP | {"id": "odd"} | change]
    done = run("calibrate", "--device", "h100", "--steps", write(tmp_path, json.dumps(rows), "steps.json"), "--json")
    assert len(done.keys["warnings"]) == (said is not None)
    assert (said or "") in "".join(done.keys["warnings"])


def test_an_instance_on_a_device_refined_on_steps_keeps_its_group_and_says_so(tmp_path: Path) -> None:
    steps = write(tmp_path, json.dumps([STEP]), "steps.json")
    run("calibrate", "--device", "h100", "--steps", steps, "--out", str(tmp_path / "mine.yaml"), "--quiet")
    root = Path(__file__).parents[3] / "instances"
    system = (root / "_systems" / "dgx-h100-1024.yaml").read_text(encoding="utf-8")
    write(tmp_path, system.replace("device: h100-sxm", "device: mine.yaml"), "system.yaml")
    instance = (root / "llama3-70b" / "h100-64.yaml").read_text(encoding="utf-8")
    own = write(tmp_path, instance.replace("system: dgx-h100-1024", "system: system.yaml"), "own.yaml")
    before, after = (run("simulate", name, "--json").keys["prediction"] for name in ("llama3-70b/h100-64", own))
    assert (before["calibrated"], after["calibrated"]) == (None, {"device": "h100-sxm", "rows": 0, "steps": 1})
    assert (after["group"], after["extrapolates"]) == (before["group"], [])
    assert after["high_s"] / after["low_s"] == pytest.approx(before["high_s"] / before["low_s"])
    assert "h100-sxm, calibrated on 1 measured step; the interval is still that of" in run("simulate", own).out


def test_a_device_file_that_claims_another_origin_is_refused(tmp_path: Path) -> None:
    steps = write(tmp_path, json.dumps([STEP]), "steps.json")
    run("calibrate", "--device", "h100", "--steps", steps, "--out", str(tmp_path / "mine.yaml"), "--quiet")
    text = (tmp_path / "mine.yaml").read_text(encoding="utf-8").replace("from: h100-sxm", "from: h200-sxm")
    with pytest.raises(SpecError, match="the kernels do not refine 'h200-sxm'"):
        load_device(write(tmp_path, text, "other.yaml"))


def test_the_energy_of_a_flop_survives_the_written_file(tmp_path: Path) -> None:
    row = STEP | {"gpu": "B200", "precision": "fp8", "stack": "megatron-te-2025", "value": 0.7}
    steps, out = write(tmp_path, json.dumps([row]), "steps.json"), tmp_path / "mine.yaml"
    done = run("calibrate", "--device", "b200", "--steps", steps, "--out", str(out), "--json")
    assert done.code == 0, done.err
    after = {change["constant"]: change["after"] for change in done.keys["changes"]}
    written = load_device(str(out)).gemm
    assert written.joules_per_flop_bit == pytest.approx(after["gemm.joules_per_flop_bit"], rel=1e-4)
    assert written.base_w == load_device("b200").gemm.base_w


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "rows.csv"),
        ("kernel\n", "rows.csv"),
        ("a,b\n1,2\n", "rows.csv"),
        (HEADER + ROW.replace("1.5e-05", "nan"), "rows.csv"),
        (HEADER + ROW.replace("1.5e-05", "-1"), "rows.csv"),
        (HEADER + ROW.replace("1.5e-05", ""), "rows.csv"),
        (HEADER + ROW.replace("64", "0"), "rows.csv"),
        (HEADER + ROW.replace("gemm", "gem"), "rows.csv"),
        (HEADER + "gemm,bf16\n", "rows.csv"),
        ("\x00\x01", "rows.csv"),
        ("[]", "rows.json"),
        ('[{"gbs": 8, "value": 3}]', "rows.json"),
        ('{"rows": 3}', "rows.json"),
        ("{", "rows.json"),
    ],
)
def test_hostile_rows_are_refused_with_a_hint_and_nothing_is_written(text: str, name: str, tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    done = run("calibrate", "--device", "h100", "--rows", write(tmp_path, text, name), "--out", str(out))
    assert (done.code, done.out) == (2, "")
    assert "hint:" in done.err
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--device", "h10", "--rows", "ROWS"),
        ("--device", "", "--rows", "ROWS"),
        ("--device", "mine.yaml", "--rows", "ROWS"),
        ("--device", "h100"),
        ("--device", "h100", "--rows", "nowhere.csv"),
        ("--device", "h100", "--steps", "ROWS"),
        ("--device", "h100", "--rows", "ROWS", "--out", "mine.txt"),
        ("--device", "h100", "--rows", "ROWS", "--out", "nowhere/mine.yaml"),
    ],
)
def test_wrong_options_are_refused_with_a_hint(arguments: tuple[str, ...], tmp_path: Path) -> None:
    rows = write(tmp_path, HEADER + ROW)
    done = run("calibrate", *(rows if argument == "ROWS" else argument for argument in arguments))
    assert (done.code, done.out) == (2, "")
    assert "hint:" in done.err


def test_an_existing_file_is_replaced_only_with_force(tmp_path: Path) -> None:
    rows, out = write(tmp_path, HEADER + ROW), tmp_path / "mine.yaml"
    out.write_text("kept", encoding="utf-8")
    assert run("calibrate", "--device", "h100", "--rows", rows, "--out", str(out)).code == 2
    assert out.read_text(encoding="utf-8") == "kept"
    assert run("calibrate", "--device", "h100", "--rows", rows, "--out", str(out), "--force").code == 0
    assert "h100-sxm-calibrated" in out.read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    rows, refusal = write(tmp_path, HEADER + ROW), PermissionError(13, "Permission denied")
    with mock.patch("cosmic_opt.cli.files.token_hex", side_effect=refusal):
        done = run("calibrate", "--device", "h100", "--rows", rows, "--out", str(tmp_path / "mine.yaml"))
    assert (done.code, done.out) == (2, "")
    assert "cannot write" in done.err
    assert "Permission denied" in done.err
