"""Chakra traces: what is written is read back, and bytes that are no trace are refused with file, offset and reason."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import CosmicError, LimitError, SpecError
from cosmic_opt.interop import chakra, read_trace, wire, write_trace
from cosmic_opt.interop.chakra import read_operations, trace_bytes
from cosmic_opt.simulation.replay import Kind, Operation

SMALL = (
    Operation(id=1, kind=Kind.COMPUTE, name="forward", flops=2**40, size_bytes=300),
    Operation(id=2, kind=Kind.COLLECTIVE, dependencies=(1,), collective="all_gather", size_bytes=2**20, group="3"),
    Operation(id=5, kind=Kind.SEND, dependencies=(1, 2), size_bytes=7, peer=6, tag=11),
    Operation(id=6, kind=Kind.RECEIVE, size_bytes=7, peer=4, tag=12),
    Operation(id=9, kind=Kind.COMPUTE, on_cpu=True, duration_us=3),
    Operation(id=10, kind=Kind.COLLECTIVE, collective="all_reduce", size_bytes=8, involved_dims=(True, False)),
    Operation(id=11, kind=Kind.MEMORY, size_bytes=64),
    Operation(id=12, kind=Kind.SKIPPED, dependencies=(11,)),
)
TRACE = trace_bytes(SMALL)


def read(data: bytes) -> tuple[Operation, ...]:
    return read_operations(io.BytesIO(data), "w.0.et")


def trace_of(*nodes: bytes) -> bytes:
    return b"".join(wire.delimited(message) for message in (b"", *nodes))


def node(*fields: bytes) -> bytes:
    return wire.encode_number(chakra.NODE_ID, 1) + b"".join(fields)


def attribute(name: str, value: bytes) -> bytes:
    return wire.encode_bytes(chakra.NODE_ATTR, wire.encode_bytes(1, name.encode()) + value)


def computation(*attributes: bytes) -> Operation:
    (operation,) = read(trace_of(node(wire.encode_number(chakra.NODE_TYPE, chakra.COMP), *attributes)))
    return operation


def test_a_written_trace_is_read_back() -> None:
    assert read(TRACE) == SMALL


def test_a_file_is_read_and_written(tmp_path: Path) -> None:
    write_trace(tmp_path / "w.0.et", SMALL)
    assert read_trace(tmp_path / "w.0.et") == SMALL


def test_bytes_worked_by_hand() -> None:
    """Metadata with a version; a node: id 1, name "a", type 4, data_deps [2] (packed), attribute num_ops = 300."""
    metadata = b"\x05\x0a\x030.4"
    first = b"\x04\x08\x02\x18\x04"
    second = b"\x18\x08\x01\x12\x01a\x18\x04\x2a\x01\x02\x52\x0c\x0a\x07num_ops\x48\xac\x02"
    operations = read(metadata + first + second)
    assert [operation.id for operation in operations] == [2, 1]
    assert operations[1] == Operation(id=1, kind=Kind.COMPUTE, name="a", dependencies=(2,), flops=300)


@pytest.mark.parametrize(
    ("field", "value", "meant"),
    [
        (3, struct.pack("<d", 12.0), 12),
        (5, struct.pack("<f", 8.0), 8),
        (7, 5, 5),
        (9, 2**40, 2**40),
        (11, 6, 6),
        (13, 2**62, 2**62),
        (15, 2 * 21, 21),
        (17, 2 * 22, 22),
        (19, struct.pack("<I", 9), 9),
        (21, struct.pack("<Q", 10), 10),
        (23, struct.pack("<i", 11), 11),
        (25, struct.pack("<q", 12), 12),
    ],
)
def test_a_number_may_have_any_type_of_the_schema(field: int, value: int | bytes, meant: int) -> None:
    if isinstance(value, int):
        encoded = wire.encode_number(field, value)
    else:
        kind = wire.FIXED64 if len(value) == 8 else wire.FIXED32
        encoded = wire.encode_varint(field << 3 | kind) + value
    assert computation(attribute("num_ops", encoded)).flops == meant


def test_both_lists_of_dependencies_count_packed_or_not_and_once() -> None:
    first = node(wire.encode_number(chakra.NODE_TYPE, chakra.COMP))
    second = (
        wire.encode_number(chakra.NODE_ID, 2)
        + wire.encode_number(chakra.NODE_CTRL_DEPS, 1)
        + wire.encode_bytes(chakra.NODE_DATA_DEPS, wire.encode_varint(1) + wire.encode_varint(1))
    )
    assert read(trace_of(first, second))[1].dependencies == (1,)


def test_what_a_replay_does_not_need_is_passed_over() -> None:
    more = (
        attribute("inputs", wire.encode_bytes(30, b"anything")),
        wire.encode_bytes(8, b"\xff\xff"),
        wire.encode_bytes(99, b"later schema"),
    )
    assert computation(*more) == Operation(id=1, kind=Kind.COMPUTE)


def test_group_zero_means_every_npu() -> None:
    collective = wire.encode_number(chakra.NODE_TYPE, chakra.COMM_COLL)
    named = attribute("pg_name", wire.encode_bytes(chakra.ATTR_STRING, b"0"))
    assert read(trace_of(node(collective, named)))[0].group == ""


def test_a_long_name_is_cut() -> None:
    long = replace(SMALL[0], name="é" * 500)
    assert len(read(trace_bytes((long,)))[0].name) <= chakra.LONGEST_TEXT


NEGATIVE = wire.encode_number(chakra.ATTR_INT64, -1)
TEXT = wire.encode_bytes(chakra.ATTR_STRING, b"x")
COLLECTIVE = wire.encode_number(chakra.NODE_TYPE, chakra.COMM_COLL)
COMPUTE = wire.encode_number(chakra.NODE_TYPE, chakra.COMP)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"\x80", "a varint is cut off"),
        (b"\xff" * 10, "more than 10 bytes"),
        (b"\x05ab", "ends after 2"),
        (wire.encode_varint(2**40), "is longer than"),
        (trace_of() + b"\x02\x0f\x00", "unknown wire type 7"),
        (trace_of() + b"\x02\x00\x00", "number 0"),
        (wire.delimited(wire.encode_number(1, 4)), "GlobalMetadata"),
        (trace_of(wire.encode_bytes(chakra.NODE_ID, b"1")), "not a number"),
        (trace_of(node(), node()), "two operations have the number 1"),
        (trace_of(node(wire.encode_number(chakra.NODE_TYPE, 88))), "unknown type 88"),
        (trace_of(node(wire.encode_number(chakra.NODE_DATA_DEPS, 9))), "depends on 9"),
        (trace_of(node(COMPUTE, attribute("num_ops", NEGATIVE))), "num_ops = -1"),
        (trace_of(node(COMPUTE, attribute("num_ops", TEXT))), "num_ops = 'x'"),
        (trace_of(node(COMPUTE, attribute("num_ops", wire.encode_bytes(10, b"")))), "field 10"),
        (trace_of(node(COLLECTIVE, attribute("comm_type", wire.encode_number(9, 1)))), "unsupported type 1"),
        (trace_of(node(COLLECTIVE, attribute("involved_dim", wire.encode_number(9, 1)))), "not a list of flags"),
        (trace_of(node(COLLECTIVE, attribute("involved_dim", wire.encode_bytes(28, b"\x0a\x41" + b"\1" * 65)))), "64"),
        (trace_of(node(COLLECTIVE, attribute("pg_name", wire.encode_bytes(29, b"\xff")))), "not UTF-8"),
        (trace_of(node(COLLECTIVE, attribute("pg_name", wire.encode_bytes(29, b"x" * 201)))), "longer than 200"),
        (trace_of(node(wire.encode_bytes(chakra.NODE_DATA_DEPS, b"\1" * (2**16 + 1)))), "more than 65536"),
    ],
)
def test_what_is_no_trace_is_refused_with_file_offset_and_reason(data: bytes, reason: str) -> None:
    with pytest.raises(SpecError, match=reason) as caught:
        read(data)
    assert caught.value.hint
    assert caught.value.where is not None
    assert caught.value.where.file == "w.0.et"
    assert str(caught.value.where.key).startswith("byte ")


def test_the_offset_is_that_of_the_bad_bytes() -> None:
    with pytest.raises(SpecError) as caught:
        read(TRACE + b"\x04\x08\x40\x18\x09"[:5])
    assert caught.value.where is not None
    assert caught.value.where.key == f"byte {len(TRACE) + 1}"


def test_a_missing_dependency_names_the_operation_that_has_it() -> None:
    """The trace of one operation, then one that depends on the absent 9: its message begins behind its length."""
    whole = trace_of(node())
    broken = wire.encode_number(chakra.NODE_ID, 2) + wire.encode_number(chakra.NODE_DATA_DEPS, 9)
    with pytest.raises(SpecError, match="operation 2 depends on 9") as caught:
        read(whole + wire.delimited(broken))
    assert caught.value.where is not None
    assert caught.value.where.key == f"byte {len(whole) + 1}"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        read_trace(tmp_path / "w.0.et")


def test_too_many_operations_are_refused_while_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chakra, "MOST_OPERATIONS", 3)
    with pytest.raises(LimitError, match="too large"):
        read(TRACE)


def test_a_message_that_claims_to_be_long_is_not_read() -> None:
    class Endless(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert size == 1, "no more than the length prefix may be read"
            return super().read(size)

    with pytest.raises(SpecError, match="longer than"):
        read_operations(Endless(wire.encode_varint(2**60)), "w.0.et")


@pytest.mark.parametrize("length", range(len(TRACE)))
def test_a_trace_cut_off_anywhere_is_refused_or_ends_with_a_whole_operation(length: int) -> None:
    result = outcome(TRACE[:length])
    assert isinstance(result, CosmicError) or result == SMALL[: len(result)]


def outcome(data: bytes) -> tuple[Operation, ...] | CosmicError:
    try:
        return read(data)
    except CosmicError as error:
        return error


def harmless(data: bytes) -> None:
    """Reading either gives operations or is refused in words; nothing else happens."""
    result = outcome(data)
    if isinstance(result, CosmicError):
        assert result.message
        assert result.hint
    else:
        assert all(isinstance(operation, Operation) for operation in result)


@given(data=st.binary(max_size=200))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_random_bytes_do_no_harm(data: bytes) -> None:
    harmless(data)


@given(data=st.binary(max_size=120))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_a_random_node_does_no_harm(data: bytes) -> None:
    harmless(trace_of(data))


@given(flips=st.lists(st.tuples(st.integers(0, len(TRACE) - 1), st.integers(0, 7)), min_size=1, max_size=4))
@settings(derandomize=True, deadline=None, max_examples=500)
def test_flipped_bits_do_no_harm(flips: list[tuple[int, int]]) -> None:
    data = bytearray(TRACE)
    for place, bit in flips:
        data[place] ^= 1 << bit
    harmless(bytes(data))


@st.composite
def operations(draw: st.DrawFn) -> tuple[Operation, ...]:
    made = list[Operation]()
    for number in draw(st.lists(st.integers(0, 2**63), max_size=6, unique=True)):
        kind = draw(st.sampled_from(list(Kind)))
        known = [operation.id for operation in made]
        base = Operation(
            id=number,
            kind=kind,
            name=draw(st.text(max_size=8)),
            dependencies=tuple(draw(st.lists(st.sampled_from(known), max_size=3, unique=True)) if known else ()),
            duration_us=draw(st.integers(0, 2**40)),
            on_cpu=draw(st.booleans()),
            size_bytes=0 if kind is Kind.SKIPPED else draw(st.integers(0, 2**63 - 1)),
        )
        if kind in (Kind.COMPUTE, Kind.MEMORY):
            base = replace(base, flops=draw(st.integers(0, 2**63 - 1)))
        if kind is Kind.COLLECTIVE:
            flags = st.none() | st.lists(st.booleans(), max_size=5).map(tuple)
            base = replace(base, collective=draw(st.sampled_from(list(chakra.COLLECTIVE_TYPES))))
            base = replace(base, group=draw(st.sampled_from(["", "1", "17"])), involved_dims=draw(flags))
        if kind in (Kind.SEND, Kind.RECEIVE):
            base = replace(base, peer=draw(st.integers(0, 2**31)), tag=draw(st.integers(0, 2**31)))
        made.append(base)
    return tuple(made)


@given(made=operations())
@settings(derandomize=True, deadline=None)
def test_any_operations_survive_writing_and_reading(made: tuple[Operation, ...]) -> None:
    assert read(trace_bytes(made)) == made
