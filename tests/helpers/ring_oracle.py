"""What a ring holds, by its definition: segments are computed from the keys of generations."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from lately.golden import Operation
from lately.golden.hash.scalar_hash import ScalarHash
from lately.golden.operations import OperationBit

NEVER = -1


@dataclass
class Generation:
    """Insertions between two shifts."""

    secret: int  # of the segment that came with the generation
    load: int  # number of the secret, as two secrets may be equal
    keys: list = field(default_factory=list)
    times: list = field(default_factory=list)
    overfull: bool = False


class RingOracle:
    """A ring of any family, counted or in time, of which nothing is ever updated.

    After ``s`` shifts since its insertion, a key is in the segments ``s`` to ``s + run - 1`` of the
    segments that the ring still has. A segment counts for the span after the last insertion that
    came before it settled, which is when it is no longer written.
    """

    def __init__(self, spec, *, secret=0, partitioned=True, joinable=False):
        self.spec, self.secret, self.joinable = spec, secret, joinable
        self.load = 0
        self.cells = spec.cells if partitioned else spec.shared_cells
        self.stride = spec.segment_blocks * self.cells if partitioned else 0
        sizes = [*spec.index_sizes]
        sizes[len(sizes) - spec.parts :] = [
            sizes[-1] if partitioned else spec.shared_cells
        ] * spec.parts
        self.segment_bits = max(self.stride * spec.parts, spec.segment_blocks * self.cells)
        self.hash = ScalarHash(
            key_bits=spec.key_bits, sizes=sizes, functions=spec.hash_functions, seed=spec.seed,
            hash=spec.hash, shards=spec.shards,
        )  # fmt: skip
        self.positions = cache(self._positions)
        self.generation = spec.generation
        self.waiting = None
        self.counters = Counter()
        self.latest = NEVER
        self.empty()

    def empty(self):
        """Forget everything except the counters."""
        self._take_secret()
        self.generations = [Generation(self.secret, self.load)]
        self.length = self.generation
        self.latest = self.last_insertion = NEVER
        self.lost = None

    # Segments, 0 being the youngest

    def _positions(self, key, function, secret):
        """Bits of a key in a segment with this hash function and secret."""
        indices = self.hash(key, function, secret)
        block, cells = indices[: -self.spec.parts], indices[-self.spec.parts :]
        shard = self.hash.shard(key, secret) if self.spec.shards > 1 else 0
        first = shard * self.spec.index_sizes[0] + sum(block)
        # Without blocks, a shard is a range of cells.
        first *= self.cells if block else 1
        return {part * self.stride + first + cell for part, cell in enumerate(cells)}

    def origin(self, segment):
        """Generation with which the segment came."""
        return self.generations[max(0, len(self.generations) - 1 - segment)]

    def bits(self, key, segment):
        function = self.physical(segment) if self.spec.hash_functions > 1 else 0
        return self.positions(key, function, self.origin(segment).secret)

    def physical(self, segment):
        return (segment - (len(self.generations) - 1)) % self.spec.segments

    def written(self, segment):
        """Generations whose keys the segment holds."""
        newest = len(self.generations) - 1
        first = max(0, newest - segment)
        return self.generations[first : max(0, newest - segment + self.spec.run)]

    def segment(self, segment):
        keys = {key for generation in self.written(segment) for key in generation.keys}
        return set().union(*(self.bits(key, segment) for key in keys))

    def time(self, segment):
        """Time of the last insertion before the segment settled, or `NEVER`."""
        settled = max(0, segment - self.spec.run + 1)
        before = self.generations[: max(0, len(self.generations) - settled)]
        return next((each.times[-1] for each in reversed(before) if each.times), NEVER)

    def counts(self, segment, now):
        if not self.spec.timed:
            return True
        time = self.time(segment)
        return time != NEVER and now - time <= self.spec.span

    @property
    def memory(self):
        """Bits of all physical segments, shape (segments, bits)."""
        memory = np.zeros((self.spec.segments, self.segment_bits), np.bool_)
        for segment in range(self.spec.ring_segments):
            memory[self.physical(segment), list(self.segment(segment))] = True
        return memory

    # Answers

    def age(self, key, now):
        spec = self.spec
        matches = [
            self.counts(segment, now) and self.bits(key, segment) <= self.segment(segment)
            for segment in range(spec.ring_segments)
        ]
        starts = range(spec.window_generations + 1)
        return next((at for at in starts if all(matches[at : at + spec.run])), -1)

    def status(self, now):
        if not self.spec.timed:
            return 0
        if self.lost is not None and now - self.lost <= self.spec.span:
            return 1
        segments = range(self.spec.ring_segments)
        overfull = (any(each.overfull for each in self.written(segment)) for segment in segments)
        return 2 * any(
            flag and self.counts(segment, now)
            for segment, flag in zip(segments, overfull, strict=True)
        )

    def guaranteed_span(self, now):
        return min(self.spec.span, now - self.lost - 1) if self.lost is not None else self.spec.span

    def ask(self, key, now=0, _window=None):
        """Answer to a query; changes nothing."""
        now = max(now, self.latest)
        age = self.age(key, now)
        covered = self.guaranteed_span(now) + 1 if self.spec.timed else 0
        return {"seen": age >= 0, "age": age, "status": self.status(now), "covered": covered}

    # Operations

    def perform(self, code, key, now=0, _window=None):
        """Perform an operation at a time that never decreases, and return its answer."""
        self.counters["operations"] += 1
        inserts = code & OperationBit.INSERT and not code & OperationBit.ALONE
        if inserts and self.joinable:
            self._follow_clock(now)
        answer = self.ask(key, now)
        if not code & OperationBit.QUERY or code & OperationBit.ALONE:
            answer |= {"seen": False, "age": -1}
        self.counters["hits"] += answer["seen"]
        if inserts:
            self._insert(key, now)
        elif code == Operation.SHIFT:
            self.shift(now)
        elif code == Operation.CLEAR:
            self.empty()
        return answer

    def _follow_clock(self, now):
        """Turn for each multiple of the time of a generation; whole turns of the ring are cut."""
        period, segments = self.spec.generation_span, self.spec.segments
        turns = now // period - max(self.latest, 0) // period
        for _ in range(turns if turns < 2 * segments else segments + turns % segments):
            self.shift(now)

    def _insert(self, key, now):
        spec, current = self.spec, self.generations[-1]
        full = len(current.keys) >= self.length
        due = full
        if spec.timed:
            free = not self.counts(spec.ring_segments - 1, now)
            old = bool(current.times) and now - current.times[0] >= spec.generation_span
            due = (full or old) if free else full and spec.when_full == "shorten"
        if due and not self.joinable:
            self.shift(now)
        elif full:
            self.counters["overfilled"] += 1
            current.overfull = True
        self.generations[-1].keys.append(key)
        self.generations[-1].times.append(now)
        self.counters["insertions"] += 1
        self.latest = self.last_insertion = now

    def shift(self, now):
        """End the generation, and retire the oldest segment, though it may still count."""
        oldest = self.spec.ring_segments - 1
        if self.spec.timed and self.counts(oldest, now):
            self.lost = self.time(oldest)
            self.counters["shortened"] += 1
        if self.spec.rekey:
            self._take_secret()
        self.generations.append(Generation(self.secret, self.load))
        self.length = self.generation
        self.counters["shifts"] += 1
        self.latest = now

    def _take_secret(self):
        if self.waiting is not None:
            self.secret, self.waiting = self.waiting, None
            self.load += 1

    @property
    def shifts_to_rekey(self):
        """Shifts until all segments of the ring have one secret; 0 if a new one may be loaded."""
        if not self.spec.rekey:
            return 0
        if self.waiting is not None:
            return self.spec.ring_segments
        loads = [self.origin(segment).load for segment in range(self.spec.ring_segments)]
        return sum(load != self.load for load in loads)
