"""Studies: points that are measured independently, and a conclusion from all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Point = dict[str, Any]
"""Parameters of a measurement: values that JSON can hold, the seed among them."""

Result = dict[str, Any]
"""Result of a measurement: values that JSON can hold."""


class Verdict(StrEnum):
    """How our value stands to the paper's."""

    MET = "met"
    """The printed figure, in the digits that are printed or within our interval."""
    NEAR = "near"
    """Not the figure, but what the paper concludes from it; the note says how far."""
    NOT_MET = "not met"
    """Another; the note says why."""
    OURS = "ours alone"
    """The paper prints no number, as in a figure."""


@dataclass(frozen=True)
class Finding:
    """One figure of a paper beside ours.

    Attributes
    ----------
    what : str
        Subject, as "k = 4, l = 3: false-positive rate".
    paper : str
        As printed; "" if it is not.
    ours : float
    low, high : float or None
        Ends of the 95 % confidence interval; None for what is computed and not measured.
    verdict : Verdict
    note : str
        One sentence; why, if the figure is not met.
    """

    what: str
    paper: str
    ours: float
    low: float | None
    high: float | None
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True)
class Series:
    """One line, or one set of marks, of a chart.

    Attributes
    ----------
    label : str
    x, y : sequence of float
    low, high : sequence of float or None
        Ends of the confidence intervals of `y`.
    marks : bool
        Whether points are drawn and not joined.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    marks: bool = False


@dataclass(frozen=True)
class Chart:
    """A drawing: one of a paper's figures, or ours of a table.

    Attributes
    ----------
    name : str
        Name of its file, as "apbf-figure-6".
    title, x, y : str
        Titles of the chart and its axes, units included.
    series : list of Series
    x_log, y_log : bool
        Whether an axis is logarithmic.
    """

    name: str
    title: str
    x: str
    y: str
    series: list[Series]
    x_log: bool = False
    y_log: bool = False


@dataclass(frozen=True)
class Outcome:
    """Conclusion of a study.

    Attributes
    ----------
    findings : list of Finding
    charts : list of Chart
    notes : list of str
        Paragraphs in Markdown: how it was measured, which readings were chosen,
        and why a figure of the paper cannot be met.
    """

    findings: list[Finding]
    charts: list[Chart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Study:
    """One table or figure of a paper, or several that are measured together.

    The functions are those of a module, so that another process can call them.

    Attributes
    ----------
    name : str
        On the command line, as "apbf-table-2".
    title : str
    source : str
        Paper and number of the table or figure.
    points : callable
        Takes whether the quick form is wanted; returns the points.
    measure : callable
        Takes a point and returns its result, the same on every call, whichever
        process it runs in. A point takes seconds, not minutes.
    conclude : callable
        Takes the points with their results, in the order of `points`.
    """

    name: str
    title: str
    source: str
    points: Callable[[bool], list[Point]]
    measure: Callable[[Point], Result]
    conclude: Callable[[list[tuple[Point, Result]]], Outcome]
