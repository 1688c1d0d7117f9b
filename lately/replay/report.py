"""Outputs of a run: a table of verdicts, a page with key figures and plots, and an image."""

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..golden.durations import NANOSECONDS
from ..golden.files import replace_file
from ..intervals import clopper_pearson
from .drawing import COLOURS, Mark, blank_figure, legend, page_drawing, style
from .formatting import held, interval_text, rate_text, render, seconds_text
from .oracle import CLASSES
from .run import JudgedRecords, RunResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 32

# Columns of verdicts. Operation, counting from 0; seconds since the epoch or blank; key text;
# verdict; class from the oracle; insertions since the key was last inserted, or blank.
COLUMNS = ("index", "timestamp", "key", "seen", "class", "distance")
_GROUP_ROWS = 1 << 16  # minimum rows per Parquet row group; small groups are slow to read


def html(result: RunResult) -> str:
    fills = f"Fill ratios per {result.spec.part_name}"
    plots = [
        (page_drawing(5, partial(_draw_rates, result=result), 2), "Rates over the run"),
        (page_drawing(3.6, partial(_draw_fills, result=result)), fills),
        (page_drawing(5, partial(_draw_distances, result=result), 2), "Repeats by distance"),
    ]
    return render(
        "report.html", figures=result.figures(), spec=result.spec, classes=class_rows(result),
        failures=result.failures(), plots=plots,
    )  # fmt: skip


def class_rows(result: RunResult) -> list[dict[str, Any]]:
    predicted = "" if result.predicted is None else f"{rate_text(result.predicted)} predicted"
    past = "a trace may be left"
    if result.spec.kind == "dictionary":
        past = "after entries were given up"
    classes = (
        ("inside the guaranteed window", "up to 100%" if result.decided else "100%"),
        (f"past the window, {past}", "up to 100%"),
        ("new, or no trace left", predicted),
    )
    rows = []
    for name, (meaning, expected), counts in zip(CLASSES, classes, result.counts, strict=True):
        not_seen, seen = map(int, counts)
        queries = seen + not_seen
        rows.append({
            "name": name, "meaning": meaning, "queries": queries, "seen": seen,
            "not_seen": not_seen, "share": seen / queries if queries else None,
            "interval": clopper_pearson(seen, queries), "expected": expected,
        })  # fmt: skip
    return rows


