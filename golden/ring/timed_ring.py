"""Rings of all families whose window is a span of time: a ring of segments with a turn policy."""

import inspect
from dataclasses import replace
from importlib import import_module
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from .. import compilation
from ..convenience import State
from ..filter import Answers, Words, require_count
from ..operations import Operation
from ..results import Ages
from ..saved import MODELS
from ..spec import FilterSpec
from ..spec.base import require
from ..times import NEVER, TIME_LIMIT, Now, Times
from .joinable import Joinable
from .rotation import BY_CLOCK, PoolStatus, RotationPolicy, RotationState
from .slices import check_whole
from .sliding import SlidingFilter

_FAMILIES = {"apbf": "apbf", "apbbf": "apbf", "gebf": "gebf", "blocked-gebf": "gebf"}
"""Modules of the families, which import this one."""


class TimeLimitedRing(Joinable):
    """Ring filter of any family whose window is a span of time.

    With `when_full` "overfill" every key is reported for `span`, at any rate of insertions.
    With "shorten", a key is reported for `guaranteed_span`. No key is reported later than `span`
    after the last insertion. Slices are retired and queried by their times, as in sections 6.1 and
    6.4 of the paper of the time-limited filter.

    Memory, hash functions and answers equal the family's filter that counts insertions, with two
    differences. `RotationState` decides when the ring turns. A key is reported only if the youngest
    run of slices that it matches still counts. Slices never get younger from one position to the
    next, so no other run would count.

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
        self._last = NEVER
        self._wrap()
        self._digest_under(secret)

    def _wrap(self) -> None:
        """Let the extension know the ring, which is a new one when its memory is."""
        if self._ring._engine is not None:
            self._engine = compilation.core().TimedRing(self._ring._engine)

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
        alive = self._turns.alive(np.array([self._moment(now)]))
        return self._ring._estimated_rate(int(alive[0]))

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

    def _lend(self) -> None:
        self._ring._arm()
        self._engine.arm(*self._turns.vector())

    def _regain(self) -> list[int]:
        vector, counts = self._turns.vector(), np.zeros(4, np.int64)
        self._engine.disarm(*vector, counts)
        self._turns.take(*vector)
        self._last = self._turns.latest
        self._ring._settle()
        *events, late = counts.tolist()
        self.late += late
        return events

    def shift(self, now: Now = None) -> None:
        """Start a new generation at the time `now`, as the operation SHIFT does.

        If the oldest slice still counts, keys are lost and the window is shortened. `now` becomes
        the `latest` time. Errors: as `status`.
        """
        times = np.maximum(self._given(now, 1, inserts=True), self._last)
        self._performed(Operation.SHIFT, np.zeros((1, -(-self.key_bits // 64)), np.uint64), times)
        self._note_events(1)

    def _empty(self) -> None:
        # Times may begin at 0 again.
        self._ring._empty()
        self._turns.clear()
        self._last = NEVER

    @property
    def generation(self) -> int:
        """Insertions that fill a generation. A new value takes effect at the next shift or clear.

        Raises
        ------
        TypeError
            If the new value is not an integer.
        ValueError
            If the new value is less than 1.
        """
        return self._turns.generation

    @generation.setter
    def generation(self, value: int) -> None:
        require_count("generation", value)
        self._turns.generation = int(value)

    def _query(self, keys: Words, times: Times) -> Answers:
        return self._age(keys, times) >= 0

    def _age(self, keys: Words, times: Times) -> Ages:
        return self._within(self._ring._age(keys), self._turns.alive(times))

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
        return [None if time == NEVER else time for time in self._turns.settled]

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
        own = {"counters": [self.operations, self.hits], "turns": self._turns.numbers()}
        return {"ring": numbers, **own}, arrays

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.operations, self.hits = numbers["counters"]
        for name in ("operations", "hits"):
            check_whole(name, getattr(self, name), 0)
        self._turns.restore(numbers["turns"])
        self._inserted_keys = self.insertions
        self._ring._restore(numbers["ring"], arrays)
        self._wrap()
        self._last = self._turns.latest

    def _identity(self) -> Any:
        turns = self._turns.numbers()
        del turns["counters"]
        return self._ring._identity(), turns
