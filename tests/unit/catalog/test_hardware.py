"""Device files as the calibrated models read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.catalog.device_names import device_aliases, plain_name
from cosmic_opt.catalog.hardware import load_device
from cosmic_opt.catalog.store import shared_names
from cosmic_opt.errors import SpecError

CALIBRATED = sorted(set(device_aliases().values()))
FITTED = ("a100-80", "a100-sxm", "h100-sxm", "h200-sxm", "b200")
GOOD = """
schema: cosmic-opt/device@1
name: mine
peak: 500 TFLOPS
memory_bandwidth: 2 TB/s
memory_capacity: 64 GB
source: {peak: "a test"}
kernels:
  like: h100-sxm
  sms: 64
  source: "a test"
"""


def mine(folder: Path, text: str = GOOD) -> str:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("A100-SXM4-80GB", "a100-80"),
        ("A100 (memory size not read)", "a100-80"),
        ("A100-40GB (memory recalled)", "a100-40"),
        ("A100-SXM", "a100-sxm"),
        ("H100-SXM (HGX)", "h100-sxm"),
        ("H100-80GB", "h100-sxm"),
        ("h100", "h100-sxm"),
        ("H100-HBM2e-96GB-500W", "h100-96-500w"),
        ("H100-NVL", "h100-nvl"),
        ("GH200-96GB", "gh200"),
        ("B200-SXM", "b200"),
        ("GB200-NVL72", "gb200"),
        ("GB300-NVL72", "gb300"),
        ("MI250 (devices counted as in the file)", "mi250"),
        ("Gaudi2", "gaudi2"),
        ("TPU v5p", "tpu-v5p"),
        ("trainium2", "trn2"),
        ("A100-80GB, NVLink bridge pairs, PCIe across pairs", "a100-pcie-80"),
    ],
)
def test_every_spelling_in_use_means_its_device(spelled: str, name: str) -> None:
    assert load_device(spelled).name == name


def test_no_spelling_means_two_devices() -> None:
    spelled = [plain_name(each) for name in CALIBRATED for each in (name, *load_device(name).aliases)]
    owners = {each: device_aliases()[each] for each in spelled}
    for name in CALIBRATED:
        for each in (name, *load_device(name).aliases):
            assert owners[plain_name(each)] == name


@pytest.mark.parametrize("name", CALIBRATED)
def test_a_device_file_loads_and_says_what_it_extrapolates(name: str) -> None:
    device = load_device(name)
    assert device.name == name
    assert set(device.extrapolates) <= {"gemm", "sustained", "attention", "fabric"}
    assert device.fabric is not None
    assert device.gpus_per_domain >= 2
    assert 0 < device.sustained_fraction("bf16") <= 1
    for precision in device.peak_flop_per_s:
        assert 0 < device.sustained_fraction(precision) <= 1


def test_devices_with_rows_of_their_own_do_not_extrapolate_their_kernels() -> None:
    for name in FITTED:
        assert not {"gemm", "attention"} & set(load_device(name).extrapolates), name
    for name in ("b300", "gb200", "gb300"):
        assert "fabric" not in load_device(name).extrapolates, name


def test_twenty_one_or_more_devices_are_shipped() -> None:
    wanted = (
        *("a100-40", "a100-80", "h100-sxm", "h100-nvl", "h200-sxm", "gh200", "b200", "b300", "gb200", "gb300"),
        *("mi300x", "mi325x", "mi355x", "mi250", "gaudi2", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "trn2", "l40s"),
    )
    assert set(wanted) <= set(CALIBRATED) <= set(shared_names("devices"))


@pytest.mark.parametrize("name", ["tpu-v4", "tpu-v5p", "trn2", "l40s", "mi300x", "gaudi2"])
def test_a_device_without_any_rows_says_so_of_every_group(name: str) -> None:
    assert {"gemm", "attention", "fabric"} <= set(load_device(name).extrapolates)


@pytest.mark.parametrize("name", ["H10", "a100-81", "", "nvidia", "cosmic-system1"])
def test_an_unknown_device_is_refused_with_the_nearest_names(name: str) -> None:
    with pytest.raises(SpecError, match="unknown device") as caught:
        load_device(name)
    assert caught.value.hint


def test_a_lower_power_limit_lowers_an_inherited_sustained_rate_by_its_root() -> None:
    full, capped = load_device("h100-sxm"), load_device("h100-96-500w")
    assert capped.sustained_fraction("bf16") / full.sustained_fraction("bf16") == pytest.approx((500 / 700) ** 0.5)
    assert load_device("h100-nvl").sustained_fraction("bf16") < capped.sustained_fraction("bf16")


def test_boards_of_one_chip_multiply_in_proportion_to_the_power_they_have_to_spare() -> None:
    low, high = load_device("b200"), load_device("gb200")
    spare = (high.power_w - low.gemm.base_w) / (low.power_w - low.gemm.base_w)
    for precision in ("fp8", "fp4"):
        rates = [device.powered_fraction(precision) * device.peak(precision) for device in (low, high)]
        cold = high.gemm.tile.efficiency * high.gemm.relative[precision] * high.peak(precision)
        assert rates[1] == pytest.approx(min(spare * rates[0], cold))
        assert rates[0] < low.gemm.tile.efficiency * low.gemm.relative[precision] * low.peak(precision)


def test_a_power_limit_that_leaves_nothing_for_products_is_refused(tmp_path: Path) -> None:
    for top, more, found in (("power: 240 W\n", "", "240 W"), ("", "  gemm: {base_w: 2000}\n", "1000 W")):
        text = GOOD.replace("kernels:\n  like: h100-sxm\n", f"{top}kernels:\n  like: b200\n{more}")
        with pytest.raises(SpecError, match=f"{found} leave nothing for products") as caught:
            load_device(mine(tmp_path, text))
        assert "mine.yaml" in str(caught.value)
        assert "base_w is" in str(caught.value.hint)


def test_a_users_file_inherits_what_it_does_not_give(tmp_path: Path) -> None:
    device, like = load_device(mine(tmp_path)), load_device("h100-sxm")
    assert (device.name, device.sms, device.fabric) == ("mine", 64, None)
    assert device.gemm.simple == like.gemm.simple
    assert device.extrapolates == ("gemm", "sustained", "attention")
    assert set(device.peak_flop_per_s) == {"bf16", "fp16"}
    assert device.gpus_per_domain == 1


def test_a_file_that_refines_a_device_keeps_what_is_its_own(tmp_path: Path) -> None:
    device = load_device(mine(tmp_path, GOOD.replace("like: h100-sxm", "refines: h100-sxm")))
    assert device.extrapolates == ()
    assert "fp8" in device.peak_flop_per_s


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("like: h100-sxm", "like: h1000", "no device 'h1000' to refer to"),
        ("like: h100-sxm", "like: cosmic-system1", "has no 'kernels' section"),
        ("  like: h100-sxm\n", "", "the constant 'gemm.simple' is missing"),
        ("sms: 64", "sms: 0", "out of range"),
        ("sms: 64", "sms: many", "expected a whole number"),
        ("sms: 64", "sms: 64\n  speed: 3", "unknown key 'speed'"),
        ("sms: 64", "sms: 64\n  peaks: {fp9: 1 TFLOPS}", "unknown precision 'fp9'"),
        ("sms: 64", "sms: 64\n  attention: {efficiency: .nan}", "expected a number"),
        ("sms: 64", "sms: 64\n  attention: {efficiency: -1}", "out of range"),
        ("sms: 64", "sms: 64\n  attention: {decode_launch: 3 GB}", "is meant here"),
        ("sms: 64", "sms: 64\n  attention: {decode_launch: 3 min}", "out of range"),
        ("sms: 64", "sms: 64\n  gemm: {sustained: {bf16: text}}", "expected a number"),
        ("sms: 64", "sms: 64\n  gemm: {sustained: {bf61: 0.9}}", "unknown precision 'bf61'"),
        ("sms: 64", "sms: 64\n  gemm: {relativ: {fp8: 0.9}}", "unknown key 'relativ'"),
        ("sms: 64", "sms: 64\n  attention: {eficiency: 0.6}", "unknown key 'eficiency'"),
        ("sms: 64", "sms: 64\n  gemm: {energy_pj: -1}", "out of range"),
        ("sms: 64", "sms: 64\n  gemm: {base_w: .nan}", "expected a number"),
        ("sms: 64", "sms: 64\n  gemm: {energy_pj: 3.85e-14}", "out of range"),
        ("sms: 64", "sms: 64\n  gemm: {base_w: 10}", "means nothing without the energy"),
        ("sms: 64", "sms: 64\n  refines: h100-sxm", "either refines a device or is like one"),
        ("kernels:", "kernel:", "unknown key 'kernel'"),
        ("schema: cosmic-opt/device@1", "schema: cosmic-opt/system@1", "expected 'cosmic-opt/device@1'"),
        ("500 TFLOPS", "0 TFLOPS", "not positive"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(old: str, new: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_device(mine(tmp_path, GOOD.replace(old, new)))
    assert reason in str(caught.value)
    assert "yaml" in str(caught.value.where)


def test_a_file_without_kernel_constants_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no kernel constants"):
        load_device(mine(tmp_path, GOOD.split("kernels:")[0]))


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(SpecError, match="cannot read the file"):
        load_device("nowhere.yaml")


def test_a_file_with_a_lower_limit_is_the_board_under_that_limit(tmp_path: Path) -> None:
    for like, power in (("b200", 600), ("h100-sxm", 350)):
        text = GOOD.replace("kernels:\n  like: h100-sxm", f"power: {power} W\nkernels:\n  like: {like}")
        board, limited = load_device(mine(tmp_path, text)), load_device(like).limited_to(power)
        assert board.gemm.sustained == limited.gemm.sustained
        assert board.power_w == limited.power_w


def test_a_kind_of_memory_is_text_where_a_file_says_it(tmp_path: Path) -> None:
    assert load_device("b200").memory_type == "HBM3e"
    assert load_device("tpu-v5p").memory_type is None
    for wrong in ("3", "[HBM3]", "null"):
        path = mine(tmp_path, GOOD.replace("kernels:", f"memory_type: {wrong}\nkernels:", 1))
        with pytest.raises(SpecError):
            load_device(path)


def test_a_generation_is_a_number_that_no_other_file_lends(tmp_path: Path) -> None:
    found = {name: load_device(name).compute_capability for name in ("a100-80", "h100-nvl", "gb200", "b300", "mi300x")}
    assert found == {"a100-80": 8.0, "h100-nvl": 9.0, "gb200": 10.0, "b300": 10.3, "mi300x": 0}
    assert load_device(mine(tmp_path, GOOD)).compute_capability == 0  # GOOD is like the H100
    for wrong in ("sm_90", "-1", ".nan", "null", "true", "[9]"):
        path = mine(tmp_path, GOOD.replace("kernels:", f"compute_capability: {wrong}\nkernels:", 1))
        with pytest.raises(SpecError, match=r"compute_capability|number|range"):
            load_device(path)


def test_a_power_that_is_not_published_is_not_the_boards_that_a_device_is_like() -> None:
    for name in ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e"):
        assert load_device(name).power_w == 0
