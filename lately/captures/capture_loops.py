"""Loops over capture records: compiled if the extension exists, otherwise plain Python."""

import struct

import numpy as np
from numpy.typing import NDArray

from ..golden.compilation import core

# Rows of a packet table, and the number of rows. Start and end of the record in the buffer; start
# of the packet, its captured length, its original length, its link type; nanoseconds since the
# epoch, or `NO_TIME`; and the number of the interface in its section, 0 without sections.
START, STOP, AT, CAPTURED, LENGTH, LINK, TIME, FROM, ROWS = range(9)
NO_TIME = -1  # stands for a missing time, or a time before 1970 or after 2116

# Why a loop ended: more bytes are needed, a block for the reader is next, the table is full, or
# the next bytes are not a record.
MORE, CONTROL, FULL, DAMAGED = range(4)
LINK_OF, BASE, EXPONENT, OFFSET, SNAPLEN, INTERFACE_COLUMNS = range(6)
SECTION, INTERFACE, NOT_COPIED = 0x0A0D0D0A, 1, 0x40000BAD
PACKET_HEADER, RECORD_HEADER = 28, 16  # bytes in front of the packet in a block, and in a record

# Order of the two lengths in a record: captured length first, last, or the smaller of the two.
# pcap version 2.3 swapped them, and some programs wrote that version with the old order.
KEPT, SWAPPED, SWAPPED_IF_LESS = range(3)
_OLD_PACKET, _SIMPLE_PACKET, _PACKET = 2, 3, 6
_SECOND = 10**9
_LATEST = 1 << 62

# Start of the first remaining record, number of packets, and why the loop ended.
Scanned = tuple[int, int, int]


def scan_records(
    buffer: NDArray[np.uint8],
    at: int,
    end: int,
    big: bool,
    # Nanoseconds per unit of the time fraction; bytes in front of a packet; order of the two
    # lengths; maximum captured length; link type.
    form: tuple[int, int, int, int, int],
    table: NDArray[np.int64],  # receives the packets, shape (ROWS, n)
) -> Scanned:
    if (compiled := core()) is not None:
        scanned: Scanned = compiled.scan_records(buffer, at, end, big, *form, table)
        return scanned
    words = struct.Struct(">4I" if big else "<4I")
    unit, header, order, max_captured, link = form
    for count in range(table.shape[1]):
        if at + header > end:
            return at, count, MORE
        seconds, fraction, captured, length = words.unpack_from(buffer.data, at)
        if order == SWAPPED or (order == SWAPPED_IF_LESS and captured > length):
            captured, length = length, captured
        if captured > max_captured:
            return at, count, DAMAGED
        stop = at + header + captured
        if stop > end:
            return at, count, MORE
        time = seconds * _SECOND + fraction * unit
        length = max(captured, length)
        table[:, count] = at, stop, at + header, captured, length, link, time, 0
        at = stop
    return at, table.shape[1], FULL


def scan_blocks(
    buffer: NDArray[np.uint8],
    at: int,
    end: int,
    big: bool,
    max_block: int,  # maximum bytes of a block
    # Link type; base and exponent of the time unit; seconds to add; maximum captured length, or 0
    # for no limit; shape (m, INTERFACE_COLUMNS).
    interfaces: NDArray[np.int64],
    table: NDArray[np.int64],
) -> Scanned:
    if (compiled := core()) is not None:
        scanned: Scanned = compiled.scan_blocks(buffer, at, end, big, max_block, interfaces, table)
        return scanned
    order, count, known = ">" if big else "<", 0, interfaces.tolist()
    while at + 12 <= end:
        kind, total = struct.unpack_from(f"{order}2I", buffer.data, at)
        if kind in (SECTION, INTERFACE, NOT_COPIED):
            return at, count, CONTROL
        if total < 12 or total > max_block or total % 4:
            return at, count, DAMAGED
        if at + total > end:
            return at, count, MORE
        block = buffer[at : at + total].tobytes()
        if block[-4:] != block[4:8]:
            return at, count, DAMAGED
        if kind in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
            if count == table.shape[1]:
                return at, count, FULL
            packet = _packet(block, kind, order, known)
            if packet is None:
                return at, count, DAMAGED
            offset, *row = packet
            table[:, count] = at, at + total, at + offset, *row
            count += 1
        at += total
    return at, count, MORE


def _packet(
    block: bytes, kind: int, order: str, interfaces: list[list[int]]
) -> tuple[int, int, int, int, int, int] | None:
    """Return the entries `AT` (from the block's start) to `FROM` of a packet, or None if unfit."""
    room, time = len(block) - PACKET_HEADER - 4, NO_TIME
    if kind == _SIMPLE_PACKET:
        number, offset = 0, 12
        length = struct.unpack_from(f"{order}I", block, 8)[0]
        captured = min(length, len(block) - 16)
        if interfaces and interfaces[0][SNAPLEN]:
            captured = min(captured, interfaces[0][SNAPLEN])
    elif room < 0:
        return None
    else:
        form = "HHIIII" if kind == _OLD_PACKET else "IIIII"
        number, *_, high, low, captured, length = struct.unpack_from(order + form, block, 8)
        offset = PACKET_HEADER
        if captured > room:
            return None
        if number < len(interfaces):
            time = nanoseconds(high << 32 | low, interfaces[number])
    if captured < 0:
        return None
    link = interfaces[number][LINK_OF] if number < len(interfaces) else -1
    return offset, captured, max(captured, length), link, time, number


def nanoseconds(units: int, interface: list[int]) -> int:
    """Convert a time in an interface's units to nanoseconds, or to `NO_TIME` if out of range."""
    unit = interface[BASE] ** interface[EXPONENT]
    seconds, rest = divmod(units, unit)
    time = (seconds + interface[OFFSET]) * _SECOND + rest * _SECOND // unit
    return time if seconds >> 33 == 0 and 0 <= time < _LATEST else NO_TIME


def copy_parts(
    source: NDArray[np.uint8], begins: NDArray[np.int64], sizes: NDArray[np.int64],
    target: NDArray[np.uint8], targets: NDArray[np.int64],
) -> None:  # fmt: skip
    if (compiled := core()) is not None:
        columns = (np.ascontiguousarray(column) for column in (begins, sizes, targets))
        compiled.copy_parts(source, target, *columns)
        return
    rows = zip(begins.tolist(), sizes.tolist(), targets.tolist(), strict=True)
    for begin, size, at in rows:
        target[at : at + size] = source[begin : begin + size]


def keep_lines(
    data: NDArray[np.uint8],
    bounds: NDArray[np.int64],  # starts of all lines, then the end, shape (n + 1,)
    keep: NDArray[np.bool_],  # shape (n,)
    out: NDArray[np.uint8],
) -> int:
    """Copy the kept lines or records to `out`, and return the number of bytes copied."""
    if native := core():
        return int(native.keep_lines(data, bounds, keep.view(np.uint8), out))
    kept = data[bounds[0] : bounds[-1]][np.repeat(keep, np.diff(bounds))]
    out[: len(kept)] = kept
    return len(kept)
