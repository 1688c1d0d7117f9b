"""Four families of filters that are rings of segments, advanced by insertions or by time.

A segment is a Bloom filter that is first written for some generations, then only read, then
cleared. An insertion writes the `run` youngest segments. A key is reported if `run` consecutive
segments match. The age-partitioned filters have a hash function for each segment (APBF, sections
5.1 and 6); the guarded-epoch filters have a run of 1 and one hash function for all segments (GEBF,
methodology).

Unlike the rings of the papers, these rings have a spare: an empty segment that replaces the segment
that a shift retires. In hardware each physical segment keeps its hash function, even the spare.
"""

import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, Self, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import analysis, compilation
from ..durations import NANOSECONDS, span_nanoseconds
from ..errors import RekeyError, require, require_count
from ..filter import (
    MODELS,
    Answers,
    CoreState,
    CountedFilter,
    Filter,
    Options,
    State,
    Words,
    delegated,
)
from ..hash.siphash import check_secret
from ..operations import Operation
from ..results import Ages, Codes, Results
from ..sizing import check_rate, expected_keys
from ..spec.ring import TIME_FIELDS, APBBFSpec, APBFSpec, BlockedGEBFSpec, FilterSpec, GEBFSpec
from ..state_files import check_whole, unpacked
from ..timed_filter import MaxAhead, TimedFilter
from ..times import NEVER, TIME_LIMIT, Now, SteadyClock, Times
from .ring_sizes import apbbf_sizes, apbf_sizes, blocked_gebf_sizes, gebf_sizes
from .rotation import BY_CLOCK, PoolStatus, RotationPolicy, RotationState
from .segments import (
    CLEARED,
    MAX_LENGTH,
    NUMBERS,
    CompiledSegments,
    Layout,
    PackedSegments,
    RingPosition,
    Segments,
    pitch,
)


def _ring_core_state(self: Filter) -> CoreState:
    """Return a copy of the state, including the secrets, in the layout of the C core."""
    state = Filter.core_state(self)
    memory = state.arrays["memory"]
    # The C extension may not have cleared the whole segment yet.
    state.numbers[-1][CLEARED] = memory.nbytes if memory.ndim == 1 else memory[0].nbytes
    return state


def _take_ring_core_state(self: Filter, state: CoreState) -> None:
    """Restore a state from `core_state`; raise TypeError or ValueError if it does not fit."""
    state.numbers[-1][CLEARED:] = self._records()[-1][CLEARED:]
    Filter.take_core_state(self, state)


