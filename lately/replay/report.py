"""Page of a run: key figures, verdict classes, plots."""

from typing import Any

from ..intervals import clopper_pearson
from .formatting import rate_text
from .oracle import CLASSES
from .pages import render
from .plots import drawings
from .run import RunResult


def html(result: RunResult) -> str:
    """Lay out a self-contained page: key figures, verdict classes, plots, specification."""
    return render(
        "report.html",
        figures=result.figures(),
        spec=result.spec,
        classes=class_rows(result),
        failures=result.failures(),
        plots=drawings(result),
    )


def class_rows(result: RunResult) -> list[dict[str, Any]]:
    """Return name, meaning, counts, share seen, interval and expectation of each verdict class."""
    predicted = "" if result.predicted is None else f"{rate_text(result.predicted)} predicted"
    classes = (
        ("inside the guaranteed window", "up to 100%" if result.decided else "100%"),
        (
            "past it, after entries were given up"
            if result.spec.kind == "dictionary"
            else "past it, a trace may be left",
            "up to 100%",
        ),
        ("new, or no trace left", predicted),
    )
    rows = []
    for name, (meaning, expected), counts in zip(CLASSES, classes, result.counts, strict=True):
        not_seen, seen = map(int, counts)
        queries = seen + not_seen
        row = {"name": name, "meaning": meaning, "queries": queries, "seen": seen}
        row |= {"not_seen": not_seen, "share": seen / queries if queries else None}
        rows.append(row | {"interval": clopper_pearson(seen, queries), "expected": expected})
    return rows
