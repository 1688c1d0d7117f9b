"""Compiled loops over the records of captures, and over their bytes.

All loops are in this file, because numba's cache on disk checks only the file of a function to
tell whether the code is that of the source.
"""

import numpy as np

from ..golden.compilation import jit

START, STOP, AT, CAPTURED, LENGTH, LINK, TIME, ROWS = range(8)
"""Row of a table of packets, and the number of rows.

Where the record begins and ends in the buffer; where the packet is, bytes of it that were captured,
bytes on the line, type of the link; and nanoseconds since the epoch, or `NO_TIME`.
"""

NO_TIME = -1
"""Time of a packet that has none, or one before 1970 or after 2116."""

MORE, CONTROL, FULL, DAMAGED = range(4)
"""Why a loop ended: bytes are missing, a block for the reader is next, the table is full, or
what is next is no record."""

LINK_OF, BASE, EXPONENT, OFFSET, SNAPLEN, INTERFACE_COLUMNS = range(6)
"""Column of a table of interfaces, and the number of columns."""

SECTION, INTERFACE = 0x0A0D0D0A, 1
"""Types of the blocks that a loop leaves to the reader."""

PACKET_HEADER, RECORD_HEADER = 28, 16
"""Bytes before the packet in a block and in a record."""

KEPT, SWAPPED, SWAPPED_IF_LESS = range(3)
"""Order of the two lengths of a record: captured first, captured last, or the shorter is captured.

Version 2.3 of pcap exchanged them, and some programs wrote that version with the old order.
"""

_OLD_PACKET, _SIMPLE_PACKET, _PACKET = 2, 3, 6
_NANOSECONDS = 10**9
_LATEST = np.uint64(1 << 62)


@jit
def _word(buffer, at, big):
    a, b = np.int64(buffer[at]), np.int64(buffer[at + 1])
    c, d = np.int64(buffer[at + 2]), np.int64(buffer[at + 3])
    if big:
        return a << 24 | b << 16 | c << 8 | d
    return d << 24 | c << 16 | b << 8 | a


@jit
def scan_records(buffer, at, end, big, unit, header, order, most, link, table):
    """Find the records of a pcap file.

    Parameters
    ----------
    buffer : ndarray of uint8
    at, end : int
        Part of it that holds records.
    big : bool
        Whether numbers have the most significant byte first.
    unit : int
        Nanoseconds of the fraction's unit: 1000 or 1.
    header : int
        Bytes before the packet: `RECORD_HEADER` or more.
    order : int
        One of `KEPT`, `SWAPPED` and `SWAPPED_IF_LESS`.
    most : int
        Bytes that can be captured of a packet.
    link : int
        Type of the link.
    table : ndarray of int64, shape (ROWS, n)
        Gets the packets.

    Returns
    -------
    at : int
        Where the first record begins that was not taken.
    count : int
        Packets in the table.
    reason : int
        One of `MORE`, `FULL` and `DAMAGED`.
    """
    for count in range(table.shape[1]):
        if at + header > end:
            return at, count, MORE
        captured, length = _word(buffer, at + 8, big), _word(buffer, at + 12, big)
        if order == SWAPPED or (order == SWAPPED_IF_LESS and captured > length):
            captured, length = length, captured
        if captured > most:
            return at, count, DAMAGED
        stop = at + header + captured
        if stop > end:
            return at, count, MORE
        seconds, fraction = _word(buffer, at, big), _word(buffer, at + 4, big)
        table[START, count], table[STOP, count] = at, stop
        table[AT, count], table[CAPTURED, count] = at + header, captured
        table[LENGTH, count] = max(captured, length)
        table[LINK, count] = link
        table[TIME, count] = seconds * _NANOSECONDS + fraction * unit
        at = stop
    return at, table.shape[1], FULL


@jit
def nanoseconds(units, base, exponent, offset):
    """Return the time of a number of units, 1 / base ** exponent of a second, after `offset`.

    Parts of a nanosecond are left out.
    """
    if base == 10:
        one = np.uint64(1)
        for _ in range(exponent):
            one *= np.uint64(10)
        seconds, rest = units // one, units % one
        for _ in range(exponent, 9):
            rest *= np.uint64(10)
        for _ in range(9, exponent):
            rest //= np.uint64(10)
    else:
        shift = np.uint64(exponent)
        seconds = units >> shift
        rest = units & ((np.uint64(1) << shift) - np.uint64(1))
        if exponent <= 32:
            rest = rest * np.uint64(_NANOSECONDS) >> shift
        else:
            low = rest & np.uint64(0xFFFFFFFF)
            high = (rest >> np.uint64(32)) * np.uint64(_NANOSECONDS)
            low = low * np.uint64(_NANOSECONDS) >> np.uint64(32)
            rest = (high + low) >> (shift - np.uint64(32))
    if seconds >= np.uint64(1 << 33):
        return np.int64(NO_TIME)
    time = (np.int64(seconds) + offset) * _NANOSECONDS + np.int64(rest)
    if time < 0 or np.uint64(time) >= _LATEST:
        return np.int64(NO_TIME)
    return time


@jit
def _place_packet(buffer, at, total, kind, big, interfaces):
    """Return interface, place, bytes captured and bytes on the line of the packet of a block.

    Bytes captured are -1 if the block cannot hold them.
    """
    if kind == _SIMPLE_PACKET:
        length = _word(buffer, at + 8, big)
        captured = min(length, total - 16)
        if len(interfaces) and interfaces[0, SNAPLEN]:
            captured = min(captured, interfaces[0, SNAPLEN])
        return 0, at + 12, captured, length
    if total < PACKET_HEADER + 4:
        return 0, at, -1, 0
    interface = _word(buffer, at + 8, big)
    if kind == _OLD_PACKET:
        interface = interface >> 16 if big else interface & 0xFFFF
    captured, length = _word(buffer, at + 20, big), _word(buffer, at + 24, big)
    if captured > total - PACKET_HEADER - 4:
        captured = -1
    return interface, at + PACKET_HEADER, captured, length


