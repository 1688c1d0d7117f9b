"""Places of the block RAMs of a unit."""

from copy import deepcopy
from itertools import chain

import pytest

from lately.boards.flow.devices import DEVICES, device
from lately.boards.flow.floorplan import SITES, options_for, place_blocks
from lately.golden import preset
from lately.hdl.build import filter_unit

BIG = SITES["--85k"]
# An LFE5U-12F has fewer block RAMs than its die, and nextpnr places them all itself.
ECP5 = [
    known for known in DEVICES.values() if known.family == "ecp5" and known.name != "ecp5-12k-6"
]


def blocks(segments, parts, rows=1, path="core.store"):
    return [
        f"{path}.segment{segment}_part{part}.block{row}_0"
        for segment in range(segments)
        for part in range(parts)
        for row in range(rows)
    ]


def netlist(names):
    """Return a harness and its unit, whose block RAMs are in no order."""
    cells = {name: {"type": "DP16KD"} for name in sorted(names, reverse=True)}
    cells["core.store.segment0_part0.bit"] = {"type": "TRELLIS_FF"}
    return {
        "top": {"cells": {"unit": {"type": "top.unit"}, "other": {"type": "DP16KD"}}},
        "top.unit": {"cells": cells},
    }


def sites_of(modules, sites=BIG):
    """Row and place of each block RAM that has one, by name."""
    where = {
        site: (index % len(sites.rows), index // len(sites.rows))
        for index, site in enumerate(sites.near(len(sites.rows) * len(sites.columns)))
    }
    cells = modules["top.unit"]["cells"]
    return {
        name: where[cell["attributes"]["BEL"]]
        for name, cell in cells.items()
        if "attributes" in cell
    }


@pytest.mark.parametrize("target", ECP5, ids=lambda target: target.name)
def test_sites(target):
    """As many as the device has block RAMs, all different, and as many left of the middle."""
    sites = SITES[target.place_and_route[1]]
    every = sites.near(target.bram)
    assert len(set(every)) == target.bram == len(sites.rows) * len(sites.columns)
    assert every[0] == f"X4/Y{sites.rows[0]}/EBR0"
    assert every[-1] == f"X{sites.columns[-1][0]}/Y{sites.rows[-1]}/EBR3"


@pytest.mark.parametrize(("count", "rows", "columns"), [
    (1, {1}, 1), (5, {1}, 5), (6, {2, 3}, 3), (30, {2, 3}, 15), (32, {2, 3}, 16),
    # Two rows would be wider than three are high.
    (33, {1, 2, 3}, 11), (80, {0, 1, 2, 3}, 20),
])  # fmt: skip
def test_few_are_in_the_middle_of_near_rows(count, rows, columns):
    modules = netlist(blocks(count, 1))
    assert place_blocks(modules, BIG) == count
    sites = sites_of(modules).values()
    assert {row for row, _ in sites} == rows
    first = (52 - columns) // 2
    assert {column for _, column in sites} == set(range(first, first + columns))


def test_more_than_there_are_have_no_places():
    with pytest.raises(ValueError, match="count: must be at most 208, the number of sites,"):
        BIG.near(209)


def test_all_have_places_of_their_own():
    modules = netlist(blocks(13, 4, 4))
    assert place_blocks(modules, BIG) == 208
    sites = sites_of(modules)
    assert len(set(sites.values())) == 208
    assert "core.store.segment0_part0.bit" not in sites


@pytest.mark.parametrize(("segments", "parts", "rows", "columns"), [
    (8, 4, 1, 2), (13, 4, 4, 4), (10, 8, 1, 2), (18, 2, 1, 2),
])  # fmt: skip
def test_segments_lie_side_by_side(segments, parts, rows, columns):
    """In natural order: after segment 9 comes segment 10."""
    modules = netlist(blocks(segments, parts, rows))
    place_blocks(modules, BIG)
    sites = sites_of(modules)
    last = -1
    for segment in range(segments):
        columns_used = [
            column for name, (_, column) in sites.items() if f"segment{segment}_" in name
        ]
        assert len(columns_used) == parts * rows
        assert max(columns_used) - min(columns_used) < columns
        assert min(columns_used) >= last
        last = max(columns_used)


def groups(shards, segments, parts, rows=1):
    """Return the block RAMs of each shard."""
    return [blocks(segments, parts, rows, f"shard{shard}.core.store") for shard in range(shards)]


def sites_in_bands(modules):
    """Row and column of each block RAM that has a place, by name, in sites."""
    where = {
        BIG.name(row, column): (row, column)
        for row in BIG.rows
        for column in range(len(BIG.columns))
    }
    cells = modules["top.unit"]["cells"].items()
    return {name: where[cell["attributes"]["BEL"]] for name, cell in cells if "attributes" in cell}


@pytest.mark.parametrize(("shards", "segments", "parts", "rows"), [
    (6, 8, 4, 1), (3, 8, 4, 1), (3, 7, 3, 1), (2, 6, 2, 4), (6, 16, 2, 1), (4, 13, 4, 1),
])  # fmt: skip
def test_shards_have_places_of_their_own(shards, segments, parts, rows):
    named = groups(shards, segments, parts, rows)
    modules = netlist([*chain(*named)])
    assert place_blocks(modules, BIG, named) == shards * segments * parts * rows
    sites = sites_in_bands(modules)
    assert len(sites) == shards * segments * parts * rows
    assert len(set(sites.values())) == len(sites)
    spans = []
    for shard in range(shards):
        shard_sites = [site for name, site in sites.items() if name.startswith(f"shard{shard}.")]
        columns = [column for _, column in shard_sites]
        assert {row for row, _ in shard_sites} <= set(BIG.bands[shard % 2])
        assert max(columns) - min(columns) < 2 * -(-len(shard_sites) // 4)
        spans.append((shard % 2, min(columns), max(columns)))
    # No shard reaches into another's columns.
    for band, first, last in spans:
        for other_band, other_first, other_last in spans:
            if (band, first) != (other_band, other_first) and band == other_band:
                assert last < other_first or other_last < first


def test_parts_of_a_segment_of_a_shard_are_neighbours():
    named = groups(6, 8, 4)
    modules = netlist([*chain(*named)])
    place_blocks(modules, BIG, named)
    sites = sites_in_bands(modules)
    for segment in range(8):
        segment_sites = [sites[f"shard3.core.store.segment{segment}_part{part}.block0_0"]
               for part in range(4)]  # fmt: skip
        assert len({row for row, _ in segment_sites}) == 2
        assert len({column for _, column in segment_sites}) == 2


@pytest.mark.parametrize(("shards", "segments", "parts", "size"), [
    (6, 17, 2, "--85k"), (3, 14, 4, "--85k"), (3, 4, 4, "--25k"),
])  # fmt: skip
def test_shards_that_have_no_places(shards, segments, parts, size):
    """Those that are too large; others than in the netlist; a device without bands."""
    named = groups(shards, segments, parts)
    modules = netlist([*chain(*named)])
    before = deepcopy(modules)
    assert place_blocks(modules, SITES[size], named) == 0
    assert place_blocks(modules, BIG, groups(6, 8, 5)) == 0
    assert modules == before


def test_groups_of_a_unit():
    """By shard, then by segment and part; a portable memory has no blocks."""
    spec = preset("two-lanes-tiny")
    assert list(map(list, filter_unit(spec, memory="ecp5").floorplan_groups)) == groups(3, 5, 2)
    assert filter_unit(spec).floorplan_groups == ()


def test_netlists_that_stay():
    """A top level without a harness, and a unit without block RAMs."""
    for modules in ({"top": netlist(blocks(8, 4))["top.unit"]}, netlist([])):
        before = deepcopy(modules)
        assert place_blocks(modules, BIG) == 0
        assert modules == before


def test_other_sizes():
    modules = netlist(blocks(8, 4))
    assert place_blocks(modules, SITES["--25k"]) == 32
    rows = {cell["attributes"]["BEL"].split("/")[1] for name, cell in
            modules["top.unit"]["cells"].items() if "block" in name}  # fmt: skip
    assert rows == {"Y25", "Y37"}
    assert device("ecp5-25k-6").place_and_route[1] == "--25k"


def test_options():
    """Long wires count for more; what is too slow is routed again, but not among shards."""
    assert options_for(("a", "--placer-heap-timingweight", "20", "b"), shards=True) == (
        "a", "--placer-heap-timingweight", "45", "b",
    )  # fmt: skip
    options = device("ecp5-85k-6").place_and_route
    assert options_for(options, shards=False)[-1] == "--tmg-ripup"
