"""Charts with no more points and digits than can be seen."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.replay.drawing import Chart, Series

TOLERANCE = 1 / 500  # Distance from a line, in widths of the chart, that cannot be seen.
_HEIGHT = 0.6  # Height of a chart, in its widths.

# Digits of numbers on a logarithmic axis, and of the ends of intervals; rounding moves points of
# other axes less.
_DIGITS, _END_DIGITS = 4, 3

Floats = NDArray[np.float64]  # Coordinates of points.


def thinned(chart: Chart) -> Chart:
    """Return a chart whose lines lie within `TOLERANCE` of the original ones.

    All marks are kept, and the ends, the highest and the lowest point of each line. A chart that
    was thinned before is returned as it is.
    """
    x_round = _rounding(chart.x_log, [series.x for series in chart.series])
    y_round = _rounding(chart.y_log, [series.y for series in chart.series])
    ends = partial(y_round, digits=_END_DIGITS)
    rounded = [
        replace(
            series,
            x=x_round(series.x),
            y=y_round(series.y),
            low=series.low and ends(series.low),
            high=series.high and ends(series.high),
        )
        for series in chart.series
    ]
    xs = _scaled(chart.x_log, [series.x for series in rounded])
    ys = _scaled(chart.y_log, [series.y for series in rounded])
    lines = (
        series if series.marks or len(x) < 3 else _chosen(series, _corners(x, _HEIGHT * y))
        for series, x, y in zip(rounded, xs, ys, strict=True)
    )
    return replace(chart, series=list(lines))


def _rounding(log: bool, values: Sequence[Sequence[float]]) -> Callable[..., list[float]]:
    """Return a function that rounds to the decimals of an axis, or digits of a logarithmic one."""
    every = [value for part in values for value in part if math.isfinite(value)]
    span = max(every, default=0.0) - min(every, default=0.0)

    def rounded(own: Sequence[float], digits: int = _DIGITS) -> list[float]:
        if log or not span:
            return [float(f"{value:.{digits}g}") for value in own]
        return [round(float(value), digits - round(math.log10(span))) for value in own]

    return rounded


def _scaled(log: bool, values: Sequence[Sequence[float]]) -> list[Floats]:
    """Map the range of all values onto 0 to 1."""
    arrays = [np.asarray(part, np.float64) for part in values]
    if log:
        arrays = [np.log(np.maximum(part, np.finfo(float).tiny)) for part in arrays]
    every = np.concatenate(arrays) if arrays else np.zeros(1)
    low, span = every.min(initial=np.inf), np.ptp(every) if every.size else 0.0
    return [(part - low) / (span or 1.0) for part in arrays]


def _corners(x: Floats, y: Floats) -> list[int]:
    """Return the points that a line needs, as Ramer, Douglas and Peucker choose them."""
    kept = {0, len(x) - 1, int(np.argmin(y)), int(np.argmax(y))}
    ends = sorted(kept)
    waiting = list(pairwise(ends))
    while waiting:
        first, last = waiting.pop()
        if last - first < 2:
            continue
        along = np.array([x[last] - x[first], y[last] - y[first]])
        length = math.hypot(*along)
        dx, dy = x[first + 1 : last] - x[first], y[first + 1 : last] - y[first]
        away = np.abs(along[0] * dy - along[1] * dx) / length if length else np.hypot(dx, dy)
        farthest = int(np.argmax(away))
        if away[farthest] > TOLERANCE:
            middle = first + 1 + farthest
            kept.add(middle)
            waiting += [(first, middle), (middle, last)]
    return sorted(kept)


def _chosen(series: Series, numbers: Sequence[int]) -> Series:
    columns = ((name, getattr(series, name)) for name in ("x", "y", "low", "high"))
    chosen: dict[str, Any] = {name: [own[at] for at in numbers] for name, own in columns if own}
    return replace(series, **chosen)
