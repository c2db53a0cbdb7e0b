import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.system.npu import Npu

A100 = Npu("a100", 312 * 10**12, 2000 * 10**9, 80 * 10**9)


def test_a_compute_bound_kernel_takes_flops_over_peak() -> None:
    assert A100.roofline_ticks(10**12, 10**9) == 3205128205


def test_a_memory_bound_kernel_takes_bytes_over_bandwidth() -> None:
    assert A100.roofline_ticks(10**9, 10**9) == 500_000_000


def test_nothing_to_do_takes_no_time() -> None:
    assert A100.roofline_ticks(0, 0) == 0


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "9"])
def test_a_rate_that_is_not_a_positive_whole_number_is_refused(value: object) -> None:
    with pytest.raises(SpecError, match="peak_flop_per_s"):
        Npu("x", value, 1, 1)  # type: ignore[arg-type]
