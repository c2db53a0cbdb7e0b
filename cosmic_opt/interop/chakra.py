"""Chakra execution traces: a GlobalMetadata message, then one Node message per operation, each behind its length.

Source: Chakra, schema/protobuf/et_def.proto. Values of attributes that a replay does not read are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from cosmic_opt.errors import LimitError, SpecError, Where
from cosmic_opt.interop import wire
from cosmic_opt.interop.wire import FIXED32, FIXED64, LENGTH, VARINT, WireError
from cosmic_opt.simulation.replay.trace import Kind, Operation

MOST_OPERATIONS = 2**20
MOST_DEPENDENCIES = 2**23
"""Of one trace; more are refused while reading."""
MOST_PER_OPERATION = 2**16
LONGEST_TEXT = 200
"""Limits of one operation: its dependencies; the bytes of a name that are kept, and of any other text."""
MOST_DIMS = 64

NODE_ID, NODE_NAME, NODE_TYPE, NODE_CTRL_DEPS, NODE_DATA_DEPS, NODE_DURATION, NODE_ATTR = 1, 2, 3, 4, 5, 7, 10
INVALID, METADATA, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, COMM_RECV, COMM_COLL = range(8)
KINDS = {
    INVALID: Kind.SKIPPED,
    METADATA: Kind.SKIPPED,
    MEM_LOAD: Kind.MEMORY,
    MEM_STORE: Kind.MEMORY,
    COMP: Kind.COMPUTE,
    COMM_SEND: Kind.SEND,
    COMM_RECV: Kind.RECEIVE,
    COMM_COLL: Kind.COLLECTIVE,
}
NODE_TYPES = {
    Kind.SKIPPED: INVALID,
    Kind.MEMORY: MEM_LOAD,
    Kind.COMPUTE: COMP,
    Kind.SEND: COMM_SEND,
    Kind.RECEIVE: COMM_RECV,
    Kind.COLLECTIVE: COMM_COLL,
}
COLLECTIVES = {0: "all_reduce", 2: "all_gather", 5: "broadcast", 6: "all_to_all", 7: "reduce_scatter"}
COLLECTIVE_TYPES = {name: number for number, name in COLLECTIVES.items()}

ATTR_NAME = 1
SIGNED = {7: 32, 9: 64, 23: 32, 25: 64}
UNSIGNED = frozenset({11, 13, 19, 21})
ZIGZAG = frozenset({15, 17})
REALS = frozenset({3, 5})
ATTR_UINT64, ATTR_INT64, ATTR_BOOL, ATTR_BOOL_LIST, ATTR_STRING = 13, 9, 27, 28, 29
LIST_VALUES = 1

NUMBERS = frozenset({"num_ops", "tensor_size", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag"})
READ = NUMBERS | {"is_cpu_op", "pg_name", "involved_dim"}
READ_BYTES = frozenset(name.encode() for name in READ)
NAME_TAG = ATTR_NAME << 3 | LENGTH

Value = int | float | str | tuple[bool, ...]


@dataclass(slots=True)
class _Node:
    """A Node message as read."""

    id: int = 0
    name: str = ""
    type: int = INVALID
    dependencies: list[int] = field(default_factory=list)
    duration_us: int = 0
    attributes: dict[str, Value] = field(default_factory=dict)


def read_trace(path: Path | str) -> tuple[Operation, ...]:
    """Return the operations of one NPU, in the order of the file.

    Raises:
        SpecError: the file cannot be read, or is no trace; names the file, the offset and the reason.
        LimitError: the trace has too many operations.
    """
    try:
        with Path(path).open("rb") as stream:
            return read_operations(stream, str(path))
    except OSError as error:
        raise SpecError(
            f"the file cannot be read: {error.strerror}", where=Where(file=str(path)), hint="give an existing trace"
        ) from error


def read_operations(stream: BinaryIO, name: str, known: dict[bytes, Operation] | None = None) -> tuple[Operation, ...]:
    """Return the operations of an open trace; errors call it `name`.

    `known` holds the operations of other traces by their bytes, and gets those of this one: equal ones are one object.
    """
    known = {} if known is None else known
    operations, offsets = dict[int, Operation](), list[int]()
    offset, dependencies = -1, 0
    for index, (offset, body) in enumerate(wire.messages(stream, name)):
        try:
            if index == 0:
                _check_metadata(body)
                continue
            operation = known.get(body) or _operation(_node(body))
            if operation.id in operations:
                raise WireError(f"two operations have the number {operation.id}", 0)
        except WireError as error:
            raise wire.refused(name, error, offset) from error
        operations[operation.id] = known[body] = operation
        offsets.append(offset)
        dependencies += len(operation.dependencies)
        if len(operations) > MOST_OPERATIONS or dependencies > MOST_DEPENDENCIES:
            hint = f"at most {MOST_OPERATIONS:,} operations with {MOST_DEPENDENCIES:,} dependencies"
            raise LimitError("the trace is too large", where=Where(file=name, key=f"byte {offset}"), hint=hint)
    if offset < 0:
        raise wire.refused(name, WireError("the file is empty", 0))
    _check_dependencies(operations, offsets, name)
    return tuple(operations.values())


def _check_metadata(body: bytes) -> None:
    """The first message must be a GlobalMetadata: a version and attributes, both length-delimited."""
    for number, kind, _, _ in wire.fields(body, 0, len(body)):
        if kind != LENGTH or number > 2:
            raise WireError("the first message is not Chakra's GlobalMetadata", 0)


def _check_dependencies(operations: dict[int, Operation], offsets: list[int], name: str) -> None:
    """Refuse an operation that waits for one that is not there; `offsets` are where their messages begin."""
    for operation, offset in zip(operations.values(), offsets, strict=True):
        for needed in operation.dependencies:
            if needed not in operations:
                raise SpecError(
                    f"operation {operation.id} depends on {needed}, which the trace does not have",
                    where=Where(file=name, key=f"byte {offset}"),
                    hint="write the whole trace",
                )


def _node(body: bytes) -> _Node:
    """Return the Node message in `body`."""
    node = _Node()
    for number, kind, start, end in wire.fields(body, 0, len(body)):
        if number == NODE_ATTR and kind == LENGTH:
            _attribute(node, body, start, end)
        elif number in (NODE_CTRL_DEPS, NODE_DATA_DEPS):
            node.dependencies.extend([start] if kind == VARINT else wire.packed(body, start, end, MOST_PER_OPERATION))
            if len(node.dependencies) > MOST_PER_OPERATION:
                raise WireError(f"an operation has more than {MOST_PER_OPERATION} dependencies", 0)
        elif number == NODE_NAME and kind == LENGTH:
            node.name = body[start : min(end, start + LONGEST_TEXT)].decode("utf-8", errors="replace")
        elif number in (NODE_ID, NODE_TYPE, NODE_DURATION):
            if kind != VARINT:
                raise WireError(f"field {number} of a node is not a number", start)
            if number == NODE_ID:
                node.id = start
            elif number == NODE_TYPE:
                node.type = start
            else:
                node.duration_us = start
    return node


def _attribute(node: _Node, body: bytes, start: int, end: int) -> None:
    """Enter one AttributeProto, if a replay reads it; by far most of a trace's bytes are in others."""
    if end - start > 2 and body[start] == NAME_TAG and body[start + 2 : start + 2 + body[start + 1]] not in READ_BYTES:
        return
    name = ""
    for number, kind, first, last in wire.fields(body, start, end):
        if number == ATTR_NAME and kind == LENGTH:
            name = wire.text(body, first, last, LONGEST_TEXT)
        elif name in READ:
            node.attributes[name] = _value(body, number, kind, first, last)


