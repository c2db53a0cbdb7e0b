"""The one place that says what the arrays of the training-step kernel hold.

A design is scored in two stages, so that a search can bound and branch on network options.

*Prepare.* Everything that does not depend on topology, algorithm, bandwidth or latency becomes one row of

    whole    int64 [W]       counts, flags and compute ticks (`Whole`)
    payload  float64 [D, P]  bytes of one chunk of each phase on each dimension (`Payload`)
    links    int64 [D, L]    where the cost tables answer for each group, and how it reduces there (`Link`)

*Option vectors.* One option (topology, algorithm, bandwidth, latency) of dimension d turns row d of `payload`
and `links` into K tick counts (`Slot`). `compose` maps `whole` and the D vectors to the time of the step. It only
adds, multiplies and takes maxima, so it is non-decreasing in every slot, and componentwise minima over
options give a lower bound.

Every enumeration below names the positions along one axis.
"""

from __future__ import annotations

from enum import IntEnum

from cosmic_opt.system.collectives import ALGORITHMS
from cosmic_opt.system.multidim import SCHEMES, THEMIS
from cosmic_opt.system.topology import TOPOLOGIES
from cosmic_opt.workloads.placement import ORDERS
from cosmic_opt.workloads.training import RECOMPUTE

MAX_DIMENSIONS = 8

LIMIT_TICKS = 4e18
"""A step longer than this (46 days) may not fit 64 bits and is refused."""

NO_TIME = 2**63 - 1
"""The step of a design that cannot run, or runs longer than LIMIT_TICKS."""

INFEASIBLE = 2**62
"""In every slot of an option that the dimension cannot run; above any time, so minima pass it over."""

Scalar = IntEnum(
    "Scalar",
    "DP TP PP SP ZERO_STAGE MICRO_BATCH RECOMPUTE CHUNKS MULTIDIM"
    " SEQUENCE_PARALLEL OVERLAP_GRADIENTS OVERLAP_WEIGHTS INTERLEAVE"
    " WEIGHT_OFFLOAD ACTIVATION_OFFLOAD OPTIMIZER_OFFLOAD ORDER COUNT",
    start=0,
)
"""Structural input of a row; `npus_per_dim[d]` follow from COUNT on, then `extent[g,d]` where ORDER is EXPLICIT."""

DEGREES = (Scalar.TP, Scalar.SP, Scalar.DP, Scalar.PP)
"""The degree of each group, in the order of `workloads.placement.GROUPS`."""

EXPLICIT = len(ORDERS)
"""The ORDER of a row that gives its extents itself; below it, a position in `workloads.placement.ORDERS`."""

Option = IntEnum("Option", "TOPOLOGY ALGORITHM BANDWIDTH LATENCY COUNT", start=0)
"""The inputs of one dimension that `prepare` does not see: codes, bytes/s, ticks."""

Whole = IntEnum(
    "Whole",
    "STATUS MICRO_BATCHES PP CHUNKS BLUECONNECT SPREAD ZERO_STAGE RECOMPUTE"
    " SEQUENCE_PARALLEL OVERLAP_GRADIENTS OVERLAP_WEIGHTS INTERLEAVE VOCABULARY_PARALLEL"
    " LAYERS LAYERS_FIRST LAYERS_MIDDLE LAYERS_LAST"
    " FORWARD BACKWARD SELECTIVE EMBED_FORWARD EMBED_BACKWARD HEAD_FORWARD HEAD_BACKWARD"
    " HOST_FORWARD HOST_BACKWARD HOST_STEP"
    " OPTIMIZER_FIRST OPTIMIZER_MIDDLE OPTIMIZER_LAST COUNT",
    start=0,
)
"""FORWARD to HEAD_BACKWARD are compute ticks of one micro-batch in one layer, the embedding or the head, in the
order of the operator groups. HOST_FORWARD and HOST_BACKWARD are the ticks that the link to host memory is busy for one
micro-batch in one layer, HOST_STEP once a step in the fullest stage. LAYERS_MIDDLE is that of the fullest middle stage,
0 without one. SPREAD is 0 unless chunks choose their order of dimensions; then the bit MAX_DIMENSIONS * group +
dimension tells where the groups TENSOR, SEQUENCE and GRADIENT (`Link`) have members."""

