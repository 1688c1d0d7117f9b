"""The framed protocol that a board speaks over its serial line: constants and codec.

**Frames.** A frame is the bytes between two flags 0x7E. Within it 0x7E and
0x7D are sent as 0x7D and the byte with bit 5 inverted, as in RFC 1662. Every
frame has a flag on both ends, and a flag ends any frame, so that damaged, lost
or additional bytes cost the frame they occur in and no other. A frame holds

==================== ======================================================
bytes                content
==================== ======================================================
1                    type: bit 7 of an answer, `VERSION` in bits 6 to 4,
                     `Request` in bits 3 to 0
1                    sequence number
1                    `Status`, in answers only
0 to `MAX_PAYLOAD`   payload; at most `MAX_ANSWER` in answers
2                    CRC-16/IBM-SDLC of all before, low byte first
==================== ======================================================

Numbers are little-endian. The board buffers a whole frame and checks its CRC
before any of it takes effect; a frame that is damaged, too long or too short
changes nothing, is counted and is not answered. A frame that arrives while all
slots are full is dropped, counted, and not answered either.

**Sessions.** HELLO, with any sequence number and a nonce that its answer
repeats, begins a session: the next request is expected to have the next
number. The nonce distinguishes the answer from those of an earlier session.
HELLO does not change the filter, so it may be repeated.

**Exactly once, in order.** The board performs the request whose number it
expects, and then expects the next. It keeps the answers of its last `slots`
requests. A request with one of their numbers is a repetition: it gets the
same answer again and is not performed. Any other number is answered with
OUT_OF_ORDER, or NO_SESSION where there was no HELLO since reset, and is
neither performed nor kept. The host has at most `slots` requests under way,
counted from the oldest that has no answer, and repeats what has none:

- a request got lost: those behind it are OUT_OF_ORDER, and all are sent again;
- an answer got lost: the request is a repetition, and its answer comes again;
- a request came twice: the second is a repetition.

As the line keeps the order, every request that the board can receive is
among the last `slots` or expected or ahead: 8 bits of number tell them apart
as long as there are at most `MAX_SLOTS` slots.

**Requests.**

============ ============================ =================================
request      payload                      payload of the answer
============ ============================ =================================
HELLO        nonce, 4 bytes               nonce; `Information`
OPERATIONS   records: operation, key,     for each, as below
             window or class of the query
STATISTICS   none                         `STATISTICS`, 4 bytes each
GENERATION   insertions, 4 bytes          none
SECRET       secret, 16 bytes             none
SELF_TEST    none                         `Check` bits of what failed
PERIOD       clocks, 4 bytes              none
READ         address, 1 byte              word, 4 bytes
WRITE        address; word, 4 bytes       none
TABLE        entries                      none
SWAP         none                         none
============ ============================ =================================

A board has the requests that its unit has ports for: GENERATION with a
generation length, SECRET with a secret, PERIOD with ticks, TABLE and SWAP with a table of
thresholds. Others are BAD_TYPE.

A board of frames has HELLO, READ and WRITE alone, and `lately.hdl.registers` at their addresses.

**Operations.** OPERATIONS takes effect as a whole or, with another `Status`
than OK, not at all. It has `Information.batch_operations` at most, and is of
BAD_LENGTH beyond. Key and window have as many bytes as they need, the window
none where queries have none; unused bits of a key must be 0, and a window is
at most the longest of the board's information. Where a table of thresholds answers, the class of
the query is in place of a window. The answer has for each operation, in whole bytes:

- in the highest bit whether the key was seen, and below it the age;
- the number of cells of that age, where the unit tells it;
- time and status, where there are these: in the low bits those of the tick
  counter, above them the status.

**Ticks.** A board whose unit has ticks makes them itself, one every PERIOD
clocks: from the next tick on, and a millisecond after reset. A period is at
least `lately.hdl.build.UnitProfile.least_period` and below ``2**PERIOD_BITS``.
None of them comes during a SELF_TEST.

**Tables.** A board whose answers are those of a `lately.golden.DecisionTable` has two: one
answers, while TABLE loads entries of the other; SWAP exchanges them. Until the first SWAP since
reset every key is reported. An entry has, from its lowest bit on, phase, age, class and
threshold, each as wide as `lately.boards.link.information.TableShape` says, in whole bytes;
unused bits must be 0. TABLE takes effect as a whole or not at all.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from typing import NamedTuple

from ...golden.errors import LatelyError
from ...hdl.registers import readable

VERSION = 1
"""Version of the protocol; requests of other versions are refused."""
FLAG = 0x7E
"""Byte before and after each frame."""
ESCAPE = 0x7D
"""Byte before one whose bit 5 is inverted."""
TURN = 0x20
"""Bit that is inverted after an escape."""
ANSWER = 0x80
"""Bit of the type that distinguishes answers from requests."""

MAX_PAYLOAD = 252
"""Bytes of a request's payload at most: the whole frame is 256."""

MAX_ANSWER = 128
"""Bytes of an answer's payload at most."""

MAX_SLOTS = 16
"""Requests under way at most."""