def picture(
    result: RunResult, path: str | os.PathLike[str], *,
    source: str | os.PathLike[str] | int | None = None,
) -> None:  # fmt: skip
    """Draw the three plots side by side; the suffix of `path` selects PNG or SVG."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in ("png", "svg"):
        raise ValueError(f"path: must end in .png or .svg, not {os.fspath(path)!r}")
    figure = blank_figure(17, 5.4)
    with style():
        grid = figure.add_gridspec(
            2, 3, height_ratios=(2, 1), width_ratios=(1.1, 0.9, 1.1), hspace=0.14, wspace=0.24
        )
        for column, draw in ((0, _draw_rates), (2, _draw_distances)):
            upper = figure.add_subplot(grid[0, column])
            draw(upper, figure.add_subplot(grid[1, column], sharex=upper), result)
        _draw_fills(figure.add_subplot(grid[:, 1]), result)
        drawn = io.BytesIO()  # Drawn to memory first, because the library may ignore write errors.
        metadata = {"Date": None} if form == "svg" else None
        figure.savefig(drawn, format=form, dpi=160, metadata=metadata)
        with replace_file(path, source=source) as file:
            file.write(drawn.getvalue())


def _draw_rates(upper: "Axes", lower: "Axes", result: RunResult) -> list[Mark]:
    figures = result.figures()
    points = result.checkpoints
    size = -(-len(points) // _POINTS)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    ends = np.array([group[-1].operations for group in groups])
    predicted = figures["predicted_false_positive_rate"]
    estimated = np.array([point.estimated_false_positive_rate for point in points])
    hits = np.array([sum(point.probe_hits for point in group) for group in groups])
    probes = np.array([sum(point.probes for point in group) for group in groups])
    # A group is drawn over its range, which begins where the previous one ends.
    edges = np.concatenate([[0], ends])
    _draw_probes(upper, (edges[:-1] + ends) / 2, hits, probes)
    label = f"computed from the {held(result.spec)}"
    operations = [point.operations for point in points]
    upper.plot(operations, estimated, color=COLOURS["orange"], label=label)
    if predicted is not None:
        looks: dict[str, Any] = {"color": COLOURS["muted"], "linestyle": (0, (5, 3))}
        upper.axhline(predicted, label="predicted, distinct keys", **looks)
    top, usual = max(predicted or 0.0, float(estimated.max())), float(np.median(estimated))
    if 0 < usual < top / 20:
        upper.set(yscale="log", ylim=(10 ** np.floor(np.log10(usual / 10)), 4 * top))
    else:
        upper.set(ylim=(0, 1.35 * top))
    upper.set(ylabel="false-positive rate", title=_rates_title(figures))
    legend(upper)
    repeats = np.diff([0] + [group[-1].repeats for group in groups])
    shares = repeats / np.maximum(np.diff(edges), 1)
    lower.stairs(shares, edges, fill=True, color=COLOURS["blue"], alpha=0.75)
    lower.set(ylim=(0, 1), xlim=(0, ends[-1]), ylabel="repeats", xlabel="operations")
    _format(upper, lower)
    return [
        Mark(
            upper, (start + stop) / 2, group[-1].estimated_false_positive_rate,
            f"operations {start + 1:,} to {stop:,}: {_probed(*probed)}"
            f"{rate_text(group[-1].estimated_false_positive_rate)} computed; "
            f"{rate_text(share)} repeats",
        )
        for group, start, stop, share, *probed in zip(
            groups, edges[:-1], ends, shares, hits.tolist(), probes.tolist(), strict=True
        )
    ]  # fmt: skip


def _probed(hits: int, probes: int) -> str:
    if not probes:
        return ""
    interval = interval_text(clopper_pearson(hits, probes))
    return f"{rate_text(hits / probes)} measured ({interval}), "


def _draw_probes(
    axes: "Axes", middles: NDArray[np.float64], hits: NDArray[np.int64], probes: NDArray[np.int64]
) -> None:
    if not probes.all():
        return
    some = hits > 0
    if some.any():
        label = "measured, fresh random keys"
        _draw_shares(axes, middles[some], hits[some], probes[some], label=label)
    if not some.all():
        axes.plot(
            middles[~some], _bounds(hits[~some], probes[~some])[1], "v", color=COLOURS["band"],
            markersize=4.5, label="none reported: 95% bound",
        )  # fmt: skip


def _bounds(hits: NDArray[np.int64], trials: NDArray[np.int64]) -> NDArray[np.float64]:
    pairs = zip(hits.tolist(), trials.tolist(), strict=True)
    return np.array([clopper_pearson(*pair) for pair in pairs]).T


def _draw_shares(
    axes: "Axes", x: NDArray[np.float64], hits: NDArray[np.int64], trials: NDArray[np.int64],
    **looks: Any,
) -> None:  # fmt: skip
    shares = hits / trials
    low, high = _bounds(hits, trials)
    errors = np.maximum(0, (shares - low, high - shares))
    looks |= {"fmt": ".", "color": COLOURS["blue"], "ecolor": COLOURS["band"], "elinewidth": 1.5}
    axes.errorbar(x, shares, errors, **looks)


def _rates_title(figures: dict[str, Any]) -> str:
    measured = figures["probe_false_positive_rate"]
    if measured is None:
        return "No key is left that the filter has never held"
    shown = rate_text(measured) if measured else f"None of {figures['probes']:,}"
    keys = "of fresh keys" if measured else "fresh keys"
    predicted = figures["predicted_false_positive_rate"]
    beside = "" if predicted is None else f"; {rate_text(predicted)} predicted"
    return f"{shown} {keys} reported{beside}"


def _draw_fills(axes: "Axes", result: RunResult) -> list[Mark]:
    spec: Any = result.spec
    last = result.checkpoints[-1].fill_ratios
    if ring := spec.kind == "ring":
        turned, run = spec.ring_segments * spec.generation, spec.run
    else:
        turned, run = 0 if spec.timed else spec.guaranteed_window, len(last)
    steady = [point for point in result.checkpoints if point.operations >= turned]
    course = np.array([point.fill_ratios for point in steady or result.checkpoints])
    number = np.arange(len(last))
    for mask, colour, label in (
        (number < run, "blue", "written and read"),
        (number >= run, "green", "only read"),
    ):
        axes.bar(number[mask], last[mask], 0.66, color=COLOURS[colour], alpha=0.8, label=label)
    low, mean, high = course.min(axis=0), course.mean(axis=0), course.max(axis=0)
    axes.errorbar(
        number, mean, (mean - low, high - mean), fmt="_", color=COLOURS["ink"], capsize=4,
        elinewidth=1.1, markersize=11, label="range and mean of the run",
    )  # fmt: skip
    axes.set_ylim(0, max(1e-9, float(max(high.max(), last.max()))) * 1.06)
    axes.yaxis.set_major_formatter(_percent)
    axes.set_xticks(number, [str(index) for index in number])
    highest = rate_text(float(high.max()))
    if ring:
        title = f"At most {highest} of a segment's bits were set"
        axes.set(xlabel="segment, youngest to oldest", ylabel="bits set at the end", title=title)
    else:
        part = spec.part_name
        title = f"At most {highest} of a {part}'s cells were in use"
        label = "column, the first chosen first" if part == "column" else part
        axes.set(xlabel=label, ylabel="cells in use", title=title)
    legend(axes)
    return [
        Mark(
            axes, at, last[at],
            f"{spec.part_name} {at}: {rate_text(last[at])} at the end; "
            f"{interval_text((low[at], high[at]))} in the run, {rate_text(mean[at])} on average",
        )
        for at in number.tolist()
    ]  # fmt: skip


def _draw_distances(upper: "Axes", lower: "Axes", result: RunResult) -> list[Mark]:
    spec: Any = result.asked
    filled = np.flatnonzero(result.distances.sum(axis=1))
    # Up to the farthest repeat; above 0, for a log scale. The bins differ in width.
    stop = int(filled[-1]) + 1 if len(filled) else 1
    edges, counts = np.maximum(result.distance_edges[: stop + 1], 0.5), result.distances[:stop]
    octaves = np.diff(np.log2(edges)) * max(1, result.operations)
    seen, all_ = counts[:, 1] / octaves, counts.sum(axis=1) / octaves
    upper.stairs(seen, edges, fill=True, color=COLOURS["blue"], alpha=0.85, label="seen")
    upper.stairs(
        all_, edges, baseline=seen, fill=True, color=COLOURS["orange"], alpha=0.9, label="not seen"
    )
    window = end = spec.span if result.clock else spec.guaranteed_window
    ends = [(f"{'span' if result.clock else 'window'} {window:,} ", window, "right", "green")]
    # How long a ring with a span keeps traces beyond its span depends on the stream.
    if spec.slack and not (result.clock and spec.kind == "ring"):
        end += spec.slack
        ends.append((" slack", end, "left", "orange"))
    for axes in (upper, lower):
        axes.axvspan(edges[0], window, color=COLOURS["green"], alpha=0.09, linewidth=0)
        axes.axvspan(window, end, color=COLOURS["orange"], alpha=0.18, linewidth=0)
        axes.axvline(window, color=COLOURS["green"], linewidth=1.2)
    if len(filled):
        middles = np.sqrt(edges[filled] * edges[filled + 1].astype(float))
        _draw_shares(lower, middles, counts[filled, 1], counts[filled].sum(axis=1), markersize=5)
    top = max(float(all_.max()), 1e-9) * 1.2
    upper.set(xscale="log", xlim=(edges[0], max(edges[-1], 3 * end)), ylim=(0, top))
    for text, at, side, colour in ends:
        alignment: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": side, "va": "top"}
        upper.annotate(text, (at, 0.97), color=COLOURS[colour], **alignment)
    upper.set(ylabel="operations per octave", title=_distances_title(result))
    legend(upper)
    lower.set(ylim=(-0.06, 1.06), ylabel="seen")
    unit = f"ticks of {seconds_text(result.clock.tick / 10**9)}" if result.clock else "operations"
    lower.set_xlabel(f"{unit} since the key was last inserted")
    _format(upper, lower)
    return [_distance_mark(lower, result, int(at), unit) for at in filled]


def _distance_mark(axes: "Axes", result: RunResult, at: int, unit: str) -> Mark:
    first, end = (int(edge) for edge in result.distance_edges[at : at + 2])
    seen, every = int(result.distances[at, 1]), int(result.distances[at].sum())
    distance = f"{first:,}" if end == first + 1 else f"{first:,} to {end - 1:,}"
    return Mark(
        axes, (max(first, 0.5) * end) ** 0.5, seen / every,
        f"{distance} {unit} since the key was last inserted: {seen:,} of {every:,} seen "
        f"({rate_text(seen / every)}; {interval_text(clopper_pearson(seen, every))})",
    )  # fmt: skip


def _distances_title(result: RunResult) -> str:
    if not result.repeats:
        asked: Any = result.asked
        window = f"{asked.guaranteed_window:,} operations"
        return f"No key repeats within {f'{asked.span:,} ticks' if result.clock else window}"
    if result.reported_repeats == result.repeats:
        return f"All {result.repeats:,} repeats within the window were seen"
    return f"{result.repeats - result.reported_repeats:,} of {result.repeats:,} repeats were missed"


def _format(upper: "Axes", lower: "Axes") -> None:
    for axes in (upper, lower):
        axes.yaxis.set_major_formatter(_percent)
    lower.xaxis.set_major_formatter(_thousands)
    upper.tick_params(labelbottom=False)


def _percent(value: float, _position: float | None = None) -> str:
    return np.format_float_positional(100 * value, precision=6, fractional=False, trim="-") + "%"


def _thousands(value: float, _position: float | None = None) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1e3 else f"{value:g}"


@contextmanager
def open_verdicts(file: BinaryIO, form: str) -> Iterator[Callable[[JudgedRecords], None]]:
    if form == "parquet":
        with _open_parquet(file) as sink:
            yield sink
        return
    text = io.TextIOWrapper(file, "utf-8", errors="surrogateescape", newline="", write_through=True)
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        yield lambda verdicts: writer.writerows(_rows(verdicts))
    finally:
        text.detach()


def _rows(verdicts: JudgedRecords) -> Iterator[tuple[Any, ...]]:
    texts, times = zip(*verdicts.records, strict=True)
    return zip(
        range(verdicts.start, verdicts.start + len(texts)),
        ["" if time is None else _time_text(time) for time in times],
        texts,
        verdicts.results.seen.astype(np.uint8).tolist(),
        [CLASSES[kind] for kind in verdicts.truth.kind.tolist()],
        [distance or "" for distance in verdicts.truth.distance.tolist()],
        strict=True,
    )


def _time_text(time: int) -> str:
    if not time % NANOSECONDS:
        return str(time // NANOSECONDS)
    seconds, rest = divmod(abs(time), NANOSECONDS)
    return f"{'-' if time < 0 else ''}{seconds}" + f".{rest:09}".rstrip("0")


@contextmanager
def _open_parquet(file: BinaryIO) -> Iterator[Callable[[JudgedRecords], None]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.string(), pa.int64())
    schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
    waiting: list[Any] = []

    def flush() -> None:
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
            waiting.clear()

    def append(verdicts: JudgedRecords) -> None:
        texts, times = zip(*verdicts.records, strict=True)
        distance = verdicts.truth.distance
        seconds = [None if time is None else time / NANOSECONDS for time in times]
        # Parquet does not accept bytes that are not valid UTF-8.
        octets = [text.encode("utf-8", "surrogateescape") for text in texts]
        values = (
            range(verdicts.start, verdicts.start + len(texts)),
            pa.array(seconds, pa.float64()),
            [text.decode("utf-8", "backslashreplace") for text in octets],
            verdicts.results.seen,
            [CLASSES[kind] for kind in verdicts.truth.kind],
            pa.array(distance, mask=distance == 0),
        )
        waiting.append(pa.table(dict(zip(COLUMNS, values, strict=True)), schema))
        if sum(table.num_rows for table in waiting) >= _GROUP_ROWS:
            flush()

    with pq.ParquetWriter(file, schema) as writer:
        yield append
        flush()