class SlidingFilter(CountedFilter):
    """Base class of ring filters whose window is a number of insertions.

    The parameters are the fields of the specification, without those for lanes, `clear` and times,
    plus `partitioned` and `secret`. If `partitioned` is False, all hash functions share the bits of
    a segment or block. The `secret` of the hash "siphash", at most 128 bits, must be random and
    unknown to any attacker. A `spec` may be given instead of its fields.

    Raises TypeError if `partitioned` is not a bool or the secret is not an integer, ValueError if
    the secret is out of range, and SpecificationError if another parameter violates a rule, or if
    the hash uses no secret.
    """

    specification: ClassVar[type[FilterSpec]] = FilterSpec  # type: ignore[type-abstract]
    age_unit = "generations"
    supported = (*CountedFilter.supported, Operation.SHIFT)
    core_state, take_core_state = _ring_core_state, _take_ring_core_state
    spec: FilterSpec = delegated("_spec", "Specification of the filter.")
    fpr: float
    _fixed = ("seed", "key_bits", "digest", "window", "partitioned")
    _layout_class: type[Layout] = Layout
    _NUMBERS = NUMBERS
    _follows = False  # whether another process writes the ring; see `live`
    # Fields of the specification that are not constructor arguments, besides those for times.
    _other_fields: ClassVar[tuple[str, ...]] = ("window", "lanes", "clear")
    _extras: ClassVar = {"secret": 0}

    def __init__(self, spec: FilterSpec | None = None, **parameters: Any) -> None:
        if spec is None:
            parameters = self._bound(parameters).arguments
        self.partitioned = parameters.pop("partitioned", True)
        secret = parameters.pop("secret", 0)
        self._spec = spec or self.specification(**parameters)
        self._check_family(self._spec)
        rule = f"{type(self).__name__} counts insertions, so it must be None"
        require(not self._spec.timed, "span", rule, self._spec.span)
        self.seed, self.key_bits = self._spec.seed, self._spec.key_bits
        self.window: int = self._spec.window
        self.digest = self._spec.digest
        self._layout = self._layout_class.of(self._spec, self.partitioned)
        self._hash = self._layout.hash
        self._segments = _segments(self._layout, self._numbers)
        self._engine = self._segments.engine
        keyed = check_secret(secret) or self._private
        secret_in_use = self._checked_secret(secret) if keyed else 0
        self._position = RingPosition(self._spec, secret_in_use, self._numbers)
        self._digest_under(secret)

    @classmethod
    def _signature(cls) -> list[inspect.Parameter]:
        others = (*cls._other_fields, *TIME_FIELDS)
        return [item for item in super()._signature() if item.name not in others]

    @classmethod
    def from_spec(cls, spec: FilterSpec, *, secret: int = 0) -> Self:  # type: ignore[override]
        """Build a filter from a specification of its family and the `secret` of a keyed hash."""
        return cls(spec, secret=secret)

    @classmethod
    def for_span(
        cls,
        span: str | timedelta | np.timedelta64,
        fpr: float = 0.01,
        *,
        rate: float,
        when_full: str = "overfill",
        joinable: bool = False,
        clock: Callable[[], int] | None = None,
        max_ahead: MaxAhead = "1d",
        **options: Unpack[Options],
    ) -> "TimeLimitedRing":
        """Build a ring of this family with a clock, for a span of time and a rate of keys.

        See `TimedFilter.for_span` for the parameters. The `fpr` holds while keys arrive no faster
        than the `rate`. If they arrive faster, with "overfill" every key is still reported for the
        span but the `fpr` is exceeded; with "shorten", some keys are reported for a shorter time.
        `TimeLimitedRing.union` can merge rings that are `joinable`. Only the clock shifts a
        joinable ring, so keys that arrive in bursts raise the false-positive rate.
        """
        shared = options.get("partitioned", True)
        require(shared is True, "partitioned", "must be True with a span", shared)
        length = span_nanoseconds(span)
        keys = expected_keys(length / NANOSECONDS, rate)
        sized = cls._for_keys(keys, check_rate(fpr), {}, options)
        spec = replace(sized.spec, span=length, when_full=when_full)
        ring = TimeLimitedRing(spec, secret=options.get("secret", 0), joinable=joinable)
        ring.clock, ring.max_ahead = clock or SteadyClock(), max_ahead
        return ring

    def _perform(self, codes: Codes, keys: Words, *_: Any) -> Results:
        age = self._segments.perform(codes, keys, self._ring)
        return Results.of(age >= 0, age)

    def _one_operation(self, operation: Operation, keys: Words, *_: Any) -> Answers:
        return self._segments.seen(operation, keys, self._ring)

    def _age(self, keys: Words) -> Ages:
        codes = np.full(len(keys), Operation.QUERY, np.uint8)
        return self._segments.perform(codes, keys, self._ring)

    @property
    def _ring(self) -> RingPosition:
        """Position of the ring; if another process writes the ring, the last published position."""
        if self._follows:
            self._engine.follow()
        return self._position

    def shift(self) -> None:
        """Start a new generation now, like the operation SHIFT."""
        self._performed(Operation.SHIFT, self._no_key)
        self._note_events(1)

    def _empty(self) -> None:
        self._performed(Operation.CLEAR, self._no_key)

    def _further_counters(self) -> dict[str, int]:
        return {"shifts": self.shifts}

    @property
    def generation(self) -> int:
        """Number of insertions per generation, from 1 to 2**62.

        A new value takes effect at the next shift or clear.
        """
        return self._ring.generation

    @generation.setter
    def generation(self, value: int) -> None:
        require_count("generation", value, high=MAX_LENGTH)
        if self._follows:
            raise ValueError("filter: must be attached with write=True to change it")
        self._ring.generation = int(value)

    def close(self) -> None:
        """Release the memory, and the file of an attached ring; later calls raise ValueError."""
        self._adopt(cast(CompiledSegments, _Closed()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    insertions: int = delegated("_ring.insertions", "Number of insertions since construction.")
    shifts: int = delegated("_ring.shifts", "Number of shifts since construction.")
    ring_position: int = delegated("_ring.base", "Physical index of the youngest segment.")
    fill: float = delegated("_segments.fill", "Fraction of set bits, including bits of the spare.")
    nbytes: int = delegated("_segments.nbytes", "Bytes of memory that the segments occupy.")

    @property
    def compiled(self) -> bool:
        """Whether operations run in the C extension; the results are the same in Python."""
        return not isinstance(self._segments, Segments)

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of all physical segments; shape (segments, parts, part_bits).

        The bits of a part are ordered by shard, then by block, then by cell.
        """
        return np.array(self._segments.bits.reshape(self.spec.segments, self._layout.parts, -1))

    def segment(self, index: int) -> NDArray[np.bool_]:
        """Return the bits of segment `index`, where 0 is the youngest; shape (parts, part_bits)."""
        memory: NDArray[np.bool_] = self.memory[self._position.ring()[index]]
        return memory

    def matches(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each segment, youngest first, matches each key; shape (segments, n)."""
        words = self._words(keys)
        bits, ring = self._segments.bits, self._position
        matched = np.empty((self.spec.ring_segments, len(words)), np.bool_)
        for index, segment in enumerate(ring.ring()):
            states = self._hash.state(words, ring.secret_of(index))
            matched[index] = bits[segment][self._layout.positions(states, segment)].all(axis=0)
        return matched

    def fill_ratios(self) -> NDArray[np.float64]:
        """Return the fraction of set bits in each segment, youngest first; shape (segments,)."""
        ring = self._ring.ring()
        ratios: NDArray[np.float64] = self._segments.bits[ring].mean(axis=1)
        return ratios

    def estimated_false_positive_rate(self) -> float:
        """Probability that a key that was never inserted is reported now (APBF, section 5.3)."""
        return self._estimated_rate(self.spec.ring_segments)

    def _estimated_rate(self, alive: int) -> float:
        layout = self._layout
        shape = (layout.parts, self.spec.segment_blocks, layout.cells)
        fills = [0.0] * self.spec.ring_segments
        bits = self._segments.bits
        for index, segment in enumerate(self._position.ring()[:alive]):
            shares = bits[segment].reshape(shape).mean(axis=2)
            matches = shares.prod(axis=0) if self.partitioned else shares[0] ** self.spec.parts
            fills[index] = float(matches.mean())
        return analysis.apbf_false_positive_rate(
            self.spec.run, self.spec.window_generations, fills=fills
        )

    def rekey(self, secret: int) -> None:
        """Load a new secret of at most 128 bits; it must be random and unknown to any attacker.

        With ``spec.rekey``, the segment that enters the ring at the next shift gets the new secret.
        Older segments keep their secret, and no key is forgotten. Without ``spec.rekey``, the new
        secret takes effect in all segments at the next clear, unless another `rekey` replaces it
        first. A clear always gives all segments the newest secret.

        Raises RekeyError if `rekey_ready` is False, and TypeError, ValueError or SpecificationError
        if the secret is invalid. An error leaves the filter unchanged.
        """
        secret = self._checked_secret(secret)
        if not self.rekey_ready:
            # After the shift that uses a waiting secret, all other segments have an older secret.
            ring = self._ring
            left = ring.older if ring.waiting is None else self.spec.ring_segments
            raise RekeyError(
                "rekey: an earlier secret is still in use for "
                f"{left} more shift{'s' if left > 1 else ''}"
            )
        self._ring.waiting = secret

    @property
    def rekey_ready(self) -> bool:
        """Whether `rekey` accepts a secret now; at most two secrets can be in use or waiting."""
        return not self.spec.rekey or (self._ring.waiting is None and self._ring.older == 0)

    @property
    def secrets(self) -> list[int]:
        """Secrets of the ring's segments, youngest to oldest; zeros if the hash uses none."""
        return [self._ring.secret_of(index) for index in range(self.spec.ring_segments)]

    @property
    def parameters(self) -> dict[str, Any]:
        """Specification and options that are needed to rebuild the filter from a state file."""
        return {"spec": self.spec.to_dict(), "partitioned": self.partitioned}

    @classmethod
    def _build(cls, parameters: dict[str, Any]) -> Self:
        spec = cls.specification.from_dict(parameters["spec"])
        return cls(spec, partitioned=parameters["partitioned"])

    @classmethod
    def _loads(cls, kind: type[Filter], parameters: dict[str, Any]) -> bool:
        if kind is not TimeLimitedRing:
            return super()._loads(kind, parameters)
        return bool(parameters["spec"]["family"] == cls.specification.family)

    @property
    def _private(self) -> bool:
        return self.spec.hash == "siphash"

    def _state(self) -> State:
        arrays, ring = super()._state()[1], self._position
        numbers: dict[str, Any] = {
            "ring": ring.numbers(),
            "counters": [self.operations, ring.insertions, self.hits, ring.shifts],
        }
        if self._private:
            # The bits are useless without the secrets.
            numbers["secrets"] = [ring.secret, ring.older_secret, ring.older, ring.waiting]
        return numbers, arrays

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        packed = self._segments.packed()
        return {"memory": (packed.memory, packed.largest)}

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._segments = self._segments.holding(arrays["memory"])
        self._engine = self._segments.engine

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        operations, insertions, hits, shifts = numbers["counters"]
        self._ring.set_numbers(numbers["ring"], insertions, shifts)
        if not all(type(number) is int and number >= 0 for number in (operations, hits)):
            raise ValueError(
                f"counters: must be integers of at least 0, not {operations!r} and {hits!r}"
            )
        self.operations, self._inserted_keys, self.hits = operations, insertions, hits
        if self._private:
            self._ring.set_secrets(*numbers["secrets"])
        if "bits" in arrays:  # Format 2.
            shape, packed = (self.spec.segments, self._layout.bits), PackedSegments(self._layout)
            packed.bits = unpacked(arrays["bits"], shape[0] * shape[1]).reshape(shape)
            arrays = {"memory": packed.memory}
        super()._restore(numbers, arrays)

    def _identity(self) -> Any:
        return self._position.identity()

    def _adopt(self, segments: CompiledSegments, *, follows: bool = False) -> None:
        self._segments, self._engine, self._follows = segments, segments.engine, follows

    @property
    def _no_key(self) -> Words:
        return np.zeros((1, -(-self.spec.key_bits // 64)), np.uint64)


class _Closed:
    engine = None

    def __getattr__(self, _: str) -> Any:
        raise ValueError("the filter is closed")


def _segments(layout: Layout, numbers: NDArray[np.int64]) -> Segments | CompiledSegments:
    few = layout.spec.segments <= compilation.MAX_SEGMENTS
    few &= layout.spec.parts <= compilation.MAX_PARTS
    if type(layout) is not Layout or not few or not compilation.wanted():
        return Segments(layout)
    large = layout.spec.segment_blocks * pitch(layout) > compilation.MAX_BITS
    return Segments(layout) if large else CompiledSegments(layout, numbers)


class TimeLimitedRing(TimedFilter):
    """Ring filter of any family whose window is a span of time.

    With `when_full` "overfill", every key is reported for `span`, at any rate of insertions. With
    "shorten", every key is reported for `guaranteed_span`. No key is reported more than `span`
    after its last insertion. The times of insertions decide which slices are retired and which can
    match (sections 6.1 and 6.4 of the paper on the time-limited filter).

    Memory, hash functions and results are those of the family's filter that counts insertions,
    except that the clock also shifts the ring, and that slices past the span never match. (If the
    youngest matching run of slices is past the span, older runs are too.)

    A `joinable` ring shifts at multiples of the specification's `generation_span`, counted from
    time 0. Before an insertion, it makes all shifts that have become due since the previous
    insertion. So a segment covers the same period in all rings, and `union` can merge them.

    The `spec` must have a `span`; the `secret` is that of `SlidingFilter`. Raises
    SpecificationError if the `spec` has no span, or if a joinable ring has "shorten".
    """

    # Two threads that merge the same two rings could deadlock if `union` held the lock.
    _unlocked = (*TimedFilter._unlocked, "union")
    specification = FilterSpec
    supported = SlidingFilter.supported
    core_state, take_core_state = _ring_core_state, _take_ring_core_state
    spec: FilterSpec = delegated("_spec", "Specification of the filter.")
    fpr: float
    _fixed = ("seed", "key_bits", "digest", "span")

    insertions: int = delegated("_turns.insertions", SlidingFilter.insertions.__doc__)
    shifts: int = delegated("_turns.shifts", SlidingFilter.shifts.__doc__)
    fill: float = delegated("_ring.fill", SlidingFilter.fill.__doc__)
    nbytes: int = delegated("_ring.nbytes", SlidingFilter.nbytes.__doc__)
    memory: NDArray[np.bool_] = delegated("_ring.memory", SlidingFilter.memory.__doc__)
    ring_position: int = delegated("_ring.ring_position", SlidingFilter.ring_position.__doc__)
    secrets: list[int] = delegated("_ring.secrets", SlidingFilter.secrets.__doc__)
    rekey_ready: bool = delegated("_ring.rekey_ready", SlidingFilter.rekey_ready.__doc__)
    _private: bool = delegated("_ring._private", "")
    shortened: int = delegated(
        "_turns.shortened", "Number of shifts that retired a slice within the span."
    )
    overfilled: int = delegated(
        "_turns.overfilled", "Number of insertions into generations that were already full."
    )
    joinable: bool = delegated("_joinable", "Whether `union` can merge the ring with other rings.")
    worst_false_positive_rate: float = delegated(
        "_spec.worst_false_positive_rate",
        "Expected false-positive rate just before a shift, with all slices within the span; an "
        "upper bound unless `status` is `PoolStatus.RATE_EXCEEDED`.",
    )
    _last: int = delegated("_turns.latest", "")

    def __init__(self, spec: FilterSpec, *, secret: int = 0, joinable: bool = False) -> None:
        require(spec.timed, "span", f"must be given for {type(self).__name__}", spec.span)
        self.seed, self.key_bits, self.span = spec.seed, spec.key_bits, spec.span
        self._spec, self.digest = spec, spec.digest
        self._ring = cast("type[SlidingFilter]", MODELS[spec.family]).from_spec(
            spec.untimed, secret=secret
        )
        # The inner ring shifts only by SHIFT: its generation never fills.
        self._ring.generation = TIME_LIMIT
        self._ring._empty()
        self._joinable = joinable
        policy = RotationPolicy.of(spec)
        if joinable:
            require(spec.when_full == "overfill", "when_full", "must be overfill", spec.when_full)
            policy = replace(policy, when_full=BY_CLOCK)
        self._turns = RotationState(policy)
        self._hash = self._ring._hash
        self._wrap()
        self._digest_under(secret)

    def _wrap(self) -> None:
        """Pass the ring to the C extension on first use, and after its memory has been replaced."""
        if self._ring._engine is not None:
            self._engine = compilation.extension().TimedRing(
                self._ring._engine, self._numbers, *self._turns.shared()
            )

    @classmethod
    def _signature(cls) -> list[inspect.Parameter]:
        return list(inspect.signature(cls.__init__).parameters.values())[1:]

    @classmethod
    def from_spec(cls, spec: FilterSpec, *, secret: int = 0) -> Self:  # type: ignore[override]
        """Build a filter from a specification with a span and the `secret` of a keyed hash."""
        return cls(spec, secret=secret)

    def status(self, now: Now = None) -> PoolStatus:
        """Report whether the span and the false-positive bound hold at the time `now`."""
        return self._turns.status(self._moment(now))

    def guaranteed_span(self, now: Now = None) -> int:
        """Return the age up to which every key is reported at the time `now`.

        It is `span` unless the window is shortened, and -1 if no age is guaranteed.
        """
        return self._turns.guaranteed_span(self._moment(now))

    def estimated_false_positive_rate(self, now: Now = None) -> float:
        """Probability that a key that was never inserted is reported at the time `now`."""
        return self._ring._estimated_rate(self._turns.alive(self._moment(now)))

    def fill_ratios(self) -> NDArray[np.float64]:
        """Return the fraction of set bits in each slice, youngest first; shape (slices,)."""
        return self._ring.fill_ratios()

    def _perform(self, codes: Codes, keys: Words, times: Any, *_: Any) -> Results:
        if self._joinable and (codes == Operation.SHIFT).any():
            raise ValueError("operations: a joinable ring has no SHIFT; only the clock shifts it")
        status, span = np.empty(len(codes), np.uint8), np.empty(len(codes), np.int64)
        age = self._ages(codes, keys, times, status, span)
        return Results.of(age >= 0, age, status=status, time=times, covered=span + 1)

    def _one_operation(self, operation: Operation, keys: Words, *operands: Any) -> Answers:
        return self._age(keys, *operands, operation=operation) >= 0

    def _age(self, keys: Words, times: Times, *, operation: Operation = Operation.QUERY) -> Ages:
        return self._ages(np.full(len(keys), operation, np.uint8), keys, times)

    def _ages(self, codes: Codes, keys: Words, times: Times, *reports: Any) -> Ages:
        """Perform operations, and return the ages of the keys (sections 6.1 and 6.4).

        If `reports` are given, the statuses and the guaranteed spans are written into them.
        """
        ages = np.full(len(codes), -1, np.int64)
        if self._engine is not None:
            operands = (np.ascontiguousarray(each) for each in (codes, keys, times))
            self._engine.perform(*operands, ages, *reports)
            return ages
        turns, ring = self._turns, self._ring
        for part, batch in cast(Segments, ring._segments).batches(keys, ring._ring):
            steps = zip(codes[part].tolist(), times[part].tolist(), strict=True)
            for at, (code, now) in enumerate(steps):
                inserts = code in (Operation.INSERT, Operation.CHECK_AND_INSERT)
                for _ in range(turns.due_by_clock(now) if inserts else 0):
                    turns.shift(now)
                    batch.turn()
                if reports:
                    status, span = reports
                    status[part.start + at] = turns.status(now).code
                    span[part.start + at] = turns.guaranteed_span(now)
                if code in (Operation.QUERY, Operation.CHECK_AND_INSERT):
                    age = batch.age(at)
                    # Only slices within the span can match.
                    if age >= 0 and age + self._spec.run <= turns.alive(now):
                        ages[part.start + at] = age
                if turns.perform(code, now) or code == Operation.SHIFT:
                    batch.turn()
                if inserts:
                    batch.insert(at)
                elif code == Operation.CLEAR:
                    batch.clear()
        return ages

    def shift(self, now: Now = None) -> None:
        """Start a new generation at the time `now`, like the operation SHIFT.

        If the retired slice is within the span, the window becomes shorter.
        """
        times = np.maximum(self._given(now, 1, inserts=True), self._last)
        self._performed(Operation.SHIFT, self._ring._no_key, times)
        self._note_events(1)

    def _empty(self) -> None:
        # Times may restart at 0.
        self._ring._empty()
        self._turns.clear()

    def union(self, *others: Self) -> Self:
        """Return a new ring with the keys of this ring and of `others`.

        The rings must be joinable, and have the same specification and secrets; otherwise `union`
        raises TypeError or ValueError. Their times must come from the same clock. The result
        equals, bit for bit, a ring that performed all insertions in time order, and its counters
        are the sums. So the new ring reports every key that any of the rings reports.

        The `rate` passed to `for_span` must be the total rate of all rings: if all rings together
        insert n keys in a generation, and a segment has k parts of m bits, the segment matches a
        key that was never inserted with probability (1 - (1 - 1/m)^n)^k. `status` only reports
        whether one of the rings was overfull, or the result is overfull, whereas
        `estimated_false_positive_rate` is calculated from the bits that are set.
        """
        for ring in (self, *others):
            if not isinstance(ring, TimeLimitedRing) or not ring._joinable:
                raise TypeError(
                    f"union: needs rings built with for_span(joinable=True), not {ring!r}"
                )
            if ring._spec != self._spec:
                raise ValueError(f"union: the specifications differ: {self._spec} and {ring._spec}")
        rings = [deepcopy(ring) for ring in (self, *others)]
        secrets = [(ring._ring._state()[0].get("secrets"), ring._digest_secret) for ring in rings]
        if any(each != secrets[0] for each in secrets):
            raise ValueError("union: the secrets of the rings differ")
        latest = max(ring._last for ring in rings)
        for ring in rings:
            for _ in range(ring._turns.due_by_clock(max(latest, 0))):
                ring._turns.shift(latest)
                ring._ring._performed(Operation.SHIFT, ring._ring._no_key)
        joined = rings[0]
        joined._ring._ring.filled = sum(ring._ring._ring.filled for ring in rings)
        bits = [ring._ring._segments.bits for ring in rings]
        joined._ring._segments.bits = np.bitwise_or.reduce(bits)
        joined._turns.join([ring._turns for ring in rings[1:]])
        for name in ("operations", "_inserted_keys", "hits", "late"):
            setattr(joined, name, sum(getattr(ring, name) for ring in rings))
        joined._event_times = any(ring._event_times for ring in rings)
        joined.clock = self.clock
        return joined

    @property
    def generation(self) -> int:
        """Number of insertions that fill a generation; see `SlidingFilter.generation`."""
        return self._turns.generation

    @generation.setter
    def generation(self, value: int) -> None:
        require_count("generation", value, high=TIME_LIMIT)
        self._turns.generation = int(value)

    def _further_counters(self) -> dict[str, int]:
        names = ("shifts", "shortened", "overfilled")
        return {name: getattr(self._turns, name) for name in names}

    def rekey(self, secret: int) -> None:
        """Load a new `secret`; the rules and errors are those of `SlidingFilter.rekey`."""
        self._ring.rekey(secret)

    def segment(self, index: int) -> NDArray[np.bool_]:
        """Return the bits of segment `index`, where 0 is the youngest; shape (parts, part_bits)."""
        return self._ring.segment(index)

    @property
    def parameters(self) -> dict[str, Any]:
        """Specification and options that are needed to rebuild the filter from a state file."""
        return {"spec": self.spec.to_dict(), **({"joinable": True} if self._joinable else {})}

    @classmethod
    def _build(cls, parameters: dict[str, Any]) -> Self:
        spec = FilterSpec.from_dict(parameters["spec"])
        return cls(spec, joinable=parameters.get("joinable", False))

    @property
    def settled_times(self) -> list[int | None]:
        """Times of the last insertions into the slices that are no longer written.

        The youngest slice is first, and a slice without insertions has None.
        """
        return [None if time == NEVER else time for time in self._turns.settled.tolist()]

    @property
    def last_insertion(self) -> int | None:
        """Time of the last insertion, or None if there was none."""
        return None if self._turns.last == NEVER else self._turns.last

    def _state(self) -> State:
        numbers, arrays = self._ring._state()
        further = {"counters": [self.operations, self.hits], "turns": self._turns.saved()}
        return {"ring": numbers, **further}, arrays

    def _records(self) -> list[NDArray[np.int64]]:
        return [self._numbers, self._turns.shared()[0], *self._ring._records()]

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.operations, self.hits = numbers["counters"]
        for name in ("operations", "hits"):
            check_whole(name, getattr(self, name), 0)
        self._turns.restore(numbers["turns"])
        self._inserted_keys = self.insertions
        self._ring._restore(numbers["ring"], arrays)
        self._wrap()

    def _identity(self) -> Any:
        turns = self._turns.saved()
        del turns["counters"]
        return self._ring._identity(), turns


# Guarded Epoch Bloom Filters (Alpay, Sarioglu)


class GEBF(SlidingFilter):
    """Guarded Epoch Bloom Filter; its parameters are those of `GEBFSpec` and `SlidingFilter`.

    A key is reported for all d <= W = `window`, where d is the number of insertions after its own
    (lemma 1). The key is forgotten after ``epochs + 1`` epochs of ``ceil(window / epochs)``
    insertions: a window plus one epoch (proposition 1), and up to `epochs` insertions more if
    `epochs` does not divide `window`. In the paper all hash functions share the segment
    (`partitioned` is False); in hardware each hash function has its own part.
    """

    specification = GEBFSpec
    _other_fields = ("generation", "lanes", "clear")
    _extras: ClassVar = {"secret": 0, "partitioned": True}
    _sizes = staticmethod(gebf_sizes)


class BlockedGEBF(SlidingFilter):
    """Blocked Guarded Epoch Bloom Filter: one hash selects the block that all others use.

    A key is reported for all d <= W = `window`, where d is the number of insertions after its own.
    Window and staleness are as in a `GEBF` (lemma 1, proposition 1). Its parameters are those of
    `BlockedGEBFSpec` and `SlidingFilter`.
    """

    specification = BlockedGEBFSpec
    _other_fields = GEBF._other_fields
    _extras = GEBF._extras
    _sizes = staticmethod(blocked_gebf_sizes)


# Age-Partitioned Bloom Filters (Shtul, Baquero, Almeida)


class APBF(SlidingFilter):
    """Age-Partitioned Bloom Filter (section 5); its parameters are those of `APBFSpec`.

    A key is reported for all d <= W = ``l * generation``, where d is the number of insertions after
    its own. A key is forgotten for d >= ``(k + l) * generation``. The default `generation`
    half-fills a slice: ``floor(m ln 2 / k)`` (section 5.2).
    """

    specification = APBFSpec
    _sizes = staticmethod(apbf_sizes)


class APBBF(SlidingFilter):
    """Age-Partitioned Blocked Bloom Filter with partitioned blocks (section 6).

    Window and slack are as in an `APBF`: a key is reported for all d <= W = ``l * generation``,
    where d is the number of insertions after its own. With one block, each segment is a partitioned
    Bloom filter with b slices, which is the alternative design in section 6 (Figure 9). Its
    parameters are those of `APBBFSpec`. The default `generation` is ``floor(blocks * n / k)``,
    where ``n = ln(1/2) / ln(1 - b/B)`` is the load of a full block (Table 3).
    """

    specification = APBBFSpec
    _sizes = staticmethod(apbbf_sizes)
