"""The report of one served design: latencies, rates, where a token's time goes, what its memory holds."""

from __future__ import annotations

from collections.abc import Mapping

from cosmic_opt.catalog.job_kinds import ENERGY
from cosmic_opt.catalog.served import Serving
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.search.report import Report
from cosmic_opt.search.system_metrics import energy_j, system_metrics
from cosmic_opt.simulation.calibrated.serving_simulator import ServingSimulator
from cosmic_opt.units import TICKS_PER_SECOND
from cosmic_opt.workloads.serving_quantities import designs_of_pool, knob_name, serving_memory


def serving_report(
    serving: Serving, simulator: ServingSimulator, design: DesignBatch, quantities: Mapping[str, int]
) -> Report:
    """Return the full score of one design that runs.

    `memory_bytes` and its parts are those of the pool that needs most. `users` are requests under way at once.
    """
    columns = design.value_columns()
    values = simulator.values(columns)
    pools = {pool: serving_memory(serving.in_memory, designs_of_pool(values, pool), pool) for pool in simulator.pools}
    worst = max(pools, key=lambda pool: int(pools[pool].total_bytes[0]))
    metrics: dict[str, float | int | None] = {name: float(each[0]) for name, each in simulator.metrics(columns).items()}
    metrics |= {
        "users": int(metrics["users"] or 0),
        "npus_used": quantities["npus_used"],
        "memory_bytes": quantities[knob_name(worst, "memory_per_npu")],
        "kv_cache_bytes": quantities[knob_name(worst, "kv_cache_per_npu")],
        "cache_room_bytes": quantities[knob_name(worst, "cache_room_per_npu")],
        "memory_capacity_bytes": int(serving.device.memory_bytes),
    }
    metrics |= system_metrics(quantities)
    own = design.parameter_set
    metrics["energy_per_token_j"] = energy_j(own, int(simulator.ticks_of(columns, ENERGY.name)[0]))
    token, first = (simulator.breakdown(columns, metric) for metric in ("output_token_time", "first_token_time"))
    return Report(
        metrics,
        {name: ticks / TICKS_PER_SECOND for name, ticks in token.items()},
        {},
        max(token, key=lambda name: token[name]),
        pools,
        quantities,
        simulator.predict(columns),
        {name: ticks / TICKS_PER_SECOND for name, ticks in first.items()},
    )
