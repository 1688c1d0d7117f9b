"""Places for the block RAMs of shards, which nextpnr's placer would scatter."""

from collections.abc import Sequence
from typing import Any, NamedTuple

Groups = Sequence[Sequence[str]]
"""Names of the block RAMs of each group that belongs together, in their order."""


class Sites(NamedTuple):
    """Where the block RAMs of a device are.

    Attributes
    ----------
    bands : tuple of (int, int)
        Pairs of rows, each near its fellow, the first of a pair towards the edge.
    columns : tuple of (int, int)
        Column and number within it, from left to right; the same in every row.
    """

    bands: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]

    def name(self, row: int, place: int) -> str:
        """Return what nextpnr calls the site at a `place` of a `row`."""
        column, number = self.columns[place]
        return f"X{column}/Y{row}/EBR{number}"


# Four in every nine columns, but for the clock's spine in the middle.
_85K = tuple((left + 2 * number, number)
             for left in (*range(4, 59, 9), *range(69, 115, 9)) for number in range(4))  # fmt: skip
SITES = {"--85k": Sites(bands=((22, 46), (82, 70)), columns=_85K)}
"""By the option of nextpnr that names the device."""

WEIGHT = ("--placer-heap-timingweight", "45")
"""Option of nextpnr for units of shards, whose ways are long.

Of one netlist of four lanes, with one seed: 193 MHz with 20, 227 with 60, 201 with 200; of another
241 with 45, 208 with 80.
"""


def place_groups(netlist: dict[str, Any], groups: Groups, sites: Sites) -> int:
    """Give the block RAMs of a unit of several shards their places.

    Those of a group come together, half of them in either row of a band, in
    their order: what belongs together is near, and its registers with it. A
    netlist of fewer than two groups, or whose groups do not fit so, stays as
    it is.

    Parameters
    ----------
    netlist : dict
        Modules by name, as yosys writes them in JSON.
    groups : sequence of sequences of str
        Names within the unit, as `lately.hdl.memory.map.floorplan_groups` gives them.

    Returns
    -------
    int
        Block RAMs that were placed.
    """
    if len(groups) < 2:
        return 0
    for module in netlist.values():
        cells = module["cells"]
        if all(name in cells for group in groups for name in group):
            return _place([[cells[name] for name in group] for group in groups], sites)
    return 0


def _place(groups: list[list[dict[str, Any]]], sites: Sites) -> int:
    in_band = -(-len(groups) // len(sites.bands))
    # In pairs, so that a pair of rows has the blocks of one segment beside each other.
    width = 2 * -(-max(map(len, groups)) // 4)
    pitch = len(sites.columns) // in_band
    if width > pitch:
        return 0
    for number, group in enumerate(groups):
        band = sites.bands[number % len(sites.bands)]
        left = number // len(sites.bands) * pitch
        for index, cell in enumerate(group):
            row, place = band[index // 2 % 2], left + index // 4 * 2 + index % 2
            cell.setdefault("attributes", {})["BEL"] = sites.name(row, place)
    return sum(map(len, groups))


def with_option(options: tuple[str, ...], name: str, value: str) -> tuple[str, ...]:
    """Return the options of a command line with another `value` for the one of that `name`."""
    if name not in options:
        return (*options, name, value)
    at = options.index(name) + 1
    return (*options[:at], value, *options[at + 1 :])
