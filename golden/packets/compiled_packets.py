"""Compiled loops over the packets of a buffer: what `packet_layers` and `packet_digest` say.

All loops are in this file, because numba's cache on disk checks only the file of a function to
tell whether the code is that of the source.
"""

import numpy as np
from numpy.typing import NDArray

from ..compilation import jit
from ..hash.siphash import COMPRESSION_ROUNDS, FINAL, FINALIZATION_ROUNDS, INITIAL
from .packet_digest import (
    CLOSING_BYTES,
    COUNT_BITS,
    IP4_CHECKSUM,
    IP4_TOS,
    IP4_TTL,
    IP6_CLASS,
    IP6_HOP_LIMIT,
    LEAST_WORDS,
    LENGTH_BITS,
    OTHER_LANE,
    TAG_BITS,
    VERSION_BITS,
    Field,
)
from .packet_layers import (
    ETHER_TYPES,
    HEADERS,
    LINK_HEADERS,
    MOST_TAGS,
    NO_NEXT_HEADER,
    TAG_TYPES,
    Fault,
    Version,
)

PADDING = 8
"""Bytes that a buffer has after the last packet: words are read whole."""

VERSION, BEGIN, END, FAULTS, PROTOCOL, LAYER4, COLUMNS = range(7)
"""Row of the table of `find_headers`, and the number of rows; places count from the packet."""

_OTHER, _IP4, _IP6 = (int(version) for version in Version)
_IP4_TYPE, _IP6_TYPE = ETHER_TYPES
_IP4_HEADER, _IP6_HEADER = (HEADERS[version] for version in (Version.IP4, Version.IP6))
_CUT, _MALFORMED = int(Fault.CUT), int(Fault.MALFORMED)
_TOS, _TTL, _VLAN, _LAYER2, _FRAME = (int(field) for field in Field if field)
_TAG_0, _TAG_1, _TAG_2 = TAG_TYPES
_UNKNOWN = (-1, -1)
_LINKS = np.full((max(LINK_HEADERS) + 1, 2), _UNKNOWN, np.int64)
for _link, _places in LINK_HEADERS.items():
    _LINKS[_link] = _places
_INITIAL = np.array(INITIAL, np.uint64)
_FINAL = np.uint64(FINAL)
_VERSION_AT = np.uint64(LENGTH_BITS)
_COUNT_AT = np.uint64(LENGTH_BITS + VERSION_BITS)
_TAGS_AT = LENGTH_BITS + VERSION_BITS + COUNT_BITS
_LENGTHS = np.uint64((1 << LENGTH_BITS) - 1)
_LOW, _HIGH = (np.uint64(OTHER_LANE >> at & (1 << 64) - 1) for at in (0, 64))
_EXTENSIONS = np.zeros(256, np.int64)
"""Headers that follow one of IPv6: 1 if their length counts 8 bytes, 2 for 4, 3 for a fragment."""
_EXTENSIONS[[0, 43, 60, 135]] = 1
_EXTENSIONS[51] = 2
_EXTENSIONS[44] = 3
_MOST_EXTENSIONS = 16


@jit
def _number(buffer, at):
    return np.int64(buffer[at]) << 8 | np.int64(buffer[at + 1])


@jit
def _network(buffer, at, captured, link):
    """Return where layer 3 begins (-1 if nobody can tell), its version, and bits of its tags."""
    if link < 0 or link >= len(_LINKS) or _LINKS[link, 0] < 0:
        return 0, _OTHER, np.uint64(0)
    begin, place = _LINKS[link, 0], _LINKS[link, 1]
    if captured < begin:
        return -1, _OTHER, np.uint64(0)
    if place < 0:
        if captured == begin:
            return -1, _OTHER, np.uint64(0)
        version = np.int64(buffer[at + begin] >> 4)
        return begin, version if version in (_IP4, _IP6) else _OTHER, np.uint64(0)
    kind, tags, word = _number(buffer, at + place), 0, np.uint64(0)
    while tags < MOST_TAGS and (kind in (_TAG_0, _TAG_1, _TAG_2)):
        if captured < begin + 4:
            return -1, _OTHER, np.uint64(0)
        tag = np.uint64(_number(buffer, at + begin) & 0xFFF)
        word |= tag << np.uint64(_TAGS_AT + TAG_BITS * tags)
        kind = _number(buffer, at + begin + 2)
        begin, tags = begin + 4, tags + 1
    version = _IP4 if kind == _IP4_TYPE else _IP6 if kind == _IP6_TYPE else _OTHER
    return begin, version, word | np.uint64(tags) << _COUNT_AT


