"""Place a unit's block RAMs close together; nextpnr alone would scatter them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# Names of block RAMs, for each group of block RAMs to place close together.
Groups = Sequence[Sequence[str]]

TILES = 9 / 4  # average distance between block RAM columns, in tiles


class Sites(NamedTuple):
    rows: tuple[int, ...]  # rows from one edge to the other
    # Column and index in the column of each site, left to right; the same in every row.
    columns: tuple[tuple[int, int], ...]
    # Pairs of adjacent rows, the one nearer to the edge first; empty if there are too few rows.
    bands: tuple[tuple[int, int], ...] = ()

    def name(self, row: int, index: int) -> str:
        column, number = self.columns[index]
        return f"X{column}/Y{row}/EBR{number}"

    def near(self, count: int) -> list[str]:
        """Return the names of `count` adjacent sites in the middle of the device."""
        if not count:
            return []
        sites = len(self.rows) * len(self.columns)
        if count > sites:
            raise ValueError(f"count: must be at most {sites}, the number of sites, not {count}")
        rows = min(self._neighbours(count), key=lambda rows: self._extent(rows, count))
        width = -(-count // len(rows))
        first = (len(self.columns) - width) // 2
        columns = range(first, first + width)
        return [self.name(row, column) for column in columns for row in rows][:count]

    def _neighbours(self, count: int) -> Iterator[tuple[int, ...]]:
        for number in range(-(-count // len(self.columns)), len(self.rows) + 1):
            for first in range(len(self.rows) - number + 1):
                yield self.rows[first : first + number]

    def _extent(self, rows: tuple[int, ...], count: int) -> tuple[float, ...]:
        wide, high = -(-count // len(rows)) * TILES, rows[-1] - rows[0]
        off = abs(rows[0] + rows[-1] - self.rows[0] - self.rows[-1])
        return max(wide, high), wide + high, off


def _columns(*starts: int) -> tuple[tuple[int, int], ...]:
    # Four of every nine columns have block RAMs.
    return tuple((start + 2 * number, number) for start in starts for number in range(4))


# The columns avoid the clock spine in the middle.
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
"""Block RAM sites by the nextpnr option that selects the device."""

# nextpnr option for netlists with placed block RAMs. Of 20, 30 and 45, only with 45 did all five
# seeds of four one-lane units reach the vendor's limit. Higher values were slower.
WEIGHT = ("--placer-heap-timingweight", "45")

# nextpnr option that reroutes slow paths. If the shards of several lanes fill the chip, rerouting
# takes nine minutes or more.
REROUTE = "--tmg-ripup"


def options_for(options: tuple[str, ...], *, shards: bool) -> tuple[str, ...]:
    at = options.index(WEIGHT[0])
    changed = (*options[:at], *WEIGHT, *options[at + 2 :])
    return changed if shards else (*changed, REROUTE)


def place_blocks(netlist: dict[str, Any], sites: Sites, groups: Groups = ()) -> int:
    """Place the block RAMs of a unit inside its harness, and return how many were placed.

    `groups` is the result of `lately.hdl.memory.map.floorplan_groups`; its names are relative to
    the unit. If the groups do not fit, no block RAM is placed.
    """
    cells = netlist.get("top.unit", {"cells": {}})["cells"]
    sites_by_name: dict[str, str] = {}
    if len(groups) < 2:
        # In the natural order of names, blocks that share addresses are next to each other: a
        # segment occupies a few columns in a few adjacent rows.
        blocks = [name for name, cell in cells.items() if cell["type"] == "DP16KD"]
        blocks.sort(key=_natural)
        sites_by_name = dict(zip(blocks, sites.near(len(blocks)), strict=True))
    elif all(name in cells for group in groups for name in group):
        sites_by_name = _in_bands(groups, sites)
    for name, site in sites_by_name.items():
        cells[name].setdefault("attributes", {})["BEL"] = site
    return len(sites_by_name)


def _natural(name: str) -> list[tuple[str, int]]:
    """Return a sort key for which "part2" precedes "part10"."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def _in_bands(groups: Groups, sites: Sites) -> dict[str, str]:
    # The middle of the device remains free for the logic between the groups.
    in_band = -(-len(groups) // max(1, len(sites.bands)))
    # Alternate between the two rows, so that the blocks of a segment are adjacent.
    width = 2 * -(-max(map(len, groups)) // 4)
    pitch = len(sites.columns) // in_band
    if not sites.bands or width > pitch:
        return {}
    sites_by_name = {}
    for number, group in enumerate(groups):
        band = sites.bands[number % len(sites.bands)]
        left = number // len(sites.bands) * pitch
        for index, name in enumerate(group):
            row, column = band[index // 2 % 2], left + index // 4 * 2 + index % 2
            sites_by_name[name] = sites.name(row, column)
    return sites_by_name
