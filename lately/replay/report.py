"""Page of a run: key figures, verdict classes, plots."""

from pathlib import Path
from typing import Any

from ..intervals import clopper_pearson
from .formatting import count_text, held, interval_text, part_name, rate_text, seconds_text
from .oracle import CLASSES
from .plots import drawings
from .run import RunResult


def html(result: RunResult) -> str:
    """Lay out a self-contained page: key figures, verdict classes, plots, specification."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"count": count_text, "rate": rate_text, "interval": interval_text}
    environment.filters |= {"time": seconds_text, "held": held, "part": part_name}
    return environment.get_template("report.html").render(
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
