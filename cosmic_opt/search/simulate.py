"""Score one design in full: metrics, breakdown, memory, and every rule it breaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.calibrated import Calibrated
from cosmic_opt.catalog.system_size import stated_npus
from cosmic_opt.psa.evaluate import holds
from cosmic_opt.psa.parameter_set import Constraint, DesignBatch
from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.search.npus_used import npus_used
from cosmic_opt.search.objective import quantity_values
from cosmic_opt.search.report import Report
from cosmic_opt.search.score import simulator_of
from cosmic_opt.search.serving_report import serving_report
from cosmic_opt.search.system_metrics import energy_j, system_metrics
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator, Evaluation
from cosmic_opt.simulation.calibrated.serving_simulator import ServingSimulator
from cosmic_opt.simulation.calibrated.simulator import CalibratedSimulator
from cosmic_opt.units import TICKS_PER_SECOND
from cosmic_opt.workloads.framework_memory import framework_memory
from cosmic_opt.workloads.knobs import DEFAULTS, knob_names
from cosmic_opt.workloads.memory import Designs, MemoryBreakdown, memory_per_npu
from cosmic_opt.workloads.training import training_job

__all__ = ["Report", "report", "violations"]


def violations(batch: DesignBatch) -> list[Constraint]:
    """Return the structural rules that the (one) design breaks."""
    rules = batch.parameter_set.constraints
    return [rule for rule in rules if not rule.simulated and not holds(rule, batch)[0]]


def report(instance: BoundInstance, design: DesignBatch, *, scored: Evaluation | None = None) -> Report:
    """Return the full score of one feasible design; `scored` is what another engine makes of it.

    Raises:
        InfeasibleError: the simulator cannot run it.
        LimitError: its step takes longer than the simulator's clock can hold.
    """
    simulator = simulator_of(instance)
    columns = design.value_columns()
    evaluation = simulator.evaluate(columns) if scored is None else scored
    quantities = {
        name: int(quantity_values(quantity, design)[0])
        for name, quantity in instance.parameter_set.quantities.items()
        if isinstance(quantity, Quantity)
    }
    npus, stated = int(instance.data["npus"]), stated_npus(instance.data)
    if isinstance(simulator, ServingSimulator):
        served = serving_report(simulator.serving, simulator, design, quantities)
        return replace(served, npus_used=int(npus_used(design)[0]), npus=npus, stated_npus=stated)
    terms = {name: int(ticks) for name, ticks in zip(simulator.terms, evaluation.terms[0], strict=True)}
    assert sum(terms.values()) == int(evaluation.step_ticks[0]), "the breakdown adds up"
    used = int(npus_used(design)[0])
    metrics = _training_metrics(instance, simulator, evaluation, quantities, max(npus, used))
    return Report(
        metrics,
        {name: ticks / TICKS_PER_SECOND for name, ticks in terms.items()},
        {
            name: int(ticks) / TICKS_PER_SECOND
            for name, ticks in zip(simulator.hidden, evaluation.hidden[0], strict=True)
        },
        max(terms, key=lambda name: terms[name]),
        _faithful_memory(instance, design),
        quantities,
        simulator.predict(columns) if isinstance(simulator, CalibratedSimulator) else None,
        npus_used=used,
        npus=npus,
        stated_npus=stated,
    )


def _training_metrics(
    instance: BoundInstance,
    simulator: AnalyticalSimulator | CalibratedSimulator,
    evaluation: Evaluation,
    quantities: Mapping[str, int],
    npus: int,
) -> dict[str, float | int | None]:
    """Return what is printed of one training design on `npus` NPUs, in the units that the names say."""
    rates = simulator.rates_of(evaluation.step_ticks, npus)
    return {
        "step_time_s": float(rates.step_time_s[0]),
        "throughput_sequences_per_s": float(rates.sequences_per_s[0]),
        "throughput_tokens_per_s": float(rates.tokens_per_s[0]),
        "model_flop_per_s_per_npu": float(rates.model_flop_per_s[0]),
        "model_flop_fraction": float(rates.model_flop_fraction[0]),
        "micro_batches": int(evaluation.micro_batches[0]),
        "memory_bytes": quantities["memory_per_npu"],
        "memory_cosmic_bytes": quantities.get("memory_per_npu_cosmic"),
        "memory_capacity_bytes": int(instance.data["memory_capacity"]),
        "total_bandwidth_bytes_per_s": quantities.get("total_bandwidth"),
        **system_metrics(quantities),
        "energy_j": energy_j(instance.parameter_set, int(evaluation.step_ticks[0])),
    }


def _faithful_memory(instance: BoundInstance, design: DesignBatch) -> MemoryBreakdown:
    if isinstance(instance.calibrated, Calibrated):
        return _framework_memory(instance, instance.calibrated, design)
    job = training_job(instance.workload, {**instance.data, **instance.job})
    values = design.value_columns()
    if "weight_sharded" in values:
        values["zero_stage"] = 3 * np.asarray(values.pop("weight_sharded"))
    return memory_per_npu(instance.workload, job, Designs.of(job, values))


def _framework_memory(instance: BoundInstance, calibrated: Calibrated, design: DesignBatch) -> MemoryBreakdown:
    columns = design.value_columns()
    knobs = {name: np.array([instance.data.get(name, value)]) for name, value in DEFAULTS.items()}
    knobs |= {knob: columns[name] for knob, name in knob_names(columns).items()}
    data = instance.data
    return framework_memory(calibrated.memory_job(int(data["seq"]), int(data["global_batch"])), knobs)
