"""Page and picture of a `CopyReport`."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..replay.formatting import seconds_text
from ..replay.pages import render
from ..replay.plots import COLOURS, blank_figure, legend, page_drawing
from ..replay.tooltips import Mark
from .copy_report import CopyReport, edges

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "interface": "Interfaces", "vlan": "Outermost VLAN", "ttl": "TTL or hop limit",
    "mac": "Addresses of Ethernet",
}  # fmt: skip
"""Headings of the pairs."""


def html(figures: dict[str, Any], report: CopyReport) -> str:
    """Lay out a self-contained page.

    Parameters
    ----------
    figures : dict
        As `lately dedup --json` prints them.
    report : CopyReport
    """
    span = figures["span_seconds"]
    plots = [
        (
            page_drawing(4, partial(_draw_distances, report=report, span=span)),
            "Repeats by distance",
        ),
        (page_drawing(3.4, partial(_draw_rates, report=report)), "Packets over time"),
    ]
    return render(
        "copies.html", figures=figures, report=report.figures(), plots=plots, titles=TITLES
    )


def picture(report: CopyReport, span: float) -> "Figure":
    """Return a figure with both plots side by side.

    Parameters
    ----------
    report : CopyReport
    span : float
        Seconds for which a packet was remembered.
    """
    figure = blank_figure(12, 3.9)
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": (1.2, 1), "wspace": 0.16})
    _draw_distances(left, report=report, span=span)
    _draw_rates(right, report=report)
    return figure


def _draw_distances(axes: "Axes", report: CopyReport, span: float) -> list[Mark]:
    filled = np.flatnonzero(report.distances.sum(axis=1))
    first, last = (filled[0], filled[-1] + 1) if len(filled) else (0, 1)
    limits = edges()
    bounds = limits[first : last + 1]
    kept, dropped = report.distances[first:last].T
    axes.stairs(dropped, bounds, fill=True, color=COLOURS["blue"], alpha=0.85, label="dropped")
    axes.stairs(
        kept + dropped, bounds, baseline=dropped, fill=True, color=COLOURS["orange"], alpha=0.9,
        label="kept",
    )  # fmt: skip
    axes.axvline(span, color=COLOURS["ink"], linewidth=1.2, label=f"span {seconds_text(span)}")
    suggested = report.suggested_span
    if suggested is not None:
        text = f"suggested span {seconds_text(suggested / 1e9)}"
        axes.axvline(
            suggested / 1e9,
            color=COLOURS["green"],
            linestyle=(0, (5, 3)),
            linewidth=1.4,
            label=text,
        )
    axes.set(xscale="log", ylim=(0, 1.15 * max(1, (kept + dropped).max())), ylabel="repeats")
    low = min(bounds[0], span, (suggested or span * 1e9) / 1e9)
    high = max(bounds[-1], span, (suggested or 0) / 1e9)
    axes.set(xlim=(low / 1.5, high * 1.5), xlabel="time since the last packet with this digest")
    axes.xaxis.set_major_formatter(lambda value, _: seconds_text(value) if value >= 1e-9 else "")
    axes.set_title(f"{int(report.distances.sum()):,} repeats, {int(dropped.sum()):,} dropped")
    legend(axes)
    return [
        Mark(
            axes, float(np.sqrt(limits[at] * limits[at + 1])), float(report.distances[at].sum()),
            f"{_short(limits[at])} to {_short(limits[at + 1])}: "
            f"{report.distances[at].sum():,} repeats, {report.distances[at, 1]:,} dropped",
        )
        for at in filled.tolist()
    ]  # fmt: skip


def _short(seconds: float) -> str:
    """Write a time with two figures."""
    return seconds_text(float(f"{seconds:.2g}"))


def _draw_rates(axes: "Axes", report: CopyReport) -> list[Mark]:
    filled = np.flatnonzero(report.rates.sum(axis=1))
    end, part = (int(filled[-1]) + 1 if len(filled) else 1), report.part / 1e9
    bounds, rates = part * np.arange(end + 1), report.rates[:end] / part
    axes.stairs(rates.sum(axis=1), bounds, fill=True, color=COLOURS["band"], alpha=0.5,
                label="all packets")  # fmt: skip
    axes.stairs(rates[:, 1], bounds, fill=True, color=COLOURS["blue"], alpha=0.85, label="dropped")
    axes.set(ylim=(0, 1.15 * max(1e-9, rates.sum(axis=1).max())), xlim=(0, bounds[-1]))
    axes.set(xlabel="seconds", ylabel="packets per second")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title("Packets over time")
    legend(axes)
    return [
        Mark(
            axes, (at + 0.5) * part, float(rates[at].sum()),
            f"from {_short(at * part)}: {rates[at].sum():,.0f} packets/s, "
            f"{rates[at, 1]:,.0f} of them dropped",
        )
        for at in filled.tolist()
    ]  # fmt: skip
