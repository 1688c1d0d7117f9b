"""Drawings of charts."""

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..golden.files import replace_file
from .plots import COLOURS, blank_figure, style
from .svg import small

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Estimate = tuple[float, float, float]
"""A value, and the ends of its 95 % confidence interval."""


@dataclass(frozen=True)
class Series:
    """One line of a chart, or its unjoined `marks`; `low` and `high` are the intervals of `y`."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    marks: bool = False

    @classmethod
    def estimated(
        cls, label: str, x: Sequence[float], values: Iterable[Estimate], *, marks: bool = False
    ) -> Self:
        """Return the series of the estimates `values` at `x`, with error bars."""
        mean, low, high = (list(column) for column in zip(*values, strict=True))
        return cls(label, x, mean, low, high, marks)


@dataclass(frozen=True)
class Chart:
    """A drawing of a paper's figure or table.

    `name` is the name of the file, such as "apbf-figure-6"; `x` and `y` are the titles of the axes,
    units included; `x_log` and `y_log` make an axis logarithmic.
    """

    name: str
    title: str
    x: str
    y: str
    series: list[Series]
    x_log: bool = False
    y_log: bool = False


PALETTE = (
    *(COLOURS[name] for name in ("blue", "orange", "green")),
    "#a2447e",
    "#8a6d00",
    "#5d6b7c",
)
"""Colours of distinct series, in order; further series repeat them."""

_MARKERS = "osD^vP"
_METADATA = {
    "svg": ("Date", "Creator"),
    "png": ("Software",),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
"""Metadata that would differ between days and versions."""


def draw(chart: Chart, path: str | os.PathLike[str]) -> None:
    """Write the drawing of a chart as .svg, .png or .pdf; the same chart gives the same bytes.

    Series with equal labels share a colour, such as a measurement and its theory.

    Raises
    ------
    ValueError
        If the path has another suffix.
    OSError
        If the file cannot be written.
    """
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in _METADATA:
        raise ValueError(f"path: must end in .svg, .png or .pdf, not {os.fspath(path)!r}")
    with style():
        figure = blank_figure(7, 4.2)
        _draw(figure.subplots(), chart)
        save(figure, path)


def save(figure: "Figure", path: str | os.PathLike[str], description: str = "") -> None:
    """Write a figure; an SVG is made `small` and has a description. Errors as `draw`."""
    form = Path(path).suffix.lower().removeprefix(".")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=form, dpi=90, metadata=dict.fromkeys(_METADATA[form]))
    content = drawn.getvalue()
    with replace_file(path) as file:
        file.write(small(content, description) if form == "svg" else content)


def _draw(axes: "Axes", chart: Chart) -> None:
    colours: dict[str, int] = {}
    named: set[str] = set()
    for series in chart.series:
        number = colours.setdefault(series.label, len(colours))
        _draw_series(axes, series, number, series.label if series.label not in named else None)
        named.add(series.label)
    scales = ["log" if log else "linear" for log in (chart.x_log, chart.y_log)]
    axes.set(xscale=scales[0], yscale=scales[1])
    axes.set(xlabel=chart.x, ylabel=chart.y, title=chart.title)
    if len(named) > 1:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def _draw_series(axes: "Axes", series: Series, number: int, label: str | None) -> None:
    colour = PALETTE[number % len(PALETTE)]
    marker = _MARKERS[number % len(_MARKERS)] if series.marks else ""
    line = "" if series.marks else "-"
    looks: dict[str, Any] = {"color": colour, "linestyle": line, "marker": marker}
    looks |= {"markersize": 4.5, "label": label}
    if series.low is None or series.high is None or not series.marks:
        axes.plot(series.x, series.y, **looks)
        if series.low is not None and series.high is not None:
            ends = series.low, series.high
            axes.fill_between(series.x, *ends, color=colour, alpha=0.2, linewidth=0)
        return
    below = [max(0.0, y - low) for y, low in zip(series.y, series.low, strict=True)]
    above = [max(0.0, high - y) for y, high in zip(series.y, series.high, strict=True)]
    axes.errorbar(series.x, series.y, (below, above), elinewidth=1.2, **looks)
