"""As much of protobuf's wire format as an execution trace needs: varints, and fields of one message, without recursion."""

from collections.abc import Iterator

from penstock_net.errors import SpecError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Field = tuple[int, int, int, int]


def varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """(value, where the next thing begins); SpecError: it is cut off, or longer than 10 bytes."""
    value = 0
    for i in range(10):
        if at + i >= end:
            raise SpecError(f"cut off at byte {end}", remedy="is the file truncated?")
        byte = raw[at + i]
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value & (2**64 - 1), at + i + 1
    raise SpecError(f"a number of more than 10 bytes at byte {at}")


def messages(raw: bytes) -> Iterator[tuple[int, int]]:
    """(begin, end) of the messages of a file, each after its length."""
    at = 0
    while at < len(raw):
        size, at = varint(raw, at, len(raw))
        if size > len(raw) - at:
            raise SpecError(
                f"a message of {size} bytes at byte {at}, but {len(raw) - at} are left", remedy="is the file truncated?"
            )
        yield at, at + size
        at += size


def fields(raw: bytes, at: int, end: int) -> Iterator[Field]:
    """(number, wire type, value, end) of the fields of a message: of BYTES the value is where they begin."""
    while at < end:
        key, at = varint(raw, at, end)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = varint(raw, at, end)
            yield number, wire, value, at
            continue
        if wire == BYTES:
            size, at = varint(raw, at, end)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise SpecError(f"a field of wire type {wire} at byte {at}")
        if size > end - at:
            raise SpecError(f"cut off at byte {end}", remedy="is the file truncated?")
        yield number, wire, at if wire == BYTES else int.from_bytes(raw[at : at + size], "little"), at + size
        at += size


def integers(raw: bytes, field: Field) -> Iterator[int]:
    """The values of a repeated number, one or a packed list."""
    _, wire, at, end = field
    if wire != BYTES:
        yield at
        return
    while at < end:
        value, at = varint(raw, at, end)
        yield value


def signed(value: int) -> int:
    """An int32 or int64, which is sent as 64 bits."""
    return value - 2**64 if value >= 2**63 else value


def text(raw: bytes, field: Field) -> str:
    """A string; bytes that are not UTF-8 are shown as such."""
    return raw[field[2] : field[3]].decode(errors="backslashreplace") if field[1] == BYTES else ""
