"""The shipped workloads as shapes."""

from __future__ import annotations

from cosmic_opt.catalog.published import published_workloads
from cosmic_opt.catalog.store import shared_names
from cosmic_opt.workloads.language_model import language_model


def test_every_shipped_workload_is_a_shape() -> None:
    assert [each.name for each in published_workloads()] == shared_names("workloads")


def test_gpt_oss_has_117_billion_weights_and_the_only_clamped_gate() -> None:
    (clamped,) = [each for each in published_workloads() if each.clamped_gate]
    model = language_model(clamped)
    assert clamped.name == "gpt-oss-120b"
    assert model.clamped_gate
    assert abs(model.parameters() / 116.8e9 - 1) < 0.01  # arXiv 2508.10925, table 1
