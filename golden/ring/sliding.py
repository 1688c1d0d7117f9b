"""Base of the count-based filters: a ring of segments that turns.

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
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import analysis, compilation
from ..convenience import State
from ..errors import RekeyError, SpecificationError
from ..filter import Answers, CountedFilter, Words, require_count
from ..hash.siphash import check_secret
from ..operations import Operation
from ..results import Ages, Results
from ..spec import FilterSpec, GuardedEpochSpec
from ..spec.base import require
from ..spec.span import TIME_FIELDS
from .compiled_segments import CompiledSegments, PackedSegments, pitch
from .layout import Layout
from .position import MOST, NUMBERS, RingPosition
from .segments import Segments
from .slices import unpacked


class SlidingFilter(CountedFilter):
    """Base of the count-based filters; built through a subclass or `from_spec`.

    Parameters
    ----------
    spec : FilterSpec, optional
        Specification of the filter. Without it, the other keyword arguments give its fields: the
        fields of the family, `seed`, `key_bits`, `hash` and `rekey`.
    hash : str
        "h3", or "siphash" for a hash with a secret.
    rekey : bool
        Whether a new secret takes effect with the next segment.
    partitioned : bool
        Whether each hash function has its own part of a segment. If False, all hash functions share
        the bits of the segment or block.
    secret : int
        Initial secret of all segments, for the hash "siphash": at most 128 bits, random, and
        unknown to any attacker.

    Attributes
    ----------
    partitioned : bool

    Raises
    ------
    TypeError
        If `partitioned` is not a bool, or the secret not an integer.
    ValueError
        If the secret is negative, or has more than 128 bits.
    SpecificationError
        If another parameter has the wrong type or breaks a rule, or if a secret is given and the
        hash takes none.
    """

    specification: ClassVar[type[FilterSpec]] = FilterSpec  # type: ignore[type-abstract]
    age_unit = "generations"
    supported = (*CountedFilter.supported, Operation.SHIFT)
    _fixed = ("seed", "key_bits", "digest", "window", "partitioned")
    _layout_class: type[Layout] = Layout
    _NUMBERS = NUMBERS
    _follows = False  # whether another process writes the ring; see `live`
    _other_fields: ClassVar[tuple[str, ...]] = ("window", "lanes", "clear")
    """Fields of the specification that are not arguments of the constructor."""

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
        own: dict[str, Any] = {"secret": 0}
        if issubclass(cls.specification, GuardedEpochSpec):
            own["partitioned"] = True
        return taken + [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in own.items()
        ]

    @classmethod
    def from_spec(cls, spec: FilterSpec, *, secret: int = 0) -> Self:  # type: ignore[override]
        """Build the filter that a specification of the class's family describes.

        Parameters, errors: as for `SlidingFilter`; SpecificationError if the family differs.
        """
        return cls(spec, secret=secret)

    @property
    def spec(self) -> FilterSpec:
        """Specification of the filter."""
        return self._spec

    @property
    def fpr(self) -> float:
        """Expected false-positive rate, averaged over a generation of distinct keys."""
        return self.spec.mean_false_positive_rate

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
        """Insertions in a generation. A new value takes effect at the next shift or clear.

        Hardware also accepts 0. The value 0 acts as 1, with one more shift before the first
        insertion after each SHIFT or CLEAR.

        Raises
        ------
        TypeError
            If the new value is not an integer.
        ValueError
            If the new value is less than 1, or more than 2**62.
        """
        return self._ring.generation

    @generation.setter
    def generation(self, value: int) -> None:
        require_count("generation", value, most=MOST)
        if self._follows:
            raise ValueError("filter: must be attached with write=True to change it")
        self._ring.generation = int(value)

    def close(self) -> None:
        """Release the memory, and a file that `attach` opened; later calls raise ValueError.

        ``with attach(path) as ring:`` closes the ring at the end.
        """
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

        ``part_bits`` counts blocks first, then the cells of a block. The middle axis
        has length 1 if the filter is not partitioned.
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

        Parameters, errors: as `query`. The result is an ndarray of bool, shape (ring_segments, n).
        """
        words = self._words(keys)
        bits, ring = self._segments.bits, self._position
        found = np.empty((self.spec.ring_segments, len(words)), np.bool_)
        for index, segment in enumerate(ring.ring()):
            states = self._hash.state(words, ring.secret_of(index))
            found[index] = bits[segment][self._layout.positions(states, segment)].all(axis=0)
        return found

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
        for place, segment in enumerate(self._position.ring()[:alive]):
            shares = bits[segment].reshape(shape).mean(axis=2)
            matches = shares.prod(axis=0) if self.partitioned else shares[0] ** self.spec.parts
            fills[place] = float(matches.mean())
        return analysis.apbf_false_positive_rate(
            self.spec.run, self.spec.window_generations, fills=fills
        )

    # Secrets

    def rekey(self, secret: int) -> None:
        """Load a new secret: at most 128 bits, random, and unknown to any attacker.

        With ``spec.rekey``, the segment that enters the ring at the next shift gets the secret.
        Older segments keep their secret, and no key is forgotten. Without ``spec.rekey``, the
        secret takes effect in all segments at the next clear; a later secret replaces it. In either
        case a clear gives all segments the newest secret.

        Raises
        ------
        RekeyError
            If `rekey_ready` is False. Nothing changes then.
        TypeError, ValueError, SpecificationError
            If the `secret` is wrong; as for `SlidingFilter`.
        """
        secret = self._checked_secret(secret)
        if not self.rekey_ready:
            # A waiting secret enters at one shift; then all segments except one are older.
            ring = self._ring
            left = ring.older if ring.waiting is None else self.spec.ring_segments
            raise RekeyError(
                f"rekey: must come when all segments of the ring have one secret, "
                f"not {left} shift{'s' if left > 1 else ''} before"
            )
        self._ring.waiting = secret

    @property
    def rekey_ready(self) -> bool:
        """Whether `rekey` takes a secret now.

        With ``spec.rekey``, True when no secret waits for its shift and all segments of the ring
        have the same secret: at most two secrets are in use, and the spare does not count. Without
        ``spec.rekey``, always True.
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
        """Replace the segments of the constructor."""
        self._segments, self._engine, self._follows = segments, segments.engine, follows

    @property
    def _no_key(self) -> Words:
        return np.zeros((1, -(-self.spec.key_bits // 64)), np.uint64)


class _Closed:
    """Segments of a filter that has been closed."""

    engine = None

    def __getattr__(self, _: str) -> Any:
        raise ValueError("filter: is closed")


def _segments(layout: Layout, numbers: NDArray[np.int64]) -> Segments | CompiledSegments:
    """Build the memory: compiled if wanted, and if the loops support the layout."""
    few = layout.spec.segments <= compilation.MOST_SEGMENTS
    few &= layout.spec.parts <= compilation.MOST_PARTS
    if type(layout) is not Layout or not few or not compilation.wanted():
        return Segments(layout)
    large = layout.spec.segment_blocks * pitch(layout) > compilation.MOST_BITS
    return Segments(layout) if large else CompiledSegments(layout, numbers)
