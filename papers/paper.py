"""Reads a paper's data: printed figures, points and criteria of studies, charts and notes."""

import csv
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from itertools import product
from typing import Any

from campaigns.engine import Point, Result, key
from lately.replay.drawing import Chart, Estimate, Series

from .studies import criteria
from .studies.criteria import Criterion, Verdict
from .studies.study import Conclusion, Finding, Results, Study

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
        """Judge a value by a criterion from the paper's file, whose texts `fields` fill.

        Without a rule, the value is compared with the digits of the printed figure.
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
    """Return a study's points: all combinations of the axes `each`, with the constants `with`."""
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
    return files(__package__).joinpath("data", file).read_text("utf-8")


@cache
def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(_read(f"{name}.toml"))
