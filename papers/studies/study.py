"""Studies: points that are measured independently, and a conclusion from all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lately.replay.drawing import Chart

from .criteria import Range, Verdict

Point = dict[str, Any]
"""Parameters of a measurement: values that JSON can hold, the seed among them."""

Result = dict[str, Any]
"""Result of a measurement: values that JSON can hold."""

Results = list[tuple[Point, Result]]
"""Points with their results."""


def chosen(results: Results, **values: Any) -> Results:
    """Return the results of the points that have these values."""
    return [(p, r) for p, r in results if all(p[name] == one for name, one in values.items())]


@dataclass(frozen=True)
class Finding:
    """One figure of a paper beside ours.

    `what` is the subject, as "k = 4, l = 3: false-positive rate"; `paper` is the printed figure, a
    sentence, or "". `low` and `high` are the ends of the 95 % confidence interval, None for a
    computed value. `note` is a sentence that explains a deviation. `within` are the thresholds of
    a sentence, None for a printed figure.
    """

    what: str
    paper: str
    ours: float
    low: float | None
    high: float | None
    verdict: Verdict
    note: str = ""
    within: Range | None = None


@dataclass(frozen=True)
class Conclusion:
    """Conclusion of a study.

    `notes` are paragraphs in Markdown: how it was measured, which readings of the paper were
    chosen, and why a figure of it cannot be met. `missing` are sentences in Markdown on what could
    not be measured, and what that takes.
    """

    findings: list[Finding]
    charts: list[Chart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


Points = Callable[[bool], list[Point]]
"""Takes whether the quick form is wanted; returns the points of a study."""
Measure = Callable[[Point], Result]
"""Takes a point and returns its result, the same on every call, in whichever process.

A point takes seconds, not minutes.
"""
Conclude = Callable[[Results], Conclusion]
"""Takes the points with their results, in order."""


@dataclass(frozen=True)
class Study:
    """One table or figure of a paper, or several that are measured together.

    The functions are those of a module, so that another process can call them.

    `name` is that on the command line, as "apbf-table-2"; `source` is the paper and the number
    of the table or figure.
    """

    name: str
    title: str
    source: str
    points: Points
    measure: Measure
    conclude: Conclude
