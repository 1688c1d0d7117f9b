"""Keyed digest of a packet that ignores the fields that routers and taps change.

The message consists of the bytes of layer 3, up to the end that its header states, with the TTL or
hop limit and the IPv4 header checksum set to zero. For a packet that is not IP, the message is the
whole frame. The message is padded with zeros to at least two words of 8 bytes, which alternate
between two lanes. If the capture is incomplete, another word follows: the length of the message
on the wire. Both lanes end with 7 bytes: the captured length of the message, the version, the
number of VLAN identifiers, and the identifiers. Each lane is SipHash-1-3
(`lately.golden.hash.siphash`) under its own secret; the digest is the XOR of both lanes.

With two lanes, hardware that accepts one word per cycle has two cycles for the two additions of a
word. Two lanes distinguish packets as well as one SipHash: if one lane differs, its change cannot
be predicted without the secret; if both differ, the changes cancel only by chance. Digests are
never output. Hardware that accepts more words per cycle uses another digest of the same message
(`polynomial_digest`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compilation import core
from ..hash.siphash import siphash
from .comparison import Comparison, Field, hide, radiotap
from .packet_layers import Buffer, Layers, Packets, Version, frames, layers, search_tables
from .polynomial_digest import polynomial_digest

# beat width of the hardware, in bits, from which the digest is a `polynomial_digest`
POLYNOMIAL_WIDTH = 128
# XORed with the secret for the second lane: the first 128 bits of pi - 3
OTHER_LANE = 0x243F6A8885A308D313198A2E03707344
# field widths in the closing bytes, lowest first: length, half the version, number of tags, tag
LENGTH_BITS, VERSION_BITS, COUNT_BITS, TAG_BITS = 16, 2, 2, 12
CLOSING_BYTES = 7  # bytes that end both lanes; SipHash itself adds the eighth of the word
MIN_WORDS = 2  # minimum number of words of a message: one per lane


FURTHER = 1 << 63  # marks a word that is not a length
FURTHER_TAG = 1 << 62  # marks a word with a VLAN identifier that the closing bytes lack
CLOSING_TAGS = 3  # number of VLAN identifiers that fit into the closing bytes
MAX_BYTES = (1 << 63) - 1  # longer than any message
DEFAULT = Comparison()


class Message(NamedTuple):
    """The part of a packet that is digested."""

    octets: bytes
    version: Version
    tags: tuple[int, ...]  # VLAN identifiers, outermost first
    length: int  # bytes on the wire; above len(octets) if the capture is incomplete
    kind: int = 0  # protocol, for `Version.CONTROL`

    @property
    def words(self) -> list[bytes]:
        count = max(MIN_WORDS, -(-len(self.octets) // 8))
        padded = self.octets.ljust(8 * count, b"\0")
        more = [self.length] if self.length > len(self.octets) else []
        more += [FURTHER | self.kind] if self.kind else []
        more += [FURTHER | FURTHER_TAG | tag for tag in self.tags[CLOSING_TAGS:]]
        padded += b"".join(word.to_bytes(8, "little") for word in more)
        return [padded[at : at + 8] for at in range(0, len(padded), 8)]

    @property
    def closing(self) -> int:
        """Last `CLOSING_BYTES` bytes of both lanes, as a little-endian number."""
        tags = self.tags[:CLOSING_TAGS]
        parts = [
            (len(self.octets) % (1 << LENGTH_BITS), LENGTH_BITS),
            (self.version // 2, VERSION_BITS),
            (len(tags), COUNT_BITS),
            *((tag, TAG_BITS) for tag in tags),
        ]
        word = position = 0
        for value, bits in parts:
            word |= value << position
            position += bits
        return word


def message(
    frame: bytes, length: int, position: Layers, comparison: Comparison = DEFAULT, link: int = -1
) -> Message:
    """Select the part of a packet to digest; `link` matters only for radiotap headers."""
    fields = comparison.fields
    version = Version.OTHER if fields & Field.FRAME else position.version
    if version == Version.OTHER:
        first = radiotap(frame, link, fields)
        octets, length = comparison.cut(frame[first:], length - first)
        return Message(octets, version, (), length)
    layer3 = bytearray(frame[position.begin : position.end])
    if version != Version.CONTROL:
        hide(layer3, version, fields)
    first = 0 if fields & Field.LAYER2 else position.begin
    tags = position.tags if fields & Field.VLAN else ()
    octets, length = comparison.cut(
        frame[first : position.begin] + layer3, position.line_end - first
    )
    return Message(octets, version, tags, length, position.kind)


def packet_digest(
    frame: bytes,
    length: int,
    link: int,
    comparison: Comparison = DEFAULT,
    *,
    secret: int = 0,
    width: int = 64,
) -> int:
    """Return the 64-bit digest of a packet under a 128-bit `secret`.

    The parameters `frame`, `length` and `link` are those of `layers`. The `width` is the width in
    bits of the hardware's stream.
    """
    # The polynomial digest of wide hardware needs a complete capture and `Reach.HARDWARE`.
    position = layers(frame, length, link, *comparison.search)
    return message_digest(message(frame, length, position, comparison, link), secret, width)


def message_digest(result: Message, secret: int, width: int = 64) -> int:
    if width >= POLYNOMIAL_WIDTH:
        return polynomial_digest(result.octets, result.closing, secret, width // 8)
    digest = 0
    for lane, key in enumerate((secret, secret ^ OTHER_LANE)):
        octets = b"".join(result.words[lane::2]) + result.closing.to_bytes(CLOSING_BYTES, "little")
        words = np.frombuffer(octets + b"\0", "<u8").astype(np.uint64)
        digest ^= int(siphash(words.reshape(1, -1), key, key_bits=8 * len(octets))[0])
    return digest


class Digests(NamedTuple):
    """Digests of n packets; all arrays have shape (n,)."""

    values: NDArray[np.uint64]  # see `packet_digest`
    versions: NDArray[np.uint8]  # `Version` of each packet
    faults: NDArray[np.uint8]  # `Fault` of each packet


def packet_digests(
    buffer: Buffer, packets: Packets, comparison: Comparison = DEFAULT, *, secret: int = 0
) -> Digests:
    """Digest n packets; the parameters are those of `find_headers` and `packet_digest`."""
    count = packets.shape[1]
    result = Digests(
        np.empty(count, np.uint64), np.empty(count, np.uint8), np.empty(count, np.uint8)
    )
    if (compiled := core()) is not None:
        first = -1 if comparison.first is None else min(comparison.first, MAX_BYTES)
        tables = search_tables(comparison.tag_types, comparison.tunnels)
        skip = min(comparison.skip, MAX_BYTES)
        rule = int(comparison.fields), int(comparison.reach), skip, first, *tables, comparison.mask
        low, high = secret & (1 << 64) - 1, secret >> 64
        compiled.packet_digests(
            buffer, packets, rule, low, high, result.versions, result.faults, result.values
        )
        return result
    for number, (frame, length, link) in enumerate(frames(buffer, packets)):
        position = layers(frame, length, link, *comparison.search)
        result.values[number] = message_digest(
            message(frame, length, position, comparison, link), secret
        )
        result.versions[number], result.faults[number] = position.version, position.faults
    return result
