"""Convert spans and the times of a stream to ticks."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..golden import DecisionTable, SpecificationError
from ..golden.durations import (
    span_ticks,
    time_seconds,
    whole_nanoseconds,
)
from ..golden.spec.base import Specification, require
from ..golden.times import TIME_LIMIT, Times
from ..stream_files import TraceError


def with_window(spec: Specification, window: int | None) -> Specification:
    """Return the specification with a different query window, in insertions or ticks."""
    if window is None:
        return spec
    name = "query_window"
    if spec.classes is not None:
        raise SpecificationError(f"{name}: queries of this filter have a class, not a window")
    limit = spec.guaranteed_window
    require(
        1 <= window <= limit,
        name,
        f"must be between 1 and {limit}, the window of the filter",
        window,
    )
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


class TickCounter:
    """Converts the times of a stream to ticks since the first time; ticks never decrease."""

    def __init__(self, tick: int) -> None:
        # Operations with a time before the latest, and without a time; maximum lateness in ns.
        self.late = self.missing = self.latest = 0
        self.tick = tick  # nanoseconds per tick, at least 1
        self._first: int | None = None
        self._reached = 0

    @property
    def begun(self) -> bool:
        return self._first is not None

    def ticks(self, times: Iterable[int | None]) -> Times:
        given = [*times]
        known = np.array([time is not None for time in given], np.bool_)
        # Python integers, because times may be arbitrarily large.
        values = np.array([0 if time is None else time for time in given], object)
        self.missing += int(len(known) - known.sum())
        if self._first is None and known.any():
            self._first = self._reached = int(values[known.argmax()])
        reached = np.array([self._reached], object)
        present = np.where(known, values, reached)
        course = np.maximum.accumulate(np.concatenate([reached, present]))
        late = (course[1:] - present)[known & (course[1:] > present)]
        self.late += len(late)
        self.latest = max(self.latest, int(late.max(initial=0)))
        self._reached = int(course[-1])
        ticks = (course[1:] - (self._first or 0)) // self.tick
        if len(ticks) and ticks[-1] >= TIME_LIMIT:
            raise TraceError(f"time: must be below 2**62 ticks, not {ticks[-1]}")
        return ticks.astype(np.int64)
