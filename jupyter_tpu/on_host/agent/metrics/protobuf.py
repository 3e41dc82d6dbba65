"""Protobuf messages without their descriptions: fields by their numbers.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from typing import Dict, List, Tuple, Union

#: A number (varint, or the bits of a fixed one) or the bytes of a text or message.
Value = Union[int, bytes]
Fields = Dict[int, List[Value]]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def encode(number: int, content: bytes) -> bytes:
    """A field that holds a text or a message."""
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def encode_number(number: int, value: int) -> bytes:
    """A field that holds a number from 0 on, or a boolean."""
    return _varint(number << 3 | _VARINT) + _varint(value)


def numbers(fields: Fields, number: int) -> List[int]:
    """The numbers in a repeated field, which may be packed. Raises ValueError."""
    values: List[int] = []
    for field in fields.get(number, []):
        if isinstance(field, int):
            values.append(field)
            continue
        position = 0
        while position < len(field):
            value, position = _read_varint(field, position)
            values.append(value)
    return values


def decode(data: bytes) -> Fields:
    """The fields of a message, in order. Raises ValueError if it is not a message."""
    fields: Fields = {}
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        number, kind = key >> 3, key & 7
        value: Value
        if kind == _VARINT:
            value, position = _read_varint(data, position)
        else:
            if kind == _BYTES:
                size, position = _read_varint(data, position)
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise ValueError("a field has the unknown type %d" % kind)
            content, position = data[position : position + size], position + size
            if len(content) < size:
                raise ValueError("a field is cut off")
            value = content if kind == _BYTES else int.from_bytes(content, "little")
        fields.setdefault(number, []).append(value)
    return fields


def messages(fields: Fields, number: int) -> List[Fields]:
    """The messages in a field. Raises ValueError if there is something else in it."""
    field = fields.get(number, [])
    if not all(isinstance(value, bytes) for value in field):
        raise ValueError("the field %d is not a message" % number)
    return [decode(value) for value in field if isinstance(value, bytes)]


def message(fields: Fields, number: int) -> Fields:
    """The last message in a field; one without fields if there is none."""
    return (messages(fields, number) or [{}])[-1]


def text(fields: Fields, number: int) -> str:
    """The text in a field; "" if there is none."""
    value = fields.get(number, [b""])[-1]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def integer(fields: Fields, number: int) -> int:
    """The int32 or int64 in a field; 0 if there is none, as proto3 leaves it out."""
    value = fields.get(number, [0])[-1]
    if not isinstance(value, int):
        raise ValueError("the field %d is not a number" % number)
    return value - (1 << 64) if value >> 63 else value


def double(fields: Fields, number: int) -> float:
    """The double in a field."""
    bits = integer(fields, number) & (1 << 64) - 1
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return value


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _read_varint(data: bytes, position: int) -> Tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("a number is cut off")
