"""Exact membership in a sliding window: the reference for a filter's answers; query windows."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..golden import DecisionTable, SpecificationError
from ..golden.durations import span_ticks, time_seconds, whole_nanoseconds
from ..golden.hash.keys import sortable
from ..golden.operations import Operation
from ..golden.ring.rotation import RotationPolicy, RotationState
from ..golden.spec.base import Specification, require
from ..golden.times import Times

# Classes of queries: the key must be reported, may be reported, or is reported only by mistake.
GUARANTEED, SLACK, FRESH = 0, 1, 2
CLASSES = ("guaranteed", "slack", "fresh")  # class names, by number
_EVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Truth:
    """The exact state of each operation's key before its insertion, as arrays of shape (n,)."""

    # Insertions since the key's last one: 1 if that was the previous operation, 0 for a new key.
    distance: NDArray[np.int64]
    # Age of the last insertion of the key in generations or blocks; -1 for a new key.
    age: NDArray[np.int64]
    kind: NDArray[np.int8]  # index into `CLASSES`
    # Whether the key is among the last `window` insertions, or was inserted within the span.
    repeat: NDArray[np.bool_]
    # Ticks since the key's last insertion, -1 for a new key; None if insertions are counted.
    elapsed: Times | None = None


class Oracle:
    """Remembers the last insertion of every key, and classifies operations accordingly.

    In a ring that counts insertions, a key is guaranteed for `window_generations` shifts, and is
    forgotten after `ring_segments` shifts. In a ring with a span, a key is guaranteed for the part
    of the span that is still covered, and is forgotten when none of its segments is live any more.
    In a dictionary or timing filter, a key is guaranteed within the covered part of the window, and
    is forgotten once its block is older than the window.
    """

    def __init__(self, spec: Specification) -> None:
        self.insertions = self.now = 0
        # Typed as Any: each branch uses fields that only its own families have.
        fields: Any = spec
        self._spec, self._ring = fields, spec.kind == "ring"
        self._rotation = (
            RotationState(RotationPolicy.of(fields)) if self._ring and spec.timed else None
        )
        self._last = LastInsertions(3)
        self._window = fields.guaranteed_window
        if self._ring:
            self._window = fields.span if spec.timed else fields.window

    @property
    def distinct_keys(self) -> int:
        return len(self._last)

    @property
    def present(self) -> tuple[int, ...]:
        return (self.now,) if self._spec.timed else ()

    def check_and_insert(
        self, keys: NDArray[np.uint64], times: Times | None = None,
        covered: NDArray[np.int64] | None = None,
    ) -> Truth:  # fmt: skip
        """Classify each operation by the insertions before it, then insert its key."""
        number = self.insertions + 1 + np.arange(len(keys), dtype=np.int64)
        moments = number - 1 if times is None else times
        asked = self._rows(number, moments)
        inserted, limits = asked, self._limits(covered)
        if self._rotation is not None:
            # Generations end independently of keys.
            before = self._rotation.shifts
            codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
            passage = self._rotation.follow(codes, moments)
            inserted = asked.copy()
            inserted[:, 2] = before + np.cumsum(passage.turned)
            # The query comes before the shift.
            asked[:, 2] = inserted[:, 2] - passage.turned
            limits = AgeLimits(passage.guaranteed_span, _EVER, passage.alive - 1)
        elif self._ring:
            inserted = asked.copy()
            inserted[:, 2] = (number - 1) // self._spec.generation
        previous = self._last.exchange(sortable(keys), inserted)
        self.insertions += len(keys)
        if times is not None and len(times):
            self.now = int(times[-1])
        return self._judge(asked, previous, limits)

    def traceless(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return a mask of the keys that can be reported only as false positives, shape (n,)."""
        number = np.array([self.insertions + 1])
        moments = np.array([self.now]) if self._spec.timed else number - 1
        asked, limits = self._rows(number, moments), self._limits(None)
        if self._rotation is not None:
            asked[:, 2] = self._rotation.shifts
            span = np.array([self._rotation.guaranteed_span(self.now)])
            limits = AgeLimits(span, _EVER, self._rotation.alive(self.now) - 1)
        return self._judge(asked, self._last.find(sortable(keys)), limits).kind == FRESH

    def _rows(self, number: NDArray[np.int64], moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a row per operation: number, insertion count or time, and generation or block."""
        # In a ring, the generation is that of the previous insertion.
        each = self._spec.generation if self._ring else self._spec.block_units
        steps = (number - 2 if self._ring else moments) // each
        return np.stack([number, moments, steps], axis=1)

    def _limits(self, covered: NDArray[np.int64] | None) -> "AgeLimits":
        if self._ring:
            return AgeLimits(_EVER, self._spec.window_generations, self._spec.ring_segments - 1)
        sure = self._window if covered is None else np.minimum(self._window, covered)
        return AgeLimits(sure, _EVER, self._spec.window_blocks)

    def _judge(
        self, asked: NDArray[np.int64], previous: NDArray[np.int64], limits: "AgeLimits"
    ) -> Truth:
        known = previous[:, 0] > 0
        distance, elapsed, age = (asked - previous).T
        held = known & (age <= limits.held)
        sure = known & (elapsed <= limits.elapsed) & (age <= limits.age)
        return Truth(
            distance=np.where(known, distance, 0),
            age=np.where(known, age, -1),
            kind=np.where(sure, GUARANTEED, np.where(held, SLACK, FRESH)).astype(np.int8),
            repeat=known & (elapsed <= self._window),
            elapsed=np.where(known, elapsed, -1) if self._spec.timed else None,
        )


class AgeLimits(NamedTuple):
    elapsed: Any  # guaranteed up to this many insertions or ticks since its insertion
    age: Any  # guaranteed up to this many generations since then
    held: Any  # may be reported up to this many generations or blocks since then


class LastInsertions:
    """Stores integers about the last insertion of each `sortable` key; the first is at least 1."""

    def __init__(self, columns: int) -> None:
        self._keys: Any = None
        self._rows = np.empty((0, columns), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def exchange(self, keys: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Insert keys one after another; return the previous row of each key, or zeros."""
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        same = ordered[1:] == ordered[:-1]
        previous = np.zeros(rows.shape, np.int64)
        previous[order[1:][same]] = rows[order[:-1][same]]
        first = np.concatenate([np.ones(min(len(keys), 1), bool), ~same])
        last = np.concatenate([~same, np.ones(min(len(keys), 1), bool)])
        previous[order[first]] = self.find(ordered[first])
        keys, rows = ordered[last], rows[order[last]]
        index, new = indices(self._keys, keys)
        self._rows[index[~new]] = rows[~new]
        self._keys = np.insert(self._keys, index[new], keys[new])
        self._rows = np.insert(self._rows, index[new], rows[new], axis=0)
        return previous

    def find(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        if self._keys is None:
            self._keys = keys[:0]
        index, new = indices(self._keys, keys)
        rows = np.zeros((len(keys), self._rows.shape[1]), np.int64)
        rows[~new] = self._rows[index[~new]]
        return rows


def indices(
    known: NDArray[Any], values: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the positions of `values` in the sorted `known` values, and a mask of new values."""
    index = np.searchsorted(known, values)
    new = index == len(known)
    new[~new] = known[index[~new]] != values[~new]
    return index, new


def with_window(spec: Specification, window: int | None) -> Specification:
    """Return the specification with a different query window, in insertions or ticks."""
    if window is None:
        return spec
    name = "query_window"
    if spec.classes is not None:
        raise SpecificationError(f"{name}: queries of this filter have a class, not a window")
    limit = spec.guaranteed_window
    rule = f"must be between 1 and {limit}, the window of the filter"
    require(1 <= window <= limit, name, rule, window)
    if spec.query_field:
        field: dict[str, Any] = {"span" if spec.timed else "window": window}
        return replace(spec, **field)
    raise SpecificationError(f"{name}: family {spec.family} has a fixed window")


def query_window(spec: Specification, text: str, tick: int | None) -> int:
    """Parse a query window such as '500' or, for a filter with ticks, '6h'."""
    if tick is not None:
        name = "query_window"
        ticks = span_ticks(whole_nanoseconds(name, time_seconds(text, name)), tick)
        each = spec.block_units
        return -(-ticks // each) * each
    digits = text.isascii() and text.isdigit() and len(text) < 19
    require(digits, "query_window", "must be a number of insertions", text)
    return int(text)


def check_table(spec: Any, table: DecisionTable | None, query_class: int) -> None:
    classes = spec.classes
    if classes is None:
        if table is not None:
            raise SpecificationError("table: the filter has no classes")
        return
    if table is None:
        raise SpecificationError(f"the filter has {classes} classes and needs a table")
    # Only the table knows the number of insertions per tick.
    block = None if spec.timed else spec.block_units
    table.check_fits(hashes=spec.hashes, bits=spec.phase_bits, shape=spec.table_shape, block=block)
    require(0 <= query_class < classes, "query_class", f"must be below {classes}", query_class)
