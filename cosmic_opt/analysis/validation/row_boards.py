"""A number of boards in the name of a row's GPU: "8x H100" is `gpus: 8` of an H100."""

from __future__ import annotations

from cosmic_opt.analysis.validation.kinds import Row, clip, whole
from cosmic_opt.catalog.device_names import boards_named
from cosmic_opt.errors import SpecError


def counted(row: Row) -> Row:
    """Return the row with one board in `gpu`, and the number beside its name, if there is one, in `gpus`.

    Raises:
        SpecError: the number is not that of `gpus`, or no multiple of `tp`.
    """
    gpu = row.get("gpu")
    one, count = boards_named(gpu) if isinstance(gpu, str) else ("", None)
    if count is None:
        return row
    hint = "leave the number out of 'gpu', or make it that of all boards of the job"
    if row.get("gpus") is not None and whole(row, "gpus") != count:
        raise SpecError(f"gpu {clip(gpu)} counts {count}, but gpus is {clip(row['gpus'])}", hint=hint)
    if row.get("tp") is not None and count % whole(row, "tp"):
        raise SpecError(f"gpu {clip(gpu)} counts {count}, but tp is {clip(row['tp'])}", hint=hint)
    return {**row, "gpu": one, "gpus": count}
