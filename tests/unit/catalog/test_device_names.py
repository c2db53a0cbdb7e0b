"""Devices as people, drivers, schedulers and frameworks spell them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.catalog.device_names import boards_left_open, boards_named, describe, device_aliases, device_named
from cosmic_opt.errors import SpecError

SPELLINGS = {
    "h100-sxm": (
        *("NVIDIA H100 80GB HBM3", "H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3", "NVIDIA H100", "H100 SXM5 80 GB"),
        *("NVIDIA H100 Tensor Core GPU", "nvidia h100 sxm", "HGX H100", "H100_SXM5", "NVIDIA H100 SXM5 80GB HBM3"),
        *("H100 85GB", "H100 80GiB", "H100-SXM-80", "H100 80", "h100 sxm5 80", "8x NVIDIA H100 80GB HBM3", "H100x8"),
        *("H100 SXM5 80G", "NVIDIA-H100-80G", "h100_sxm5_80gb", "gpu_8x_h100_sxm5", "gpu:h100:8", "8 H100s"),
        *("HGX H100 8-GPU", "DGX H100 (8 GPUs)", "8-GPU H100", "H100-SXM5x8"),
        *("8 x H100", "8×H100", "H100 x 8", "H100 80GB x8", "NVIDIA H100 (x8)", "16384 x H100-SXM-80", "H100*8"),
    ),
    "h100-nvl": ("NVIDIA H100 NVL", "H100 NVL 94GB HBM3", "NVIDIA H100 NVL 96GB"),
    "h200-sxm": (
        "8 x H200 SXM",
        "NVIDIA H200",
        "NVIDIA-H200",
        "H200 141GB HBM3e",
        "H200 SXM5",
        "NVIDIA H200 144GB",
        "H200 SXM",
    ),
    "h800-sxm": ("NVIDIA H800", "H800", "H800 SXM5 80GB", "NVIDIA H800 80GB HBM3", "8x H800"),
    "gh200": ("NVIDIA GH200 480GB", "NVIDIA GH200 96GB HBM3", "NVIDIA GH200"),
    "a100-80": (
        *("NVIDIA A100-SXM4-80GB", "A100 80GB SXM", "A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB-SHARED", "NVIDIA A100"),
        *("A100 SXM4 80 GB", "A100 80GB", "NVIDIA A100 SXM4 80GB HBM2e", "a100 sxm 80", "a100 80 sxm4", "A100 x 40"),
        *("2x A100 SXM4", "A100-SXM4"),
    ),
    "a100-40": (
        *("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB", "A100 40GB", "A100 SXM 40GB", "A100 40 GB HBM2", "a100_40g"),
        *("a100 sxm 40", "A100_40_SXM4", "8x A100 40", "8xA100-40GB"),
    ),
    "a100-sxm": ("A100-SXM", "a100 sxm", "NVIDIA A100-SXM", "8x A100-SXM"),
    "h100-sxm-96": (
        "NVIDIA H100 96GB HBM3",
        "H100 SXM5 96GB HBM3",
        "H100 96GB 700W",
        "h100 96 hbm3",
        "4x H100-96G-HBM3",
    ),
    "h100-96-500w": ("NVIDIA H100 96GB HBM2e", "H100 96GB", "H100 96", "H100-96GB-500W", "4x H100 96GB", "H100 500W"),
    "a100-pcie-80": (
        "NVIDIA A100 80GB PCIe",
        "A100-PCIE-80GB",
        "NVIDIA A100-PCIE-80GB",
        "NVIDIA A100 PCIe",
        "a100 80 pcie",
    ),
    "b200": ("NVIDIA B200", "B200 180GB HBM3e", "B200 192GB", "NVIDIA B200 SXM6"),
    "b300": ("NVIDIA B300 SXM6 AC", "NVIDIA B300", "B300 288GB"),
    "gb200": ("NVIDIA GB200", "GB200 192GB", "NVIDIA GB200 NVL72", "GB200 186GB HBM3e"),
    "gb300": ("NVIDIA GB300", "NVIDIA GB300 NVL72", "gb300-nvl72", "GB300_NVL72"),
    "l40s": ("4 L40s", "L40Sx4", "NVIDIA L40S", "NVIDIA-L40S", "L40S 48GB GDDR6", "L40S 46GB"),
    "mi300x": (
        *("MI300Xx8", "mi300xx8", "MI300X_x8", "8× MI300X"),
        "AMD Instinct MI300X",
        "AMD Instinct MI300X OAM",
        "Instinct MI300X 192GB HBM3",
        "AMD Instinct MI300X VF",
    ),
    "mi325x": ("MI325Xx8", "AMD Instinct MI325X", "MI325X 256GB"),
    "mi355x": ("AMD Instinct MI355X", "AMD Instinct MI355X OAM"),
    "mi250": ("AMD Instinct MI250", "AMD Instinct MI250X / MI250", "AMD INSTINCT MI250 (MCM) OAM AC MBA"),
    "gaudi2": ("GAUDI2", "Intel Gaudi 2 AI accelerator", "Habana Gaudi2", "HL-225", "Intel Gaudi2"),
    "tpu-v4": ("TPU v4", "Google Cloud TPU v4"),
    "tpu-v5e": ("TPU v5 lite", "TPU v5e", "Google TPU v5e", "TPU v5litepod", "tpu-v5-litepod", "tpu-v5litepod-256"),
    "tpu-v5p": ("TPU v5", "TPU v5p", "Cloud TPU v5p"),
    "tpu-v6e": ("TPU v6e (Trillium)", "TPU v6 lite", "Trillium", "Google TPU v6e"),
    "trn2": ("AWS Trainium2", "Trainium 2", "trn2"),
}


@pytest.mark.parametrize(
    ("spelled", "device"), [(spelled, device) for device, all_ in SPELLINGS.items() for spelled in all_]
)
def test_what_drivers_and_people_write_means_its_device(spelled: str, device: str) -> None:
    assert device_named(spelled) == device


def test_every_device_is_in_the_table() -> None:
    assert set(device_aliases().values()) == set(SPELLINGS)


@given(st.sampled_from(sorted(device_aliases())), st.sampled_from(["{}", "NVIDIA {}", "amd instinct {} OAM", "{} GPU"]))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_vendor_words_change_no_device(spelled: str, written: str) -> None:
    assert device_named(written.format(spelled)) == device_aliases()[spelled]


@pytest.mark.parametrize(
    ("spelled", "boards"),
    [
        ("H100-PCIe", "h100-sxm (80 GB)"),
        ("NVIDIA H100 PCIe", "h100-nvl (94 GB)"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-80 (80 GB)"),
        ("NVIDIA A100-SXM-64GB", "a100-40 (40 GB), a100-80 (80 GB)"),
        ("A100-SXM-64GBx4", "a100-40 (40 GB), a100-80 (80 GB)"),
        ("4x A100 SXM 64G", "a100-40 (40 GB), a100-80 (80 GB)"),
        ("MI250Xx8", "mi250 (128 GB)"),
        ("H100 96GB HBM2e 700W", "h100-sxm-96 (96 GB)"),
        ("H100 96GB HBM3e", "h100-sxm-96 (96 GB)"),
        ("H100 80GB 350W", "h100-sxm (80 GB)"),
        ("H100 64GB", "h100-sxm (80 GB)"),
        ("H200 NVL", "h200-sxm (141 GB)"),
        ("GH200 144GB HBM3e", "gh200 (96 GB)"),
        ("AMD Instinct MI250X", "mi250 (128 GB)"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "a100-80 (80 GB)"),
        ("A100-SXM4-40GB 80GB", "a100-80 (80 GB)"),
        ("TPU v3", "tpu-v4 (32 GB)"),
        ("8x H100 PCIe", "h100-sxm (80 GB)"),
        ("H100 96GB PCIe", "h100-96-500w (96 GB)"),
        ("H100 SXM 64", "h100-sxm (80 GB)"),
        ("H100 80 80", "h100-sxm (80 GB)"),
        ("A100-SXM4-40GB 80", "a100-80 (80 GB)"),
        ("A100 81", "a100-80 (80 GB)"),
        ("H100 x 0", "h100-sxm (80 GB)"),
        ("H100 x 8 x 8", "h100-sxm (80 GB)"),
        ("H100 x -8", "h100-sxm (80 GB)"),
        ("H100 x 1.5", "h100-sxm (80 GB)"),
    ],
)
def test_a_board_that_is_not_modelled_is_refused_with_those_of_its_family(spelled: str, boards: str) -> None:
    with pytest.raises(SpecError, match="unknown device") as caught:
        device_named(spelled)
    assert caught.value.hint is not None
    assert "this board is not modelled" in caught.value.hint
    assert boards in caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "NVIDIA",
        "80GB",
        "NVIDIA GPU",
        "V100",
        "GeForce RTX 4090",
        "nan",
        "-1",
        "H" * 10**6,
        "0GB A100",
        "8x",
        "x8",
        "40 A100",
        "0x H100",
        "MI250X8",
        "mi250x8",
        "H100" + 200 * " " + "PCIe",
    ],
)
def test_what_names_no_device_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="unknown device") as caught:
        device_named(name)
    assert len(str(caught.value)) < 1000


def test_a_name_says_its_words_and_one_memory() -> None:
    assert describe("NVIDIA A100-SXM4-40GB").words == ("a100", "sxm4")
    assert describe("NVIDIA A100-SXM4-40GB").memory_gb == 40
    assert describe("TPU v5e").memory_gb is None
    assert describe("A100 40GB or 80GB").memory_gb is None


@pytest.mark.parametrize(
    ("spelled", "boards"),
    [
        ("MI300Xx8", ("MI300X", 8)),
        ("8xH100", ("H100", 8)),
        ("H100 x8", ("H100", 8)),
        ("8 x H200 SXM", ("H200 SXM", 8)),
        ("4 L40s", ("L40s", 4)),
        ("1024 H100s", ("H100", 1024)),
        ("DGX H100 (8 GPUs)", ("DGX H100", 8)),
        ("tpu-v5litepod-16", ("tpu-v5litepod", 16)),
        ("GB300 NVL72", ("GB300 NVL72", None)),
        ("A100 80", ("A100 80", None)),
        ("A100-SXM-64GBx4", ("A100-SXM-64GBx4", None)),
        ("8x H100 x8", ("8x H100 x8", None)),
        ("RTX 4090", ("RTX 4090", None)),
        ("", ("", None)),
    ],
)
def test_a_number_of_boards_is_read_beside_the_name_of_a_device(spelled: str, boards: tuple[str, int | None]) -> None:
    assert boards_named(spelled) == boards


@pytest.mark.parametrize("spelled", ["H100 96GB", "NVIDIA H100 96 GB", "h100-96", "8x H100 96GB", "H100 96GiB"])
def test_a_name_that_two_boards_have_leaves_the_other_open(spelled: str) -> None:
    assert boards_left_open(spelled) == ("h100-96-500w", "h100-sxm-96")


@pytest.mark.parametrize(
    "spelled",
    ["H100 96GB HBM3", "H100 96GB HBM2e", "H100-96GB-500W", "H100", "A100 80GB", "GH200 96GB", "", "V100", "8x"],
)
def test_a_kind_of_memory_a_power_or_a_name_of_its_own_leaves_nothing_open(spelled: str) -> None:
    assert boards_left_open(spelled) == ()
