"""What must divide or fit for a row to be the job it states: a row that says otherwise is refused, never bent."""

from __future__ import annotations

from cosmic_opt.errors import SpecError
from cosmic_opt.simulation.calibrated.job import TrainingDesigns, TrainingSetup
from cosmic_opt.workloads.language_model import LanguageModel

SPARE_SLOTS = 3
"""Places of layers that may be empty, since embedding, loss or multi-token prediction take them."""


def check_heads(model: LanguageModel) -> None:
    """Check that key heads are shared evenly.

    Raises:
        SpecError: they are not.
    """
    if model.heads % model.kv_heads:
        raise _uneven("kv_heads", model.kv_heads, f"{model.heads} heads")


def check_dense_layers(layers: int, dense: int) -> None:
    """Check that a mixture has a layer with experts.

    Raises:
        SpecError: it begins with at least as many dense layers as it has layers.
    """
    if dense >= layers:
        raise SpecError(f"dense_layers {dense} of {layers} leave no layer with experts", hint="give fewer")


def check_stages(model: LanguageModel, stages: int) -> None:
    """Check that no stage is empty.

    Raises:
        SpecError: there are more stages than layers.
    """
    if stages > model.layers:
        raise SpecError(f"pp {stages} of {model.layers} layers leaves stages empty", hint="give fewer")


def check_slots(model: LanguageModel, stages: int, interleave: int) -> None:
    """Check that virtual stages hold equally many layers, but for up to `SPARE_SLOTS` in all.

    Raises:
        SpecError: more places of layers would be empty.
    """
    check_stages(model, stages)
    pieces = stages * interleave
    spare = -model.layers % pieces
    if spare > SPARE_SLOTS:
        virtual = f" and interleave {interleave}" if interleave > 1 else ""
        raise SpecError(
            f"pp {stages}{virtual} of {model.layers} layers leaves {spare} of {model.layers + spare} places empty",
            hint=f"pp times interleave divides the layers, or the layers and up to {SPARE_SLOTS} more",
        )


def check_experts(model: LanguageModel, ep: int, ranks: int | None = None) -> None:
    """Check that `ep` groups hold equally many experts, and that `ranks` make whole groups.

    Raises:
        SpecError: they do not, or the model has no experts.
    """
    if ep == 1:
        return
    if model.experts is None:
        raise SpecError(f"ep {ep}, but the model has no experts", hint="leave ep out, or give dims.experts")
    if model.experts.count % ep:
        raise _uneven("ep", ep, f"{model.experts.count} experts")
    if ranks is not None and ranks % ep:
        raise _uneven("ep", ep, f"{ranks} ranks of dp, cp and tp")


def uneven_parts(model: LanguageModel, tp: int, *, splits_experts: bool = False) -> dict[str, int]:
    """Return, by what it is called, how many there are of each part of a layer that tp ranks do not share evenly.

    Key heads may be fewer than ranks, if each is copied equally often. Routed experts count where tp `splits_experts`.
    """
    experts = model.experts
    found = {"heads": model.heads} if model.heads % tp else {}
    if model.latent is None and model.kv_heads % tp and tp % model.kv_heads:
        found["kv_heads"] = model.kv_heads
    widths = {"ffn columns": model.ffn if experts is None else 0}
    if experts is not None:
        widths |= {"dense_ffn columns": experts.dense_ffn, "columns of shared experts": experts.shared * experts.ffn}
        widths |= {"columns of an expert": experts.ffn} if splits_experts else {}
    return found | {name: width for name, width in widths.items() if width % tp}


def check_tensor(model: LanguageModel, tp: int) -> None:
    """Check that a tensor group shares heads, key heads and columns of the MLP evenly.

    Raises:
        SpecError: it does not.
    """
    for name, size in uneven_parts(model, tp).items():
        raise _uneven("tp", tp, f"{size} {name}")


def check_context(sequence: int, cp: int) -> None:
    """Check that a context group cuts a sequence: each rank holds an early and a late piece of 2 cp equal ones.

    Raises:
        SpecError: the pieces are not equally long.
    """
    if cp > 1 and sequence % (2 * cp):
        raise SpecError(
            f"cp {cp} does not cut a sequence of {sequence} tokens in {2 * cp} equal pieces",
            hint="give a multiple of 2 cp tokens",
        )


def check_training(setup: TrainingSetup, designs: TrainingDesigns) -> None:
    """Check that one training design is a job a framework runs: whole heads, layers, experts, sequences and batches.

    Raises:
        SpecError: it is not.
    """
    model = setup.model
    dp, tp, pp, cp, ep, interleave, micro_batch = (
        int(column[0])
        for column in (
            *(designs.dp, designs.tp, designs.pp, designs.cp, designs.ep),
            *(designs.interleave, designs.micro_batch),
        )
    )
    check_tensor(model, tp)
    check_slots(model, pp, interleave)
    check_experts(model, ep, dp * cp * tp)
    check_context(setup.sequence, cp)
    if setup.global_batch % (dp * micro_batch):
        raise SpecError(
            f"gbs {setup.global_batch} is no multiple of dp {dp} times mbs {micro_batch}",
            hint="every replica runs whole micro-batches",
        )


def check_copies(dp: int, cp: int, group: int, source: str) -> int:
    """Return the copies of weights that each `group` of the dp * cp ranks shares; `source` says what made the group.

    Raises:
        SpecError: a group holds part of a context group, or the groups do not come out even.
    """
    ranks = dp * cp
    if group > ranks or ranks % group or dp % (ranks // group):
        raise SpecError(
            f"{source}: groups of {group} do not divide the {ranks} ranks of dp {dp} and cp {cp}",
            hint="a group is a multiple of cp and divides dp * cp",
        )
    return ranks // group


def _uneven(name: str, degree: int, whole: str) -> SpecError:
    return SpecError(f"{name} {degree} does not divide the {whole}", hint="give a degree that does")