@jit
def scan_blocks(buffer, at, end, big, most, interfaces, table):
    """Find the packets of a section of a pcapng file.

    Blocks without a packet are passed over, but for those of the types `SECTION` and
    `INTERFACE`. A packet of an interface that was not described has the link -1 and no time.

    Parameters
    ----------
    buffer, at, end, big, most, table
        As for `scan_records`; `most` is that of a block.
    interfaces : ndarray of int64, shape (m, INTERFACE_COLUMNS)
        Link type; base and exponent of the unit of time; seconds that are added; bytes that are
        captured at most, 0 for all.

    Returns
    -------
    at, count, reason
        As `scan_records`; the reason may be `CONTROL`.
    """
    count = 0
    while at + 12 <= end:
        kind, total = _word(buffer, at, big), _word(buffer, at + 4, big)
        if kind in (SECTION, INTERFACE):
            return at, count, CONTROL
        if total < 12 or total > most or total & 3:
            return at, count, DAMAGED
        if at + total > end:
            return at, count, MORE
        if _word(buffer, at + total - 4, big) != total:
            return at, count, DAMAGED
        if kind in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
            if count == table.shape[1]:
                return at, count, FULL
            interface, place, captured, length = _place_packet(
                buffer, at, total, kind, big, interfaces
            )
            if captured < 0:
                return at, count, DAMAGED
            table[START, count], table[STOP, count] = at, at + total
            table[AT, count], table[CAPTURED, count] = place, captured
            table[LENGTH, count] = max(captured, length)
            table[LINK, count] = table[TIME, count] = -1
            if interface < len(interfaces):
                table[LINK, count] = interfaces[interface, LINK_OF]
                if kind != _SIMPLE_PACKET:
                    units = np.uint64(_word(buffer, at + 12, big)) << np.uint64(32)
                    units |= np.uint64(_word(buffer, at + 16, big))
                    table[TIME, count] = nanoseconds(
                        units,
                        interfaces[interface, BASE],
                        interfaces[interface, EXPONENT],
                        interfaces[interface, OFFSET],
                    )
            count += 1
        at += total
    return at, count, MORE


@jit
def gather(buffer, begin, end, starts, stops, dropped, out):
    """Copy a part of the buffer without the records that are dropped.

    Parameters
    ----------
    buffer : ndarray of uint8
    begin, end : int
        Part of it that is copied.
    starts, stops : ndarray of int64, shape (n,)
        Where records begin and end.
    dropped : ndarray of bool, shape (n,)
    out : ndarray of uint8
        Takes the copy.

    Returns
    -------
    int
        Bytes that were copied.
    """
    size, at = 0, begin
    for i in range(len(starts) + 1):
        last = i == len(starts)
        if not last and not dropped[i]:
            continue
        stop = end if last else starts[i]
        out[size : size + stop - at] = buffer[at:stop]
        size += stop - at
        at = end if last else stops[i]
    return size


@jit
def _age(out, layer3, version, hops):
    """Lower TTL or hop limit, but not below 1, and mend the checksum (RFC 1624, equation 3)."""
    if version == 6:
        out[layer3 + 7] = max(1, np.int64(out[layer3 + 7]) - hops)
        return
    ttl = np.int64(out[layer3 + 8])
    lower = max(1, ttl - hops)
    out[layer3 + 8] = lower
    total = 0xFFFF - (np.int64(out[layer3 + 10]) << 8 | np.int64(out[layer3 + 11]))
    total += 0xFFFF - (ttl << 8) + (lower << 8)
    total = (total & 0xFFFF) + (total >> 16)
    total = 0xFFFF - ((total & 0xFFFF) + (total >> 16))
    out[layer3 + 10], out[layer3 + 11] = total >> 8, total & 0xFF


@jit
def write_copies(buffer, copies, tag, hops, out):
    """Write copies of packets as records of a pcap file, little-endian, with nanoseconds.

    Parameters
    ----------
    buffer : ndarray of uint8
    copies : ndarray of int64, shape (7, n)
        Of each: place in the buffer, bytes captured, bytes on the line, time, whether it is
        changed, version and begin of layer 3.
    tag : int
        VLAN identifier that packets are tagged with when they are changed; -1 for none.
    hops : int
        By how much their TTL or hop limit is less.
    out : ndarray of uint8
        Takes the records.

    Returns
    -------
    int
        Bytes that were written.
    """
    size = 0
    for i in range(copies.shape[1]):
        at, captured, length, time = copies[0, i], copies[1, i], copies[2, i], copies[3, i]
        changed, version, begin = copies[4, i], copies[5, i], copies[6, i]
        added = 4 if changed and tag >= 0 else 0
        numbers = (time // _NANOSECONDS, time % _NANOSECONDS, captured + added, length + added)
        for place in range(4):
            for octet in range(4):
                out[size + 4 * place + octet] = numbers[place] >> 8 * octet & 0xFF
        size += RECORD_HEADER
        if added:
            out[size : size + 12] = buffer[at : at + 12]
            out[size + 12], out[size + 13] = 0x81, 0
            out[size + 14], out[size + 15] = tag >> 8, tag & 0xFF
            out[size + 16 : size + 4 + captured] = buffer[at + 12 : at + captured]
        else:
            out[size : size + captured] = buffer[at : at + captured]
        if changed and hops and version:
            _age(out, size + added + begin, version, hops)
        size += captured + added
    return size