LOWEST_BAUD, HIGHEST_BAUD = 115_200, 3_000_000
"""Rates of the line that a board can be built for, in bits per second."""

LEAST_CLOCK = 8 * LOWEST_BAUD
"""Clock of a board at least, in Hz: the receiver takes eight samples of a bit."""

NONCE_BYTES = 4
"""Bytes of the nonce of a HELLO."""
SECRET_BYTES = 16
"""Bytes of a secret."""
MAX_AGE = 127
"""Greatest age that an answer has room for, in generations."""

TIME_BITS = 30
"""Low bits of the tick counter that an answer has room for."""

STATISTICS = tuple(register.name for register in readable())
"""Registers that STATISTICS answers; the `generation` is the length in use."""

TIMED_STATISTICS = tuple(register.name for register in readable(timed=True))
"""Registers that STATISTICS answers if the window is one in time."""


class ProtocolError(LatelyError, ValueError):
    """A filter cannot be spoken to with this protocol."""


class Request(IntEnum):
    """Kinds of requests."""

    HELLO = 1
    OPERATIONS = 2
    STATISTICS = 3
    GENERATION = 4
    SECRET = 5
    SELF_TEST = 6
    PERIOD = 7
    READ = 8
    WRITE = 9
    TABLE = 10
    SWAP = 11


class Status(IntEnum):
    """How a request ended; all but OK changed nothing."""

    OK = 0
    BAD_VERSION = 1
    """Another version than that of the answer's type."""
    BAD_TYPE = 2
    BAD_LENGTH = 3
    BAD_OPERATION = 4
    BAD_KEY = 5
    """A key has bits beyond its width."""
    BAD_VALUE = 6
    """A generation length of 0, or one that the hardware cannot count; such a period, window, class
    or entry of a table."""
    BUSY = 7
    """A secret came while the two before it are still needed."""
    OUT_OF_ORDER = 8
    NO_SESSION = 9


class Check(IntFlag):
    """Checks of the self-test, by what is wrong if they fail."""

    EMPTY = 1
    """A key was reported right after a clear: memory is not cleared."""
    FIRST = 2
    """The first key of an empty filter was reported: memory is set before it is read."""
    REPEAT = 4
    """A key was not reported in the cycle after its insertion: memory is read before it is set."""
    KEEP = 8
    """A key was lost while others were inserted: a write changes other bits, or cells, as well."""
    AGE = 16
    """A key had another age than what came since: memory is cleared or swept too early, or not."""
    EXPIRY = 32
    """A key was reported after it must be gone: what has expired is not cleared or swept."""
    STRANGERS = 64
    """Keys never inserted were reported far too often: a write sets other bits as well."""
    ANSWERS = 128
    """The unit gave no answer, or that of another operation."""


# Frames


class Frame(NamedTuple):
    """A frame whose CRC was right.

    Attributes
    ----------
    type, sequence : int
    body : bytes
        What follows: the payload of a request; status and payload of an answer.
    """

    type: int
    sequence: int
    body: bytes


def stuff(data: bytes) -> bytes:
    """Return `data` with flags and escapes replaced, between two flags."""
    turned = data
    for special in (ESCAPE, FLAG):
        turned = turned.replace(bytes([special]), bytes([ESCAPE, special ^ TURN]))
    return b"%c%s%c" % (FLAG, turned, FLAG)


def encode(type: int, sequence: int, body: bytes) -> bytes:
    """Return the bytes of a frame on the line; the fields are as those of `Frame`.

    The `sequence` of a request is 0 to 255, its `type` the first byte, and its `body` goes
    up to the CRC.
    """
    content = bytes([type, sequence]) + body
    return stuff(content + struct.pack("<H", _crc(content)))


def encode_request(request: Request, sequence: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a request of that `sequence` number, 0 to 255, on the line.

    Raises
    ------
    ProtocolError
        If the payload is too long.
    """
    if len(payload) > MAX_PAYLOAD:
        raise ProtocolError(f"payload: must be at most {MAX_PAYLOAD} bytes, not {len(payload)}")
    return encode(VERSION << 4 | request, sequence & 0xFF, payload)


def _crc(content: bytes) -> int:
    # A board is built, and its hardware described, without the host's packages.
    from fastcrc import crc16

    return crc16.ibm_sdlc(content)


class Decoder:
    """Finds frames in the bytes of a line, however they are cut.

    Attributes
    ----------
    bad : int
        Frames whose CRC or length was wrong.
    """

    MOST = 2 * (MAX_PAYLOAD + 5)
    """Bytes of a frame on the line at most."""

    def __init__(self) -> None:
        self.bad = 0
        self._open = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that end in `data` as it comes from the line, in order."""
        *ended, self._open = (self._open + data).split(bytes([FLAG]))
        # Of a line that never has a flag, no more is kept than tells that it is bad.
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
    content = first + b"".join(bytes([part[0] ^ TURN]) + part[1:] for part in rest)
    if len(content) < 4 or _crc(content[:-2]) != int.from_bytes(content[-2:], "little"):
        return None
    return Frame(content[0], content[1], content[2:-2])
