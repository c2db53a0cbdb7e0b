"""The training loops of layer tables, worked by hand, and Themis' end-to-end speed-ups."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest

from cosmic_opt.catalog.networks import load_network
from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.simulation.events.table_collectives import table_collectives
from cosmic_opt.simulation.replay.training_loop import LoopTimes, Scope, run_table
from cosmic_opt.workloads.layer_table import LayerTable, LayerWork, Policy, TableLayer

NS = 1000


def a_byte_a_ns(collective: str, size_bytes: int, scope: Scope) -> int:
    return size_bytes * NS


def layer(forward: int, inputs: int, weights: int, reduced: int = 0, update: int = 0) -> TableLayer:
    """Return a layer that computes so long and reduces so many bytes of gradients."""
    collective = "all_reduce" if reduced else ""
    return TableLayer("l", LayerWork(forward), LayerWork(inputs), LayerWork(weights, collective, reduced), update)


def times(table: LayerTable, **options: int | Fraction) -> tuple[int, ...]:
    """Return forward, backward, exposed model and exposed data time in ns, of bytes that take a ns each."""
    found = run_table(table, a_byte_a_ns, **options)  # type: ignore[arg-type]
    assert found.ticks == sum((found.forward, found.backward, found.model, found.data))
    return tuple(ticks // NS for ticks in (found.forward, found.backward, found.model, found.data))


def test_gradients_are_reduced_behind_the_rest_of_the_backward_pass() -> None:
    table = LayerTable(Policy.DATA, (layer(10, 20, 30, 7), layer(1, 2, 3, 40)))
    # the second layer's 40 run from 14 on beside 2 + 30, the first layer's 7 after them from 54 to 61
    assert times(table) == (11, 35, 0, 15)


def test_the_first_layer_needs_no_input_gradient() -> None:
    assert times(LayerTable(Policy.DATA, (layer(10, 20, 30), layer(1, 2, 3)))) == (11, 35, 0, 0)


def test_an_update_follows_the_reduction() -> None:
    assert times(LayerTable(Policy.DATA, (layer(1, 1, 1, 5, update=3), layer(1, 1, 1, update=9)))) == (2, 3, 0, 8)


def test_the_next_pass_waits_for_the_layer_it_needs() -> None:
    table = LayerTable(Policy.DATA, (layer(4, 1, 1, 2), layer(1, 1, 1, 20)))
    # pass 1 computes to 8, its reductions end at 26 and 28; pass 2 starts layer 0 at 28, and the same again
    assert times(table, passes=2) == (10, 6, 0, 2 * 20)


def test_a_scale_makes_every_time_of_the_table_shorter_but_not_the_network() -> None:
    table = LayerTable(Policy.DATA, (layer(10, 20, 30, 7, update=4),))
    assert times(table, compute_scale=Fraction(1, 2)) == (5, 15, 0, 9)


def test_model_parallel_collectives_block_and_checkpoints_run_forward_again() -> None:
    def of(name: str) -> TableLayer:
        return TableLayer(name, LayerWork(10, "all_reduce", 3), LayerWork(5, "all_gather", 2), LayerWork(1), 0)

    plain = LayerTable(Policy.TRANSFORMER, (of("a"), of("b"), of("c")), 4)
    assert times(plain) == (30, 18, 3 * 3 + 3 * 2, 0)
    again = LayerTable(Policy.TRANSFORMER_AGAIN, plain.layers, 4, checkpoints=frozenset({0}), initiates=frozenset({2}))
    assert times(again) == (50, 18, 5 * 3 + 3 * 2, 0)  # layers 0 and 1 run again before layer 2's backward pass


def test_collectives_of_model_and_data_groups_run_side_by_side() -> None:
    first = layer(1, 1, 1)
    last = TableLayer("b", LayerWork(1), LayerWork(1, "all_reduce", 2), LayerWork(1, "all_reduce", 50), 0)
    middle = TableLayer("m", LayerWork(1), LayerWork(1, "all_reduce", 4), LayerWork(1), 0)
    table = LayerTable(Policy.TRANSFORMER, (first, middle, last), 4)
    # the data group's 50 begin at 7: after 3 forward, 1 + 2 and 1; the model group's 4 do not wait for them
    assert times(table) == (3, 6, 6, 50 - 4 - 4)


def test_the_embeddings_exchange_hides_behind_the_bottom_layers() -> None:
    embedding = TableLayer("e", LayerWork(2, "all_to_all", 9), LayerWork(1, "all_to_all", 8), LayerWork(1), 0)
    table = LayerTable(Policy.DLRM, (embedding, layer(4, 3, 2), layer(7, 6, 5)), last_bottom=1)
    # forward 2 + 4, wait 9 - 4; backward 5 + 6, then 8 beside 2 + 3, wait 3, and 1
    assert times(table) == (13, 17, 5 + 3, 0)


def test_nothing_overlaps_in_a_table_of_libra() -> None:
    table = LayerTable(Policy.NO_OVERLAP, (layer(10, 20, 30, 7), layer(1, 2, 3, 40)))
    assert times(table) == (11, 55, 0, 47)


def test_a_microbenchmark_runs_collectives_alone() -> None:
    assert times(LayerTable(Policy.MICRO, (layer(10, 20, 30, 7), layer(1, 2, 3, 40)))) == (0, 0, 0, 47)


@pytest.mark.parametrize("options", [{"passes": 0}, {"compute_scale": Fraction(0)}], ids=str)
def test_options_that_mean_nothing_are_refused(options: dict[str, int | Fraction]) -> None:
    with pytest.raises(SpecError) as caught:
        times(LayerTable(Policy.DATA, (layer(1, 1, 1),)), **options)
    assert caught.value.hint


# --- Themis (Rashidi 2022), figure of end-to-end times ----------------------------------------------------------------

SCALE = Fraction(60, 234)
"""The tables are written for 60 * 2^40 FLOP/s (their products' FLOPs by their times); 234 is 75 % of an A100's 312."""
ATTENTION = (7_226_562, 2_343_750)
"""ns of the maps and scores, and of the output map, of Transformer-1T on 128 NPUs; an MLP map takes the next."""
MLP, NORM, STREAM = 9_375_000, 12_207, 805_306_368


def half(gradients: int) -> tuple[TableLayer, ...]:
    """Return one of Transformer-1T's two layers: scores, output map, two MLP maps, norm."""
    scores, out = ATTENTION
    reduced = LayerWork(scores, "all_reduce" if gradients else "", gradients)
    return (
        TableLayer("scores", LayerWork(scores), LayerWork(scores, "all_reduce", STREAM), reduced, 10),
        TableLayer(
            "out", LayerWork(out, "all_reduce", STREAM), LayerWork(out, "all_gather", 6_291_456), LayerWork(out), 10
        ),
        TableLayer("up", LayerWork(MLP), LayerWork(MLP, "all_reduce", STREAM), LayerWork(MLP), 10),
        TableLayer("down", LayerWork(MLP, "all_reduce", STREAM), LayerWork(MLP), LayerWork(MLP), 10),
        TableLayer("norm", LayerWork(NORM), LayerWork(NORM), LayerWork(NORM), 10),
    )


EMBEDDING = TableLayer(
    "embedding",
    LayerWork(419_431, "all_to_all", 4_194_304),
    LayerWork(300, "all_to_all", 4_194_304),
    LayerWork(10, "all_reduce", 114_823_168),
    10,
)
TABLES = {
    # the artifact has ResNet-50's table: its blocks repeated as in ResNet-152, with 60,192,808 gradients of 4 bytes
    "ResNet-152": LayerTable(
        Policy.DATA, (layer(13_003, 12_864, 32_291, 240_771_232, 3_229), layer(794_957, 789_961, 580_930))
    ),
    "GNMT": LayerTable(
        Policy.DATA, (layer(136_174, 136_174, 50_592, 267_788_288, 33_554), layer(2_794_594, 2_794_594, 1_988_641))
    ),
    "DLRM": LayerTable(
        Policy.DLRM, (EMBEDDING, layer(118_560, 118_560, 118_560), layer(861_268, 861_268, 861_268)), last_bottom=1
    ),
    "Transformer-1T": LayerTable(
        Policy.TRANSFORMER_AGAIN,
        (*half(240_316_416), *half(0)),
        model_npus=128,
        checkpoints=frozenset({0, 5}),
        initiates=frozenset({4, 9}),
    ),
}
NETWORKS = ("2D-SW_SW", "3D-SW_SW_SW_homo", "3D-SW_SW_SW_hetero", "4D-Ring_FC_Ring_SW")
MEASURED = {
    "ResNet-152": (1.399, 2.248, 1.409, 1.261),
    "GNMT": (1.262, 1.784, 1.246, 1.125),
    "DLRM": (1.262, 1.773, 1.248, 1.125),
    "Transformer-1T": (1.309, 1.528, 1.195, 1.119),
}


def times_on(name: str, workload: str, scheduler: str, policy: str) -> LoopTimes:
    network, table = load_network("themis", name), TABLES[workload]
    ticks = table_collectives(
        network.network, network.algorithms, model_npus=table.model_npus, scheduler=scheduler, policy=policy
    )
    return run_table(table, ticks, compute_scale=SCALE)


def speed_up(name: str, workload: str) -> float:
    baseline = times_on(name, workload, "blueconnect", "fifo")
    return baseline.ticks / times_on(name, workload, "themis", "smallest_first").ticks


@pytest.mark.parametrize("workload", TABLES)
def test_themis_end_to_end_speed_ups_are_within_two_per_cent(workload: str) -> None:
    for name, measured in zip(NETWORKS, MEASURED[workload], strict=True):
        assert speed_up(name, workload) == pytest.approx(measured, rel=0.02), name


def test_themis_helps_the_workloads_in_the_order_of_the_paper() -> None:
    means = {workload: prod(speed_up(name, workload) for name in NETWORKS) for workload in TABLES}
    assert sorted(means, key=lambda workload: -means[workload]) == list(TABLES)


def test_the_baseline_spends_its_time_where_the_figure_does() -> None:
    found = times_on("2D-SW_SW", "GNMT", "blueconnect", "fifo")
    shares = [part / found.ticks for part in (found.forward, found.backward, found.data)]
    assert shares == pytest.approx([0.1468, 0.2421, 0.6112], abs=0.001)


def test_a_model_group_that_does_not_divide_the_network_is_refused() -> None:
    network = load_network("themis", "2D-SW_SW")
    with pytest.raises(InfeasibleError):
        table_collectives(network.network, network.algorithms, model_npus=7)


def test_an_all_to_all_takes_the_dimensions_in_their_order_under_themis_too() -> None:
    network = load_network("themis", "2D-SW_SW")
    themis, plain = (
        table_collectives(network.network, network.algorithms, scheduler=scheduler)
        for scheduler in ("themis", "blueconnect")
    )
    assert themis("all_to_all", 4_194_304, Scope.ALL) == plain("all_to_all", 4_194_304, Scope.ALL)


def test_the_bytes_of_an_all_gather_are_the_shard_that_goes_in() -> None:
    """A reduce-scatter of the whole buffer passes the same dimensions the other way round."""
    network = load_network("themis", "2D-SW_SW")
    ticks = table_collectives(network.network, network.algorithms, model_npus=16, chunks=1)
    shard, members = 1_048_576, 16
    gathered = ticks("all_gather", shard, Scope.MODEL)
    assert gathered == ticks("reduce_scatter", shard * members, Scope.MODEL)
