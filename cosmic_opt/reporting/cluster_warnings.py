"""What to know where designs use more or fewer NPUs than there are: of every command that prints a design."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.served import Serving
from cosmic_opt.catalog.system_size import stated_npus
from cosmic_opt.psa.parameter_set import DesignBatch
from cosmic_opt.reporting.numbers import exact
from cosmic_opt.search.npus_used import npus_used


def cluster_warnings(used: int, npus: int, stated: int | None, *, serves: bool) -> list[str]:
    """Return warnings of one design.

    `used` is what it uses and `npus` what there are; `stated` are those of the system's dimensions. Replicas of a
    served model (`serves`) may leave some idle.
    """
    found = []
    if used > npus:
        found.append(
            f"the design uses {exact(used)} NPUs and there are {exact(npus)}: its times and rates are of a larger "
            "cluster than its prices; keep the rule that ties it to npus"
        )
    if used < npus and not serves:
        found.append(
            f"the design uses {exact(used)} of {exact(npus)} NPUs: the others are idle, and its prices and rates per "
            "NPU are of all; keep the rule that ties it to npus"
        )
    if stated is not None and npus > stated:
        size = f"{exact(npus)} NPUs on a system of {exact(stated)}"
        found.append(f"{size}: its outermost network is taken to reach all of them at its own rate and price")
    return found


def warnings_of(instance: BoundInstance, designs: DesignBatch) -> list[str]:
    """Return the warnings of many designs, each with how many of them it is of."""
    npus, stated = int(instance.data["npus"]), stated_npus(instance.data)
    serves = isinstance(instance.calibrated, Serving)
    counts = zip(*np.unique(npus_used(designs), return_counts=True), strict=True)
    texts: dict[str, int] = {}
    for used, number in counts:
        for text in cluster_warnings(int(used), npus, stated, serves=serves):
            texts[text] = texts.get(text, 0) + int(number)
    whole = len(designs)
    return [text if number == whole else f"{exact(number)} of {exact(whole)}: {text}" for text, number in texts.items()]


def labelled(warnings: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    """Return each warning once, behind the labels of the designs that it is of."""
    labels: dict[str, list[str]] = {}
    for label, texts in warnings:
        for text in texts:
            labels.setdefault(text, []).append(label)
    return [f"{', '.join(names)}: {text}" for text, names in labels.items()]


def warnings_text(warnings: Iterable[str]) -> str:
    """Return warnings as lines; empty where there are none."""
    return "\n".join(f"warning: {text}" for text in warnings)