Payload = IntEnum(
    "Payload",
    "TENSOR SEQUENCE LAYER_UP LAYER_DOWN EMBED_UP EMBED_DOWN HEAD_UP HEAD_DOWN SEND COUNT",
    start=0,
)
"""Buffers of one chunk: UP is reduced (gradients), DOWN is gathered (gradients or weights). SEND is not cut."""

Link = IntEnum("Link", "TENSOR SEQUENCE GRADIENT STAGE TENSOR_REDUCTION GRADIENT_REDUCTION COUNT", start=0)
"""A table offset for each group, then a `Reduction` for the two groups that all-reduce."""

Reduction = IntEnum("Reduction", "NONE UP_DOWN ALL_REDUCE TOP", start=0)
"""A group's use of a dimension: none, once up and once down, an all-reduce on the way, or one at the top."""

Slot = IntEnum(
    "Slot",
    "TENSOR_UP TENSOR_UP_LATENCY TENSOR_DOWN TENSOR_DOWN_LATENCY"
    " SEQUENCE_UP SEQUENCE_UP_LATENCY SEQUENCE_DOWN SEQUENCE_DOWN_LATENCY"
    " GRADIENT_UP_LATENCY GRADIENT_DOWN_LATENCY"
    " LAYER_UP LAYER_DOWN EMBED_UP EMBED_DOWN HEAD_UP HEAD_DOWN SEND_STEP SEND_CARRY COUNT",
    start=0,
)
"""Ticks of one chunk's phase: serialisation occupies the dimension, latency delays the chunk.

The all-reduce at the top of a `blueconnect` path is served going up, and its latency is booked going down: a
latency belongs to a chunk's last visit. SEND_* are whole messages to the next pipeline stage, latency included:
a step along this dimension, and the way back in it when the message carries into the next.
"""

Status = IntEnum("Status", "OK WORLD_SIZE PLACEMENT ALGORITHM OUTSIDE TOO_LONG", start=0)
"""Why a row has no time: degrees do not fill the network, extents do not multiply to degrees and dimensions, an
algorithm does not exist for an extent, a value was not among the domains of the simulator, or the time exceeds
LIMIT_TICKS."""

Term = IntEnum(
    "Term",
    "FORWARD BACKWARD RECOMPUTE ENDS TENSOR SEQUENCE SENDS BUBBLE GATHER GRADIENT OPTIMIZER OFFLOAD COUNT",
    start=0,
)
"""Parts of the step, which sum to it. Hidden communication follows: GATHER at COUNT, GRADIENT at COUNT + 1."""

TERMS = (
    "forward compute",
    "backward compute",
    "recompute",
    "embedding and head",
    "tensor-parallel communication",
    "sequence-parallel communication",
    "pipeline sends",
    "pipeline bubble",
    "weight gathers (exposed)",
    "gradient synchronisation (exposed)",
    "optimizer",
    "offload (exposed)",
)
HIDDEN = ("weight gathers (hidden)", "gradient synchronisation (hidden)")

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")
"""Last axis of the phase tables."""

CATEGORIES: dict[str, tuple[str, ...]] = {
    "topology": TOPOLOGIES.names(),
    "algorithm": ALGORITHMS.names(),
    "recompute": RECOMPUTE,
    "multidim": SCHEMES,
    "order": ORDERS,
}
"""A category's code in the kernel is its position here."""

SELECTIVE, FULL = RECOMPUTE.index("selective"), RECOMPUTE.index("full")
BLUECONNECT = SCHEMES.index("blueconnect")
SPREAD = SCHEMES.index(THEMIS)
