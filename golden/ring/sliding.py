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
from collections.abc import Callable
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import analysis, compilation
from ..filter import Answers, CountedFilter, Words, require_count
from ..hash.siphash import check_secret
from ..operations import Operation
from ..results import Ages, Results
from ..spec import FilterSpec, GuardedEpochSpec
from ..spec.base import require
from ..spec.span import TIME_FIELDS
from .compiled_segments import CompiledSegments, pitch
from .keyed_ring import KeyedRing
from .layout import Layout
from .position import RingPosition
from .segments import Segments


class SlidingFilter(KeyedRing):
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
    _follow: Callable[[RingPosition], None] | None = None
    """Takes over the position that another process has published; see `live`."""
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
        self._ring = RingPosition.first(self._spec, self._checked_secret(secret) if keyed else 0)
        self._digest_under(secret)

    def _prepare(self) -> None:
        self.seed, self.key_bits = self._spec.seed, self._spec.key_bits
        self.window: int = self._spec.window
        self.digest = self._spec.digest
        self._layout = self._layout_class.of(self._spec, self.partitioned)
        self._hash = self._layout.hash
        self._segments = _segments(self._layout)
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

    def _settle(self) -> None:
        super()._settle()
        if self._follow is not None:
            self._follow(self._ring)

    def _lend(self) -> None:
        compiled = cast(CompiledSegments, self._segments)
        compiled.arm(self._ring)

    def _regain(self) -> list[int]:
        compiled = cast(CompiledSegments, self._segments)
        return compiled.disarm(self._ring)

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
            If the new value is less than 1.
        """
        return self._ring.generation

    @generation.setter
    def generation(self, value: int) -> None:
        require_count("generation", value)
        if self._follow is not None:
            raise ValueError("filter: must be attached with write=True to change it")
        self._ring.generation = int(value)

    def close(self) -> None:
        """Release the memory, and a file that `attach` opened; later calls raise ValueError.

        ``with attach(path) as ring:`` closes the ring at the end.
        """
        self._adopt(cast(CompiledSegments, _Closed()), None)

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
        memory: NDArray[np.bool_] = self.memory[self._ring.ring()[index]]
        return memory

    def matches(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each segment of the ring, youngest first, has all bits of each key.

        Parameters, errors: as `query`. The result is an ndarray of bool, shape (ring_segments, n).
        """
        words = self._words(keys)
        bits, ring = self._segments.bits, self._ring
        found = np.empty((self.spec.ring_segments, len(words)), np.bool_)
        for index, segment in enumerate(ring.ring()):
            states = self._hash.state(words, ring.secret_of(index))
            found[index] = bits[segment][self._layout.positions(states, segment)].all(axis=0)
        return found

    def fill_ratios(self) -> NDArray[np.float64]:
        """Share of set bits in each segment of the ring, youngest first, shape (ring_segments,)."""
        ratios: NDArray[np.float64] = self._segments.counts()[self._ring.ring()] / self._layout.bits
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
        for place, segment in enumerate(self._ring.ring()[:alive]):
            shares = bits[segment].reshape(shape).mean(axis=2)
            matches = shares.prod(axis=0) if self.partitioned else shares[0] ** self.spec.parts
            fills[place] = float(matches.mean())
        return analysis.apbf_false_positive_rate(
            self.spec.run, self.spec.window_generations, fills=fills
        )

    # Inside

    def _adopt(
        self, segments: CompiledSegments, follow: Callable[[RingPosition], None] | None
    ) -> None:
        """Replace the segments of the constructor."""
        self._segments, self._engine, self._follow = segments, segments.engine, follow

    @property
    def _no_key(self) -> Words:
        return np.zeros((1, -(-self.spec.key_bits // 64)), np.uint64)


class _Closed:
    """Segments of a filter that has been closed."""

    engine = None

    def __getattr__(self, _: str) -> Any:
        raise ValueError("filter: is closed")


def _segments(layout: Layout) -> Segments | CompiledSegments:
    """Build the memory: compiled if wanted, and if the loops support the layout."""
    few = layout.spec.segments <= compilation.MOST_SEGMENTS
    few &= layout.spec.parts <= compilation.MOST_PARTS
    if type(layout) is not Layout or not few or not compilation.wanted():
        return Segments(layout)
    large = layout.spec.segment_blocks * pitch(layout) > compilation.MOST_BITS
    return Segments(layout) if large else CompiledSegments(layout)
