"""Forgetful Bloom Filter (Subramanyam, Gupta, Leslie, Wang)."""

import math
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecificationError
from ..filter import Answers, CountedFilter, Words, key_hash, require_count
from ..operations import Ages
from ..sizing import HASHES, shared_cells, smallest
from ..spec.compared import ForgetfulBloomSpec
from .bits import BitArray, packed, saved_count, unpack
from .bloom import shared_positions

_CHUNK = 1 << 15


class ForgetfulBloomFilter(CountedFilter):
    """Bloom filters of the future, the present and the past, in which a key is in two neighbours.

    Source: Rajath Subramanyam, Indranil Gupta, Luke M. Leslie and Wenting
    Wang, "Idempotent Distributed Counters Using a Forgetful Bloom Filter",
    Cluster Computing 19(2), 2016; as the APBF paper describes it in section
    3.2.

    An insertion writes the future and the present segment. A key is reported
    when two neighbours match, from future and present to the two oldest pasts.
    An insertion that finds `generation` insertions since the last shift shifts
    first: the future becomes the present, the present the youngest past, and
    so on; the oldest past is emptied and becomes the future.

    A key is guaranteed to be reported for ``past * generation`` insertions
    after its own, and often for up to a generation more. One generation after
    that it is forgotten. All segments have the same hash functions:
    a bit that a fresh key finds set in a segment is likely set in the next
    one, too, so that the two matches are not independent.

    Parameters
    ----------
    generation : int
        Insertions from shift to shift.
    past : int
        Segments of the past (N).
    bits : int
        Bits of the N + 2 segments together, at least 2 for each; what does not
        divide evenly is left unused.
    hashes : int
        Hash functions (k).
    seed : int
        Selects the hash functions.
    key_bits : int
        Width of a key.

    Attributes
    ----------
    insertions, shifts : int
        Since construction or clear.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    SpecificationError
        If a parameter breaks a rule.
    """

    specification = ForgetfulBloomSpec
    age_unit = "generations"
    _counters = ("insertions", "shifts")

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        return forgetful_sizes(keys, fpr)

    @property
    def window_false_positive_rate(self) -> float:
        """Bound of the expected false-positive rate, keys distinct: the sum over all neighbours."""
        bits = self.bits // (self.past + 2)
        return forgetful_rate(self.generation, self.past, bits, self.hashes)

    def _window_text(self) -> str:
        return f"window of {self.past * self.generation:,} insertions"

    def __init__(
        self,
        *,
        generation: int,
        past: int,
        bits: int,
        hashes: int,
        seed: int = 0,
        key_bits: int = 64,
    ) -> None:
        require_count("generation", generation)
        require_count("past", past)
        require_count("bits", bits)
        require_count("hashes", hashes)
        segment_bits = bits // (past + 2)
        if not 2 <= segment_bits <= 1 << 32:
            raise SpecificationError(
                f"bits: must be 2 to 2**32 for each of {past + 2} segments, not {bits}"
            )
        self.generation = generation
        self.past = past
        self.bits = bits
        self.hashes = hashes
        self.seed = seed
        self.key_bits = key_bits
        self._hash = key_hash([segment_bits] * hashes, seed=seed, key_bits=key_bits)
        self._segments = [BitArray(segment_bits) for _ in range(past + 2)]
        self._filled = 0
        self.insertions = self.shifts = 0

    @property
    def storage_bits(self) -> int:
        """Bits of all segments."""
        return (self.past + 2) * (self.bits // (self.past + 2))

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits, from the future to the oldest past; shape (past + 2, segment bits)."""
        return np.stack([segment.memory for segment in self._segments])

    def clear(self) -> None:
        """Forget everything."""
        for segment in self._segments:
            segment.clear()
        self._filled = self.insertions = self.shifts = 0

    def _query(self, keys: Words) -> Answers:
        return self._age(keys) >= 0

    def _check_and_insert(self, keys: Words) -> Answers:
        return self._age_and_insert(keys) >= 0

    def _age(self, keys: Words) -> Ages:
        positions = shared_positions(self._hash, keys)
        return _youngest_pairs([segment.match(positions) for segment in self._segments])

    def _age_and_insert(self, keys: Words) -> Ages:
        return self._insert(keys, asked=True)

    def _insert(self, keys: Words, *, asked: bool = False) -> Ages:
        ages = np.full(len(keys), -1, np.int64)
        done = 0
        while done < len(keys):
            if self._filled == self.generation:
                # The query that belongs to this insertion still asks the segments as they were.
                if asked:
                    ages[done] = self._ask(shared_positions(self._hash, keys[done : done + 1]))[0]
                self._shift()
                self._write(shared_positions(self._hash, keys[done : done + 1]))
                done += 1
                continue
            count = min(len(keys) - done, self.generation - self._filled, _CHUNK)
            positions = shared_positions(self._hash, keys[done : done + count])
            if asked:
                ages[done : done + count] = self._ask(positions)
            self._write(positions)
            done += count
        self.insertions += len(keys)
        return ages

    def _ask(self, positions: NDArray[np.intp]) -> Ages:
        """Return the ages of keys that are inserted one after another, without a shift."""
        written = [segment.overlay(positions) for segment in self._segments[:2]]
        read = [segment.match(positions) for segment in self._segments[2:]]
        return _youngest_pairs(written + read)

    def _write(self, positions: NDArray[np.intp]) -> None:
        for segment in self._segments[:2]:
            segment.write(positions)
        self._filled += len(positions)

    def _shift(self) -> None:
        oldest = self._segments.pop()
        oldest.clear()
        self._segments.insert(0, oldest)
        self._filled = 0
        self.shifts += 1

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        numbers = {"insertions": self.insertions, "shifts": self.shifts, "filled": self._filled}
        return numbers, {"bits": packed(*self._segments)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.insertions = saved_count(numbers, "insertions")
        self.shifts = saved_count(numbers, "shifts")
        self._filled = saved_count(numbers, "filled", most=self.generation)
        unpack(arrays["bits"], *self._segments)


def _youngest_pairs(matches: list[Answers]) -> Ages:
    """Return the first of two consecutive segments that match, each of shape (n,); else -1."""
    pairs = np.array([younger & older for younger, older in pairwise(matches)])
    return np.where(pairs.any(axis=0), pairs.argmax(axis=0), -1)


def forgetful_rate(generation: int, past: int, bits: int, hashes: int) -> float:
    """Return the expected neighbours that a fresh key matches just before a shift.

    Two neighbours have the keys of two generations, those of one in common.

    Parameters
    ----------
    generation, past, hashes
        As for `ForgetfulBloomFilter`.
    bits : int
        Bits of a segment.
    """
    blank = hashes * generation * math.log1p(-1 / bits)
    both = 1 - 2 * math.exp(2 * blank) + math.exp(3 * blank)
    return min(1.0, (past + 1) * float(both**hashes))


def _keeps(fpr: float, generation: int, past: int, hashes: int, bits: int) -> bool:
    return bits > 1 and forgetful_rate(generation, past, bits, hashes) <= fpr


@lru_cache
def forgetful_sizes(window: int, fpr: float) -> dict[str, int]:
    """Return generation, past, bits and hashes of the smallest filter for a window.

    Parameters
    ----------
    window : int
        Insertions.
    fpr : float
        Bound of the false-positive rate.
    """
    found = []
    for past in range(1, min(window, 16) + 1):
        generation = -(-window // past)
        for hashes in HASHES:
            keeps = partial(_keeps, fpr, generation, past, hashes)
            bits = smallest(keeps, shared_cells(2 * generation, fpr, hashes))
            found.append((bits * (past + 2), past, generation, hashes))
    bits, past, generation, hashes = min(found)
    return {"generation": generation, "past": past, "bits": bits, "hashes": hashes}