@jit
def _layers(buffer, at, captured, length, link):
    """Return version, begin, end, end on the line, bits of its tags, and faults of a packet."""
    fault = _CUT if captured < length else 0
    none = np.uint64(0)
    begin, version, tags = _network(buffer, at, captured, link)
    if begin >= 0 and version == _OTHER:
        return _OTHER, 0, captured, length, none, fault
    header = _IP4_HEADER if version == _IP4 else _IP6_HEADER
    if begin < 0 or captured < begin + header:
        return _OTHER, 0, captured, length, none, fault if fault else _MALFORMED
    layer3 = at + begin
    right = np.int64(buffer[layer3] >> 4) == version
    if version == _IP4:
        size, header = _number(buffer, layer3 + 2), 4 * np.int64(buffer[layer3] & 15)
        right &= header >= _IP4_HEADER and not 0 < size < header
    else:
        size = _number(buffer, layer3 + 4)
        size += _IP6_HEADER if size or buffer[layer3 + 6] == NO_NEXT_HEADER else 0
    if not right:
        return _OTHER, 0, captured, length, none, fault | _MALFORMED
    if begin + size > length:
        fault |= _MALFORMED
    line_end = min(begin + size, length) if size else length
    return version, begin, min(line_end, captured), line_end, tags, fault


# Digests


@jit
def _hide(buffer, layer3, version, fields, kept):
    """Put zeros where a packet has fields that do not count; keep what was there."""
    first = IP4_TOS if version == _IP4 else IP6_CLASS
    limit = IP4_TTL if version == _IP4 else IP6_HOP_LIMIT
    for i in range(2):
        kept[i] = buffer[layer3 + first + i]
        kept[2 + i] = buffer[layer3 + IP4_CHECKSUM + i]
    kept[4] = buffer[layer3 + limit]
    if not fields & _TOS and version == _IP4:
        buffer[layer3 + first] = 0
    elif not fields & _TOS:
        buffer[layer3 + first] &= 0xF0
        buffer[layer3 + first + 1] &= 0x0F
    if version == _IP4:
        buffer[layer3 + IP4_CHECKSUM] = buffer[layer3 + IP4_CHECKSUM + 1] = 0
    if not fields & _TTL:
        buffer[layer3 + limit] = 0


@jit
def _show(buffer, layer3, version, kept):
    """Put back what `_hide` took away."""
    first = IP4_TOS if version == _IP4 else IP6_CLASS
    for i in range(2):
        buffer[layer3 + first + i] = kept[i]
        buffer[layer3 + IP4_CHECKSUM + i] = kept[2 + i]
    buffer[layer3 + (IP4_TTL if version == _IP4 else IP6_HOP_LIMIT)] = kept[4]


@jit
def digest_packets(buffer, words, packets, fields, low, high, versions, faults, digests):
    """Digest packets.

    Parameters
    ----------
    buffer : ndarray of uint8
        With `PADDING` after the last packet. It is changed, but left as it was.
    words : ndarray of uint64
        `unaligned_words` of the buffer.
    packets : ndarray of int64, shape (4, n)
        Of each: its place in the buffer, bytes captured, bytes on the line, type of the link.
    fields : int
        As `Field`.
    low, high : uint64
        Halves of the secret.
    versions, faults : ndarray of uint8, shape (n,)
        Get `Version` and `Fault` of each.
    digests : ndarray of uint64, shape (n,)
        Get the digests.
    """
    kept = np.empty(5, np.uint8)
    for i in range(packets.shape[1]):
        at, captured, length, link = packets[0, i], packets[1, i], packets[2, i], packets[3, i]
        version, begin, end, line_end, tags, fault = _layers(buffer, at, captured, length, link)
        versions[i], faults[i] = version, fault
        if fields & _FRAME or version == _OTHER:
            digests[i] = _digest(words, at, captured, length, np.uint64(0), low, high)
            continue
        closing = np.uint64(version // 2) << _VERSION_AT | (
            tags if fields & _VLAN else np.uint64(0)
        )
        first = 0 if fields & _LAYER2 else begin
        _hide(buffer, at + begin, version, fields, kept)
        digests[i] = _digest(words, at + first, end - first, line_end - first, closing, low, high)
        _show(buffer, at + begin, version, kept)


