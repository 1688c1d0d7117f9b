"""Studies: campaigns whose results are compared with the printed figures of a paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from campaigns.engine import Campaign, Point, Result
from lately.replay.drawing import Chart

from .criteria import Verdict

Results = Sequence[tuple[Point, Result]]  # Points and their results.


def chosen(results: Results, **values: Any) -> list[tuple[Point, Result]]:
    return [(p, r) for p, r in results if all(p[name] == value for name, value in values.items())]


def grouped(results: Results, *names: str) -> dict[tuple[Any, ...], list[tuple[Point, Result]]]:
    """Group results by fields of their points, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[tuple[Point, Result]]] = {}
    for point, result in results:
        values = (point[name] for name in names)
        group = tuple(tuple(value) if isinstance(value, list) else value for value in values)
        groups.setdefault(group, []).append((point, result))
    return groups


def figures(results: Results, name: str) -> list[Any]:
    return [result[name] for _, result in results]


@dataclass(frozen=True)
class Finding:
    what: str  # the subject, like "k = 4, l = 3: false-positive rate"
    ours: float
    verdict: Verdict
    paper: str = ""  # the printed figure, or a statement
    low: float | None = None  # 95 % confidence interval; None for a computed value
    high: float | None = None
    note: str = ""  # explains a deviation
    within: list[float] | None = None  # thresholds for a statement; None for a printed figure


@dataclass(frozen=True)
class Conclusion:
    findings: list[Finding]
    charts: list[Chart] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)  # values for the study's notes
    # Markdown sentences on what could not be measured, and what would be needed.
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Study(Campaign):
    """Reproduces one or more tables or figures; `points` accepts a flag for the quick form."""

    conclude: Callable[[Results], Conclusion]
    paper: str  # title
    source: str  # number of the table or figure
    # Markdown paragraphs with placeholders: how it was measured, which readings of the paper were
    # chosen, and why a figure cannot be met.
    notes: Sequence[str] = ()
    reason: str = ""  # if figures deviate: why, in a sentence or two
    slug: str = "paper"  # the paper's short name, used in the name of its page
    packages: tuple[str, ...] = ("lately.golden", "papers")
    tools: tuple[str, ...] = ("numpy", "scipy")