def _value(body: bytes, number: int, kind: int, first: int, last: int) -> Value:
    """Return the value of an attribute in field `number` of its `oneof`."""
    if number == ATTR_STRING and kind == LENGTH:
        return wire.text(body, first, last, LONGEST_TEXT)
    if number == ATTR_BOOL_LIST and kind == LENGTH:
        return tuple(_flags(body, first, last))
    if number in REALS and kind in (FIXED64, FIXED32):
        return wire.real(body, first, last)
    raw = int.from_bytes(body[first:last], "little") if kind in (FIXED64, FIXED32) else first
    if kind != LENGTH:
        if number in SIGNED:
            return wire.signed(raw, SIGNED[number])
        if number in UNSIGNED or number == ATTR_BOOL:
            return raw
        if number in ZIGZAG:
            return wire.zigzag(raw)
    raise WireError(f"an attribute has its value in field {number}, which is not read", first)


def _flags(body: bytes, start: int, end: int) -> Iterator[bool]:
    for number, kind, first, last in wire.fields(body, start, end):
        if number == LIST_VALUES:
            values = [first] if kind == VARINT else wire.packed(body, first, last, MOST_DIMS)
            yield from (bool(value) for value in values)


def _operation(node: _Node) -> Operation:
    """Return the operation that a node stands for."""
    if node.type not in KINDS:
        raise WireError(f"operation {node.id} has the unknown type {node.type}", 0)
    kind = KINDS[node.type]
    communicates = kind in (Kind.COLLECTIVE, Kind.SEND, Kind.RECEIVE)
    ends = {Kind.SEND: "comm_dst", Kind.RECEIVE: "comm_src"}
    return Operation(
        id=node.id,
        kind=kind,
        name=node.name,
        dependencies=tuple(dict.fromkeys(node.dependencies)),
        duration_us=node.duration_us,
        on_cpu=bool(node.attributes.get("is_cpu_op", False)),
        flops=_number(node, "num_ops"),
        size_bytes=_number(node, "comm_size" if communicates else "tensor_size"),
        collective=_collective(node) if kind is Kind.COLLECTIVE else "",
        group=_group(node),
        involved_dims=_involved(node),
        peer=_number(node, ends[kind]) if kind in ends else 0,
        tag=_number(node, "comm_tag") if kind in ends else 0,
    )