@jit
def _digest(words, first, size, length, closing, low, high):
    """Digest bytes of a message of a length; the closing bytes come without the number of bytes."""
    a, b, c, d = _begin(low, high)
    e, f, g, h = _begin(low ^ _LOW, high ^ _HIGH)
    whole, rest = size >> 3, size & 7
    last = words[first + 8 * whole] & (np.uint64(1) << np.uint64(8 * rest)) - np.uint64(1)
    count = max(LEAST_WORDS, whole + (rest > 0))
    pairs = whole >> 1
    for _ in range(pairs):
        a, b, c, d = _compress(a, b, c, d, words[first])
        e, f, g, h = _compress(e, f, g, h, words[first + 8])
        first += 16
    if count > 2 * pairs:
        a, b, c, d = _compress(a, b, c, d, words[first] if whole & 1 else last)
    if count > 2 * pairs + 1:
        e, f, g, h = _compress(e, f, g, h, last if whole & 1 else np.uint64(0))
    if length > size:
        if count & 1:
            e, f, g, h = _compress(e, f, g, h, np.uint64(length))
        else:
            a, b, c, d = _compress(a, b, c, d, np.uint64(length))
        count += 1
    closing |= np.uint64(size) & _LENGTHS
    a, b, c, d = _compress(a, b, c, d, closing | _length(count + 1 >> 1))
    e, f, g, h = _compress(e, f, g, h, closing | _length(count >> 1))
    return _finish(a, b, c, d) ^ _finish(e, f, g, h)


@jit
def _begin(low, high):
    return _INITIAL[0] ^ low, _INITIAL[1] ^ high, _INITIAL[2] ^ low, _INITIAL[3] ^ high


@jit
def _length(words):
    """Return SipHash's length, modulo 256, of words and the closing bytes, at the top of a word."""
    return np.uint64(8 * words + CLOSING_BYTES) << np.uint64(56)


@jit
def _compress(a, b, c, d, word):
    d ^= word
    for _ in range(COMPRESSION_ROUNDS):
        a, b, c, d = _round(a, b, c, d)
    return a ^ word, b, c, d


@jit
def _finish(a, b, c, d):
    c ^= _FINAL
    for _ in range(FINALIZATION_ROUNDS):
        a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d


@jit
def _rotate(value, amount):
    return value << np.uint64(amount) | value >> np.uint64(64 - amount)


@jit
def _round(a, b, c, d):
    """SipRound, as `siphash` has it."""
    a += b
    c += d
    b = _rotate(b, 13) ^ a
    d = _rotate(d, 16) ^ c
    a = _rotate(a, 32)
    c += b
    a += d
    b = _rotate(b, 17) ^ c
    d = _rotate(d, 21) ^ a
    return a, b, _rotate(c, 32), d


# Headers


@jit
def _layer4(buffer, at, end):
    """Return protocol and place of layer 4 of a packet of IPv6; -1 if that is not in it."""
    kind, place = np.int64(buffer[at + 6]), np.int64(_IP6_HEADER)
    for _ in range(_MOST_EXTENSIONS):
        step = _EXTENSIONS[kind]
        if step == 0:
            return kind, place
        if at + place + 8 > end:
            return kind, -1
        after = np.int64(buffer[at + place])
        size = 8 * (np.int64(buffer[at + place + 1]) + 1)
        if step == 2:
            size = 4 * (np.int64(buffer[at + place + 1]) + 2)
        elif step == 3:
            size = 8
            if _number(buffer, at + place + 2) & 0xFFF8:
                return after, -1
        kind, place = after, place + size
    return kind, -1


@jit
def find_headers(buffer, packets, table):
    """Find the headers of packets.

    Parameters
    ----------
    buffer, packets
        As for `digest_packets`.
    table : ndarray of int64, shape (COLUMNS, n)
        Gets of each packet: version, begin and end of layer 3, faults, protocol and place of
        layer 4, which is -1 where there is none, such as in a later fragment.
    """
    for i in range(packets.shape[1]):
        at = packets[0, i]
        version, begin, end, _, _, fault = _layers(
            buffer, at, packets[1, i], packets[2, i], packets[3, i]
        )
        table[VERSION, i], table[BEGIN, i], table[END, i] = version, begin, end
        table[FAULTS, i], table[PROTOCOL, i], table[LAYER4, i] = fault, -1, -1
        layer3 = at + begin
        if version == _IP4:
            table[PROTOCOL, i] = buffer[layer3 + 9]
            if not _number(buffer, layer3 + 6) & 0x1FFF:
                table[LAYER4, i] = begin + 4 * np.int64(buffer[layer3] & 15)
        elif version == _IP6:
            protocol, place = _layer4(buffer, layer3, at + end)
            table[PROTOCOL, i] = protocol
            if place >= 0:
                table[LAYER4, i] = begin + place


def unaligned_words(buffer: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """View a `buffer` of shape (n,) as words that begin at every byte, shape (n - 7,).

    The first byte of a word is its least significant, on machines that have it so.
    """
    return np.ndarray((len(buffer) - 7,), np.uint64, buffer, strides=(1,))
