"""Decode steps captured as graphs: what size a batch runs at, and the largest one a server is set up for."""

from __future__ import annotations

import numpy as np

from cosmic_opt.system.hardware import operand_bytes
from cosmic_opt.workloads.engine import Engine
from cosmic_opt.workloads.kv_cache import Served, cache_bytes_per_token
from cosmic_opt.workloads.requests import Requests
from cosmic_opt.workloads.serving_designs import FloatArray, ServingDesigns

LEAST_TUNED, MOST_TUNED = 64, 4096
TUNED_STEPS = ((256, 32), (1024, 128), (np.inf, 256))
"""Below so many sequences, a tuned batch is rounded up to multiples of so many."""


def captured_rows(engine: Engine, sequences: FloatArray, most: FloatArray) -> FloatArray:
    """Return the rows a step of `sequences` sequences computes: those of the next captured step, at most `most`.

    A batch beyond all captured ones runs as it is.
    Source: TensorRT-LLM 1.0, PyTorchModelEngine (_round_up_batch_size, _filter_cuda_graph_batch_sizes).
    """
    if not engine.graph_batches:
        return sequences
    sizes = np.array([*engine.graph_batches, np.inf], dtype=float)
    following = sizes[np.searchsorted(sizes[:-1], sequences)]
    return np.asarray(np.maximum(np.minimum(following, most), sequences))


def tuned_batch(served: Served, designs: ServingDesigns, requests: Requests) -> FloatArray:
    """Return the largest batch a replica is set up for when its requests are known and its free memory is not.

    It is the engine's share of all memory that weights leave, in whole requests, rounded up, per micro-batch of a tp
    group. The estimate is made before anything is loaded: no workspace, no scales, weights in the arithmetic's width.
    Source: TensorRT-LLM 1.0, trtllm-bench (calc_engine_setting, finetune_setting).
    """
    weights = served.model.parameters() * operand_bytes(served.numbers.compute) / designs.replica_gpus
    room = served.engine.memory.share * np.maximum(served.memory_bytes - weights, 0.0)
    cache = (requests.prompt + requests.output) * cache_bytes_per_token(served, designs)
    raw = np.minimum(room / cache, MOST_TUNED) / designs.pp
    (first, small), (second, middle), (_, large) = TUNED_STEPS
    step = np.where(raw < first, small, np.where(raw < second, middle, large))
    return np.asarray(designs.ep * designs.pp * np.maximum(step * np.ceil(raw / step), LEAST_TUNED))
