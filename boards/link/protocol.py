"""The framed protocol of a board's serial line: constants and codec.

`docs/host.md` describes the protocol. This module does not import Amaranth.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from ...golden.errors import LatelyError

VERSION = 2
"""Version of the protocol; a board rejects requests of other versions."""
FLAG = 0x7E
"""Byte before and after each frame."""
ESCAPE = 0x7D
"""Byte before a byte whose bit 5 is inverted."""
INVERTED = 0x20
"""Bit that is inverted after an escape."""
ANSWER = 0x80
"""Bit of the type that distinguishes answers from requests."""

MAX_PAYLOAD = 252
"""Maximum bytes of a request's payload; the whole frame has at most 256."""

MAX_ANSWER = 128
"""Maximum bytes of an answer's payload."""

MAX_SLOTS = 16
"""Maximum number of requests in flight."""

LOWEST_BAUD, HIGHEST_BAUD = 115_200, 3_000_000
"""Range of the line rate, in bits per second."""

LEAST_CLOCK = 8 * LOWEST_BAUD
"""Lowest clock frequency of a board, in Hz: the receiver takes eight samples per bit."""

NONCE_BYTES = 4
"""Bytes of the nonce of a HELLO."""

WORD_BYTES = 4
"""Bytes of a register word."""

MAX_READ = MAX_ANSWER // WORD_BYTES
"""Maximum words of a READ."""

MAX_WRITE = (MAX_PAYLOAD - 2) // WORD_BYTES
"""Maximum words of a WRITE."""

SAME = 0x8000
"""Bit of an address: all words of the request use this address instead of ascending ones."""


class ProtocolError(LatelyError, ValueError):
    """The protocol does not support a filter, or a board breaks the protocol."""


class Request(IntEnum):
    """Kinds of requests."""

    HELLO = 1
    """A nonce; the answer repeats the nonce and adds the number of slots."""
    READ = 2
    """Address of a word (2 bytes) and number of words (1 byte); the answer has the words."""
    WRITE = 3
    """Address of a word (2 bytes) and words; the answer is empty."""
    OPERATE = 4
    """Records of operations; the answer has a record for each result."""


class Status(IntEnum):
    """Outcome of a request."""

    OK = 0
    BAD_VERSION = 1
    """The protocol versions of request and board differ."""
    BAD_TYPE = 2
    """The board does not support this request."""
    BAD_ADDRESS = 3
    """A word of a WRITE was rejected; the words after it were not written."""
    OUT_OF_ORDER = 4
    """The sequence number is neither the next one nor one of a kept answer."""
    NO_SESSION = 5
    """No HELLO was received since reset."""


class Frame(NamedTuple):
    """A frame with a correct CRC.

    Attributes
    ----------
    type, sequence : int
    body : bytes
        Payload of a request; status and payload of an answer.
    """

    type: int
    sequence: int
    body: bytes


def stuff(data: bytes) -> bytes:
    """Return `data` with flags and escapes replaced, between two flags."""
    stuffed = data
    for special in (ESCAPE, FLAG):
        stuffed = stuffed.replace(bytes([special]), bytes([ESCAPE, special ^ INVERTED]))
    return b"%c%s%c" % (FLAG, stuffed, FLAG)


def encode(type: int, sequence: int, body: bytes) -> bytes:
    """Return the bytes of a frame on the line; the parameters are the fields of `Frame`."""
    content = bytes([type, sequence]) + body
    return stuff(content + struct.pack("<H", _crc(content)))


def encode_request(request: Request, sequence: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a request with a `sequence` number on the line.

    Raises
    ------
    ProtocolError
        If the payload is too long.
    """
    if len(payload) > MAX_PAYLOAD:
        raise ProtocolError(f"payload: must be at most {MAX_PAYLOAD} bytes, not {len(payload)}")
    return encode(VERSION << 4 | request, sequence & 0xFF, payload)


def _crc(content: bytes) -> int:
    # Boards are built without the packages of the host.
    from fastcrc import crc16

    return crc16.ibm_sdlc(content)


class Decoder:
    """Finds frames in the bytes of a line, for any division into chunks.

    Attributes
    ----------
    bad : int
        Frames with a wrong CRC or length.
    """

    MOST = 2 * (MAX_PAYLOAD + 5)
    """Maximum bytes of a frame on the line."""

    def __init__(self) -> None:
        self.bad = 0
        self._open = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that end in the next bytes of the line, in order."""
        *ended, self._open = (self._open + data).split(bytes([FLAG]))
        # Without a flag, memory stays small.
        self._open = self._open[: self.MOST + 1]
        for stuffed in ended:
            frame = _frame(stuffed) if len(stuffed) <= self.MOST else None
            if frame is not None:
                yield frame
            elif stuffed:
                self.bad += 1


def _frame(stuffed: bytes) -> Frame | None:
    first, *rest = stuffed.split(bytes([ESCAPE]))
    if not all(rest):
        return None
    content = first + b"".join(bytes([part[0] ^ INVERTED]) + part[1:] for part in rest)
    if len(content) < 4 or _crc(content[:-2]) != int.from_bytes(content[-2:], "little"):
        return None
    return Frame(content[0], content[1], content[2:-2])
