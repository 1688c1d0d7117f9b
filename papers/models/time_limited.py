"""Time-limited Bloom filter (Rodrigues, Shtul, Baquero, Almeida): an APBF with a time window."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden import analysis
from lately.golden.errors import SpecificationError
from lately.golden.filter import Words
from lately.golden.results import Ages
from lately.golden.ring.ring_sizes import apbf_mean_rate, apbf_shape
from lately.golden.sampling import chunks
from lately.golden.spec.base import Specification, optional, required
from lately.golden.state_files import check_whole, unpacked
from lately.golden.timed_filter import TimedFilter
from lately.golden.times import NEVER, TIME_LIMIT, Now, Times


@dataclass(frozen=True, kw_only=True)
class TimeLimitedSpec(Specification, family="time-limited-apbf"):
    k: int = required()  # slices that an insertion writes
    l: int = required()  # generations per span
    span: int = required(high=TIME_LIMIT - 1)  # T, in units of the timestamps
    capacity: int = required()  # expected keys per span, used at the start; the filter adapts
    # A burst of g insertions within dt needs slices of g k T / (l dt ln 2) bits. The paper gives no
    # bound for this.
    slice_bits_limit: int = optional(1 << 24, low=2, high=1 << 32)


HASH_BITS = 32  # Bits of a hash value, which is scaled to the size of a slice.


def slice_bits(capacity: int) -> int:
    """Return the size in bits of a slice that is half full after `capacity` insertions.

    See section 6.3, equation 8.
    """
    return math.ceil(capacity / math.log(2))


def find_runs(matches: Iterable[NDArray[np.bool_]], k: int, count: int) -> NDArray[np.int64]:
    """For each key, find the first run of `k` consecutive matching slices (APBF, section 5.1).

    `matches` yields one bool array of shape (count,) for each slice, youngest first. The result,
    shape (count,), contains the index of the youngest slice of each run, or -1 if there is no run.
    """
    starts = np.full(count, -1, np.int64)
    run = np.zeros(count, np.int64)
    for last, match in enumerate(matches):
        run += 1
        run *= match
        starts[(run >= k) & (starts < 0)] = last - k + 1
    return starts


def set_and_test(bits: NDArray[np.bool_], positions: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Set the bits at `positions` one after another; return whether each bit was set before.

    `positions` and the result have shape (n,). `bits` has shape (m,) and is modified.
    """
    before = bits[positions]
    order = np.arange(len(positions))
    first = np.empty(len(bits), np.intp)
    # If a position repeats, the last assignment wins; in reverse order, this is the first
    # occurrence.
    first[positions[::-1]] = order[::-1]
    before |= first[positions] < order
    bits[positions] = True
    return before


@dataclass
class _Slice:
    bits: NDArray[np.bool_]  # shape (m,)
    inserted: int = 0  # number of insertions
    settled: int = NEVER  # time of the last insertion, once the slice has left position k - 1

    @property
    def capacity(self) -> int:
        """Number of insertions that fill half of the slice (section 6.1): c = floor(m ln 2)."""
        return analysis.apbf_generation(len(self.bits), 1)


