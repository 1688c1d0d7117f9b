"""Text keys of packets, for replaying streams."""

import re
import socket
from collections.abc import Callable, Iterator

from ..golden.packets.packet_digest import packet_digests
from ..golden.packets.packet_layers import Headers, find_headers
from ..stream_files import TraceError
from . import capture_loops as loops
from .capture_reader import CaptureReader, Packets

DEFAULT_KEY = "digest"

# Keys: digest of the fields that routers do not change; addresses, ports and protocol; addresses,
# protocol and IPv4 identification; name in a DNS query; COUNT bytes of the frame.
KEYS = (DEFAULT_KEY, "five-tuple", "ip-id", "dns-name", "bytes:OFFSET:COUNT")
_PORTS = {6: "tcp", 17: "udp", 33: "dccp", 132: "sctp", 136: "udplite"}
_DNS = 53
_MAX_NAME = 255


class NoKeyError(Exception):
    """A packet does not have the key."""


Form = Callable[[bytes, Headers], str]  # returns the key of a frame, or raises `NoKeyError`


def parse_key(name: str) -> Form | None:
    if name == DEFAULT_KEY:
        return None
    if name in _FORMS:
        return _FORMS[name]
    match = re.fullmatch(r"bytes:(\d{1,6}):(\d{1,6})", name)
    if match is None or not int(match[2]):
        raise TraceError(f"key: must be one of {', '.join(KEYS)} for a capture, not {name!r}")
    first, last = int(match[1]), int(match[1]) + int(match[2])

    def octets(frame: bytes, headers: Headers) -> str:
        if len(frame) < last:
            raise NoKeyError(f"has {len(frame)} bytes, but the key needs {last}")
        return frame[first:last].hex()

    return octets


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
        reject(number + 1, f"{capture.compression} data is incomplete, or other data follows it")


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


def _addresses(frame: bytes, headers: Headers) -> tuple[str, str]:
    if headers.version not in (4, 6):
        raise NoKeyError("not an IP packet")
    family, offset, size = (
        (socket.AF_INET, 12, 4) if headers.version == 4 else (socket.AF_INET6, 8, 16)
    )
    at = headers.begin + offset
    source, target = frame[at : at + size], frame[at + size : at + 2 * size]
    return socket.inet_ntop(family, source), socket.inet_ntop(family, target)


def _five_tuple(frame: bytes, headers: Headers) -> str:
    source, target = _addresses(frame, headers)
    ports = frame[headers.layer4 : min(headers.layer4 + 4, headers.end)]
    if headers.layer4 < 0 or headers.protocol not in _PORTS or len(ports) < 4:
        return f"{source} > {target} {headers.protocol}"
    if headers.version == 6:
        source, target = f"[{source}]", f"[{target}]"
    numbers = int.from_bytes(ports[:2], "big"), int.from_bytes(ports[2:], "big")
    return f"{source}:{numbers[0]} > {target}:{numbers[1]} {_PORTS[headers.protocol]}"


def _identification(frame: bytes, headers: Headers) -> str:
    source, target = _addresses(frame, headers)
    if headers.version != 4:
        raise NoKeyError("an IPv6 packet has no identification")
    number = int.from_bytes(frame[headers.begin + 4 : headers.begin + 6], "big")
    return f"{source} > {target} {headers.protocol} {number}"


def _dns_name(frame: bytes, headers: Headers) -> str:
    is_udp = headers.version and headers.protocol == 17 and headers.layer4 >= 0
    udp = frame[headers.layer4 : headers.end] if is_udp else b""
    ports, message = (int.from_bytes(udp[:2], "big"), int.from_bytes(udp[2:4], "big")), udp[8:]
    # Bit 7 of byte 2 marks a response; bytes 4 and 5 are the number of questions.
    if _DNS not in ports or len(message) <= 12 or message[2] & 0x80 or message[4:6] == b"\0\0":
        raise NoKeyError("not a DNS query")
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
