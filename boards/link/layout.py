"""Layout of the words behind a board's serial line, for board and host; see `docs/host.md`.

This module does not import Amaranth.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...golden.results import Results
from ...golden.spec.base import Specification, require
from ...hdl.registers import ADDRESSES

WRITE, READ, WRITE_SAME, READ_SAME = COMMANDS = 1, 2, 3, 4
"""UARTBone commands for consecutive addresses and for one address. The number of words and the word
address follow, high byte first."""

BASE, BLOCK, RESULTS = 0x4C41_0000, 0xB3BE_0400, 0xB3BE_0800
"""Byte addresses: the registers; a block of operations, which are performed when its last word is
written; and the results of the last block, after `performed` and the signature. One corrupted
address byte cannot turn an address of the last two into one of a register, so a block cannot
overwrite settings."""

BLOCK_WORDS, TRAILER = 256, 252
"""Number of words in a block, and index of its trailer, which follows the operations. The trailer
holds the operation and window of all of them (or 0), the index of their first word, `performed`
before the block, and the CRC-32 of all words from that index on."""

MIXED = 1 << 8
"""Flag next to the index of the first word: a word with operation and window precedes each key."""

CODE_BITS, WINDOW_BITS = 4, 28
AGE_BITS, STATUS_BITS, TIME_BITS = 26, 5, 30
"""Widths in a result: `seen` is the highest bit of the first word; the time has its own word."""

MISSING = (1 << 32) - 1
"""Value read at an address without a register."""


def register_address(name: str) -> int:
    """Return the byte address of a register behind the serial line."""
    return BASE + ADDRESSES[name]


def write_check(check: int, address: int, words: Iterable[int], *, same: bool) -> int:
    """Return the checksum of all writes to registers after one more write.

    `check` is the checksum before it. The words go to consecutive addresses, or to one if `same`.
    """
    for number, word in enumerate(words):
        rotated = (check << 1 | check >> 31) & MISSING
        check = rotated ^ (address // 4 + number * (not same)) ^ int(word)
    return check


def check_spec(spec: Specification) -> None:
    """Raise SpecificationError if the line does not support a filter."""
    for name, limit in (("lanes", 1), ("span", (1 << TIME_BITS - 1) - 1)):
        value = getattr(spec, name, None) or 0
        require(value <= limit, name, f"must be at most {limit} for a serial link", value)


def result_words(spec: Specification) -> int:
    """Return the number of words per result."""
    return 2 if spec.timed else 1


def longest_query(spec: Specification) -> int:
    """Return the maximum window of a query, or its maximum class; 0 if it has neither."""
    if spec.classes is not None:
        return spec.classes - 1
    return spec.window_blocks if spec.query_field else 0


class Block(NamedTuple):
    """Operations performed together: their words, and the first two words of the trailer."""

    operations: int
    words: NDArray[np.uint32]
    head: list[int]

    def trailer(self, performed: int) -> list[int]:
        """Return the trailer of this block; `performed` is the number of earlier operations."""
        head = [*self.head, performed & MISSING]
        return [
            *head,
            zlib.crc32(np.array(head, "<u4").tobytes(), zlib.crc32(self.words.tobytes())),
        ]


def pack_blocks(
    spec: Specification, codes: NDArray[Any], keys: NDArray[np.uint64], windows: NDArray[Any]
) -> Iterator[Block]:
    """Split operations into blocks.

    `codes` and `windows` have shape (n,), and `keys`, of 64-bit words, shape (n, words).
    """
    heads = codes.astype("<u4") | windows.astype("<u4") << CODE_BITS
    words = np.ascontiguousarray(keys, "<u8").view("<u4")[:, : -(-spec.key_bits // 32)]
    mixed = len(heads) > 0 and bool((heads != heads[0]).any())
    if mixed:
        words = np.hstack([heads[:, None], words])
    # The results need the same number of words.
    count = TRAILER // max(words.shape[1], result_words(spec))
    for start in range(0, len(words), count):
        part = np.ascontiguousarray(words[start : start + count])
        first = TRAILER - part.size
        head = [0, first | MIXED] if mixed else [int(heads[0]), first]
        yield Block(len(part), part.ravel(), head)


def unpack_results(spec: Specification, words: NDArray[np.uint32]) -> Results:
    """Decode results from their words, shape (n, words); times are only the low bits."""
    first = words[:, 0].astype(np.int64)
    seen, status = first >> 31 > 0, first >> AGE_BITS & (1 << STATUS_BITS) - 1
    age = first & (1 << AGE_BITS) - 1
    timing = spec.kind == "timing"
    return Results.of(
        seen,
        age if timing else np.where(seen, age, -1),
        **{"oldest" if timing else "status": status},
        time=words[:, 1] if spec.timed else None,
    )
