"""COSMIC's own memory footprint, exactly, for comparison with the paper's spaces.

It has no optimizer state, no gradients and no attention output projection, and counts `cosmic_layers`; use
`workloads.memory` for a footprint that a real run would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_opt.errors import LimitError
from cosmic_opt.psa.quantity import IntArray
from cosmic_opt.workloads.training import TrainingJob
from cosmic_opt.workloads.transformer import Transformer

_INT64_LIMIT = 2**63


def memory_per_npu_cosmic(workload: Transformer, job: TrainingJob, designs: Mapping[str, IntArray]) -> IntArray:
    """Return COSMIC's bytes per NPU of many designs, rounded up to whole bytes.

    With element size 2, batch B, sequence S, width d, L' layers and n = dp * sp * tp,

        bytes = 2 L'/pp (W_shared / tp + W_attention / (tp or n) + A / n + A_embedding / (n or dp * sp))

    where the two alternatives are weight_sharded = 1 and 0 (COSMIC, arXiv 2505.15020, memory model of the
    authors' published simulator environment). Everything is brought to the denominator pp * n first, so no
    rounding happens before the last division.

    Args:
        workload: Its width, MLP width, heads and default shape.
        job: Batch, sequence and `cosmic_layers`.
        designs: Columns dp, sp, tp, pp, weight_sharded of equal length.

    Raises:
        LimitError: a footprint is beyond 2^63 bytes.
    """
    d, tokens = workload.hidden, job.global_batch * job.sequence
    attention_weights = 3 * d * d
    shared_weights = 2 * d * d + 2 * d * workload.ffn
    layer_activations = tokens * (9 * d + job.sequence * workload.heads + workload.ffn)
    embedding_activations = 2 * tokens * d
    twice_layers = 2 * job.cosmic_layers

    widest = (attention_weights + shared_weights + layer_activations + embedding_activations) * twice_layers
    dp, sp, tp, pp, sharded = _exact_columns(designs, widest)
    replicas = dp * sp
    activations = layer_activations + embedding_activations * (sharded + (1 - sharded) * tp)
    weights = shared_weights * replicas + attention_weights * (sharded * replicas + (1 - sharded))
    footprint: NDArray[Any] = -(-twice_layers * (weights + activations) // (pp * tp * replicas))
    if footprint.dtype == object and footprint.size and max(footprint) >= _INT64_LIMIT:
        raise LimitError("a design needs more than 2^63 bytes per NPU", hint="check global_batch and sequence")
    whole_bytes: IntArray = footprint.astype(np.int64)
    return whole_bytes


def _exact_columns(designs: Mapping[str, IntArray], widest: int) -> list[NDArray[Any]]:
    """The columns as int64, or as Python integers where a numerator could exceed 63 bits.

    `widest` times the largest product of degrees bounds every intermediate value.
    """
    columns = [np.asarray(designs[name]) for name in ("dp", "sp", "tp", "pp", "weight_sharded")]
    bound = widest
    for column in columns[:4]:
        bound *= int(column.max(initial=1))
    kind: type = np.int64 if bound < _INT64_LIMIT else object
    return [column.astype(kind) for column in columns]
