"""How many NPUs designs use, whatever the rules say of those that there are."""

from __future__ import annotations

import numpy as np

from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.psa.quantity import IntArray, Quantity
from cosmic_opt.search.objective import quantity_values
from cosmic_opt.workloads.knobs import WORLD, knob_names

REPLICAS = "npus_used"
"""The quantity of a served model that counts the NPUs of all replicas."""


def npus_used(designs: DesignBatch) -> IntArray:
    """Return the NPUs of each design: what the degrees multiply to, or those of all replicas of a served model."""
    served = designs.parameter_set.quantities.get(REPLICAS)
    if isinstance(served, Quantity):
        return quantity_values(served, designs)
    columns = designs.value_columns()
    names = knob_names(columns)
    used = np.ones(len(designs), dtype=np.int64)
    for degree in WORLD:
        if degree in names:
            used *= np.asarray(columns[names[degree]], dtype=np.int64)
    return used
