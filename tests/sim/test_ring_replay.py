"""Compiled dictionaries with moves: at one operation a clock, and where digests overfill them."""

from dataclasses import replace

import numpy as np
import pytest
from mutants import broken
from ring_defects import DEFECTS, HOMES

from lately.golden import Operation, WindowDictionary, WindowDictionarySpec, dictionary_preset
from lately.golden.spec.dictionary_sizes import MOST_MOVING_COLUMNS, MOVING, least_columns
from lately.hdl.dictionary.dictionary_figures import MAX_STALL, STALL_PERIOD
from lately.sim import CompiledUnit

pytestmark = [pytest.mark.rtl, pytest.mark.slow]

CODES = (Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT, Operation.REMOVE)


@pytest.mark.parametrize("name", ["ring-1000", "ring-10000"])
def test_random_keys_take_one_clock_each_and_none_is_lost(name):
    """Seed 4; no entry is kept past its time, to seem young again."""
    count, spec = 1_000_000, dictionary_preset(name)
    unit, model = CompiledUnit(spec), WindowDictionary.from_spec(spec)
    keys = np.random.default_rng(4).integers(0, 1 << 63, count, np.uint64)
    codes = np.full(count, Operation.CHECK_AND_INSERT)
    before = unit.cycles
    found, expected = unit.perform(codes, keys), model.perform(codes, keys)
    clocks = unit.cycles - before
    print(f"{name}: {clocks / count:.5f} clocks an operation, {unit.statistics}")
    # The input rests while the first column is empty, and a clock now and then for a late sweep.
    assert clocks < 1.0002 * count
    assert np.array_equal(found.age, expected.age)
    assert not found.status.any()
    assert unit.statistics["lost"] == model.lost == 0
    unit.idle(300)
    entries = model.entries_of(unit.memory)
    assert {*map(tuple, entries.tolist())} == {*map(tuple, model.entries.tolist())}


@pytest.mark.parametrize("columns", [2, 3, 5, MOST_MOVING_COLUMNS])
def test_columns_as_full_as_they_are_planned_lose_nothing(columns):
    """As many digests as `least_columns` gives so many columns, and hardly a clock more."""
    rows, count = 256, 400_000
    window = max(
        window
        for window in range(40, rows * columns)
        if least_columns(window, rows, moves=True) == columns
    )
    spec = WindowDictionarySpec(window=window, columns=columns, rows=rows, digest_bits=24, **MOVING)
    compiled = CompiledUnit(spec, optimisation=1)
    keys = np.random.default_rng(4).integers(0, 1 << 63, count, np.uint64)
    start = compiled.cycles
    compiled.perform(np.full(count, Operation.CHECK_AND_INSERT), keys)
    clocks = (compiled.cycles - start) / count
    print(f"window {window}: {clocks:.5f} clocks an operation, {compiled.statistics}")
    assert compiled.statistics["lost"] == 0
    assert clocks < 1.002


# Overfull cells

CROWDED = WindowDictionarySpec(
    window=30, columns=2, rows=16, digest_bits=7, stash=4, moves=64, key_bits=8, seed=3
)
"""As many cells as digests in the window, or fewer, so that entries are always on their way."""
LOADED = WindowDictionarySpec(
    window=60, columns=3, rows=32, digest_bits=9, stash=9, moves=64, key_bits=9, seed=5
)
OVERFULL = replace(CROWDED, window=60, stash=3, digest_bits=8, key_bits=9)
"""Twice as many digests as cells: in every clock something is pushed, displaced or exchanged."""
WIDE = replace(CROWDED, window=90, columns=4, stash=5, digest_bits=8, key_bits=9)
SPECS = {"crowded": CROWDED, "loaded": LOADED, "overfull": OVERFULL, "wide": WIDE}


def streams(spec, count):
    """Operations, keys, windows and the share of pauses, by name."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 1 << spec.key_bits, count)
    windows = rng.integers(1, spec.window + 1, count)
    checks = np.full(count, Operation.CHECK_AND_INSERT)
    mixed = rng.choice(CODES, count, p=[0.2, 0.2, 0.5, 0.1])
    # Queries of what has just been inserted, by windows that just hold it.
    recent, back = rng.choice(CODES[:2], count, p=[0.4, 0.6]), rng.integers(1, 9, count)
    asked = np.where(recent == Operation.QUERY, np.roll(keys, 1), keys)
    return {
        "distinct": (checks, keys, windows, 0),
        "mixed": (mixed, keys, windows, 0),
        "near": (mixed, keys % (spec.window * 3 // 2), windows, 0),
        "few": (mixed, keys % (spec.window * 3 // 4), windows, 0.3),
        "recent": (recent, asked, np.minimum(back, spec.window), 0),
    }


def first_wrong(spec, count=40_000):
    """Return the stream with an answer that the unit vouches for and an exact list denies."""
    compiled = CompiledUnit(spec, memory="ecp5", optimisation=1)
    for stream, (codes, keys, windows, pause) in streams(spec, count).items():
        compiled.reset()
        exact = WindowDictionary.from_spec(replace(spec, stash=256))
        expected = exact.apply(codes, keys, windows=windows).age
        assert exact.lost == 0
        start = compiled.cycles
        found = compiled.perform(codes, keys, windows=windows, pause_before=pause)
        clocks = (compiled.cycles - start) / count
        age = np.where(found.seen, found.age, -1)
        missed = (found.status > 0) & (age < 0)
        wrong = np.isin(codes, CODES[::2]) & (age != expected) & ~missed
        print(f"{stream}: {clocks:.4f} clocks an operation, {compiled.statistics}")
        if wrong.any():
            return stream, int(np.flatnonzero(wrong)[0])
    return None


@pytest.mark.parametrize("name", SPECS)
def test_crowded_columns_tell_what_they_miss(name):
    assert first_wrong(SPECS[name]) is None


def test_overfull_cells_cost_few_clocks():
    """240 digests in turn, for which there are 192 cells."""
    count = 200_000
    spec = WindowDictionarySpec(
        window=240, columns=3, rows=64, digest_bits=20, stash=16, moves=64, key_bits=32
    )
    compiled = CompiledUnit(spec)
    exact = WindowDictionary.from_spec(replace(spec, stash=256))
    keys, codes = np.arange(count) % 240, np.full(count, Operation.CHECK_AND_INSERT)
    start = compiled.cycles
    found, expected = compiled.perform(codes, keys), exact.apply(codes, keys)
    clocks = (compiled.cycles - start) / count
    print(f"{clocks:.4f} clocks an operation, {compiled.statistics['lost']} given up")
    assert 1 < clocks < (1 + MAX_STALL / STALL_PERIOD) * 1.01
    assert compiled.statistics["lost"] > 0
    assert not ((found.age != expected.age) & ~((found.status > 0) & ~found.seen)).any()


@pytest.mark.parametrize(("component", "old", "new"), DEFECTS)
def test_defect_is_found(monkeypatch, component, old, new):
    monkeypatch.setattr(HOMES[component], component.__name__, broken(component, old, new))
    found = [first_wrong(SPECS[name]) for name in ("crowded", "loaded", "overfull")]
    print(found)
    assert any(found)