def _number(node: _Node, name: str) -> int:
    value = node.attributes.get(name, 0)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise WireError(f"operation {node.id} has {name} = {value!r:.60}, which is not a whole number", 0)
    return value


def _collective(node: _Node) -> str:
    number = _number(node, "comm_type")
    if number not in COLLECTIVES:
        raise WireError(f"operation {node.id} is a collective of the unsupported type {number}", 0)
    return COLLECTIVES[number]


def _group(node: _Node) -> str:
    value = node.attributes.get("pg_name", "")
    name = str(value)
    return "" if name == "0" else name


def _involved(node: _Node) -> tuple[bool, ...] | None:
    value = node.attributes.get("involved_dim")
    if value is not None and not isinstance(value, tuple):
        raise WireError(f"operation {node.id} has an involved_dim that is not a list of flags", 0)
    return value


def write_trace(path: Path | str, operations: tuple[Operation, ...]) -> None:
    """Write the trace of one NPU; `read_trace` gives the same operations back."""
    Path(path).write_bytes(trace_bytes(operations))


def trace_bytes(operations: tuple[Operation, ...]) -> bytes:
    """Return the trace of one NPU."""
    return b"".join([trace_header(), *map(encode_operation, operations)])


def trace_header() -> bytes:
    """Return what a trace begins with: a GlobalMetadata message behind its length."""
    return wire.delimited(wire.encode_bytes(1, b"0.0.4"))


def encode_operation(operation: Operation) -> bytes:
    """Return a Node message behind its length; the name of a collective's group, where it has one, comes last."""
    parts = [
        wire.encode_number(NODE_ID, operation.id),
        wire.encode_bytes(NODE_NAME, operation.name.encode()),
        wire.encode_number(NODE_TYPE, NODE_TYPES[operation.kind]),
    ]
    if operation.dependencies:
        packed = b"".join(wire.encode_varint(needed) for needed in operation.dependencies)
        parts.append(wire.encode_bytes(NODE_DATA_DEPS, packed))
    if operation.duration_us:
        parts.append(wire.encode_number(NODE_DURATION, operation.duration_us))
    parts.extend(wire.encode_bytes(NODE_ATTR, attribute) for attribute in _encode_attributes(operation))
    return wire.delimited(b"".join(parts))


def _encode_attributes(operation: Operation) -> Iterator[bytes]:
    yield _attr("is_cpu_op", wire.encode_number(ATTR_BOOL, operation.on_cpu))
    if operation.kind in (Kind.COMPUTE, Kind.MEMORY):
        yield _attr("num_ops", wire.encode_number(ATTR_INT64, operation.flops))
        yield _attr("tensor_size", wire.encode_number(ATTR_UINT64, operation.size_bytes))
    if operation.kind in (Kind.COLLECTIVE, Kind.SEND, Kind.RECEIVE):
        yield _attr("comm_size", wire.encode_number(ATTR_INT64, operation.size_bytes))
    if operation.kind is Kind.COLLECTIVE:
        yield _attr("comm_type", wire.encode_number(ATTR_INT64, COLLECTIVE_TYPES[operation.collective]))
        if operation.involved_dims is not None:
            flags = wire.encode_bytes(LIST_VALUES, bytes(operation.involved_dims))
            yield _attr("involved_dim", wire.encode_bytes(ATTR_BOOL_LIST, flags))
        if operation.group:
            yield _attr("pg_name", wire.encode_bytes(ATTR_STRING, operation.group.encode()))
    if operation.kind in (Kind.SEND, Kind.RECEIVE):
        end = "comm_dst" if operation.kind is Kind.SEND else "comm_src"
        yield _attr(end, wire.encode_number(ATTR_INT64, operation.peer))
        yield _attr("comm_tag", wire.encode_number(ATTR_INT64, operation.tag))


def _attr(name: str, value: bytes) -> bytes:
    return wire.encode_bytes(ATTR_NAME, name.encode()) + value
