"""Memory maps, compared with the units that are built."""

import re

import numpy as np
import pytest
from amaranth.back import rtlil
from cases import daily

from lately.golden import any_preset, dictionary_preset, preset
from lately.hdl import filter_unit
from lately.hdl.memory.map import (
    BLOCK_KINDS,
    CELL_VARIANTS,
    Position,
    floorplan_groups,
    memory_map,
    segment_map,
)
from lately.hdl.memory.segment import VARIANTS, segment_memory

TINY = ["tiny", "apbf-tiny", "gebf-tiny", "two-lanes-tiny"]


class Hierarchy:
    """Cells and memories of a design, by path."""

    def __init__(self, component):
        text = rtlil.convert(component, name="top", emit_src=False)
        bodies = re.findall(r"^module \\(\S+)\n(.*?)^end$", text, re.MULTILINE | re.DOTALL)
        self._modules = dict(bodies)
        self.cells = {}
        self.memories = {}
        self._walk("top", ())

    def _walk(self, name, path):
        body = self._modules[name]
        for width, words, memory in re.findall(
            r"^  memory width (\d+) size (\d+) \\(\S+)", body, re.M
        ):
            self.memories[*path, memory] = (int(words), int(width))
        for kind, cell in re.findall(r"^  cell \\(\S+) \\(\S+)", body, re.MULTILINE):
            self.cells[*path, cell] = kind
            if kind in self._modules:
                self._walk(kind, (*path, cell))


def check(memories, hierarchy):
    """Check that the map and the design have the same memories and block RAMs."""
    for memory in memories:
        if memory.cell:
            assert hierarchy.cells[memory.path] == memory.cell
        else:
            assert hierarchy.memories[memory.path] == (memory.words, memory.width)
    kinds = {kind.cell for kind in BLOCK_KINDS.values()}
    blocks = {path for path, kind in hierarchy.cells.items() if kind in kinds}
    assert blocks == {memory.path for memory in memories if memory.cell}


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        pytest.param(
            name,
            memory,
            # Rings of all families have the same memories, so one ring is tested with all variants.
            marks=pytest.mark.slow if name != "tiny" and memory != "ecp5" else (),
        )
        for name in TINY
        for memory in VARIANTS
    ],
)
def test_units_have_these_memories(name, memory):
    spec = preset(name)
    unit = filter_unit(spec, memory=memory)
    layout = unit.memory_map
    check(layout.memories, Hierarchy(unit))
    assert (layout.segments, layout.parts, layout.cells) == (
        spec.segments, spec.parts, spec.part_bits,
    )  # fmt: skip
    assert_distinct_positions(layout)


def assert_distinct_positions(layout):
    """No two cells have the same position, and all are within their memories."""
    cells = np.arange(layout.cells)
    words = np.array([memory.words for memory in layout.memories])
    addresses = []
    for segment, part in np.ndindex(layout.segments, layout.parts):
        number, word, bit = np.broadcast_arrays(*layout.find(segment, part, cells))
        assert (word < words[number]).all()
        assert bit.max() < min(memory.width for memory in layout.memories)
        addresses.append((number << 32) + (word << 8) + bit)
    assert len(np.unique(addresses)) == layout.segments * layout.parts * layout.cells


@pytest.mark.parametrize("memory", VARIANTS)
@pytest.mark.parametrize(
    ("depth", "clear_bits"),
    daily(4, [(2, 1), (16, 4), (64, 32), (1 << 13, 8), (1 << 16, 16), (1 << 16, 64)]),
)
def test_segments_of_several_blocks(memory, depth, clear_bits):
    layout = segment_map(memory, depth=depth, clear_bits=clear_bits)
    check(
        layout.memories,
        Hierarchy(segment_memory(memory, depth=depth, clear_bits=clear_bits)),
    )
    assert_distinct_positions(layout)


def test_positions_by_hand():
    layout = segment_map("ecp5", depth=1 << 16, clear_bits=32)
    assert [memory.path for memory in layout.memories] == [
        ("block0_0",), ("block0_1",), ("block1_0",), ("block1_1",),
    ]  # fmt: skip
    assert layout.find(0, 0, 15) == Position(0, 0, 16)
    assert layout.find(0, 0, 7) == Position(0, 0, 7)
    assert layout.find(0, 0, 8) == Position(0, 0, 9)
    assert layout.find(0, 0, 16) == Position(1, 0, 0)
    assert layout.find(0, 0, 35) == Position(0, 1, 3)
    assert layout.find(0, 0, (1 << 15) + 49) == Position(3, 1, 1)


def test_shards_follow_each_other():
    spec = preset("two-lanes-tiny")
    layout = memory_map(spec)
    last = layout.find(spec.segments - 1, spec.parts - 1, spec.part_bits - 1)
    assert last.memory == len(layout.memories) - 1
    assert layout.memories[-1].path == ("shard2", "core", "store", "segment4_part1", "words")
    assert layout.memories[-1].shard == 2


def test_gather():
    spec = preset("blocked-gebf-tiny")
    expected = np.random.default_rng(5).random((spec.segments, spec.parts, spec.part_bits)) < 0.5
    for memory in ("portable", "ecp5"):
        layout = memory_map(spec, memory=memory)
        held = {m.path: np.zeros((m.words, m.width), np.bool_) for m in layout.memories}
        for (segment, part, cell), bit in np.ndenumerate(expected):
            position = layout.find(segment, part, cell)
            held[layout.memories[position.memory].path][position.word, position.bit] = bit
        assert np.array_equal(layout.gather(lambda m, held=held: held[m.path]), expected)


@pytest.mark.parametrize("name", ["dictionary-tiny", "timing-tiny", "timing-default"])
@pytest.mark.parametrize("memory", CELL_VARIANTS)
def test_every_bit_of_a_cell_has_a_separate_position(name, memory):
    layout = memory_map(any_preset(name), memory=memory)
    parts, cells, bits = any_preset(name).cell_shape
    assert (layout.segments, layout.parts, layout.cells) == (parts, bits, cells)
    positions = set()
    for part, bit in np.ndindex(parts, bits):
        position = layout.find(part, bit, np.arange(cells))
        held = layout.memories[position.memory]
        assert (position.word < held.words).all()
        assert (np.asarray(position.bit) < held.width).all()
        at = np.broadcast_arrays(position.memory, position.word, position.bit)
        positions |= set(zip(*(numbers.tolist() for numbers in at), strict=True))
    assert len(positions) == parts * bits * cells


def test_cells_are_read_as_golden_has_them():
    spec = dictionary_preset("tiny")
    layout = memory_map(spec)
    bits = np.zeros((3, spec.cell_bits, 16), np.bool_)
    for row, age in ((2, 1), (7, 5), (9, spec.window + 1)):
        word = 1 | (100 - age) << 1 | 9 << 1 + spec.timestamp_bits
        bits[1, :, row] = [word >> bit & 1 for bit in range(spec.cell_bits)]
    cells = layout.decode(bits, 100)
    assert cells.shape == (2, 3, 16)
    assert np.argwhere(cells[0]).tolist() == [[1, 2], [1, 7]]
    assert (cells[0, 1, [2, 7]].tolist(), cells[1, 1, [2, 7, 9]].tolist()) == ([1, 5], [9, 9, 0])


def test_floorplan_groups():
    spec = preset("two-lanes-tiny")
    first, *_, last = floorplan_groups(memory_map(spec, memory="ecp5").memories)
    assert first[0] == "shard0.core.store.segment0_part0.block0_0"
    assert last[-1] == "shard2.core.store.segment4_part1.block0_0"
    assert floorplan_groups(memory_map(spec).memories) == ()
