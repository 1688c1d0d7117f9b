"""A segment that leaves the ring is cleared in steps, which nothing shows."""

import numpy as np
import pytest
from paths import taking

from lately.golden import FilterSpec, compilation, from_spec, load
from lately.golden.ring.compiled_segments import CompiledSegments

pytestmark = pytest.mark.skipif(
    compilation.extension() is None, reason="the extension module is not built"
)

GENERATION = 60
"""Insertions of a generation; a clear takes 3 to 30 of them."""

RINGS = {
    "gebf": FilterSpec(family="gebf", window=240, epochs=4, hashes=3, bits=600_000),
    "gebf of 16 bits": FilterSpec(family="gebf", window=480, epochs=8, hashes=2, bits=450_007),
    "apbf": FilterSpec(family="apbf", k=3, l=4, slice_bits=66_666, generation=60),
    "apbbf": FilterSpec(
        family="apbbf", k=2, l=3, block_bits=64, hashes_per_block=4, blocks=4_999, generation=60
    ),
}  # fmt: skip


def on_both(spec):
    filters = []
    for path in ("compiled", "readable"):
        with taking(path):
            filters.append(from_spec(spec))
    return filters


def same(fast, slow):
    assert np.array_equal(fast.memory, slow.memory)
    assert fast == slow
    assert (fast.fill_ratios() == slow.fill_ratios()).all()
    assert fast.counters == slow.counters


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("singly", [False, True])
def test_memory_around_a_turn(name, singly, tmp_path):
    """Calls end just before, at and after a turn, and in the middle and at the end of a clear."""
    keys = np.random.default_rng(1).integers(0, 1 << 64, 9 * GENERATION, np.uint64)
    turn = 7 * GENERATION
    for end in (turn - 1, turn, turn + 1, turn + 5, turn + GENERATION):
        fast, slow = on_both(RINGS[name])
        for key in keys[:end].tolist() if singly else [keys[:end]]:
            fast.insert(key)
        slow.insert(keys[:end])
        fast.save(tmp_path / "filter.npz")
        with taking("compiled"):
            again = load(tmp_path / "filter.npz")
        same(fast, slow)
        same(again, slow)
        for some in (fast, slow, again):
            some.insert(keys[end:])
        same(fast, slow)
        same(again, slow)


@pytest.mark.parametrize("name", RINGS)
def test_many_turns_without_a_look(name):
    """Turns that come early clear the rest of the segment before."""
    random = np.random.default_rng(2)
    fast, slow = on_both(RINGS[name])
    for _ in range(20):
        keys = random.integers(0, 1 << 64, int(random.integers(1, 90)), np.uint64)
        turns, length = int(random.integers(3)), int(random.integers(1, 99))
        for some in (fast, slow):
            some.insert(keys)
            for _ in range(turns):
                some.shift()
            some.generation = length
    same(fast, slow)
    fast.insert(keys)
    fast.clear()
    slow.clear()
    slow.insert([])
    assert not fast.memory.any()
    fast.insert(keys)
    slow.insert(keys)
    assert np.array_equal(fast.memory, slow.memory)


def test_steps_of_a_clear():
    """After a turn the old bits are there, and each insertion clears 4 KiB of 117."""
    fast, _ = on_both(RINGS["gebf"])
    fast.insert(np.arange(6 * GENERATION, dtype=np.uint64))
    raw, retired = fast._segments._memory, None
    counts = []
    for number in range(GENERATION):
        fast.insert(np.array([10_000 + number], np.uint64))
        if retired is None:
            retired = (fast.ring_position - 1) % fast.spec.segments
        counts.append(int((raw >> np.uint8(retired) & 1).sum()))
    assert counts[0] > counts[10] > counts[20] > 0 == counts[40]
    assert counts == sorted(counts, reverse=True)
    fast.insert(np.array([1], np.uint64))
    assert fast.shifts == 7


def test_queries_write_nothing():
    """A query in the middle of a clear leaves every byte."""
    fast, _ = on_both(RINGS["gebf"])
    fast.insert(np.arange(6 * GENERATION + 1, dtype=np.uint64))
    before = fast._segments._memory.copy()
    fast.query(np.arange(5000, dtype=np.uint64))
    assert all(key in fast for key in range(6 * GENERATION - 100, 6 * GENERATION))
    assert np.array_equal(before, fast._segments._memory)


def test_a_clear_ends_with_the_memory():
    """The pace is 4,097 bytes here, and the bytes behind the last whole step fewer than a word."""
    model = from_spec(
        FilterSpec(family="gebf", window=4108, epochs=4, hashes=1, bits=5 * 4_206_594)
    )
    size = model._segments.memory.size
    memory = np.full(size + 64, 0xFF, np.uint8)
    memory[:size] = 0
    model._adopt(CompiledSegments(model._layout, model._numbers, memory[:size]))
    for key in range(3 * 1027):
        model.insert(key)
    assert (memory[size:] == 0xFF).all()
