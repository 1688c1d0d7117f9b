"""Bloom filters without a window: classical, partitioned and blocked.

They never forget, so a stream fills them. They are the baselines for filters
with a window, and the parts that `buffered` and `forgetful` are made of.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecificationError
from ..filter import Answers, CountedFilter, Words, key_hash, require_count
from ..hash.functions import KeyHash
from ..spec.compared import BlockedBloomSpec, BloomSpec, PartitionedBloomSpec
from .bits import BitArray, packed, saved_count, unpack

_CHUNK = 1 << 16


class _NeverForgets(CountedFilter):
    """A bit array that is only ever written."""

    _counters = ("insertions",)

    def __init__(self, *, bits: int, hashes: int, seed: int, key_bits: int) -> None:
        require_count("bits", bits, least=2, most=1 << 32)
        require_count("hashes", hashes)
        self.bits = bits
        self.hashes = hashes
        self.seed = seed
        self.key_bits = key_bits
        self._hash = self._make_hash()
        self._bits = BitArray(self.storage_bits)
        self.insertions = 0

    @abstractmethod
    def _make_hash(self) -> KeyHash:
        """Build the hash functions, once the parameters are attributes."""

    @abstractmethod
    def _positions(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the bits of checked keys, shape (n, hashes)."""

    @property
    def storage_bits(self) -> int:
        """Bits of the array that are used."""
        return self.bits

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits; shape (storage_bits,)."""
        return self._bits.memory.copy()

    @property
    def fill_ratio(self) -> float:
        """Share of the bits that are set."""
        return float(self._bits.memory.mean())

    def _insert(self, keys: Words) -> None:
        for start in range(0, len(keys), _CHUNK):
            self._bits.write(self._positions(keys[start : start + _CHUNK]))
        self.insertions += len(keys)

    def _query(self, keys: Words) -> Answers:
        seen = np.empty(len(keys), np.bool_)
        for start in range(0, len(keys), _CHUNK):
            part = slice(start, start + _CHUNK)
            seen[part] = self._bits.match(self._positions(keys[part]))
        return seen

    def _check_and_insert(self, keys: Words) -> Answers:
        seen = np.empty(len(keys), np.bool_)
        for start in range(0, len(keys), _CHUNK):
            part = slice(start, start + _CHUNK)
            seen[part] = self._bits.match_and_write(self._positions(keys[part]))
        self.insertions += len(keys)
        return seen

    def clear(self) -> None:
        """Forget everything."""
        self._bits.clear()
        self.insertions = 0

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"insertions": self.insertions}, {"bits": packed(self._bits)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.insertions = saved_count(numbers, "insertions")
        unpack(arrays["bits"], self._bits)


class BloomFilter(_NeverForgets):
    """Classical Bloom filter: one array that all hash functions share.

    Source: Burton H. Bloom, "Space/Time Trade-offs in Hash Coding with
    Allowable Errors", Communications of the ACM 13(7), 1970.

    Reports every inserted key for ever. A fresh key is reported with
    the fill ratio to the power of `hashes` as probability.

    Parameters
    ----------
    bits : int
        Bits of the array (m), 2 to 2**32.
    hashes : int
        Hash functions (k). Two of them may select the same bit.
    seed : int
        Selects the hash functions.
    key_bits : int
        Width of a key.

    Attributes
    ----------
    insertions : int
        Insertions since construction or clear.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    SpecificationError
        If a parameter breaks a rule.
    """

    specification = BloomSpec

    def __init__(self, *, bits: int, hashes: int, seed: int = 0, key_bits: int = 64) -> None:
        super().__init__(bits=bits, hashes=hashes, seed=seed, key_bits=key_bits)

    def _make_hash(self) -> KeyHash:
        return key_hash([self.bits] * self.hashes, seed=self.seed, key_bits=self.key_bits)

    def _positions(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        return shared_positions(self._hash, keys)


class PartitionedBloomFilter(_NeverForgets):
    """Bloom filter in which each hash function has a part of the array of its own.

    Source: James K. Mullin, "A Second Look at Bloom Filters", Communications
    of the ACM 26(8), 1983; as used by the APBF paper, section 2.

    Reports every inserted key for ever.

    Parameters
    ----------
    bits : int
        Bits of the array, at least 2 for each hash function; what does not
        divide evenly is left unused.
    hashes, seed, key_bits : int
        As for `BloomFilter`.

    Attributes
    ----------
    insertions : int
        Insertions since construction or clear.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    SpecificationError
        If a parameter breaks a rule.
    """

    specification = PartitionedBloomSpec

    def __init__(self, *, bits: int, hashes: int, seed: int = 0, key_bits: int = 64) -> None:
        super().__init__(bits=bits, hashes=hashes, seed=seed, key_bits=key_bits)

    @property
    def storage_bits(self) -> int:
        """Bits of all parts."""
        return self.hashes * self._part_bits

    @property
    def _part_bits(self) -> int:
        return self.bits // self.hashes

    def _make_hash(self) -> KeyHash:
        if self._part_bits < 2:
            raise SpecificationError(
                f"bits: must be at least 2 for each of {self.hashes} hash functions, "
                f"not {self.bits}"
            )
        return key_hash([self._part_bits] * self.hashes, seed=self.seed, key_bits=self.key_bits)

    def _positions(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        within = shared_positions(self._hash, keys)
        return within + np.arange(self.hashes) * self._part_bits


class BlockedBloomFilter(_NeverForgets):
    """Bloom filter in which one hash selects a block, which all others share.

    Source: Felix Putze, Peter Sanders and Johannes Singler, "Cache-, Hash- and
    Space-Efficient Bloom Filters", WEA 2007.

    Reports every inserted key for ever. Blocks are filled unevenly,
    so that it reports more fresh keys than `BloomFilter` in the same memory.

    Parameters
    ----------
    bits : int
        Bits of all blocks; what does not divide evenly is left unused.
    hashes : int
        Bits that a key sets in its block.
    block_bits : int
        Bits of a block, 2 to `bits`.
    seed, key_bits : int
        As for `BloomFilter`.

    Attributes
    ----------
    insertions : int
        Insertions since construction or clear.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    SpecificationError
        If a parameter breaks a rule.
    """

    specification = BlockedBloomSpec

    def __init__(
        self, *, bits: int, hashes: int, block_bits: int, seed: int = 0, key_bits: int = 64
    ) -> None:
        require_count("block_bits", block_bits, least=2)
        self.block_bits = block_bits
        super().__init__(bits=bits, hashes=hashes, seed=seed, key_bits=key_bits)

    @property
    def storage_bits(self) -> int:
        """Bits of all blocks."""
        return self._blocks * self.block_bits

    @property
    def _blocks(self) -> int:
        return self.bits // self.block_bits

    def _make_hash(self) -> KeyHash:
        if not self._blocks:
            raise SpecificationError(
                f"block_bits: must be at most bits = {self.bits}, not {self.block_bits}"
            )
        sizes = [self._blocks] + [self.block_bits] * self.hashes
        return key_hash(sizes, seed=self.seed, key_bits=self.key_bits)

    def _positions(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        indices = shared_positions(self._hash, keys)
        return indices[:, :1] * self.block_bits + indices[:, 1:]


def shared_positions(key_hash: KeyHash, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the indices that a hash with one function gives for checked keys.

    Parameters
    ----------
    key_hash : KeyHash
    keys : ndarray of uint64, shape (n, words)

    Returns
    -------
    ndarray of intp, shape (n, sizes)
    """
    return np.stack(key_hash.indices(key_hash.state(keys), 0), axis=1)
