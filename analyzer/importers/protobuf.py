"""Read the fields of a protobuf message by hand: the few that are wanted need no generated code."""

from collections.abc import Iterator
from typing import Any


class DamagedError(ValueError):
    """What was read cannot be what it should be."""


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and raw value of each field: an int of varints, bytes of all others. Raises DamagedError."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(message, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = varint(message, at)
        elif wire in {1, 5}:
            size = 8 if wire == 1 else 4
        else:
            raise DamagedError("unknown kind of field")
        if at + size > len(message):
            raise DamagedError("a field goes beyond its message")
        yield key >> 3, message[at : at + size]
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of variable length and the place after it. Raises DamagedError."""
    value = shift = 0
    while shift < 70:
        if at >= len(message):
            break
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise DamagedError("a number has no end")
