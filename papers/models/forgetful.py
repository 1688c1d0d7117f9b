"""Forgetful Bloom Filter (Subramanyam, Gupta, Leslie, Wang)."""

import math
from functools import lru_cache, partial
from typing import Any, ClassVar

from lately.golden.analysis.segment_rates import mean_rate
from lately.golden.errors import SpecificationError
from lately.golden.sizing import HASHES, shared_cells, smallest

from .bits import BitArrays, match, write
from .specs import ForgetfulBloomSpec


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
        self._shape = (self.past + 2, segment_bits)

    def _look(self, own: list[int]) -> int:
        matches = [match(bits, own) for bits in self._segments]
        pairs = (i for i in range(len(matches) - 1) if matches[i] and matches[i + 1])
        return next(pairs, -1)

    def _write(self, own: list[int]) -> None:
        if self.filled == self.generation:
            self._segments = [bytearray(self._shape[1]), *self._segments[:-1]]
            self.filled = 0
            self.shifts += 1
        for bits in self._segments[:2]:
            write(bits, own)
        self.filled += 1


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
