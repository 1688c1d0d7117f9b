"""Studies: campaigns whose results are compared with the printed figures of a paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from campaigns.engine import Campaign, Point, Result
from lately.replay.drawing import Chart

from .criteria import Range, Verdict

Results = Sequence[tuple[Point, Result]]  # Points with their results.


def chosen(results: Results, **values: Any) -> list[tuple[Point, Result]]:
    """Select the results of the points that have these values."""
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
    ours: float
    verdict: Verdict
    paper: str = ""
    low: float | None = None
    high: float | None = None
    note: str = ""
    within: Range | None = None


@dataclass(frozen=True)
class Conclusion:
    """Conclusion of a study.

    `values` are those of the fields in the study's notes. `missing` are sentences in Markdown on
    what could not be measured, and what that takes.
    """

    findings: list[Finding]
    charts: list[Chart] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Study(Campaign):
    """One table or figure of a paper, or several that are measured together.

    `points` takes whether the quick form is wanted. `paper` is the title of the paper, `source`
    the number of the table or figure, and `about` the title of the study. `notes` are paragraphs
    in Markdown, with fields: how it was measured, which readings of the paper were chosen, and why
    a figure cannot be met.
    """

    conclude: Callable[[Results], Conclusion]
    paper: str
    source: str
    notes: Sequence[str] = ()
    packages: tuple[str, ...] = ("lately.golden", "papers")
    tools: tuple[str, ...] = ("numpy", "scipy")
