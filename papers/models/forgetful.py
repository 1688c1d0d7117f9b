"""Forgetful Bloom Filter (Subramanyam, Gupta, Leslie, Wang)."""

import math
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden.analysis.segment_rates import mean_rate
from lately.golden.errors import SpecificationError
from lately.golden.filter import Answers, Words
from lately.golden.results import Ages
from lately.golden.ring.slices import find_runs
from lately.golden.sizing import HASHES, shared_cells, smallest

from .bits import BitArray, BitArrays
from .specs import ForgetfulBloomSpec

_CHUNK = 1 << 15


class ForgetfulBloomFilter(BitArrays):
    """Bloom filters of the future, the present and the past; each key is in two neighbours.

    Source: Rajath Subramanyam, Indranil Gupta, Luke M. Leslie and Wenting
    Wang, "Idempotent Distributed Counters Using a Forgetful Bloom Filter",
    Cluster Computing 19(2), 2016; as the APBF paper describes it in section 3.2.

    An insertion writes the future and the present segment. A key is reported
    when two neighbours match, from future and present to the two oldest pasts.
    After `generation` insertions, the next one shifts first: the future becomes
    the present, the present the youngest past, and so on; the oldest past is
    emptied and becomes the future.

    A key is reported for all d <= W = ``past * generation``, where d is the number of insertions
    after its own, often for up to a generation more, and forgotten one generation after that.
    All segments have the same hash functions: a bit that a fresh key finds set in
    one segment is likely to be set in the next, so the two matches are dependent.

    Parameters
    ----------
    generation : int
        Insertions between two shifts.
    past : int
        Segments of the past (N).
    bits : int
        Bits of the N + 2 segments together, at least 2 for each; bits that do not
        divide evenly are left unused.
    hashes : int
        Hash functions (k).

    Attributes
    ----------
    shifts : int
        Shifts since construction or clear.
    filled : int
        Insertions since the last shift.
    """

    specification = ForgetfulBloomSpec
    age_unit = "generations"
    _uncompared = ("insertions", "shifts")
    _counts: ClassVar = {"insertions": None, "shifts": None, "filled": "generation"}

    generation: int
    past: int
    bits: int
    filled: int
    shifts: int

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        return forgetful_sizes(keys, fpr)

    @property
    def fpr(self) -> float:
        """Expected false-positive rate, averaged over a generation, keys distinct."""
        bits = self.bits // (self.past + 2)
        return forgetful_rate(self.generation, self.past, bits, self.hashes)

    def _prepare(self) -> None:
        self.window = self.past * self.generation
        segment_bits = self.bits // (self.past + 2)
        if not 2 <= segment_bits <= 1 << 32:
            raise SpecificationError(
                f"bits: must be 2 to 2**32 for each of {self.past + 2} segments, not {self.bits}"
            )
        self._make_hash([segment_bits] * self.hashes)
        self._segments = [BitArray(segment_bits) for _ in range(self.past + 2)]

    @property
    def storage_bits(self) -> int:
        """Bits of all segments."""
        return (self.past + 2) * (self.bits // (self.past + 2))

    def _query(self, keys: Words) -> Answers:
        return self._age(keys) >= 0

    def _check_and_insert(self, keys: Words) -> Answers:
        return self._age_and_insert(keys) >= 0

    def _age(self, keys: Words) -> Ages:
        positions = self._positions(keys)
        return find_runs([segment.match(positions) for segment in self._segments], 2, len(keys))

    def _age_and_insert(self, keys: Words) -> Ages:
        return self._insert(keys, asked=True)

    def _insert(self, keys: Words, *, asked: bool = False) -> Ages:
        ages = np.full(len(keys), -1, np.int64)
        done = 0
        while done < len(keys):
            left = self.generation - self.filled
            part = slice(done, min(len(keys), done + max(1, min(left, _CHUNK))))
            positions = self._positions(keys[part])
            if asked:
                ages[part] = self._ask(positions)
            if not left:
                # The query of this insertion has already read the segments.
                self._shift()
            self._write(positions)
            done = part.stop
        self.insertions += len(keys)
        return ages

    def _ask(self, positions: NDArray[np.intp]) -> Ages:
        """Return the ages of keys that are inserted one after another, without a shift."""
        written = [segment.overlay(positions) for segment in self._segments[:2]]
        read = [segment.match(positions) for segment in self._segments[2:]]
        return find_runs(written + read, 2, len(positions))

    def _write(self, positions: NDArray[np.intp]) -> None:
        for segment in self._segments[:2]:
            segment.write(positions)
        self.filled += len(positions)

    def _shift(self) -> None:
        oldest = self._segments.pop()
        oldest.clear()
        self._segments.insert(0, oldest)
        self.filled = 0
        self.shifts += 1


def forgetful_rate(generation: int, past: int, bits: int, hashes: int) -> float:
    """Return the expected false-positive rate, averaged over a generation, keys distinct.

    It is the expected number of runs of segments that a fresh key matches; two runs are rare.
    The `bits` are those of a segment; other parameters as for `ForgetfulBloomFilter`.
    """
    blank = hashes * generation * math.log1p(-1 / bits)
    full = -math.expm1(blank)

    def two(a: float, b: float, c: float) -> float:
        # Three generations, youngest first, set a bit of two segments, which share the second.
        return float((b + (1 - b) * a * c) ** hashes)

    def three(a: float, b: float, c: float, d: float) -> float:
        return float((b * (c + (1 - c) * d) + (1 - b) * a * c) ** hashes)

    oldest = (past - 1) * two(full, full, full) - max(0, past - 2) * three(full, full, full, full)

    def runs(phase: float) -> float:
        # All pairs of neighbours, but only the first pair of each run.
        part = -math.expm1(phase * blank)
        pairs = two(0.0, part, full) + two(part, full, full)
        return pairs - three(0.0, part, full, full) - (past > 1) * three(part, full, full, full)

    return min(1.0, oldest + mean_rate(runs, generation))


def _keeps(fpr: float, generation: int, past: int, hashes: int, bits: int) -> bool:
    return bits > 1 and forgetful_rate(generation, past, bits, hashes) <= fpr


@lru_cache
def forgetful_sizes(window: int, fpr: float) -> dict[str, int]:
    """Return generation, past, bits and hashes of the smallest filter of a mean rate."""
    found = []
    for past in range(1, min(window, 16) + 1):
        generation = -(-window // past)
        for hashes in HASHES:
            keeps = partial(_keeps, fpr, generation, past, hashes)
            bits = smallest(keeps, shared_cells(2 * generation, fpr, hashes))
            found.append((bits * (past + 2), past, generation, hashes))
    bits, past, generation, hashes = min(found)
    return {"generation": generation, "past": past, "bits": bits, "hashes": hashes}
