"""Places for the block RAMs of a unit, which nextpnr's placer would scatter."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Groups = Sequence[Sequence[str]]
"""Names of the block RAMs of each group that belongs together, in their order."""


TILES = 9 / 4
"""Tiles from one column of block RAMs to the next, on average."""


class Sites(NamedTuple):
    """Where the block RAMs of a device are.

    Attributes
    ----------
    rows : tuple of int
        From one edge to the other.
    columns : tuple of (int, int)
        Column and number within it, from left to right; the same in every row.
    bands : tuple of (int, int)
        Pairs of rows, each near its fellow, the first of a pair towards the edge; none if there
        are too few rows.
    """

    rows: tuple[int, ...]
    columns: tuple[tuple[int, int], ...]
    bands: tuple[tuple[int, int], ...] = ()

    def name(self, row: int, place: int) -> str:
        """Return what nextpnr calls the site at a `place` of a `row`."""
        column, number = self.columns[place]
        return f"X{column}/Y{row}/EBR{number}"

    def near(self, count: int) -> list[str]:
        """Return the names of `count` sites that are near each other, column by column.

        They are in the middle of so many neighbouring rows that they are least far apart.

        Raises
        ------
        ValueError
            If there are not so many.
        """
        if not count:
            return []
        if count > len(self.rows) * len(self.columns):
            raise ValueError(f"There are fewer sites than {count}")
        rows = min(self._neighbours(count), key=lambda rows: self._extent(rows, count))
        width = -(-count // len(rows))
        first = (len(self.columns) - width) // 2
        places = range(first, first + width)
        return [self.name(row, place) for place in places for row in rows][:count]

    def _neighbours(self, count: int) -> Iterator[tuple[int, ...]]:
        """Yield rows that follow one another and have `count` sites."""
        for number in range(-(-count // len(self.columns)), len(self.rows) + 1):
            for first in range(len(self.rows) - number + 1):
                yield self.rows[first : first + number]

    def _extent(self, rows: tuple[int, ...], count: int) -> tuple[float, ...]:
        """Return how far sites in the middle of rows are apart and off the middle, in tiles."""
        wide, high = -(-count // len(rows)) * TILES, rows[-1] - rows[0]
        off = abs(rows[0] + rows[-1] - self.rows[0] - self.rows[-1])
        return max(wide, high), wide + high, off


def _columns(*starts: int) -> tuple[tuple[int, int], ...]:
    """Return four in every nine columns from each of the `starts` on."""
    return tuple((start + 2 * number, number) for start in starts for number in range(4))


# Columns keep clear of the clock's spine in the middle.
_MIDDLE = Sites((10, 34, 58), _columns(*range(4, 32, 9), *range(42, 79, 9)))

SITES: Mapping[str, Sites] = {
    "--25k": Sites((25, 37), _columns(*range(4, 23, 9), *range(33, 61, 9))),
    "--45k": _MIDDLE,
    "--um5g-45k": _MIDDLE,
    "--85k": Sites(
        (22, 46, 70, 82),
        _columns(*range(4, 59, 9), *range(69, 115, 9)),
        bands=((22, 46), (82, 70)),
    ),
}
"""By the option of nextpnr that names the device."""

WEIGHT = ("--placer-heap-timingweight", "45")
"""Option of nextpnr where block RAMs have places.

Of 20, 30 and 45 the one with which five seeds of each of four units of one lane were at the
vendor's limit. Of one netlist of four lanes, with one seed: 193 MHz with 20, 227 with 60, 201 with
200; of another 241 with 45, 208 with 80.
"""

REROUTE = "--tmg-ripup"
"""Option of nextpnr that routes again what is too slow.

Where the shards of several lanes fill the chip that takes nine minutes and more.
"""


def options_for(options: tuple[str, ...], *, shards: bool) -> tuple[str, ...]:
    """Return the `options` of nextpnr for block RAMs with places, of several `shards` or none."""
    at = options.index(WEIGHT[0])
    changed = (*options[:at], *WEIGHT, *options[at + 2 :])
    return changed if shards else (*changed, REROUTE)


def place_blocks(netlist: dict[str, Any], sites: Sites, groups: Groups = ()) -> int:
    """Give the block RAMs of a unit their places.

    They lie side by side in the natural order of their names, which is that of segments and parts:
    what shares addresses is near, and its registers with it. A segment takes a few columns of
    as few rows as lie near each other.

    Of several `groups` each comes together, half of them in either row of a band, in their order,
    and leaves the middle to the logic between the groups. If they do not fit so, none has a place.

    Parameters
    ----------
    netlist : dict
        Modules by name, as yosys writes them in JSON, with the unit in its harness; a top level
        without one stays as it is. Changed.
    sites : Sites
    groups : sequence of sequences of str
        Names within the unit, as `lately.hdl.memory.map.floorplan_groups` gives them.

    Returns
    -------
    int
        Block RAMs that were placed.
    """
    cells = netlist.get("top.unit", {"cells": {}})["cells"]
    if len(groups) < 2:
        blocks = [name for name, cell in cells.items() if cell["type"] == "DP16KD"]
        blocks.sort(key=_natural)
        places = dict(zip(blocks, sites.near(len(blocks)), strict=True))
    elif all(name in cells for group in groups for name in group):
        places = _in_bands(groups, sites)
    else:
        places = {}
    for name, site in places.items():
        cells[name].setdefault("attributes", {})["BEL"] = site
    return len(places)


def _natural(name: str) -> list[tuple[str, int]]:
    """Return a key by which "part2" comes before "part10"."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def _in_bands(groups: Groups, sites: Sites) -> dict[str, str]:
    """Return the sites of block RAMs by name; of none if the bands are too narrow."""
    in_band = -(-len(groups) // max(1, len(sites.bands)))
    # In pairs, so that a pair of rows has the blocks of one segment beside each other.
    width = 2 * -(-max(map(len, groups)) // 4)
    pitch = len(sites.columns) // in_band
    if not sites.bands or width > pitch:
        return {}
    places = {}
    for number, group in enumerate(groups):
        band = sites.bands[number % len(sites.bands)]
        left = number // len(sites.bands) * pitch
        for index, name in enumerate(group):
            row, place = band[index // 2 % 2], left + index // 4 * 2 + index % 2
            places[name] = sites.name(row, place)
    return places
