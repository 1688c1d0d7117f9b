"""A paper's studies and data: printed figures, points, criteria, charts and notes.

A study is a campaign whose results are compared with the printed figures.
"""

import csv
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from itertools import product
from typing import Any

from campaigns.engine import Campaign, Point, Result, key
from lately.replay.drawing import Chart, Estimate, Series

from . import criteria
from .criteria import Criterion, Verdict

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
    """Reproduces one or more tables or figures of a paper.

    `points` accepts a flag that selects the quick form.
    """

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


Row = dict[str, str]  # Cells of a printed table, by column name.


@dataclass(frozen=True)
class Paper:
    name: str

    @property
    def data(self) -> dict[str, Any]:
        return _load(self.name)

    def study(
        self,
        name: str,
        run: Callable[[Point], Result],
        conclude: Callable[[Results], Conclusion],
        points: Callable[[dict[str, Any], bool], Sequence[Point]] | None = None,
    ) -> Study:
        about = self.data["studies"][name]
        return Study(
            name=name,
            about=about["title"],
            points=partial(points or sweep, about),
            run=run,
            label=lambda point: f"{name} at {key(point)}",
            conclude=conclude,
            paper=self.data["title"],
            source=about["source"],
            notes=[self.data["notes"][note] for note in about["notes"]],
            reason=about.get("reason", ""),
            slug=self.name.replace("_", "-"),
        )

    def find(self, name: str, value: float | Estimate, /, **fields: Any) -> Finding:
        """Judge a value by the criterion `name` in the paper's file.

        `fields` replace the placeholders in the texts of the criterion. Without a rule, the value
        is compared with the digits of the printed figure.
        """
        about = self.data["findings"][name]
        texts = {each: about.get(each, "").format(**fields) for each in ("what", "paper", "note")}
        rule, *arguments = about.get("rule") or ["" if texts["paper"] else "ours"]
        ours, low, high = value if isinstance(value, tuple) else (value, None, None)
        ours = float(ours)
        criterion = _criterion(rule, arguments, fields, texts["paper"], computed=low is None)
        verdict = criterion.judge(ours, low, high) if criterion else Verdict.OURS
        within = [*criterion.within] if criterion and rule in criteria.SENTENCES else None
        return Finding(ours=ours, low=low, high=high, verdict=verdict, within=within, **texts)

    def chart(self, name: str, series: list[Series], /, **fields: Any) -> Chart:
        about = {"name": name} | self.data["charts"][name]
        texts = ("name", "title", "x", "y")
        return Chart(series=series, **about | {key: about[key].format(**fields) for key in texts})

    def table(self, number: str) -> "Table":
        return Table(**self.data["tables"][number])


def _criterion(
    rule: str, arguments: list[Any], fields: dict[str, Any], paper: str, *, computed: bool
) -> Criterion | None:
    if rule == "ours":
        return None
    if not rule:
        return criteria.digits(paper) if computed else criteria.figure(paper)
    if rule in criteria.PRINTED:
        return criteria.RULES[rule](*(str(each).format(**fields) for each in arguments))
    filled = [each.format(**fields) if isinstance(each, str) else each for each in arguments]
    return criteria.RULES[rule](*map(float, filled))


def sweep(about: dict[str, Any], quick: bool = False) -> list[Point]:
    """Return the points of a study: all combinations of the axes, each with the constants.

    `each` in `about` contains the axes, and `with` contains the constants.
    """
    parts = [about, about.get("quick", {}) if quick else {}]
    axes, fixed = (
        {k: v for part in parts for k, v in part.get(name, {}).items()} for name in ("each", "with")
    )
    values = [range(axis) if isinstance(axis, int) else axis for axis in axes.values()]
    points = []
    for chosen in product(*values):
        point = dict(fixed)
        for names, value in zip(axes, chosen, strict=True):
            several = names.split(", ")
            point |= zip(several, value if len(several) > 1 else [value], strict=True)
        points.append(point)
    return points


@dataclass(frozen=True)
class Table:
    file: str
    key: Sequence[str]

    def rows(self) -> list[Row]:
        return list(csv.DictReader(_read(self.file).splitlines()))

    def name(self, row: Row) -> str:
        return ", ".join(f"{column} = {row[column]}" for column in self.key)

    def values(self, row: Row) -> list[int]:
        return [int(row[column]) for column in self.key]

    def row(self, *values: int) -> Row:
        return next(row for row in self.rows() if self.values(row) == [*values])


def _read(file: str) -> str:
    return files("papers").joinpath("data", file).read_text("utf-8")


@cache
def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(_read(f"{name}.toml"))
