"""Keyed digest of a packet, without the fields that routers and taps change.

The message consists of the bytes of layer 3, up to the end that its header states. TTL or hop
limit, and the checksum of an IPv4 header, are replaced by zeros. For a packet without IP, the
message is the whole frame. The message is padded with zeros to words of 8 bytes, at least two,
which go to two lanes in turn. If the capture is incomplete, one more word follows: the length of
the message on the line. Both lanes end with 7 bytes: the captured length of the message, the
version, and the VLAN identifiers with their number. Each lane is SipHash-1-3
(`lately.golden.hash.siphash`) under its own secret; the digest is the exclusive or of both lanes.

For each word, SipHash does two additions in sequence. With two lanes, hardware that accepts one
word per cycle has two cycles for the additions. Two lanes separate packets as well as one SipHash.
No two messages have the same words in both lanes. If one lane differs, its change cannot be
predicted without the secret. If both lanes differ, the changes of two keyed functions are equal
only by chance. Digests are never output.

`packet_digest` takes one packet; `packet_digests` takes many, in a compiled loop. Hardware that
accepts more than one word per cycle uses another digest of the same message (`polynomial_digest`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compilation import core
from ..hash.siphash import siphash
from .comparison import Comparison, Field, hide, radiotap
from .packet_layers import Layers, Version, frames, layers, search_tables
from .polynomial_digest import polynomial_digest

# bits of a beat of the hardware from which on the digest is a `polynomial_digest`
POLYNOMIAL_WIDTH = 128
# added without carry to the secret for the second lane: the first 128 bits of pi - 3
OTHER_LANE = 0x243F6A8885A308D313198A2E03707344
# bits of the closing bytes, lowest first: length, half the version, number of tags, each tag
LENGTH_BITS, VERSION_BITS, COUNT_BITS, TAG_BITS = 16, 2, 2, 12
CLOSING_BYTES = 7  # bytes that end both lanes; the eighth of their word is SipHash's own
LEAST_WORDS = 2  # fewest words of a message: one per lane


FURTHER = 1 << 63  # bit of a word that is no length
FURTHER_TAG = 1 << 62  # bit of a word with a VLAN identifier after the closing bytes' own
CLOSING_TAGS = 3  # VLAN identifiers that the closing bytes have room for
MOST_BYTES = (1 << 63) - 1  # more bytes than any message has
DEFAULT = Comparison()  # default comparison


class Message(NamedTuple):
    """The part of a packet that is digested."""

    octets: bytes
    version: Version
    tags: tuple[int, ...]  # VLAN identifiers, outermost first
    length: int  # bytes on the line; more than `octets` if the capture is incomplete
    kind: int = 0  # protocol of `Version.CONTROL`

    @property
    def words(self) -> list[bytes]:
        """Words of 8 bytes, which go to the lanes in turn."""
        count = max(LEAST_WORDS, -(-len(self.octets) // 8))
        padded = self.octets.ljust(8 * count, b"\0")
        more = [self.length] if self.length > len(self.octets) else []
        more += [FURTHER | self.kind] if self.kind else []
        more += [FURTHER | FURTHER_TAG | tag for tag in self.tags[CLOSING_TAGS:]]
        padded += b"".join(word.to_bytes(8, "little") for word in more)
        return [padded[at : at + 8] for at in range(0, len(padded), 8)]

    @property
    def closing(self) -> int:
        """The last `CLOSING_BYTES` bytes of both lanes, as a number, lowest byte first."""
        tags = self.tags[:CLOSING_TAGS]
        parts = [
            (len(self.octets) % (1 << LENGTH_BITS), LENGTH_BITS),
            (self.version // 2, VERSION_BITS),
            (len(tags), COUNT_BITS),
            *((tag, TAG_BITS) for tag in tags),
        ]
        word = place = 0
        for value, bits in parts:
            word |= value << place
            place += bits
        return word


def message(
    frame: bytes, length: int, place: Layers, what: Comparison = DEFAULT, link: int = -1
) -> Message:
    """Return the digested part of a packet; the only link that changes it is radiotap."""
    fields = what.fields
    version = Version.OTHER if fields & Field.FRAME else place.version
    if version == Version.OTHER:
        first = radiotap(frame, link, fields)
        octets, length = what.cut(frame[first:], length - first)
        return Message(octets, version, (), length)
    layer3 = bytearray(frame[place.begin : place.end])
    if version != Version.CONTROL:
        hide(layer3, version, fields)
    first = 0 if fields & Field.LAYER2 else place.begin
    tags = place.tags if fields & Field.VLAN else ()
    octets, length = what.cut(frame[first : place.begin] + layer3, place.line_end - first)
    return Message(octets, version, tags, length, place.kind)


def packet_digest(
    frame: bytes,
    length: int,
    link: int,
    what: Comparison = DEFAULT,
    *,
    secret: int = 0,
    width: int = 64,
) -> int:
    """Return the digest of a packet, of 64 bits, under a secret of 128 bits.

    The first parameters are as for `layers`. `width` is the bits of a beat of the hardware. From
    `POLYNOMIAL_WIDTH` on, the capture must be complete and the reach `Reach.HARDWARE`.
    """
    place = layers(frame, length, link, *what.search)
    return message_digest(message(frame, length, place, what, link), secret, width)


def message_digest(found: Message, secret: int, width: int = 64) -> int:
    """Return the digest of a message; the secret and the width are as for `packet_digest`."""
    if width >= POLYNOMIAL_WIDTH:
        return polynomial_digest(found.octets, found.closing, secret, width // 8)
    digest = 0
    for lane, key in enumerate((secret, secret ^ OTHER_LANE)):
        octets = b"".join(found.words[lane::2]) + found.closing.to_bytes(CLOSING_BYTES, "little")
        words = np.frombuffer(octets + b"\0", "<u8").astype(np.uint64)
        digest ^= int(siphash(words.reshape(1, -1), key, key_bits=8 * len(octets))[0])
    return digest


class Digests(NamedTuple):
    """Digests of some packets; all arrays have shape (n,)."""

    values: NDArray[np.uint64]  # as `packet_digest`
    versions: NDArray[np.uint8]  # `Version` of each
    faults: NDArray[np.uint8]  # `Fault` of each


def packet_digests(
    buffer: NDArray[np.uint8],
    packets: NDArray[np.int64],
    what: Comparison = DEFAULT,
    *,
    secret: int = 0,
) -> Digests:
    """Digest packets; parameters as for `find_headers` and `packet_digest`."""
    count = packets.shape[1]
    found = Digests(
        np.empty(count, np.uint64), np.empty(count, np.uint8), np.empty(count, np.uint8)
    )
    if (compiled := core()) is not None:
        first = -1 if what.first is None else min(what.first, MOST_BYTES)
        tables = search_tables(what.tag_types, what.tunnels)
        skip = min(what.skip, MOST_BYTES)
        rule = int(what.fields), int(what.reach), skip, first, *tables, what.mask
        low, high = secret & (1 << 64) - 1, secret >> 64
        compiled.packet_digests(
            buffer, packets, rule, low, high, found.versions, found.faults, found.values
        )
        return found
    for number, (frame, length, link) in enumerate(frames(buffer, packets)):
        place = layers(frame, length, link, *what.search)
        found.values[number] = message_digest(message(frame, length, place, what, link), secret)
        found.versions[number], found.faults[number] = place.version, place.faults
    return found
