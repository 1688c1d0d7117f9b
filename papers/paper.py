"""Papers as data: printed tables and figures, titles of studies and charts, and our notes."""

import csv
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from itertools import product
from typing import Any

from lately.replay.drawing import Chart, Series

from .studies.study import Conclude, Measure, Point, Points, Study

Row = dict[str, str]
"""Cells of a printed table by the names of their columns."""


@dataclass(frozen=True)
class Paper:
    """A paper, described by the file ``data/<name>.toml`` of this package.

    The fingerprint of a study does not cover this file: measurements may depend on it only through
    the points.
    """

    name: str

    @property
    def data(self) -> dict[str, Any]:
        """Content of the file."""
        return _load(self.name)

    def study(
        self, name: str, measure: Measure, conclude: Conclude, points: Points | None = None
    ) -> Study:
        """Return a study that the file names, by default with the points of its sweep."""
        about = self.data["studies"][name]
        source = f"{self.data['title']}, {about['source']}"
        points = points or partial(sweep, about)
        return Study(name, about["title"], source, points, measure, conclude)

    def notes(self, study: str, **values: Any) -> list[str]:
        """Return the notes of a study, with values in the place of their fields in braces."""
        names = self.data["studies"][study]["notes"]
        return [self.data["notes"][name].format(**values) for name in names]

    def chart(self, name: str, series: list[Series], **values: Any) -> Chart:
        """Return a chart that the file names, with values in its name and titles as in `notes`."""
        about = {"name": name} | self.data["charts"][name]
        texts = ("name", "title", "x", "y")
        return Chart(series=series, **about | {key: about[key].format(**values) for key in texts})

    def table(self, number: str) -> "Table":
        """Return a printed table."""
        return Table(**self.data["tables"][number])


def sweep(about: dict[str, Any], quick: bool) -> list[Point]:
    """Return the points of a study as its file describes them.

    `each` has the values of one or several members of a point, or a number of seeds; `with` has
    constant members. The quick form replaces some of both by those in `quick`.
    """
    parts = [about, about.get("quick", {}) if quick else {}]
    axes, fixed = (
        {k: v for part in parts for k, v in part.get(one, {}).items()} for one in ("each", "with")
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
    """A printed table: a CSV file in the folder ``data``, and the columns that name its rows."""

    file: str
    key: Sequence[str]

    def rows(self) -> list[Row]:
        """Return the rows in order."""
        return list(csv.DictReader(_read(self.file).splitlines()))

    def name(self, row: Row) -> str:
        """Return the name of a row, as "k = 4, l = 3"."""
        return ", ".join(f"{column} = {row[column]}" for column in self.key)

    def values(self, row: Row) -> list[int]:
        """Return the numbers that name a row."""
        return [int(row[column]) for column in self.key]


def _read(file: str) -> str:
    return files(__package__).joinpath("data", file).read_text("utf-8")


@cache
def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(_read(f"{name}.toml"))
