"""Where tokens travel to their experts beside the compute of another micro-batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.workloads.language_model import LanguageModel
from cosmic_opt.workloads.stack import Stack
from cosmic_opt.workloads.training_designs import TrainingDesigns


def hides_dispatch(model: LanguageModel, stack: Stack, designs: TrainingDesigns) -> NDArray[np.bool_]:
    """Return where dispatch and combine of experts hide behind another micro-batch's compute.

    An interleaved schedule does so, of stacks that overlap it at all. Layers that run again whole rule it out, and so
    do several layers of multi-token prediction (Megatron-Core asserts so).
    """
    able = model.experts is not None and model.mtp_layers < 2 and stack.overlap.dispatch_exposed < 1
    return np.asarray(able & (designs.ep > 1) & (designs.interleave > 1) & (designs.recompute.layers == 0))
