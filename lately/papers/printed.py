"""Tables as the papers print them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

Row = dict[str, str]
"""Cells by the name of their column."""


@dataclass(frozen=True)
class Table:
    """One printed table.

    Attributes
    ----------
    file : str
        Name of its CSV, in the folder ``data`` of this package.
    key : tuple of str
        Columns of whole numbers, which together name a row.
    """

    file: str
    key: Sequence[str]

    def rows(self) -> list[Row]:
        """Return the rows in order."""
        content = files(__package__).joinpath("data", self.file).read_text("utf-8")
        return list(csv.DictReader(content.splitlines()))

    def name(self, row: Row) -> str:
        """Return what tells a row from the others, as "k = 4, l = 3"."""
        return ", ".join(f"{column} = {row[column]}" for column in self.key)

    def values(self, row: Row) -> list[int]:
        """Return the numbers of the key."""
        return [int(row[column]) for column in self.key]