class TimeLimitedAPBF(TimedFilter):
    """Time-limited Bloom filter: slices of different sizes, as many as the span needs.

    At any rate of insertions, a key is reported for `span` after its insertion, and in fact until
    `span` after the last insertion of its generation. No bit of the key is left `span` after the
    last insertion of the k-th generation, where the key's own generation is the first. A generation
    ends after a number of insertions, however long they take. After a silence longer than `span`
    nothing is reported, and the next insertion starts with empty slices.

    Slices that are k apart share a hash function and are never written together. A function maps a
    key to 32 bits h. The index in a slice of m bits is floor(h m / 2**32), so one hash value serves
    slices of all sizes.
    """

    specification = TimeLimitedSpec

    _uncompared = ("counters",)
    _counts: ClassVar = {
        "generation": None, "insertions_left": "generation", "insertions": None, "shifts": None,
    }  # fmt: skip

    k: int
    l: int
    capacity: int
    slice_bits_limit: int
    generation: int  # insertions planned for the current generation
    insertions_left: int  # of the current generation; the next insertion after them shifts
    insertions: int
    shifts: int
    _slices: list[_Slice]  # youngest first
    _function: int
    _first: int
    _last_time: int  # time of the last insertion

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        k, l = apbf_shape(keys, fpr, mean=True)
        return {"k": k, "l": l, "capacity": keys}

    @property
    def _last(self) -> int:
        return self._last_time

    @property
    def fpr(self) -> float:
        return apbf_mean_rate(self.k, self.l)

    def _prepare(self) -> None:
        # Every generation has at least one insertion, here and below.
        self._first_bits = slice_bits(-(-self.capacity // self.l) * self.k)
        if self._first_bits > self.slice_bits_limit:
            raise SpecificationError(
                f"capacity: {self.capacity} keys need slices of {self._first_bits} bits, above "
                f"slice_bits_limit = {self.slice_bits_limit}"
            )
        self._make_hash([1 << HASH_BITS], functions=self.k)

    def _empty(self) -> None:
        self._slices = [_empty(self._first_bits) for _ in range(self.k + self.l)]
        self._function = 0
        self._first = self._last_time = NEVER
        self._begin_generation()
        self.insertions = self.shifts = 0

    # Slices (sections 6.1 to 6.3)

    def _begin_generation(self) -> None:
        """Set the number of insertions, at least one, until the next shift (equations 4 and 5)."""
        shares = [
            -(-(part.capacity - part.inserted) // (self.k - i))
            for i, part in enumerate(self._slices[: self.k])
        ]
        self.generation = self.insertions_left = max(1, min(shares))

    def _shift(self, now: int) -> None:
        target = self._target(now)
        self._slices[self.k - 1].settled = self._last_time
        usual = self.k + self.l
        while len(self._slices) > usual and self._deadline(len(self._slices) - 1) < now:
            self._slices.pop()
        if self._deadline(len(self._slices) - 1) < now:
            self._slices.pop()
        capacity = min(self._new_capacity(target), self.slice_bits_limit)
        self._slices.insert(0, _empty(min(slice_bits(capacity), self.slice_bits_limit)))
        self._function = (self._function - 1) % self.k
        self._begin_generation()
        self.shifts += 1

    def _target(self, now: int) -> int:
        """Return g* of equation 6, the generation length that suits the current rate of insertions.

        A generation counts as lasting at least one unit of time.
        """
        # The last insertions of two generations are g intervals apart, and so are the very first
        # insertion and the first shift.
        previous = self._slices[self.k].settled
        duration = now - self._first if previous == NEVER else self._last_time - previous
        return -(-self.generation * self.span // (self.l * max(1, duration)))

    def _new_capacity(self, target: int) -> int:
        room = [part.capacity - part.inserted for part in self._slices[: self.k - 1]]
        count, i = 0, self.k
        while i > 1:
            shares = [max(1, -(-(room[j - 1] - count) // (i - j))) for j in range(1, i)]
            smallest = min(shares)
            if smallest >= target:
                break
            j = shares.index(smallest) + 1
            count += smallest * (i - j)
            i = j
        return count + i * target

    def _begin(self, times: Times, start: int) -> slice:
        now = int(times[start])
        if self._last_time != NEVER and now - self._last_time > self.span:
            self._slices = [_empty(size) for size in self.slice_sizes[: self.k + self.l]]
            self._first = NEVER
            self._begin_generation()
        elif self.insertions_left == 0:
            self._shift(now)
        if self._first == NEVER:
            self._first = now
        stop = min(len(times), start + self.insertions_left)
        silences = np.flatnonzero(np.diff(times[start:stop]) > self.span)
        return slice(start, start + int(silences[0]) + 1 if len(silences) else stop)

    def _count(self, times: Times) -> None:
        self._last_time = int(times[-1])
        self.insertions_left -= len(times)
        self.insertions += len(times)
        for part in self._slices[: self.k]:
            part.inserted += len(times)

    def _hashes(self, keys: Words) -> NDArray[np.uint64]:
        state = self._hash.state(keys)
        return np.array(
            [self._hash.indices(state, function)[0] for function in range(self.k)], np.uint64
        )

    def _positions(self, hashes: NDArray[np.uint64], i: int) -> NDArray[np.intp]:
        size = np.uint64(len(self._slices[i].bits))
        values = hashes[(self._function + i) % self.k]
        positions: NDArray[np.intp] = (values * size >> np.uint64(HASH_BITS)).astype(np.intp)
        return positions

    def _insert(self, keys: Words, times: Times) -> None:
        self._insert_each(keys, times, asked=False)

    def _age(self, keys: Words, times: Times) -> Ages:
        ages = np.empty(len(keys), np.int64)
        for chunk in chunks(len(keys)):
            ages[chunk] = self._ask(self._hashes(keys[chunk]), times[chunk])
        return ages

    def _age_and_insert(self, keys: Words, times: Times) -> Ages:
        return self._insert_each(keys, times, asked=True)

    def _insert_each(self, keys: Words, times: Times, *, asked: bool) -> Ages:
        ages = np.full(len(keys), -1, np.int64)
        for chunk in chunks(len(keys)):
            hashes, chunk_times, start = self._hashes(keys[chunk]), times[chunk], 0
            while start < len(chunk_times):
                first, before = slice(start, start + 1), None
                if asked and self.insertions_left == 0:
                    # A query comes before the shift that the insertion causes.
                    before = self._ask(hashes[:, first], chunk_times[first])
                part = self._begin(chunk_times, start)
                if asked:
                    matches = self._check_and_write(hashes[:, part], chunk_times[part])
                    ages[chunk][part] = find_runs(matches, self.k, part.stop - start)
                else:
                    for i in range(self.k):
                        self._slices[i].bits[self._positions(hashes[:, part], i)] = True
                if before is not None:
                    ages[chunk][first] = before
                self._count(chunk_times[part])
                start = part.stop
        return ages

    def _ask(self, hashes: NDArray[np.uint64], times: Times) -> Ages:
        return find_runs(self._matches(hashes, times, 0), self.k, len(times))

    def _matches(
        self, hashes: NDArray[np.uint64], times: Times, first: int
    ) -> Iterator[NDArray[np.bool_]]:
        for i in range(first, len(self._slices)):
            fresh = times <= self._deadline(i)
            if not fresh.any():
                # All later slices are older.
                return
            match = self._slices[i].bits[self._positions(hashes, i)]
            match &= fresh
            yield match

    def _check_and_write(
        self, hashes: NDArray[np.uint64], times: Times
    ) -> Iterator[NDArray[np.bool_]]:
        """Write keys, and yield for each slice which keys matched before their own insertions.

        The ring must not shift meanwhile.
        """
        for i in range(self.k):
            yield set_and_test(self._slices[i].bits, self._positions(hashes, i))
        yield from self._matches(hashes, times, self.k)

    # Memory and its file

    @property
    def storage_bits(self) -> int:
        return sum(self.slice_sizes)

    @property
    def memory(self) -> NDArray[np.bool_]:
        return np.concatenate([part.bits for part in self._slices])

    @property
    def fill(self) -> float:
        return sum(np.count_nonzero(part.bits) for part in self._slices) / self.storage_bits

    @property
    def nbytes(self) -> int:
        return sum(part.bits.nbytes for part in self._slices)

    @property
    def slice_sizes(self) -> list[int]:
        return [len(part.bits) for part in self._slices]

    @property
    def slice_insertions(self) -> list[int]:
        return [part.inserted for part in self._slices]

    @property
    def settled_times(self) -> list[int | None]:
        return [None if time == NEVER else time for time in (part.settled for part in self._slices)]

    @property
    def last_insertion(self) -> int | None:
        return None if self._last_time == NEVER else self._last_time

    def _deadline(self, i: int) -> int:
        """Return the last time at which slice s_i is searched: `span` after its last insertion."""
        time = self._last_time if i < self.k else self._slices[i].settled
        return NEVER if time == NEVER else time + self.span

    def estimated_false_positive_rate(self, now: Now = None) -> float:
        """Estimate the false-positive rate from the slices within the span (APBF, section 5.3)."""
        moment = self._moment(now)
        fills = [
            float(part.bits.mean()) if moment <= self._deadline(i) else 0.0
            for i, part in enumerate(self._slices)
        ]
        return analysis.apbf_false_positive_rate(self.k, len(fills) - self.k, fills=fills)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        numbers = {
            "slices": [[len(s.bits), s.inserted, s.settled] for s in self._slices],
            "function": self._function,
            "generation": [self.generation, self.insertions_left],
            "times": [self._first, self._last_time],
            "counters": [self.insertions, self.shifts],
        }
        return numbers, {"bits": np.packbits(self.memory)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._function = numbers["function"]
        check_whole("function", self._function, 0, self.k - 1)
        self.generation, self.insertions_left = numbers["generation"]
        check_whole("generation", self.generation, 1)
        check_whole("insertions left", self.insertions_left, 0, self.generation)
        self._first, self._last_time = numbers["times"]
        check_whole("last insertion", self._last_time, NEVER, TIME_LIMIT - 1)
        check_whole("first insertion", self._first, NEVER, self._last_time)
        self.insertions, self.shifts = numbers["counters"]
        check_whole("insertions", self.insertions, 0)
        check_whole("shifts", self.shifts, 0, self.insertions)
        check_whole("slices", len(numbers["slices"]), self.k + self.l)
        self._slices = []
        for i, (size, inserted, settled) in enumerate(numbers["slices"]):
            check_whole("bits of a slice", size, 1, self.slice_bits_limit)
            check_whole("insertions into a slice", inserted, 0, self.insertions)
            latest = NEVER if i < self.k else self._last_time
            if i > self.k:
                latest = self._slices[-1].settled
            check_whole("settled time", settled, NEVER, latest)
            self._slices.append(_Slice(np.zeros(size, bool), inserted, settled))
        bits, start = unpacked(arrays["bits"], self.storage_bits), 0
        for part in self._slices:
            part.bits[:] = bits[start : start + len(part.bits)]
            start += len(part.bits)


def _empty(bits: int) -> _Slice:
    return _Slice(np.zeros(bits, bool))
