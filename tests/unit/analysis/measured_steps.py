"""A measured training step that tests of refinement share."""

from __future__ import annotations

from typing import Any

STEP: dict[str, Any] = {
    **{"gpu": "H100-SXM", "metric": "step_time_s", "value": 10.0, "gpus": 64, "seq": 2048, "gbs": 512, "mbs": 4},
    **{
        "tp": 1,
        "pp": 1,
        "dp": 64,
        "fsdp": "FULL_SHARD",
        "recompute": "full",
        "precision": "bf16",
        "stack": "fsdp-2023",
    },
    "dims": {"layers": 32, "hidden": 4096, "heads": 32, "vocab": 50368, "ffn": 16384},
    "network": {"gpus_per_node": 8, "scale_out_bytes_per_s": 50e9},
}
