"""Bloom filters without a window: classical, partitioned and blocked.

They never forget, so a long stream fills them. They are baselines for filters with a window.
"""

import numpy as np
from numpy.typing import NDArray

from lately.golden.errors import SpecificationError
from lately.golden.filter import Words

from .bits import BitArrays, match, write
from .specs import BlockedBloomSpec, BloomSpec, PartitionedBloomSpec


class BloomFilter(BitArrays):
    """Classical Bloom filter: all hash functions share one array.

    Source: Burton H. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors",
    Communications of the ACM 13(7), 1970. The probability that a fresh key is reported is
    the fill ratio to the power of `hashes`.
    """

    specification = BloomSpec
    _uncompared = ("insertions",)

    bits: int

    def _prepare(self) -> None:
        self._make_hash([self.bits] * self.hashes)
        self._shape = (1, self.bits)

    @property
    def memory(self) -> NDArray[np.bool_]:
        return self._stacked()[0]

    def _look(self, positions: list[int]) -> int:
        return match(self._segments[0], positions) - 1

    def _write(self, positions: list[int]) -> None:
        write(self._segments[0], positions)


class PartitionedBloomFilter(BloomFilter):
    """Bloom filter in which each hash function has its own part of the array.

    Source: James K. Mullin, "A Second Look at Bloom Filters", Communications of the ACM 26(8),
    1983; as used by the APBF paper, section 2.
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
        self._shape = (1, self.hashes * self._part_bits)

    def _positions(self, keys: Words) -> NDArray[np.intp]:
        return super()._positions(keys) + np.arange(self.hashes) * self._part_bits


class BlockedBloomFilter(BloomFilter):
    """Bloom filter in which one hash selects a block, which all others share.

    Source: Felix Putze, Peter Sanders and Johannes Singler, "Cache-, Hash- and Space-Efficient
    Bloom Filters", WEA 2007. Blocks fill unevenly, so it reports more fresh keys than a
    `BloomFilter` in the same memory.
    """

    specification = BlockedBloomSpec

    block_bits: int

    def _prepare(self) -> None:
        blocks = self.bits // self.block_bits
        if not blocks:
            raise SpecificationError(
                f"block_bits: must be at most bits = {self.bits}, not {self.block_bits}"
            )
        self._make_hash([blocks] + [self.block_bits] * self.hashes)
        self._shape = (1, blocks * self.block_bits)

    def _positions(self, keys: Words) -> NDArray[np.intp]:
        indices = super()._positions(keys)
        return indices[:, :1] * self.block_bits + indices[:, 1:]
