"""Captures that tests make, byte by byte."""

import struct
from pathlib import Path

ETHERNET, RAW = 1, 101

MADE = Path(__file__).parents[1] / "data/captures"
"""Captures that show one feature each."""

MICROSECONDS, NANOSECONDS, MODIFIED = 0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34


def pcap(packets, *, big=False, nano=False, magic=MICROSECONDS, version=(2, 4), swapped=False,
         link=ETHERNET, snaplen=262144):  # fmt: skip
    """A pcap file of (nanoseconds, frame) or (nanoseconds, frame, bytes on the line)."""
    order = ">" if big else "<"
    magic, unit = (NANOSECONDS, 1) if nano else (magic, 1000)
    more = struct.pack(f"{order}IHBx", 3, 0x800, 4) if magic == MODIFIED else b""
    parts = [struct.pack(f"{order}IHHiIII", magic, *version, 0, 0, snaplen, link)]
    for time, frame, *length in packets:
        second, fraction = divmod(time, 10**9)
        sizes = [len(frame), length[0] if length else len(frame)]
        sizes = sizes[::-1] if swapped else sizes
        head = struct.pack(f"{order}IIII", second, fraction // unit, *sizes)
        parts.append(head + more + frame)
    return b"".join(parts)


def block(kind, body, order="<"):
    """A block of a pcapng file."""
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + size + body + size


def section(order="<", *, version=(1, 0), length=-1):
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, *version, length), order)


def option(code, value, order="<"):
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(*options, link=ETHERNET, snaplen=0, order="<"):
    body = struct.pack(f"{order}HHI", link, 0, snaplen)
    return block(1, body + b"".join(options), order)


def packet(units, frame, *, interface=0, length=None, order="<", options=b""):
    """An enhanced packet block."""
    sizes = len(frame), len(frame) if length is None else length
    head = struct.pack(f"{order}IIIII", interface, units >> 32, units & 0xFFFFFFFF, *sizes)
    return block(6, head + frame + bytes(-len(frame) % 4) + options, order)
