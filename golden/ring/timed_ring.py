"""Rings of all families whose window is a span of time: a ring of segments with a turn policy."""

import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any, Self, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from .. import compilation
from ..convenience import Options, State
from ..durations import NANOSECONDS, span_nanoseconds
from ..filter import Answers, Words, require_count
from ..operations import Operation
from ..results import Ages, Results
from ..saved import MODELS, Saved
from ..sizing import check_rate, expected_keys
from ..spec import FilterSpec
from ..spec.base import require
from ..timed_filter import MaxAhead, TimedFilter
from ..times import NEVER, TIME_LIMIT, Now, SteadyClock, Times
from .rotation import BY_CLOCK, PoolStatus, RotationPolicy, RotationState
from .segments import Segments
from .slices import check_whole
from .sliding import SlidingFilter

_FAMILIES = {"apbf": "apbf", "apbbf": "apbf", "gebf": "gebf", "blocked-gebf": "gebf"}
"""Modules of the families, which import this one."""


class TimeLimitedRing(TimedFilter):
    """Ring filter of any family whose window is a span of time.

    With `when_full` "overfill" every key is reported for `span`, at any rate of insertions.
    With "shorten", a key is reported for `guaranteed_span`. No key is reported later than `span`
    after the last insertion. Slices are retired and queried by their times, as in sections 6.1 and
    6.4 of the paper of the time-limited filter.

    Memory, hash functions and answers equal the family's filter that counts insertions, with two
    differences. `RotationState` decides when the ring turns. A key is reported only if the youngest
    run of slices that it matches still counts. Slices never get younger from one position to the
    next, so no other run would count.

    A joinable ring turns at multiples of the specification's `generation_span`, counted from time
    0. Before an insertion it performs all turns that are due since the previous insertion. So a
    segment covers the same period in all rings.

    Parameters
    ----------
    spec : FilterSpec
        Specification with a `span`. Its `generation` insertions fill a generation.
    secret : int
        As for `SlidingFilter`.
    joinable : bool
        Whether only the clock turns the ring, so that `union` can join rings.

    Raises
    ------
    SpecificationError
        If the specification has no `span`, or shortens a joinable ring; otherwise as for
        `SlidingFilter`.
    """

    # Two unions of two rings in two threads would wait for each other.
    _unlocked = (*TimedFilter._unlocked, "union")
    supported = SlidingFilter.supported
    specification = FilterSpec
    _fixed = ("seed", "key_bits", "digest", "span")

    def __init__(self, spec: FilterSpec, *, secret: int = 0, joinable: bool = False) -> None:
        require(spec.timed, "span", f"must be given for {type(self).__name__}", spec.span)
        self.seed, self.key_bits, self.span = spec.seed, spec.key_bits, spec.span
        self._spec, self.digest = spec, spec.digest
        import_module(f".{_FAMILIES[spec.family]}", __package__)
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
        """Build the filter that `spec` describes, with its `secret`; as the constructor does."""
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

        Raises
        ------
        TypeError, ValueError
            If `now` is not a time.
        """
        return self._turns.status(self._moment(now))

    def guaranteed_span(self, now: Now = None) -> int:
        """Greatest age at which every key is reported at the time `now`.

        It is `span` unless the window is shortened. It is -1 if even a key that was inserted at
        `now` may be missed. Default and errors: as `status`.
        """
        return self._turns.guaranteed_span(self._moment(now))

    def estimated_false_positive_rate(self, now: Now = None) -> float:
        """Probability that a fresh key is reported at the time `now`, computed from the set bits.

        As in `SlidingFilter`; slices past the span match nothing. Default and errors: as `status`.
        """
        return self._ring._estimated_rate(self._turns.alive(self._moment(now)))

    @property
    def fill(self) -> float:
        """Share of set bits in all slices, including the spare."""
        return self._ring.fill

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the slices occupy in this process."""
        return self._ring.nbytes

    def fill_ratios(self) -> NDArray[np.float64]:
        """Share of set bits in each slice of the ring, youngest first, shape (slices,).

        Slices past the span are included.
        """
        return self._ring.fill_ratios()

    # Operations

    def _perform(self, codes: NDArray[np.uint8], keys: Words, times: Any, *_: Any) -> Results:
        if self._joinable and (codes == Operation.SHIFT).any():
            raise ValueError("operations: must not be SHIFT for a joinable ring, which turns alone")
        status, span = np.empty(len(codes), np.uint8), np.empty(len(codes), np.int64)
        age = self._ages(codes, keys, times, status, span)
        return Results.of(age >= 0, age, status=status, time=times, covered=span + 1)

    def _one_operation(self, operation: Operation, keys: Words, *operands: Any) -> Answers:
        return self._age(keys, *operands, operation=operation) >= 0

    def _age(self, keys: Words, times: Times, *, operation: Operation = Operation.QUERY) -> Ages:
        return self._ages(np.full(len(keys), operation, np.uint8), keys, times)

    def _ages(self, codes: NDArray[np.uint8], keys: Words, times: Times, *told: Any) -> Ages:
        """Perform operations; return ages, and fill arrays of statuses and guaranteed spans.

        This holds the rules of sections 6.1 and 6.4 for all families, one operation after another.
        """
        ages = np.full(len(codes), -1, np.int64)
        if self._engine is not None:
            operands = (np.ascontiguousarray(each) for each in (codes, keys, times))
            self._engine.perform(*operands, ages, *told)
            return ages
        turns, ring = self._turns, self._ring
        for part, batch in cast(Segments, ring._segments).batches(keys, ring._ring):
            steps = zip(codes[part].tolist(), times[part].tolist(), strict=True)
            for at, (code, now) in enumerate(steps):
                inserts = code in (Operation.INSERT, Operation.CHECK_AND_INSERT)
                for _ in range(turns.due_by_clock(now) if inserts else 0):
                    turns.shift(now)
                    batch.turn()
                if told:
                    status, span = told
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

        If the oldest slice still counts, keys are lost and the window is shortened. `now` becomes
        the `latest` time. Errors: as `status`.
        """
        times = np.maximum(self._given(now, 1, inserts=True), self._last)
        self._performed(Operation.SHIFT, self._ring._no_key, times)
        self._note_events(1)

    def _empty(self) -> None:
        # Times may begin at 0 again.
        self._ring._empty()
        self._turns.clear()

    def _turn_by_clock(self, now: int) -> None:
        """Perform the turns that an insertion at the time `now` would perform."""
        for _ in range(self._turns.due_by_clock(max(now, 0))):
            self._turns.shift(now)
            self._ring._performed(Operation.SHIFT, self._ring._no_key)

    @property
    def joinable(self) -> bool:
        """Whether the clock alone turns the ring, and `union` can join it with others."""
        return self._joinable

    def union(self, *others: Self) -> Self:
        """Return a new ring with the keys of this ring and of `others`.

        The result equals, bit for bit, a ring that performed all insertions in order of time; its
        counters are the sums. So the union reports every key that any of the rings reports.

        Let n be the insertions of all rings in a generation, m the bits of a part and k the parts
        of a segment. Such a segment matches a fresh key with probability (1 - (1 - 1/m)^n)^k. The
        false-positive rate of a GEBF is 1 minus the product of the miss probabilities of its
        segments. So the `rate` of `for_span` must cover all rings together. `status` only reports
        whether a ring was overfull by itself, or is overfull now. The
        `estimated_false_positive_rate` counts the bits.

        Parameters
        ----------
        *others : TimeLimitedRing
            Joinable rings with the same specification and secrets, and times from the same clock.

        Raises
        ------
        TypeError, ValueError
            If a ring is not joinable, or its specification or secrets differ.
        """
        for one in (self, *others):
            if not isinstance(one, TimeLimitedRing) or not one._joinable:
                raise TypeError(
                    "union: must have rings of for_span(joinable=True), which turn by the clock, "
                    f"not {one!r}"
                )
            if one._spec != self._spec:
                raise ValueError(f"union: must have one specification, not also {one._spec}")
        rings = [deepcopy(one) for one in (self, *others)]
        secrets = [(one._ring._state()[0].get("secrets"), one._digest_secret) for one in rings]
        if any(each != secrets[0] for each in secrets):
            raise ValueError("union: must have rings with the same secrets, not others")
        latest = max(one._last for one in rings)
        for one in rings:
            one._turn_by_clock(latest)
        joined = rings[0]
        joined._ring._ring.filled = sum(one._ring._ring.filled for one in rings)
        bits = [one._ring._segments.bits for one in rings]
        joined._ring._segments.bits = np.bitwise_or.reduce(bits)
        joined._turns.join([one._turns for one in rings[1:]])
        for name in ("operations", "_inserted_keys", "hits", "late"):
            setattr(joined, name, sum(getattr(one, name) for one in rings))
        joined._event_times = any(one._event_times for one in rings)
        joined.clock = self.clock
        return joined

    @property
    def generation(self) -> int:
        """Insertions that fill a generation. A new value takes effect at the next shift or clear.

        Raises
        ------
        TypeError
            If the new value is not an integer.
        ValueError
            If the new value is less than 1 or more than 2**62.
        """
        return self._turns.generation

    @generation.setter
    def generation(self, value: int) -> None:
        require_count("generation", value, most=TIME_LIMIT)
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

    @property
    def rekey_ready(self) -> bool:
        """Whether `rekey` takes a secret now, as in `SlidingFilter`."""
        return self._ring.rekey_ready

    @property
    def secrets(self) -> list[int]:
        """Secrets of the ring's segments, youngest to oldest; zeros if the hash takes none."""
        return self._ring.secrets

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of all physical segments and the empty spare, as `SlidingFilter.memory`."""
        return self._ring.memory

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
    def _private(self) -> bool:
        return self._ring._private

    @property
    def insertions(self) -> int:
        """Insertions since construction."""
        return self._turns.insertions

    @property
    def shifts(self) -> int:
        """Shifts since construction, including SHIFT operations."""
        return self._turns.shifts

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

    @property
    def ring_position(self) -> int:
        """Physical index of the youngest slice."""
        return self._ring.ring_position

    def _state(self) -> State:
        numbers, arrays = self._ring._state()
        own = {"counters": [self.operations, self.hits], "turns": self._turns.saved()}
        return {"ring": numbers, **own}, arrays

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


class Spanned(SlidingFilter):
    """Ring of a family that also has a form with a span of time."""

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
    ) -> TimeLimitedRing:
        """Build a ring of this family with a clock, for a span of time and a rate.

        Parameters, errors: as `TimedFilter.for_span`, and two more. The `fpr` holds while keys
        arrive at most at the `rate`. Times are nanoseconds.

        Parameters
        ----------
        when_full : str
            Behaviour if keys arrive faster. With "overfill", `fpr` no longer holds, and every key
            is reported for the span. With "shorten", some keys are reported for a shorter time.
        joinable : bool
            Whether `TimeLimitedRing.union` can join the ring with others. The clock alone turns
            such rings; keys that arrive in bursts then raise the false-positive rate.
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

    @classmethod
    def _loads(cls, kind: type[Saved], parameters: dict[str, Any]) -> bool:
        """Whether `load` accepts a state: also that of a ring that `for_span` returned."""
        if kind is not TimeLimitedRing:
            return super()._loads(kind, parameters)
        return cls._specified(parameters).family == cls.specification.family
