"""Converts conclusions of studies to compact campaign records, and combines them in a report."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from campaigns.engine import Outcome, Record, RecordError, complete
from lately.replay.drawing import Chart, Series

from .criteria import Verdict
from .paper import Conclusion, Finding, Study

TOLERANCE = 1 / 500  # Invisible distance between lines, relative to the chart's width.
_HEIGHT = 0.6  # Height of a chart, relative to its width.

# Significant digits on a logarithmic axis, and of the ends of intervals. On other axes, rounding
# shifts points less.
_DIGITS, _END_DIGITS = 4, 3

Floats = NDArray[np.float64]  # Coordinates of points.


def thinned(chart: Chart) -> Chart:
    """Return a chart with fewer points, whose lines deviate by at most `TOLERANCE`."""
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
    lines = []
    for series, x, y in zip(rounded, xs, ys, strict=True):
        if not series.marks and len(x) >= 3:
            kept = _corners(x, _HEIGHT * y)
            columns = ((name, getattr(series, name)) for name in ("x", "y", "low", "high"))
            fewer: Any = {name: [column[at] for at in kept] for name, column in columns if column}
            series = replace(series, **fewer)
        lines.append(series)
    return replace(chart, series=lines)


def _rounding(log: bool, values: Sequence[Sequence[float]]) -> Callable[..., list[float]]:
    every = [value for part in values for value in part if math.isfinite(value)]
    span = max(every, default=0.0) - min(every, default=0.0)

    def rounded(values: Sequence[float], digits: int = _DIGITS) -> list[float]:
        if log or not span:
            return [float(f"{value:.{digits}g}") for value in values]
        return [round(float(value), digits - round(math.log10(span))) for value in values]

    return rounded


def _scaled(log: bool, values: Sequence[Sequence[float]]) -> list[Floats]:
    arrays = [np.asarray(part, np.float64) for part in values]
    if log:
        arrays = [np.log(np.maximum(part, np.finfo(float).tiny)) for part in arrays]
    every = np.concatenate(arrays) if arrays else np.zeros(1)
    low, span = every.min(initial=np.inf), np.ptp(every) if every.size else 0.0
    return [(part - low) / (span or 1.0) for part in arrays]


def _corners(x: Floats, y: Floats) -> list[int]:
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


def cache_directory() -> Path:
    folder = os.environ.get("LATELY_CACHE") or platformdirs.user_cache_dir("lately")
    return Path(folder) / "reproduction"


def reproduce(
    studies: Sequence[Study], folder: Path, *, quick: bool = False, **options: Any
) -> tuple[list[Record], Outcome]:
    work = [(study, study.points(quick), folder / f"{study.name}.jsonl") for study in studies]
    folder.mkdir(parents=True, exist_ok=True)
    done = complete(work, **options)
    records = [
        to_record(study, quick, study.conclude([(record.point, record.result) for record in group]))
        for (study, points, _), group in zip(work, done.records, strict=True)
        if len(group) == len(points)
    ]
    return records, done


def to_record(study: Study, quick: bool, outcome: Conclusion) -> Record:
    """Convert a conclusion to a record.

    Values are rounded, and charts lose the points that make no visible difference.
    """
    findings = []
    for finding in outcome.findings:
        digits = 10 if finding.low is None else 6  # Computed values have more than measured ones.
        ends = {name: getattr(finding, name) for name in ("ours", "low", "high")}
        rounded: dict[str, Any] = {
            name: end and float(f"{end:.{digits}g}") for name, end in ends.items()
        }
        findings.append(replace(finding, **rounded))
    lean = _lean(replace(outcome, findings=findings, charts=[*map(thinned, outcome.charts)]))
    return Record({"study": study.name, "quick": quick}, study.state(), lean)


def conclusion(record: Record) -> Conclusion:
    try:
        findings = [
            Finding(**row | {"verdict": Verdict(row["verdict"])})
            for row in record.result["findings"]
        ]
        charts = [
            Chart(**row | {"series": [Series(**series) for series in row["series"]]})
            for row in record.result["charts"]
        ]
        values, missing = record.result["values"], record.result["missing"]
        return Conclusion(findings, charts, values, missing)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{record.point}: not a valid result of a study: {error}") from None


@dataclass(frozen=True)
class Report:
    quick: bool
    entries: list[tuple[Study, Conclusion]]

    @classmethod
    def of(cls, records: Iterable[Record], studies: Sequence[Study]) -> "Report":
        known = {record.point["study"]: record for record in records}
        forms = {record.point["quick"] for record in known.values()}
        if len(forms) > 1:
            raise RecordError("records: cannot mix results of the quick and the full form")
        entries = [
            (study, conclusion(known[study.name])) for study in studies if study.name in known
        ]
        return cls(any(forms), entries)

    @property
    def findings(self) -> list[Finding]:
        return [finding for _, outcome in self.entries for finding in outcome.findings]

    @property
    def charts(self) -> list[Chart]:
        return [chart for _, outcome in self.entries for chart in outcome.charts]

    @property
    def missing(self) -> list[tuple[str, str]]:
        return [(study.name, text) for study, outcome in self.entries for text in outcome.missing]


def _lean(value: Any) -> Any:
    """Convert a value to JSON values, without the fields that have their default values."""
    if is_dataclass(value):
        members = (
            (member.name, getattr(value, member.name), member.default) for member in fields(value)
        )
        return {name: _lean(member) for name, member, default in members if member != default}
    return [_lean(member) for member in value] if isinstance(value, list | tuple) else value
