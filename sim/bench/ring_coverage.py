"""Functional coverage of dictionary units with moves: what entries meet on their way.

Told from ports and registers of columns and stash, clock by clock, and from the operations.
"""

from collections.abc import Mapping
from typing import Any

from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from .coverage import Collector
from .dictionary_coverage import points
from .shell_coverage import shell_points

FOUND = ("nothing", "an entry that goes on", "an entry that has expired")
"""What the cell held into which an entry goes."""

OF_OPERATIONS = ("clocks between operations of a digest", "clocks between operations of a cell",
                 "window of a query", "age", "rounds of the timestamps")  # fmt: skip
"""Points of dictionaries that do not ask where an entry lies."""

COLUMN = "arrives done lives found was_busy kept reads leaves asks granted write pushes behind"
"""Signals of a column that are looked at."""

STASH = "_valid _written exchanged exchanges lives gone_place full offers crowded lost"
"""Likewise of the stash."""


def ring_points(spec: WindowDictionarySpec) -> dict[str, tuple[str, ...]]:
    """Return the bins of every point that the units of a specification with moves have."""
    every = points(spec)
    places = tuple(f"place {place}" for place in range(spec.stash))
    columns = range(spec.columns)
    return {name: every[name] for name in OF_OPERATIONS} | shell_points(16, sweep=True) | {
        "exchange": tuple(f"column {column}, {found}" for column in columns for found in FOUND),
        "exchange called off": (
            "an operation reads the row", "an operation leaves the row", "its place has changed",
        ),
        "exchange waits": ("for an operation that writes", "for a push", "for another column"),
        "offered to a column": ("taken", "an entry is there", "its sweep is behind"),
        "places that are used": tuple(str(used) for used in range(spec.stash + 1)),
        "entry goes to the stash": places,
        "entry leaves the stash": (*places, "expired", "given up"),
        "input": ("rests for want of room", "does not rest any longer, without room"),
        "answer": ("vouched for", "not vouched for, and right", "missing, and told"),
    }  # fmt: skip


class RingSampler:
    """Follows columns and stash, clock by clock, and tells a collector what entries meet.

    Parameters
    ----------
    spec : WindowDictionarySpec
    collector : Collector
        Counts what is seen.
    """

    def __init__(self, spec: WindowDictionarySpec, collector: Collector) -> None:
        self._spec = spec
        self._sample = collector.sample
        self._reset()

    def _reset(self) -> None:
        # Of each column: whether an entry was there, and why it stayed in the stash, if it did.
        self._there = [False] * self._spec.columns
        self._reasons = [""] * self._spec.columns
        self._done = [False] * self._spec.columns

    def clock(self, dut: Any) -> None:
        """Look at one clock; all clocks have to be shown, in order."""
        if dut.rst.value:
            self._reset()
            return
        stash = read(dut.core.stash, STASH)
        columns = [
            read(getattr(dut.core, f"column{number}"), COLUMN)
            for number in range(self._spec.columns)
        ]
        for number, column in enumerate(columns):
            self._visit(number, column)
            if stash["offers"] >> number & 1:
                there = "an entry is there"
                name = "its sweep is behind" if column["behind"] else there
                self._sample("offered to a column", "taken" if column["arrives"] else name)
        self._stash(stash)

    def _visit(self, number: int, column: Mapping[str, int]) -> None:
        """Look at the entry that is at a column, if there is one."""
        if column["done"]:
            name = (
                FOUND[0] if not column["found"] & 1 else FOUND[1] if column["lives"] else FOUND[2]
            )
            self._sample("exchange", f"column {number}, {name}")
            self._done[number] = True
        if column["was_busy"]:
            for name, holds in (
                ("an operation reads the row", column["reads"]),
                ("an operation leaves the row", column["leaves"]),
                ("its place has changed", not column["kept"]),
            ):
                if holds:
                    self._reasons[number] = name
            waits = column["asks"] and not column["done"]
            for name, holds in (
                ("for an operation that writes", column["write"]),
                ("for a push", column["pushes"]),
                ("for another column", not column["granted"]),
            ):
                if waits and holds:
                    self._sample("exchange waits", name)
        elif self._there[number]:
            if not self._done[number]:
                self._sample("exchange called off", self._reasons[number])
            self._done[number], self._reasons[number] = False, ""
        self._there[number] = bool(column["was_busy"])

    def _stash(self, stash: Mapping[str, int]) -> None:
        """Look at the places of the stash."""
        self._sample("places that are used", stash["_valid"].bit_count())
        exchanged = stash["exchanged"] if stash["exchanges"] else 0
        for place in range(self._spec.stash):
            if stash["_written"] >> place & 1:
                self._sample("entry goes to the stash", f"place {place}")
            if exchanged >> place & 1 and not stash["lives"]:
                self._sample("entry leaves the stash", f"place {place}")
        for name, holds in (("expired", stash["gone_place"]), ("given up", stash["lost"])):
            if holds:
                self._sample("entry leaves the stash", name)
        if stash["crowded"]:
            self._sample("input", "rests for want of room")
        elif stash["full"]:
            self._sample("input", "does not rest any longer, without room")


def read(part: Any, names: str) -> dict[str, int]:
    """Return the values of signals of a part, by name.

    Parameters
    ----------
    part : handle
    names : str
        With blanks between them.
    """
    return {name: int(part[name].value) for name in names.split()}
