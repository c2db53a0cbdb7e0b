"""Devices of one's own, in place or in a file: they are what they say, whatever their name."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.store import data_root
from cosmic_opt.errors import SpecError

NAME = "llama3-70b/h100-64"
NUMBERS = "name: {name}, peak: {peak}, memory_bandwidth: 3350 GB/s, memory_capacity: 80 GB, power: 900 W"
LIKE = ", kernels: {like: h100-sxm, source: ours, peaks: {fp8: 1979 TFLOPS}}, fabric: {like: h100-sxm, source: ours}"


def problem(folder: Path, device: str, *, in_place: bool) -> Problem:
    """Return the shipped instance of 64 H100 on a device, given by its keys (in place or in a file) or its name."""
    data = data_root() / "instances"
    system = (data / "_systems" / "dgx-h100-1024.yaml").read_text(encoding="utf-8")
    written = f"{{{device}}}" if ":" in device else f'"{device}"'
    own = written if in_place else "device.yaml"
    (folder / "system.yaml").write_text(system.replace("device: h100-sxm", f"device: {own}"), encoding="utf-8")
    (folder / "device.yaml").write_text(f"{{schema: cosmic-opt/device@1, {device}}}", encoding="utf-8")
    instance = (data / f"{NAME}.yaml").read_text(encoding="utf-8").replace("dgx-h100-1024", "system.yaml")
    (folder / "mine.yaml").write_text(instance, encoding="utf-8")
    return Problem.load(str(folder / "mine.yaml"))


def extrapolates(own: Problem) -> tuple[str, ...]:
    prediction = own.simulate(own.baseline()).prediction
    assert prediction is not None
    return prediction.extrapolates


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", ["h100-sxm", "mine"])
def test_a_device_without_constants_takes_none_of_a_shipped_one_s(name: str, in_place: bool, tmp_path: Path) -> None:
    device = NUMBERS.format(name=name, peak="989.5 TFLOPS")
    with pytest.raises(SpecError, match="the device has no kernel constants") as caught:
        _ = problem(tmp_path, device, in_place=in_place).instance
    assert "kernels: {like: h100-sxm, source: why}" in str(caught.value.hint)
    assert "yaml:" in str(caught.value)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_device_like_a_shipped_one_is_what_it_says_under_any_name(in_place: bool, tmp_path: Path) -> None:
    found = {
        name: problem(tmp_path, NUMBERS.format(name=name, peak="2000 TFLOPS") + LIKE, in_place=in_place)
        for name in ("h100-sxm", "mine")
    }
    times = {name: own.simulate(own.baseline()).metrics["step_time_s"] for name, own in found.items()}
    assert times["h100-sxm"] == times["mine"]
    own = problem(tmp_path, NUMBERS.format(name="h100-sxm", peak="2000 TFLOPS") + LIKE, in_place=in_place)
    assert own.instance.data["device_power"] == 900
    assert "no measured step on h100-sxm, a device of one's own" in extrapolates(own)
    assert "gemm constants of h100-sxm are another device's" in extrapolates(own)
    assert "a peak of 2 PFLOPS, where h100-sxm has 989.5 TFLOPS" in extrapolates(own)


def test_shipped_prices_are_of_shipped_devices_alone(tmp_path: Path) -> None:
    own = problem(tmp_path, NUMBERS.format(name="h100-sxm", peak="700 TFLOPS") + LIKE, in_place=True)
    system = tmp_path / "system.yaml"
    assert "device_price" not in own.instance.data
    assert Problem.load(NAME).instance.data["device_price"] == 30_000
    priced = "prices: {name: mine, tiers: {node: {link: 4 $, switch: 13 $}, pod: {link: 8 $, switch: 18 $}}, "
    text = system.read_text(encoding="utf-8").replace("prices: libra", f"{priced}devices: {{h100-sxm: 20000 $}}}}")
    system.write_text(text, encoding="utf-8")
    assert Problem.load(str(tmp_path / "mine.yaml")).instance.data["device_price"] == 20_000


@pytest.mark.parametrize("name", ["h100-sxm", "H100", "NVIDIA H100 80GB HBM3"])
def test_a_system_finds_a_shipped_device_under_every_name_it_has(name: str, tmp_path: Path) -> None:
    own, shipped = problem(tmp_path, name, in_place=True), Problem.load(NAME)
    assert own.spec.system.device == shipped.spec.system.device
    assert own.instance.data == shipped.instance.data
    assert own.instance.calibrated == shipped.instance.calibrated


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("8x H100", "'8x H100' counts boards", "name one board"),
        ("H101", "unknown device 'H101'", "H100"),
        ("h100-smx", "unknown device 'h100-smx'", "h100-sxm"),
        ("mine.yaml.yml", "there is no file 'mine.yaml.yml'", "known"),
    ],
)
def test_a_name_of_no_device_is_refused_with_the_nearest(name: str, message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        problem(tmp_path, name, in_place=True)
    assert hint in str(caught.value.hint)
    assert "system.yaml:4: device" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"peak": "700 TFLOPS"}, ("a peak of 700 TFLOPS, where h100-sxm has 989.5 TFLOPS",)),
        ({"memory_bandwidth": "4.8 TB/s"}, ("a memory bandwidth of 4.8 TB/s, where h100-sxm has 3.35 TB/s",)),
        ({"peak": "989.5 TFLOPS", "memory_bandwidth": "3350 GB/s"}, ()),
    ],
)
def test_numbers_that_the_board_does_not_have_are_extrapolated(change: dict[str, str], said: tuple[str, ...]) -> None:
    shipped = Problem.load(NAME)
    changed = shipped.set(**change)
    assert extrapolates(changed) == (*extrapolates(shipped), *said)
    before, after = (each.simulate(each.baseline()).prediction for each in (shipped, changed))
    assert before is not None
    assert after is not None
    wider = after.interval[1] / after.step_s > 1.05 * before.interval[1] / before.step_s
    assert wider == bool(said)


def test_a_served_model_says_so_too() -> None:
    served = Problem.load("llama3-70b/h100-8-serving")
    assert not [each for each in extrapolates(served) if "peak" in each]
    assert "a peak of 700 TFLOPS, where h100-sxm has 989.5 TFLOPS" in extrapolates(served.set(peak="700 TFLOPS"))
