"""Windows in real time: converts spans and the times of a stream to ticks."""

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
from .trace_formats import TraceError


def with_window(spec: Specification, window: int | None) -> Specification:
    """Return the filter of a `spec` with another window of queries.

    Parameters
    ----------
    spec : Specification
    window : int or None
        Window in insertions or ticks; None for the filter's window.

    Raises
    ------
    SpecificationError
        If the filter accepts no window, or not this window.
    """
    if window is None:
        return spec
    name = "query_window"
    rule = "must not be given for a filter whose queries have classes"
    require(spec.classes is None, name, rule, window)
    most = spec.guaranteed_window
    require(1 <= window <= most, name, f"must be 1 to {most}, the window of the filter", window)
    if spec.query_field:
        field: dict[str, Any] = {"span" if spec.timed else "window": window}
        return replace(spec, **field)
    rule = f"must not be given for family {spec.family}, which answers for one window"
    raise SpecificationError(f"{name}: {rule}, not {window!r}")


def query_window(spec: Specification, text: str, tick: int | None) -> int:
    """Return the window of a text such as "500" or, for a filter with a span, "6h".

    Parameters
    ----------
    spec : Specification
    text : str
    tick : int or None
        Nanoseconds of a tick, for a filter with a span.

    Returns
    -------
    int
        Window in insertions, or in the fewest ticks that cover the time.

    Raises
    ------
    SpecificationError
        If the text is not a window.
    """
    if tick is not None:
        name = "query_window"
        ticks = span_ticks(whole_nanoseconds(name, time_seconds(text, name)), tick)
        each = spec.block_units
        return -(-ticks // each) * each
    digits = text.isascii() and text.isdigit() and len(text) < 19
    require(digits, "query_window", "must be a number of insertions", text)
    return int(text)


def check_table(spec: Any, table: DecisionTable | None, query_class: int) -> None:
    """Refuse a `table` or a `query_class` that does not fit a `spec`.

    Raises
    ------
    SpecificationError
        If a table is missing or not needed, if it belongs to another filter, or if the class does
        not exist.
    """
    classes = spec.classes
    if classes is None:
        if table is not None:
            raise SpecificationError("table: must not be given for a filter without classes")
        return
    if table is None:
        raise SpecificationError(f"table: must be given for a filter whose classes are {classes}")
    # What insertions a tick has, the table alone knows.
    block = None if spec.timed else spec.block_units
    table.check_fits(hashes=spec.hashes, bits=spec.phase_bits, shape=spec.table_shape, block=block)
    require(0 <= query_class < classes, "query_class", f"must be below {classes}", query_class)


class TickCounter:
    """Ticks since the first time of a stream; they never decrease.

    An operation that is late, or has no time, counts at the latest time so far, as in hardware.

    Parameters
    ----------
    tick : int
        In nanoseconds, at least 1.

    Attributes
    ----------
    tick : int
    late, missing : int
        Operations before the latest time, and without one.
    latest : int
        Greatest lateness of an operation, in nanoseconds.
    """

    def __init__(self, tick: int) -> None:
        self.late = self.missing = self.latest = 0
        self.tick = tick
        self._first: int | None = None
        self._reached = 0

    @property
    def begun(self) -> bool:
        """Whether an operation had a time so far."""
        return self._first is not None

    def ticks(self, times: Iterable[int | None]) -> Times:
        """Return the ticks of operations at `times`, in nanoseconds, shape (n,).

        Raises
        ------
        TraceError
            If there are too many.
        """
        given = [*times]
        known = np.array([time is not None for time in given], np.bool_)
        # Python integers, because a time may have any size.
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
            raise TraceError(f"time: must be fewer than 2**62 ticks long, not {ticks[-1]}")
        return ticks.astype(np.int64)
