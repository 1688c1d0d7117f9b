"""Text keys of packets, for replaying streams."""

import re
import socket
from collections.abc import Callable, Iterator
from functools import partial

from ..golden.packets.packet_digest import packet_digests
from ..golden.packets.packet_layers import Headers, find_headers
from ..stream_files import TraceError
from . import capture_loops as loops
from .capture_reader import CaptureReader, Packets

DEFAULT_KEY = "digest"

KEYS = (DEFAULT_KEY, "five-tuple", "ip-id", "dns-name", "bytes:OFFSET:COUNT")
"""Keys that a packet can have: its digest without what routers change; addresses, ports and
protocol; addresses, protocol and identification of IPv4; the name that a DNS query asks for;
or bytes of the frame from an offset on."""

_PORTS = {6: "tcp", 17: "udp", 33: "dccp", 132: "sctp", 136: "udplite"}
_DNS = 53
_MAX_NAME = 255


class NoKeyError(Exception):
    """A packet does not have the key."""


Form = Callable[[bytes, Headers], str]
"""Returns the key of a frame, or raises `NoKeyError`."""


def parse_key(name: str) -> Form | None:
    """Return the function that extracts the key `name`; None for the digest."""
    if name == DEFAULT_KEY:
        return None
    if name in _FORMS:
        return _FORMS[name]
    match = re.fullmatch(r"bytes:(\d{1,6}):(\d{1,6})", name)
    if match is None or not int(match[2]):
        raise TraceError(f"key: must be one of {', '.join(KEYS)} for a capture, not {name!r}")
    first = int(match[1])
    return partial(_bytes, first, first + int(match[2]))


def packet_records(
    capture: CaptureReader, form: Form | None, reject: Callable[[int, str], None]
) -> Iterator[tuple[str, int | None]]:
    """Yield the key and time of each packet; pass packets without a key to `reject`."""
    number = 0
    while (packets := capture.read()) is not None:
        times = [None if time == loops.NO_TIME else time for time in packets.times.tolist()]
        for key, time in zip(_keys(packets, form), times, strict=True):
            number += 1
            if isinstance(key, NoKeyError):
                reject(number, str(key))
            else:
                yield key, time
    if capture.missing:
        reject(number + 1, f"incomplete record of {capture.missing} bytes")
    elif capture.truncated:
        reject(number + 1, f"incomplete {capture.compression} data, or other data after it")


def _keys(packets: Packets, form: Form | None) -> Iterator[str | NoKeyError]:
    if form is None:
        values = packet_digests(packets.buffer, packets.locations).values
        yield from (f"{value:016x}" for value in values.tolist())
        return
    table = find_headers(packets.buffer, packets.locations)
    for index, row in enumerate(table.T.tolist()):
        try:
            yield form(packets.frame(index), Headers(*row))
        except NoKeyError as error:
            yield error


def _bytes(first: int, last: int, frame: bytes, headers: Headers) -> str:
    if len(frame) < last:
        raise NoKeyError(f"only {len(frame)} bytes, need {last}")
    return frame[first:last].hex()


def _addresses(frame: bytes, headers: Headers) -> tuple[str, str]:
    if headers.version == 4:
        at = headers.begin + 12
        return _text(socket.AF_INET, frame[at : at + 4]), _text(
            socket.AF_INET, frame[at + 4 : at + 8]
        )
    if headers.version == 6:
        at = headers.begin + 8
        return (
            _text(socket.AF_INET6, frame[at : at + 16]),
            _text(socket.AF_INET6, frame[at + 16 : at + 32]),
        )
    raise NoKeyError("not an IP packet")


def _text(family: int, address: bytes) -> str:
    return socket.inet_ntop(family, address)


def _five_tuple(frame: bytes, headers: Headers) -> str:
    addresses = _addresses(frame, headers)
    ports = frame[headers.layer4 : min(headers.layer4 + 4, headers.end)]
    if headers.layer4 < 0 or headers.protocol not in _PORTS or len(ports) < 4:
        return f"{addresses[0]} > {addresses[1]} {headers.protocol}"
    source, target = (f"[{a}]" if headers.version == 6 else a for a in addresses)
    numbers = int.from_bytes(ports[:2], "big"), int.from_bytes(ports[2:], "big")
    return f"{source}:{numbers[0]} > {target}:{numbers[1]} {_PORTS[headers.protocol]}"


def _identification(frame: bytes, headers: Headers) -> str:
    source, target = _addresses(frame, headers)
    if headers.version != 4:
        raise NoKeyError("IPv6 has no identification")
    number = int.from_bytes(frame[headers.begin + 4 : headers.begin + 6], "big")
    return f"{source} > {target} {headers.protocol} {number}"


def _dns_name(frame: bytes, headers: Headers) -> str:
    if headers.version and headers.protocol == 17 and headers.layer4 >= 0:
        udp = frame[headers.layer4 : headers.end]
        message = udp[8:]
        ports = int.from_bytes(udp[:2], "big"), int.from_bytes(udp[2:4], "big")
        if (
            _DNS in ports
            and len(message) > 12
            and not message[2] & 0x80
            and message[4:6] != b"\0\0"
        ):
            return _question(message)
    raise NoKeyError("not a DNS query")


def _question(message: bytes) -> str:
    """Return the name in the first DNS question, in lower case."""
    labels: list[bytes] = []
    at = 12
    while at < len(message) and 0 < message[at] < 64:
        labels.append(message[at + 1 : at + 1 + message[at]])
        at += 1 + message[at]
    if at >= len(message) or message[at] or at - 12 > _MAX_NAME:
        raise NoKeyError("malformed name in the DNS question")
    return b".".join(labels).lower().decode("ascii", "backslashreplace") or "."


_FORMS: dict[str, Form] = {
    "five-tuple": _five_tuple, "ip-id": _identification, "dns-name": _dns_name,
}  # fmt: skip
