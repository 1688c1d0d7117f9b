"""Bloom filters without a window: classical, partitioned and blocked.

They never forget, so a stream fills them. They are the baselines for filters
with a window, and the parts that `buffered` and `forgetful` are made of.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lately.golden.errors import SpecificationError
from lately.golden.filter import Answers, Words
from lately.golden.ring.slices import chunks

from .bits import BitArray, BitArrays
from .specs import BlockedBloomSpec, BloomSpec, PartitionedBloomSpec

_CHUNK = 1 << 16


class BloomFilter(BitArrays):
    """Classical Bloom filter: one array that all hash functions share.

    Source: Burton H. Bloom, "Space/Time Trade-offs in Hash Coding with
    Allowable Errors", Communications of the ACM 13(7), 1970.

    Reports every inserted key for ever. The probability that a fresh key is
    reported is the fill ratio to the power of `hashes`.

    Parameters
    ----------
    bits : int
        Bits of the array (m), 2 to 2**32.
    hashes : int
        Hash functions (k). Two of them may select the same bit.
    """

    specification = BloomSpec
    _uncompared = ("insertions",)

    bits: int

    def _prepare(self) -> None:
        self._make_hash([self.bits] * self.hashes)
        self._segments = [BitArray(self.storage_bits)]

    @property
    def storage_bits(self) -> int:
        """Bits of the array that are used."""
        return self.bits

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits; shape (storage_bits,)."""
        return self._segments[0].memory.copy()

    def _insert(self, keys: Words) -> None:
        for part in chunks(len(keys), _CHUNK):
            self._segments[0].write(self._positions(keys[part]))
        self.insertions += len(keys)

    def _query(self, keys: Words) -> Answers:
        return self._answers(keys, self._segments[0].match)

    def _check_and_insert(self, keys: Words) -> Answers:
        seen = self._answers(keys, self._segments[0].match_and_write)
        self.insertions += len(keys)
        return seen

    def _answers(self, keys: Words, ask: Callable[[NDArray[np.intp]], Answers]) -> Answers:
        parts = [ask(self._positions(keys[part])) for part in chunks(len(keys), _CHUNK)]
        return np.concatenate([np.empty(0, np.bool_), *parts])


class PartitionedBloomFilter(BloomFilter):
    """Bloom filter in which each hash function has its own part of the array.

    Source: James K. Mullin, "A Second Look at Bloom Filters", Communications
    of the ACM 26(8), 1983; as used by the APBF paper, section 2.

    Reports every inserted key for ever.

    Parameters
    ----------
    bits : int
        Bits of the array, at least 2 for each hash function. Bits that do not
        divide evenly are left unused.
    hashes : int
        As for `BloomFilter`.
    """

    specification = PartitionedBloomSpec

    def _prepare(self) -> None:
        self._part_bits = self.bits // self.hashes
        if self._part_bits < 2:
            raise SpecificationError(
                f"bits: must be at least 2 for each of {self.hashes} hash functions, "
                f"not {self.bits}"
            )
        self._make_hash([self._part_bits] * self.hashes)
        self._segments = [BitArray(self.storage_bits)]

    @property
    def storage_bits(self) -> int:
        """Bits of all parts."""
        return self.hashes * self._part_bits

    def _positions(self, keys: Words) -> NDArray[np.intp]:
        return super()._positions(keys) + np.arange(self.hashes) * self._part_bits


class BlockedBloomFilter(BloomFilter):
    """Bloom filter in which one hash selects a block, which all others share.

    Source: Felix Putze, Peter Sanders and Johannes Singler, "Cache-, Hash- and
    Space-Efficient Bloom Filters", WEA 2007.

    Reports every inserted key for ever. Blocks fill unevenly, so it reports
    more fresh keys than a `BloomFilter` in the same memory.

    Parameters
    ----------
    bits : int
        Bits of all blocks. Bits that do not divide evenly are left unused.
    hashes : int
        Bits that a key sets in its block.
    block_bits : int
        Bits of a block, 2 to `bits`.
    """

    specification = BlockedBloomSpec

    block_bits: int

    def _prepare(self) -> None:
        self._blocks = self.bits // self.block_bits
        if not self._blocks:
            raise SpecificationError(
                f"block_bits: must be at most bits = {self.bits}, not {self.block_bits}"
            )
        self._make_hash([self._blocks] + [self.block_bits] * self.hashes)
        self._segments = [BitArray(self.storage_bits)]

    @property
    def storage_bits(self) -> int:
        """Bits of all blocks."""
        return self._blocks * self.block_bits

    def _positions(self, keys: Words) -> NDArray[np.intp]:
        indices = super()._positions(keys)
        return indices[:, :1] * self.block_bits + indices[:, 1:]
