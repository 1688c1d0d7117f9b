"""Rings of segments that turn: by insertions, or by time; and their four families.

A segment is a Bloom filter that is first written for some generations, then only read, then
cleared. An insertion writes the `run` youngest segments. A key is reported when `run` consecutive
segments match. The age-partitioned filters have a hash function for each segment (APBF, sections
5.1 and 6); the guarded-epoch filters have a run of 1 and one hash function for all segments (GEBF,
methodology).

The rings of the papers have no spare. Here one more segment, always empty, replaces the segment
that a shift retires. Physical segments keep their hash functions in hardware, so the spare has one
too, and the golden model uses the same positions.
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
from ..errors import RekeyError, SpecificationError, require, require_count
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
from ..results import Ages, Results
from ..sizing import check_rate, expected_keys
from ..spec.ring import (
    TIME_FIELDS,
    APBBFSpec,
    APBFSpec,
    BlockedGEBFSpec,
    FilterSpec,
    GEBFSpec,
    GuardedEpochSpec,
)
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


class SlidingFilter(CountedFilter):
    """Base of the filters that are a ring and count insertions.

    Its parameters are the fields of its specification, without those of lanes, `clear` and times,
    and two more. If `partitioned` is False, all hash functions share the bits of a segment or
    block. The `secret` of the hash "siphash", at most 128 bits, is random and unknown to any
    attacker. A `spec` may be given in place of its fields.

    Raises TypeError if `partitioned` is not a bool or the secret not an integer, ValueError if the
    secret is out of range, and SpecificationError if another parameter breaks a rule or the hash
    takes no secret.
    """

    specification: ClassVar[type[FilterSpec]] = FilterSpec  # type: ignore[type-abstract]
    age_unit = "generations"
    supported = (*CountedFilter.supported, Operation.SHIFT)
    _fixed = ("seed", "key_bits", "digest", "window", "partitioned")
    _layout_class: type[Layout] = Layout
    _NUMBERS = NUMBERS
    _follows = False  # whether another process writes the ring; see `live`
    # Fields of the specification that are not arguments of the constructor.
    _other_fields: ClassVar[tuple[str, ...]] = ("window", "lanes", "clear")

    def __init__(self, spec: FilterSpec | None = None, **parameters: Any) -> None:
        if spec is None:
            parameters = self._bound(parameters).arguments
        self.partitioned = parameters.pop("partitioned", True)
        secret = parameters.pop("secret", 0)
        self._spec = spec or self.specification(**parameters)
        self._check_family(self._spec)
        rule = f"must not be given for {type(self).__name__}, which counts insertions"
        require(not self._spec.timed, "span", rule, self._spec.span)
        self._prepare()
        keyed = check_secret(secret) or self._private
        secret_in_use = self._checked_secret(secret) if keyed else 0
        self._position = RingPosition(self._spec, secret_in_use, self._numbers)
        self._digest_under(secret)

    def _prepare(self) -> None:
        self.seed, self.key_bits = self._spec.seed, self._spec.key_bits
        self.window: int = self._spec.window
        self.digest = self._spec.digest
        self._layout = self._layout_class.of(self._spec, self.partitioned)
        self._hash = self._layout.hash
        self._segments = _segments(self._layout, self._numbers)
        self._engine = self._segments.engine

    @classmethod
    def _signature(cls) -> list[inspect.Parameter]:
        others = (*cls._other_fields, *TIME_FIELDS)
        taken = [item for item in super()._signature() if item.name not in others]
        further: dict[str, Any] = {"secret": 0}
        if issubclass(cls.specification, GuardedEpochSpec):
            further["partitioned"] = True
        return taken + [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in further.items()
        ]

    @classmethod
    def from_spec(cls, spec: FilterSpec, *, secret: int = 0) -> Self:  # type: ignore[override]
        """Build the filter that a specification of the class's family describes."""
        return cls(spec, secret=secret)

    @property
    def spec(self) -> FilterSpec:
        """Specification of the filter."""
        return self._spec

    @property
    def fpr(self) -> float:
        """Expected false-positive rate, averaged over a generation of distinct keys."""
        return self.spec.mean_false_positive_rate

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
        """Build a ring of this family with a clock, for a span of time and a rate.

        As `TimedFilter.for_span`. The `fpr` holds while keys arrive at most at the `rate`. If they
        arrive faster, `fpr` no longer holds with "overfill", and every key is reported for the
        span; with "shorten", some keys are reported for a shorter time. `TimeLimitedRing.union` can
        join rings that are `joinable`: the clock alone turns them, so keys that arrive in bursts
        raise the false-positive rate.
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

    # Operations

    def _perform(self, codes: NDArray[np.uint8], keys: Words, *_: Any) -> Results:
        age = self._segments.perform(codes, keys, self._ring)
        return Results.of(age >= 0, age)

    def _one_operation(self, operation: Operation, keys: Words, *_: Any) -> Answers:
        return self._segments.seen(operation, keys, self._ring)

    def _age(self, keys: Words) -> Ages:
        codes = np.full(len(keys), Operation.QUERY, np.uint8)
        return self._segments.perform(codes, keys, self._ring)

    @property
    def _ring(self) -> RingPosition:
        """Position now: the latest that another process published, if one writes the ring."""
        if self._follows:
            self._engine.follow()
        return self._position

    def shift(self) -> None:
        """Start a new generation now, as the operation SHIFT does."""
        self._performed(Operation.SHIFT, self._no_key)
        self._note_events(1)

    def _empty(self) -> None:
        self._performed(Operation.CLEAR, self._no_key)

    def _further_counters(self) -> dict[str, int]:
        return {"shifts": self.shifts}

    @property
    def generation(self) -> int:
        """Insertions in a generation, 1 to 2**62; a new value takes effect at a shift or clear.

        Hardware also accepts 0. The value 0 acts as 1, with one more shift before the first
        insertion after each SHIFT or CLEAR.
        """
        return self._ring.generation

    @generation.setter
    def generation(self, value: int) -> None:
        require_count("generation", value, high=MAX_LENGTH)
        if self._follows:
            raise ValueError("filter: must be attached with write=True to change it")
        self._ring.generation = int(value)

    def close(self) -> None:
        """Release the memory, and a file that `attach` opened; later calls raise ValueError."""
        self._adopt(cast(CompiledSegments, _Closed()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # State

    @property
    def insertions(self) -> int:
        """Insertions since construction."""
        return self._ring.insertions

    @property
    def shifts(self) -> int:
        """Shifts since construction, including SHIFT operations."""
        return self._ring.shifts

    @property
    def compiled(self) -> bool:
        """Whether operations run in compiled loops; results are the same either way."""
        return not isinstance(self._segments, Segments)

    @property
    def ring_position(self) -> int:
        """Physical index of the youngest segment."""
        return self._ring.base

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of all physical segments and the empty spare, shape (segments, parts, part_bits).

        ``part_bits`` counts blocks first, then the cells of a block. The middle axis has length 1
        if the filter is not partitioned.
        """
        return np.array(self._segments.bits.reshape(self.spec.segments, self._layout.parts, -1))

    @property
    def fill(self) -> float:
        """Share of set bits in all segments, including the spare."""
        return self._segments.fill()

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the segments occupy in this process."""
        return self._segments.nbytes

    def segment(self, index: int) -> NDArray[np.bool_]:
        """Bits of the segment `index` of the ring, 0 being the youngest; as in `memory`."""
        memory: NDArray[np.bool_] = self.memory[self._position.ring()[index]]
        return memory

    def matches(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each segment of the ring, youngest first, has all bits of each key.

        The result has shape (ring_segments, n); `keys` are as for `query`.
        """
        words = self._words(keys)
        bits, ring = self._segments.bits, self._position
        matched = np.empty((self.spec.ring_segments, len(words)), np.bool_)
        for index, segment in enumerate(ring.ring()):
            states = self._hash.state(words, ring.secret_of(index))
            matched[index] = bits[segment][self._layout.positions(states, segment)].all(axis=0)
        return matched

    def fill_ratios(self) -> NDArray[np.float64]:
        """Share of set bits in each segment of the ring, youngest first, shape (ring_segments,)."""
        ring = self._ring.ring()
        ratios: NDArray[np.float64] = self._segments.counts()[ring] / self._layout.bits
        return ratios

    def estimated_false_positive_rate(self) -> float:
        """Probability that a fresh key is reported now, computed from the set bits.

        This is the recursion F (APBF, section 5.3) over the match probability of each segment. With
        blocks, the probability is the mean over the blocks.
        """
        return self._estimated_rate(self.spec.ring_segments)

    def _estimated_rate(self, alive: int) -> float:
        """Return the rate if only the `alive` youngest segments count."""
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

    # Secrets

    def rekey(self, secret: int) -> None:
        """Load a new secret: at most 128 bits, random, and unknown to any attacker.

        With ``spec.rekey``, the segment that enters the ring at the next shift gets the secret.
        Older segments keep theirs, and no key is forgotten. Without it, the secret takes effect in
        all segments at the next clear; a later secret replaces it. A clear always gives all
        segments the newest secret.

        RekeyError if `rekey_ready` is False; TypeError, ValueError or SpecificationError as for
        `SlidingFilter` if the secret is wrong. Nothing changes then.
        """
        secret = self._checked_secret(secret)
        if not self.rekey_ready:
            # A waiting secret enters at one shift; then all segments except one are older.
            ring = self._ring
            left = ring.older if ring.waiting is None else self.spec.ring_segments
            raise RekeyError(
                "rekey: an earlier secret is still in use for "
                f"{left} more shift{'s' if left > 1 else ''}"
            )
        self._ring.waiting = secret

    @property
    def rekey_ready(self) -> bool:
        """Whether `rekey` takes a secret now.

        With ``spec.rekey``, True when no secret waits for its shift and all segments of the ring
        have the same one: at most two are in use. Without it, always True.
        """
        return not self.spec.rekey or (self._ring.waiting is None and self._ring.older == 0)

    @property
    def secrets(self) -> list[int]:
        """Secrets of the ring's segments, youngest to oldest; zeros if the hash takes none."""
        return [self._ring.secret_of(index) for index in range(self.spec.ring_segments)]

    def _checked_secret(self, secret: int) -> int:
        if self.spec.hash != "siphash":
            raise SpecificationError(
                f"secret: must not be given for hash {self.spec.hash}, which takes none"
            )
        return check_secret(secret)

    # Files

    @property
    def parameters(self) -> dict[str, Any]:
        """Specification and form, from which a state file builds the filter."""
        return {"spec": self.spec.to_dict(), "partitioned": self.partitioned}

    @classmethod
    def _specified(cls, parameters: dict[str, Any]) -> FilterSpec:
        return FilterSpec.from_dict(parameters["spec"])

    @classmethod
    def _build(cls, parameters: dict[str, Any]) -> Self:
        return cls(spec=cls._specified(parameters), partitioned=parameters["partitioned"])

    @classmethod
    def _loads(cls, kind: type[Filter], parameters: dict[str, Any]) -> bool:
        """Whether `load` accepts a state: also that of a ring that `for_span` returned."""
        if kind is not TimeLimitedRing:
            return super()._loads(kind, parameters)
        return cls._specified(parameters).family == cls.specification.family

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
            # Without the secrets the bits are useless.
            numbers["secrets"] = [ring.secret, ring.older_secret, ring.older, ring.waiting]
        return numbers, arrays

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        packed = self._segments.packed()
        return {"memory": (packed.memory, packed.largest)}

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._segments = self._segments.holding(arrays["memory"])
        self._engine = self._segments.engine

    def core_state(self) -> CoreState:
        """As in `Filter`."""
        return _cleared(super().core_state())

    def take_core_state(self, state: CoreState) -> None:
        """As in `Filter`; what is clear of the retired segment is in the form of this memory."""
        state.numbers[-1][CLEARED:] = self._records()[-1][CLEARED:]
        super().take_core_state(state)

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        operations, insertions, hits, shifts = numbers["counters"]
        self._ring.set_numbers(numbers["ring"], insertions, shifts)
        if not all(type(number) is int and number >= 0 for number in (operations, hits)):
            raise ValueError(f"counters {operations}, {hits} do not fit the specification")
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

    # Inside

    def _adopt(self, segments: CompiledSegments, *, follows: bool = False) -> None:
        self._segments, self._engine, self._follows = segments, segments.engine, follows

    @property
    def _no_key(self) -> Words:
        return np.zeros((1, -(-self.spec.key_bits // 64)), np.uint64)


def _cleared(state: CoreState) -> CoreState:
    """Say that the retired segment is clear, which the extension may not have done yet."""
    memory = state.arrays["memory"]
    state.numbers[-1][CLEARED] = memory.nbytes if memory.ndim == 1 else memory[0].nbytes
    return state


class _Closed:
    engine = None

    def __getattr__(self, _: str) -> Any:
        raise ValueError("filter: is closed")


def _segments(layout: Layout, numbers: NDArray[np.int64]) -> Segments | CompiledSegments:
    """Build the memory: compiled if wanted, and if the loops support the layout."""
    few = layout.spec.segments <= compilation.MAX_SEGMENTS
    few &= layout.spec.parts <= compilation.MAX_PARTS
    if type(layout) is not Layout or not few or not compilation.wanted():
        return Segments(layout)
    large = layout.spec.segment_blocks * pitch(layout) > compilation.MAX_BITS
    return Segments(layout) if large else CompiledSegments(layout, numbers)


# Windows of time


class TimeLimitedRing(TimedFilter):
    """Ring filter of any family whose window is a span of time.

    With `when_full` "overfill" every key is reported for `span`, at any rate of insertions. With
    "shorten", a key is reported for `guaranteed_span`. No key is reported later than `span` after
    the last insertion. Slices are retired and queried by their times, as in sections 6.1 and 6.4 of
    the paper of the time-limited filter.

    Memory, hash functions and answers equal the family's filter that counts insertions, with two
    differences. `RotationState` decides when the ring turns. A key is reported only if the youngest
    run of slices that it matches still counts. Slices never get younger from one position to the
    next, so no other run would count.

    A `joinable` ring turns at multiples of the specification's `generation_span`, counted from time
    0. Before an insertion it performs all turns that are due since the previous insertion. So a
    segment covers the same period in all rings, and `union` can join them.

    The `spec` has a `span`; the `secret` is as for `SlidingFilter`. SpecificationError if there is
    no span, or a joinable ring shortens.
    """

    # Two unions of two rings in two threads would wait for each other.
    _unlocked = (*TimedFilter._unlocked, "union")
    supported = SlidingFilter.supported
    specification = FilterSpec
    _fixed = ("seed", "key_bits", "digest", "span")

    # As those of the ring, and of the state that turns it.
    fill: float = delegated("_ring", SlidingFilter.fill)
    nbytes: int = delegated("_ring", SlidingFilter.nbytes)
    memory: NDArray[np.bool_] = delegated("_ring", SlidingFilter.memory)
    ring_position: int = delegated("_ring", SlidingFilter.ring_position)
    secrets: list[int] = delegated("_ring", SlidingFilter.secrets)
    rekey_ready: bool = delegated("_ring", SlidingFilter.rekey_ready)
    _private: bool = delegated("_ring", SlidingFilter._private)
    insertions: int = delegated("_turns", SlidingFilter.insertions)
    shifts: int = delegated("_turns", SlidingFilter.shifts)

    def __init__(self, spec: FilterSpec, *, secret: int = 0, joinable: bool = False) -> None:
        require(spec.timed, "span", f"must be given for {type(self).__name__}", spec.span)
        self.seed, self.key_bits, self.span = spec.seed, spec.key_bits, spec.span
        self._spec, self.digest = spec, spec.digest
        self._ring = cast("type[SlidingFilter]", MODELS[spec.family]).from_spec(
            spec.untimed, secret=secret
        )
        # The inner ring turns only by SHIFT; this takes effect at the clear.
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
        """Let the extension know the ring, which is a new one when its memory is."""
        if self._ring._engine is not None:
            self._engine = compilation.extension().TimedRing(
                self._ring._engine, self._numbers, *self._turns.shared()
            )

    def _prepare(self) -> None:
        """Do nothing: the constructor takes a specification."""

    @classmethod
    def _signature(cls) -> list[inspect.Parameter]:
        return list(inspect.signature(cls.__init__).parameters.values())[1:]

    @property
    def spec(self) -> FilterSpec:
        """Specification of the filter."""
        return self._spec

    @classmethod
    def from_spec(cls, spec: FilterSpec, *, secret: int = 0) -> Self:  # type: ignore[override]
        """Build the filter that `spec` describes, with its `secret`."""
        return cls(spec, secret=secret)

    @property
    def fpr(self) -> float:
        """Expected false-positive rate, averaged over full generations of distinct keys."""
        return self._spec.mean_false_positive_rate

    @property
    def worst_false_positive_rate(self) -> float:
        """Expected false-positive rate just before a shift, with all slices within the span.

        It is an upper bound in all states except `PoolStatus.RATE_EXCEEDED`.
        """
        return self._spec.worst_false_positive_rate

    def status(self, now: Now = None) -> PoolStatus:
        """Report whether the span and the false-positive bound hold at the time `now`.

        The default is `latest` if you gave the time of an insertion, or if there is no clock;
        otherwise the time of the clock.
        """
        return self._turns.status(self._moment(now))

    def guaranteed_span(self, now: Now = None) -> int:
        """Greatest age at which every key is reported at the time `now`, which is as for `status`.

        It is `span` unless the window is shortened, and -1 if even a key of `now` may be missed.
        """
        return self._turns.guaranteed_span(self._moment(now))

    def estimated_false_positive_rate(self, now: Now = None) -> float:
        """Probability that a fresh key is reported at the time `now`, computed from the set bits.

        As in `SlidingFilter`; slices past the span match nothing. `now` is as for `status`.
        """
        return self._ring._estimated_rate(self._turns.alive(self._moment(now)))

    def fill_ratios(self) -> NDArray[np.float64]:
        """Share of set bits in each slice, youngest first, shape (slices,), past the span too."""
        return self._ring.fill_ratios()

    # Operations

    def _perform(self, codes: NDArray[np.uint8], keys: Words, times: Any, *_: Any) -> Results:
        if self._joinable and (codes == Operation.SHIFT).any():
            raise ValueError("operations: a joinable ring has no SHIFT, as the clock turns it")
        status, span = np.empty(len(codes), np.uint8), np.empty(len(codes), np.int64)
        age = self._ages(codes, keys, times, status, span)
        return Results.of(age >= 0, age, status=status, time=times, covered=span + 1)

    def _one_operation(self, operation: Operation, keys: Words, *operands: Any) -> Answers:
        return self._age(keys, *operands, operation=operation) >= 0

    def _age(self, keys: Words, times: Times, *, operation: Operation = Operation.QUERY) -> Ages:
        return self._ages(np.full(len(keys), operation, np.uint8), keys, times)

    def _ages(self, codes: NDArray[np.uint8], keys: Words, times: Times, *reports: Any) -> Ages:
        """Perform operations; return ages, and fill arrays of statuses and guaranteed spans.

        This holds the rules of sections 6.1 and 6.4 for all families, one operation after another.
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
                    # Only slices within the span count.
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
        """Start a new generation at the time `now`, as the operation SHIFT does.

        If the oldest slice still counts, the window is shortened. `now` becomes the `latest` time.
        """
        times = np.maximum(self._given(now, 1, inserts=True), self._last)
        self._performed(Operation.SHIFT, self._ring._no_key, times)
        self._note_events(1)

    def _empty(self) -> None:
        # Times may begin at 0 again.
        self._ring._empty()
        self._turns.clear()

    def _turn_by_clock(self, now: int) -> None:
        for _ in range(self._turns.due_by_clock(max(now, 0))):
            self._turns.shift(now)
            self._ring._performed(Operation.SHIFT, self._ring._no_key)

    @property
    def joinable(self) -> bool:
        """Whether the clock alone turns the ring, and `union` can join it with others."""
        return self._joinable

    def union(self, *others: Self) -> Self:
        """Return a new ring with the keys of this ring and of `others`.

        The rings are joinable, with the same specification and secrets, and times from the same
        clock; otherwise TypeError or ValueError. The result equals, bit for bit, a ring that
        performed all insertions in order of time; its counters are the sums. So it reports every
        key that any of the rings reports.

        Let n be the insertions of all rings in a generation, m the bits of a part and k the parts
        of a segment. Such a segment matches a fresh key with probability (1 - (1 - 1/m)^n)^k. The
        false-positive rate of a GEBF is 1 minus the product of the miss probabilities of its
        segments. So the `rate` of `for_span` must cover all rings together. `status` only reports
        whether a ring was overfull by itself, or is overfull now; `estimated_false_positive_rate`
        counts the bits.
        """
        for ring in (self, *others):
            if not isinstance(ring, TimeLimitedRing) or not ring._joinable:
                raise TypeError(
                    "union: joins rings of for_span(joinable=True), which turn by the clock, "
                    f"not {ring!r}"
                )
            if ring._spec != self._spec:
                raise ValueError(f"union: the specifications differ: {self._spec} and {ring._spec}")
        rings = [deepcopy(ring) for ring in (self, *others)]
        secrets = [(ring._ring._state()[0].get("secrets"), ring._digest_secret) for ring in rings]
        if any(each != secrets[0] for each in secrets):
            raise ValueError("union: the secrets of the rings differ")
        latest = max(ring._last for ring in rings)
        for ring in rings:
            ring._turn_by_clock(latest)
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
        """Insertions that fill a generation, as for `SlidingFilter`."""
        return self._turns.generation

    @generation.setter
    def generation(self, value: int) -> None:
        require_count("generation", value, high=TIME_LIMIT)
        self._turns.generation = int(value)

    @property
    def _last(self) -> int:
        return self._turns.latest

    def _further_counters(self) -> dict[str, int]:
        names = ("shifts", "shortened", "overfilled")
        return {name: getattr(self._turns, name) for name in names}

    def rekey(self, secret: int) -> None:
        """Load a new `secret`; as `SlidingFilter.rekey`, with its errors."""
        self._ring.rekey(secret)

    def segment(self, index: int) -> NDArray[np.bool_]:
        """Bits of the segment `index` of the ring, 0 being the youngest; as in `memory`."""
        return self._ring.segment(index)

    @property
    def parameters(self) -> dict[str, Any]:
        """Specification and form, from which a state file builds the filter."""
        return {"spec": self.spec.to_dict(), **({"joinable": True} if self._joinable else {})}

    @classmethod
    def _specified(cls, parameters: dict[str, Any]) -> FilterSpec:
        return FilterSpec.from_dict(parameters["spec"])

    @classmethod
    def _build(cls, parameters: dict[str, Any]) -> Self:
        return cls(cls._specified(parameters), joinable=parameters.get("joinable", False))

    @property
    def shortened(self) -> int:
        """Shifts that retired a slice within the span."""
        return self._turns.shortened

    @property
    def overfilled(self) -> int:
        """Insertions beyond the capacity of their generation."""
        return self._turns.overfilled

    @property
    def settled_times(self) -> list[int | None]:
        """Time of the last insertion into each slice that is no longer written, or None."""
        return [None if time == NEVER else time for time in self._turns.settled.tolist()]

    @property
    def last_insertion(self) -> int | None:
        """Time of the last insertion, None before the first."""
        return None if self._turns.last == NEVER else self._turns.last

    def _state(self) -> State:
        numbers, arrays = self._ring._state()
        further = {"counters": [self.operations, self.hits], "turns": self._turns.saved()}
        return {"ring": numbers, **further}, arrays

    def _records(self) -> list[NDArray[np.int64]]:
        return [self._numbers, self._turns.numbers, *self._ring._records()]

    def core_state(self) -> CoreState:
        """As in `Filter`."""
        return _cleared(super().core_state())

    def take_core_state(self, state: CoreState) -> None:
        """As in `Filter`; what is clear of the retired segment is in the form of this memory."""
        state.numbers[-1][CLEARED:] = self._records()[-1][CLEARED:]
        super().take_core_state(state)

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
    (lemma 1). It is forgotten after ``epochs + 1`` epochs of ``ceil(window / epochs)`` insertions.
    If `epochs` divides `window`, this is the window and one epoch (proposition 1); otherwise it is
    up to ``epochs`` insertions more. The form of the paper, in which all hash functions share the
    segment, is not `partitioned`; hardware has the form in which each has its own part.
    """

    specification = GEBFSpec
    _other_fields = ("generation", "lanes", "clear")
    _sizes = staticmethod(gebf_sizes)


class BlockedGEBF(SlidingFilter):
    """Blocked Guarded Epoch Bloom Filter: one hash selects a block for all other hashes.

    A key is reported for all d <= W = `window`, where d is the number of insertions after its own.
    Window and staleness are as in a `GEBF` (lemma 1, proposition 1). Its parameters are those of
    `BlockedGEBFSpec` and `SlidingFilter`.
    """

    specification = BlockedGEBFSpec
    _other_fields = GEBF._other_fields
    _sizes = staticmethod(blocked_gebf_sizes)


# Age-Partitioned Bloom Filters (Shtul, Baquero, Almeida)


class APBF(SlidingFilter):
    """Age-Partitioned Bloom Filter (section 5); its parameters are those of `APBFSpec`.

    A key is reported for all d <= W = ``l * generation``, where d is the number of insertions after
    its own. A key is forgotten for d >= ``(k + l) * generation``. The default `generation` fills a
    slice to one half: ``floor(m ln 2 / k)`` (section 5.2).
    """

    specification = APBFSpec
    _sizes = staticmethod(apbf_sizes)


class APBBF(SlidingFilter):
    """Age-Partitioned Blocked Bloom Filter (section 6), each block partitioned.

    A key is reported for all d <= W = ``l * generation``, where d is the number of insertions after
    its own. Window and slack are as in an `APBF`. With one block, each segment is a partitioned
    Bloom filter of b slices: the other design of section 6 (Figure 9). Its parameters are those of
    `APBBFSpec`. The default `generation` is ``floor(blocks * n / k)`` with ``n = ln(1/2) / ln(1 -
    b/B)``, the load of a full block (Table 3).
    """

    specification = APBBFSpec
    _sizes = staticmethod(apbbf_sizes)
