"""The protobuf wire format: varints, tagged fields, length-delimited messages.

Source: protobuf.dev, "Encoding". Positions count bytes from the start of the file, so that an error names its place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from cosmic_opt.errors import SpecError, Where

MOST_MESSAGE_BYTES = 2**24
"""A longer message is refused before it is read, so that memory stays bounded."""

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
LONGEST_VARINT = 10
UINT64 = 2**64


class WireError(Exception):
    """Bytes that are no message; `offset` is their place in the buffer or file at hand."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


Field = tuple[int, int, int, int]
"""Number, wire type, then the value and 0 (varint), or the first byte and the one after the last."""


def varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return the unsigned integer at `position` and the position after it."""
    if position < end and data[position] < 128:  # by far most of them
        return data[position], position + 1
    value = shift = 0
    start = position
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >= UINT64:
                raise WireError("a varint does not fit in 64 bits", start)
            return value, position
        shift += 7
        if position - start == LONGEST_VARINT:
            raise WireError("a varint has more than 10 bytes", start)
    raise WireError("a varint is cut off", start)


def fields(data: bytes, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in data[start:end].

    Raises:
        WireError: a field that is cut off, has no number, or has a wire type that is not in use.
    """
    position = start
    while position < end:
        place = position
        tag, position = varint(data, position, end)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise WireError("a field has number 0", place)
        if kind == VARINT:
            value, position = varint(data, position, end)
            yield number, kind, value, 0
            continue
        if kind == LENGTH:
            size, position = varint(data, position, end)
        elif kind in FIXED_BYTES:
            size = FIXED_BYTES[kind]
        else:
            raise WireError(f"field {number} has the unknown wire type {kind}", place)
        if position + size > end:
            raise WireError(f"field {number} of {size} bytes is cut off", place)
        yield number, kind, position, position + size
        position += size


def packed(data: bytes, start: int, end: int, most: int) -> Iterator[int]:
    """Yield the varints of a packed list of at most `most` entries."""
    position = start
    for _ in range(most + 1):
        if position == end:
            return
        value, position = varint(data, position, end)
        yield value
    raise WireError(f"a list has more than {most} entries", start)


def text(data: bytes, start: int, end: int, longest: int) -> str:
    """Return the string in data[start:end], which has at most `longest` bytes."""
    if end - start > longest:
        raise WireError(f"a text of {end - start} bytes is longer than {longest}", start)
    try:
        return data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("a text is not UTF-8", start) from error


def signed(value: int, bits: int) -> int:
    """Return the two's complement meaning of the low `bits` bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def zigzag(value: int) -> int:
    """Return the meaning of a sint32 or sint64."""
    return (value >> 1) ^ -(value & 1)


def real(data: bytes, start: int, end: int) -> float:
    """Return the float or double in data[start:end]."""
    value: float = struct.unpack("<d" if end - start == FIXED_BYTES[FIXED64] else "<f", data[start:end])[0]
    return value


def messages(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, body) of each length-delimited message; one message is in memory at a time.

    Raises:
        SpecError: names the file, the offset and the reason.
    """
    offset = 0
    while True:
        try:
            size, prefix_bytes = _read_size(stream, offset)
        except WireError as error:
            raise refused(name, error) from error
        if prefix_bytes == 0:
            return
        if size > MOST_MESSAGE_BYTES:
            reason = f"a message of {size} bytes is longer than {MOST_MESSAGE_BYTES}"
            raise refused(name, WireError(reason, offset))
        offset += prefix_bytes
        body = stream.read(size)
        if len(body) < size:
            raise refused(name, WireError(f"a message of {size} bytes ends after {len(body)}", offset))
        yield offset, body
        offset += size


def refused(name: str, error: WireError, base: int = 0) -> SpecError:
    """Return the error a user sees for bytes of the file `name`; `base` is where the buffer at hand starts."""
    return SpecError(
        error.reason,
        where=Where(file=name, key=f"byte {base + error.offset}"),
        hint="this is not a whole Chakra execution trace: write it again",
    )


def _read_size(stream: BinaryIO, offset: int) -> tuple[int, int]:
    """Return the length prefix and how many bytes it has; 0 bytes at the end of the file."""
    prefix = b""
    while len(prefix) < LONGEST_VARINT:
        byte = stream.read(1)
        if not byte:
            break
        prefix += byte
        if byte[0] < 128:
            break
    if not prefix:
        return 0, 0
    try:
        size, _ = varint(prefix, 0, len(prefix))
    except WireError as error:
        raise WireError(error.reason, offset) from error
    return size, len(prefix)


def encode_varint(value: int) -> bytes:
    """Return an unsigned integer, or a negative one in 64-bit two's complement."""
    value %= UINT64
    parts = bytearray()
    while value >= 128:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def encode_number(number: int, value: int) -> bytes:
    """Return a varint field."""
    return encode_varint(number << 3 | VARINT) + encode_varint(value)


def encode_bytes(number: int, value: bytes) -> bytes:
    """Return a length-delimited field."""
    return encode_varint(number << 3 | LENGTH) + delimited(value)


def delimited(message: bytes) -> bytes:
    """Return `message` behind its length."""
    return encode_varint(len(message)) + message
