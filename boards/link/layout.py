"""Layout of registers, operations and results behind the serial line of a board.

Both the board and the host use this layout; `docs/host.md` describes it. This module does not
import Amaranth.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...golden.results import Results
from ...golden.spec.base import Specification, require
from ...hdl.registers import ADDRESSES

# UARTBone commands for consecutive addresses, and for one address.
WRITE, READ, WRITE_SAME, READ_SAME = COMMANDS = 1, 2, 3, 4

# Byte addresses of registers, of the block of operations, and of the results. One corrupted address
# byte cannot turn an address of a block into one of a register, so a block cannot change settings.
BASE, BLOCK, RESULTS = 0x4C41_0000, 0xB3BE_0400, 0xB3BE_0800

BLOCK_WORDS = 256
TRAILER = 252  # index of the trailer in a block
MIXED = 1 << 8  # flag in the trailer: a word with operation and window precedes each key
MISSING = (1 << 32) - 1  # value read at an address without a register

# Field widths: operation and window of a request; age and status of a result, below `seen`, and
# time, which has its own word.
CODE_BITS, WINDOW_BITS = 4, 28
AGE_BITS, STATUS_BITS, TIME_BITS = 26, 5, 30


def register_address(name: str) -> int:
    return BASE + ADDRESSES[name]


def write_check(check: int, address: int, words: Iterable[int], *, same: bool) -> int:
    """Update `check`, the checksum of all register writes, for another write, and return it."""
    for number, word in enumerate(words):
        rotated = (check << 1 | check >> 31) & MISSING
        check = rotated ^ (address // 4 + number * (not same)) ^ int(word)
    return check


def check_spec(spec: Specification) -> None:
    for name, limit in (("lanes", 1), ("span", (1 << TIME_BITS - 1) - 1)):
        value = getattr(spec, name, None) or 0
        require(value <= limit, name, f"must be at most {limit} for a serial link", value)


def result_words(spec: Specification) -> int:
    return 2 if spec.timed else 1


def longest_query(spec: Specification) -> int:
    """Return the maximum window or class that a query can state, or 0 if queries have neither."""
    if spec.classes is not None:
        return spec.classes - 1
    return spec.window_blocks if spec.query_field else 0


class Block(NamedTuple):
    operations: int  # number of operations
    words: NDArray[np.uint32]  # words before the trailer
    head: list[int]  # first two words of the trailer

    def trailer(self, performed: int) -> list[int]:
        """Return the trailer of this block, before which `performed` operations were performed."""
        head = np.array([*self.head, performed & MISSING], "<u4")
        return [*head.tolist(), zlib.crc32(head.tobytes(), zlib.crc32(self.words.tobytes()))]


def pack_blocks(
    spec: Specification, codes: NDArray[Any], keys: NDArray[np.uint64], windows: NDArray[Any]
) -> Iterator[Block]:
    """Pack n operations into blocks; `keys` holds 64-bit words and has shape (n, words)."""
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
    """Decode n results from `words`, shape (n, words); times are truncated to their low bits."""
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
