"""Places of the block RAMs of shards."""

import re
from copy import deepcopy

import pytest

from lately.boards.flow.devices import device
from lately.boards.flow.floorplan import SITES, WEIGHT, place_groups, with_option
from lately.golden import preset
from lately.hdl import LaneUnit

BIG = SITES["--85k"]


def groups(shards, segments, parts, blocks=1):
    return [
        [
            f"shard{shard}.core.store.segment{segment}_part{part}.block{block}_0"
            for segment in range(segments)
            for part in range(parts)
            for block in range(blocks)
        ]
        for shard in range(shards)
    ]


def netlist(shards, segments, parts, blocks=1):
    names = [name for group in groups(shards, segments, parts, blocks) for name in group]
    cells = {name: {"type": "DP16KD"} for name in sorted(names, reverse=True)}
    flip_flop = {"type": "TRELLIS_FF"}
    others = {"shard0.core.store.segment0_part0.bit": flip_flop, "a": {"type": "DP16KD"}}
    return {"top": {"cells": {"unit": {"type": "top.unit"}}}, "top.unit": {"cells": cells | others}}


def places(modules):
    """Row and place of each block RAM that has one, by name."""
    found = {}
    for name, cell in modules["top.unit"]["cells"].items():
        if "attributes" in cell:
            match = re.fullmatch(r"X(\d+)/Y(\d+)/EBR(\d)", cell["attributes"]["BEL"])
            column, row, number = map(int, match.groups())
            found[name] = (row, BIG.columns.index((column, number)))
    return found


def test_sites():
    """As many as the device has block RAMs, all different."""
    sites = {
        BIG.name(row, place)
        for band in BIG.bands
        for row in band
        for place in range(len(BIG.columns))
    }
    assert len(sites) == device("ecp5-85k-6").bram == 208
    assert device("ecp5-85k-6").place_and_route[1] in SITES


@pytest.mark.parametrize(("shards", "segments", "parts", "blocks"), [
    (6, 8, 4, 1), (3, 8, 4, 1), (3, 7, 3, 1), (2, 6, 2, 4), (6, 16, 2, 1), (4, 13, 4, 1),
])  # fmt: skip
def test_shards_have_places_of_their_own(shards, segments, parts, blocks):
    modules = netlist(shards, segments, parts, blocks)
    named = groups(shards, segments, parts, blocks)
    assert place_groups(modules, named, BIG) == shards * segments * parts * blocks
    found = places(modules)
    assert len(found) == shards * segments * parts * blocks
    assert len(set(found.values())) == len(found)
    spans = []
    for shard in range(shards):
        own = [place for name, place in found.items() if name.startswith(f"shard{shard}.")]
        rows = {row for row, _ in own}
        columns = [column for _, column in own]
        assert rows <= set(BIG.bands[shard % 2])
        assert max(columns) - min(columns) < 2 * -(-len(own) // 4)
        spans.append((min(rows), min(columns), max(columns)))
    # No shard reaches into another's columns.
    for row, first, last in spans:
        for other_row, other_first, other_last in spans:
            if (row, first) != (other_row, other_first) and row == other_row:
                assert last < other_first or other_last < first


def test_parts_of_a_segment_are_neighbours():
    modules = netlist(6, 8, 4)
    place_groups(modules, groups(6, 8, 4), BIG)
    found = places(modules)
    for segment in range(8):
        name = f"shard3.core.store.segment{segment}_part"
        own = [found[f"{name}{part}.block0_0"] for part in range(4)]
        assert len({row for row, _ in own}) == 2
        assert len({column for _, column in own}) == 2


@pytest.mark.parametrize(("shards", "segments", "parts"), [(1, 8, 4), (6, 17, 2), (3, 14, 4)])
def test_netlists_that_stay(shards, segments, parts):
    """One shard alone has no places; and shards that are too large have none."""
    modules = netlist(shards, segments, parts)
    before = deepcopy(modules)
    assert place_groups(modules, groups(shards, segments, parts), BIG) == 0
    assert modules == before
    # Those that are not in it.
    assert place_groups(modules, groups(6, 8, 5), BIG) == 0
    assert modules == before


def test_groups_of_a_unit():
    """By shard, then by segment and part; a portable memory has no blocks."""
    spec = preset("two-lanes-tiny")
    assert list(map(list, LaneUnit(spec, memory="ecp5").floorplan_groups)) == groups(3, 5, 2)
    assert LaneUnit(spec).floorplan_groups == ()


def test_weight_takes_the_place_of_the_devices():
    options = device("ecp5-85k-6").place_and_route
    found = with_option(options, *WEIGHT)
    assert len(found) == len(options)
    assert found.count(WEIGHT[0]) == 1
    assert found[found.index(WEIGHT[0]) + 1] == WEIGHT[1]
    assert with_option(("a",), "b", "c") == ("a", "b", "c")
