"""A design as a complete ASTRA-sim run: read back it is the same run; its traces do the work of the design."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_opt.errors import InfeasibleError, LimitError, SpecError
from cosmic_opt.interop import chakra, export, export_trace, trace_folder
from cosmic_opt.interop.export import Exported, astra_sim_run, export_astra_sim
from cosmic_opt.interop.export_files import machine_of
from cosmic_opt.interop.export_readme import COMMAND
from cosmic_opt.simulation.replay import Kind, Operation, TraceWorkload, replay
from tests.unit.cli.running import run
from tests.unit.interop.exporting import problem, read_back, run_of

Design = dict[str, int | str]
WHOLE: Design = {"dp": 4, "tp": 4}
DESIGNS: tuple[Design, ...] = (
    WHOLE,
    {"dp": 16, "tp": 1, "zero_stage": 3},
    {"dp": 2, "tp": 2, "pp": 4},
    {"dp": 2, "tp": 2, "pp": 2, "sp": 2, "zero_stage": 1, "recompute": "selective"},
    {"dp": 1, "tp": 2, "pp": 2, "sp": 4, "recompute": "full"},
)
NETWORK = ("--topology", "ring,switch", "--npus", "4,4", "--bandwidth", "100GB/s,25GB/s", "--latency", "20ns,700ns")
SYSTEM = (
    *("--algorithm", "ring,halving_doubling", "--chunks", "2", "--profile", "astra_sim"),
    *("--endpoint-delay", "10ns", "--memory-bandwidth", "50GB/s"),
)


def write(folder: Path, **design: int | str) -> Exported:
    return export_astra_sim(run_of(folder, **design), folder / "run", design)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_an_exported_run_read_back_is_the_run_and_takes_its_time(tmp_path: Path, design: Design) -> None:
    made = run_of(tmp_path, **design)
    done = export_astra_sim(made, tmp_path / "run", design)
    workload, machine = read_back(tmp_path / "run")
    assert workload == made.workload()
    assert machine == made.machine
    assert replay(workload, machine).time_ns == done.time_ns == replay(made.workload(), made.machine).time_ns


def test_every_npu_has_its_trace_and_the_rest_of_a_run_lies_beside(tmp_path: Path) -> None:
    done = write(tmp_path, **WHOLE)
    files = {file.name for file in (tmp_path / "run" / "workload").iterdir()}
    assert files == {"comm_groups.json", *(f"trace.{rank}.et" for rank in range(16))}
    beside = {file.name for file in (tmp_path / "run").iterdir()}
    assert beside == {"README.md", "workload", "network.yml", "system.json", "memory.json"}
    sizes = sum(file.stat().st_size for file in (tmp_path / "run" / "workload").glob("*.et"))
    assert (done.npus, done.trace_bytes) == (16, sizes)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_a_trace_filled_in_is_the_trace_encoded_whole(tmp_path: Path, design: Design) -> None:
    made = run_of(tmp_path, **design)
    export_astra_sim(made, tmp_path / "run", {})
    for rank in range(16):
        written = (tmp_path / "run" / "workload" / f"trace.{rank}.et").read_bytes()
        assert written == chakra.trace_bytes(made.rank(rank))


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("size", [4096, 1_000_000])
def test_a_collective_over_the_exported_system_takes_what_the_command_says(
    tmp_path: Path, collective: str, size: int
) -> None:
    write(tmp_path, **WHOLE)
    _, machine = read_back(tmp_path / "run")
    alone = Operation(1, Kind.COLLECTIVE, collective=collective, size_bytes=size)
    said = run("collective", *NETWORK, *SYSTEM, "--size", f"{size}B", "--collective", collective, "--json")
    assert replay(TraceWorkload(((alone,),) * 16, {}), machine).time_ns == said.keys["time_ns"]


@pytest.mark.parametrize("design", [WHOLE, {"dp": 2, "tp": 2, "pp": 4}], ids=str)
def test_the_products_of_all_npus_are_those_of_the_model(tmp_path: Path, design: Design) -> None:
    made = run_of(tmp_path, **design)
    parts = ("qkv", "attention_output", "mlp_up", "mlp_down", "logits")
    products = sum(
        operation.flops
        for rank in range(16)
        for operation in made.rank(rank)
        if operation.kind is Kind.COMPUTE and operation.name.split(", ")[-1].startswith(parts)
    )
    workload = made.shapes.workload
    parameters = workload.layers * workload.layer_matrix_parameters + workload.output_matrix_parameters
    assert products == 6 * 16 * 32 * parameters  # two FLOPs forward, four backward, per token and parameter


def test_the_gradients_reduced_are_those_of_every_parameter(tmp_path: Path) -> None:
    made = run_of(tmp_path, dp=16, tp=1)
    reduced = [op.size_bytes for op in made.rank(0) if op.collective == "all_reduce"]
    assert sum(reduced) == 4 * made.shapes.workload.parameters()


def test_an_all_gather_is_given_as_the_shard_that_goes_in(tmp_path: Path) -> None:
    made = run_of(tmp_path, dp=16, tp=1, zero_stage=1)
    gathered = [op.size_bytes for op in made.rank(0) if op.collective == "all_gather"]
    reduced = [op.size_bytes for op in made.rank(0) if op.collective == "reduce_scatter"]
    assert len(gathered) == len(reduced) == 6
    assert all(
        -(-whole // 2) <= 16 * shard < whole // 2 + 16 for whole, shard in zip(reduced[::-1], gathered, strict=True)
    )


def test_operations_wait_for_earlier_ones_only(tmp_path: Path) -> None:
    for design in DESIGNS:
        for stage in run_of(tmp_path, **design).stages:
            assert [operation.id for operation in stage] == list(range(1, len(stage) + 1))
            assert all(needed < operation.id for operation in stage for needed in operation.dependencies)


def test_every_message_sent_is_received(tmp_path: Path) -> None:
    made = run_of(tmp_path, dp=2, tp=2, pp=4)
    sent, received = set(), set()
    for rank in range(16):
        for op in made.rank(rank):
            if op.kind is Kind.SEND:
                sent.add((rank, op.peer, op.tag, op.size_bytes))
            if op.kind is Kind.RECEIVE:
                received.add((op.peer, rank, op.tag, op.size_bytes))
    assert sent == received
    assert len(sent) == 4 * 3 * 2 * 8  # lanes, borders between stages, directions, micro-batches


def test_groups_over_whole_dimensions_keep_their_algorithms(tmp_path: Path) -> None:
    done = write(tmp_path, **WHOLE)
    assert done.groups == 0
    assert not any("flat rings" in note for note in done.notes)
    flags = {op.involved_dims for op in run_of(tmp_path, **WHOLE).rank(0) if op.kind is Kind.COLLECTIVE}
    assert flags == {(True, False), (False, True)}


def test_groups_in_part_of_a_dimension_are_named_in_the_readme_as_flat_rings(tmp_path: Path) -> None:
    done = write(tmp_path, dp=2, tp=2, pp=4)
    readme = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert all(f"- {note}" in readme for note in done.notes)
    assert "Groups of 2 NPUs (tensor parallelism, tp) span a part of a dimension" in readme
    assert f"{done.time_ns:,} ns" in readme
    assert COMMAND[0] in readme
    groups = json.loads((tmp_path / "run" / "workload" / "comm_groups.json").read_text())
    assert len(groups) == done.groups == 16
    assert {len(name) for name in groups} == {3}
    assert groups["100"] == [0, 1]


def test_dimensions_of_one_npu_are_left_out(tmp_path: Path) -> None:
    fixed = {"npus_per_dim[0]": 1, "npus_per_dim[1]": 16}
    loose = problem(tmp_path).without("shape").fix(dp=16, tp=1, **fixed)
    made = astra_sim_run(loose.instance, loose.baseline())
    done = export_astra_sim(made, tmp_path / "run", {})
    assert made.machine.npus_per_dim == (16,)
    assert any("of one NPU are left out" in note for note in done.notes)
    workload, machine = read_back(tmp_path / "run")
    assert replay(workload, machine).time_ns == done.time_ns


def test_another_filling_order_moves_the_groups(tmp_path: Path) -> None:
    made = run_of(tmp_path, **WHOLE)
    turned = export.extents_of({"order": "dp_tp_sp_pp", "dp": 4, "tp": 4, "sp": 1, "pp": 1}, (4, 4))
    assert turned == ((1, 4), (1, 1), (4, 1), (1, 1))
    assert made.placement.extents == ((4, 1), (1, 1), (1, 4), (1, 1))


# --- refused ----------------------------------------------------------------------------------------------------------


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("mine")
    with pytest.raises(SpecError, match="something here already"):
        write(tmp_path, **WHOLE)
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["mine"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path, **WHOLE)
    assert (tmp_path / "run" / "README.md").is_file()


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    made = run_of(tmp_path, **WHOLE)
    with pytest.raises(SpecError, match="cannot be written"):
        export_astra_sim(made, tmp_path / "small.yaml" / "run", {})
    with pytest.raises(SpecError, match="something here already"):
        export_astra_sim(made, tmp_path / "small.yaml", {})


@pytest.mark.parametrize(
    ("key", "value"),
    [("multidim", "themis"), ("algorithm[1]", "in_network"), ("scheduling_policy", "smallest_first")],
)
def test_what_astra_sim_does_not_have_is_named(tmp_path: Path, key: str, value: str) -> None:
    made = problem(tmp_path)
    instance = made.instance
    point = {**instance.data, **instance.job, **next(made.baseline().points()), key: value}
    with pytest.raises(SpecError, match=f"no '{value}'"):
        machine_of(point, instance.dimensions, instance.npu)


def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "memory_text", full)
    with pytest.raises(SpecError, match="No space left"):
        write(tmp_path, **WHOLE)
    assert [file.name for file in tmp_path.iterdir()] == ["small.yaml"]


def test_a_design_that_astra_sim_does_not_finish_is_refused_before_writing(tmp_path: Path) -> None:
    made = run_of(tmp_path, **WHOLE)
    stuck = replace(made, machine=replace(made.machine, endpoint_delay_ns=0))
    with pytest.raises(InfeasibleError, match="endpoint delay"):
        export_astra_sim(stuck, tmp_path / "run", {})
    assert not (tmp_path / "run").exists()


def test_too_large_an_export_is_refused_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_BYTES", 1000)
    with pytest.raises(LimitError, match="bytes") as caught:
        write(tmp_path, **WHOLE)
    assert "--set layers" in str(caught.value.hint)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_the_operations_that_differ_are_counted_without_filling_any_in(tmp_path: Path, design: Design) -> None:
    """Stages of one pipeline may share some, which are counted apart."""
    made = run_of(tmp_path, **design)
    different = len({operation for rank in range(16) for operation in made.rank(rank)})
    assert different <= made.distinct <= different * int(design.get("pp", 1))


@pytest.mark.parametrize("limit", ["MOST_TRACES", "MOST_OPERATIONS", "MOST_DISTINCT"])
@pytest.mark.parametrize("design", DESIGNS[:3], ids=str)
def test_what_the_reader_refuses_is_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, design: Design
) -> None:
    made = run_of(tmp_path, **design)
    size = {"MOST_TRACES": 16, "MOST_OPERATIONS": made.operations, "MOST_DISTINCT": made.distinct}[limit]
    monkeypatch.setattr(trace_folder, limit, size)
    export_astra_sim(made, tmp_path / "run", {})
    read_back(tmp_path / "run")
    monkeypatch.setattr(trace_folder, limit, size - 1)
    with pytest.raises(LimitError, match="too large") as caught:
        export_astra_sim(made, tmp_path / "again", {})
    assert f"{size - 1:,}" in str(caught.value.hint)
    assert not (tmp_path / "again").exists()
    monkeypatch.setattr(trace_folder, limit, size // 2)
    with pytest.raises(LimitError, match="too large"):
        read_back(tmp_path / "run")


def test_equal_operations_of_all_npus_are_one_object_when_read(tmp_path: Path) -> None:
    write(tmp_path, **WHOLE)
    workload, _ = read_back(tmp_path / "run")
    assert all(rank[0] is workload.ranks[0][0] for rank in workload.ranks)


def test_too_long_a_trace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_trace, "MOST_OPERATIONS", 100)
    with pytest.raises(LimitError, match="more than 100 operations"):
        write(tmp_path, **WHOLE)


def test_an_operation_that_waits_for_more_than_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimizer waits for a reduction of each of six buckets, and for the last pass."""
    design: Design = {"dp": 16, "tp": 1}
    monkeypatch.setattr(chakra, "MOST_PER_OPERATION", 7)
    monkeypatch.setattr(export_trace, "MOST_PER_OPERATION", 7)
    write(tmp_path, **design)
    read_back(tmp_path / "run")
    monkeypatch.setattr(export_trace, "MOST_PER_OPERATION", 6)
    with pytest.raises(LimitError, match="waits for more than 6 others"):
        run_of(tmp_path, **design).stages  # noqa: B018 - made when asked for


def test_a_million_npus_are_refused(tmp_path: Path) -> None:
    shape = {"npus_per_dim[0]": 1024, "npus_per_dim[1]": 1024}
    huge = problem(tmp_path).set(npus=2**20, global_batch=2**20).fix(dp=2**20, tp=1, **shape)
    with pytest.raises(LimitError, match="1,048,576 NPUs"):
        astra_sim_run(huge.instance, huge.baseline())


def test_one_npu_is_refused(tmp_path: Path) -> None:
    shape = {"npus_per_dim[0]": 1, "npus_per_dim[1]": 1}
    alone = problem(tmp_path).set(npus=1).fix(dp=1, tp=1, **shape)
    with pytest.raises(SpecError, match="one NPU"):
        astra_sim_run(alone.instance, alone.baseline())


def test_interleaved_stages_are_refused(tmp_path: Path) -> None:
    made = problem(tmp_path, dp=2, tp=2, pp=4).set(interleave=2)
    with pytest.raises(SpecError, match="interleaved"):
        astra_sim_run(made.instance, made.baseline())
