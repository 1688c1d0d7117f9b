"""Timing units of explicit block RAMs, compiled, with models that answer with garbage."""

from dataclasses import replace

import numpy as np
import pytest

from lately.golden import Operation, from_spec, timing_preset
from lately.sim import compiled_unit
from lately.sim.toolchain import cell_models

CODES = (Operation.NONE, Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT)
PIPELINE = 30
"""Clocks that the last operations of a stream take to leave."""


def streams(spec, count):
    """Operations, keys and windows by name."""
    rng = np.random.default_rng(4)
    codes = rng.choice(CODES, count, p=[0.1, 0.4, 0.1, 0.4])
    rare = rng.choice(CODES, count, p=[0, 0.98, 0.02, 0])
    windows = rng.integers(0, spec.window_blocks + 1, count)
    some, turns = spec.cells // 2, np.arange(count) // 500
    return {
        "distinct": (codes, np.arange(count) % (1 << 16), windows),
        "mixed": (codes, rng.integers(0, some, count), windows),
        "rare insertions": (rare, rng.integers(0, some, count), windows),
        # Of a few keys at a time, which are left alone for several rounds of stamps.
        "in turn": (codes, 7 * (turns % 40) + rng.integers(0, 3, count), windows),
    }


def opened(name):
    spec = timing_preset(name)
    long = spec.cells > 16
    how = {"memory": "ecp5", "optimisation": 2 if long else 0}
    return compiled_unit(spec, **how), from_spec(spec), spec


def perform(unit, codes, keys, windows, **pauses):
    """Perform operations, in time while ticks come; return the answers, times if any, clocks."""
    start = unit.cycles
    if unit.spec.timed:
        told = unit.perform_freely(codes, keys, windows, **pauses)
        return told, [told.time], unit.cycles - start
    return unit.perform(codes, keys, windows=windows, **pauses), [], unit.cycles - start


def differing(told, due):
    names = ("seen", "age", "oldest")
    return np.any([getattr(told, name) != getattr(due, name) for name in names], axis=0)


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("name", "count", "rounds"),
    [("tiny", 50_000, 170), ("counted-tiny", 50_000, 500),
     pytest.param("small", 2_000_000, 3, marks=pytest.mark.slow)],
)  # fmt: skip
def test_like_golden_at_full_rate(name, count, rounds):
    """While stamps come round so many times."""
    assert cell_models("DP16KD")
    unit, model, spec = opened(name)
    interval = unit.profile.rest_interval
    most = count * interval / (interval - 1) if interval else count
    for stream, (codes, keys, windows) in streams(spec, count).items():
        told, times, clocks = perform(unit, codes, keys, windows)
        due = model.perform(codes, keys, *times, windows=windows)
        wrong = np.flatnonzero(differing(told, due))
        print(f"{stream}: {clocks / count:.4f} clocks an operation, {due.seen.mean():.2f} seen")
        assert not len(wrong), f"{stream}: operation {wrong[0]} of {len(wrong)}"
        assert clocks <= most + PIPELINE, stream
        cells = model.memory_at(unit.ticks) if times else model.memory
        assert np.array_equal(unit.memory, cells), stream
    ticks = unit.ticks if times else model.insertions // spec.block
    assert ticks >= rounds << spec.stamp_bits
    assert unit.statistics["insertions"] == model.insertions


@pytest.mark.rtl
@pytest.mark.parametrize("name", ["tiny", "counted-tiny"])
def test_pauses_and_clears(name):
    unit, model, spec = opened(name)
    for silence in (0, 700, 1500, 4000):
        codes, keys, windows = streams(spec, 5_000)["mixed"]
        codes[::1000] = Operation.CLEAR
        told, times, clocks = perform(unit, codes, keys, windows, pause_before=0.3, pause_after=0.5)
        due = model.perform(codes, keys, *times, windows=windows)
        with_key = codes != Operation.CLEAR
        assert not differing(told, due)[with_key].any()
        assert not told.seen[~with_key].any()
        assert clocks > 1.4 * len(codes)
        cells = model.memory_at(unit.ticks) if times else model.memory
        assert np.array_equal(unit.memory, cells)
        unit.idle(silence)


@pytest.mark.rtl
def test_given_times():
    """Of the very ticks at which keys expire, and silences in which all do."""
    unit, model, spec = opened("tiny")
    rng = np.random.default_rng(5)
    count = 3_000
    for seed in (1, 2):
        codes = rng.choice(CODES, count)
        codes[count // 2] = Operation.CLEAR
        keys = rng.integers(0, 12, count)
        gaps = rng.choice([0, 1, 2, spec.span, spec.span + 1, 10**12], count,
                          p=[0.8, 0.1, 0.07, 0.01, 0.01, 0.01])  # fmt: skip
        times = np.cumsum(gaps) + (seed - 1) * 10**15
        windows = rng.integers(0, spec.window_blocks + 1, count)
        before = unit.ticks
        told = unit.perform(codes, keys, times, windows)
        due = model.perform(codes, keys, times, windows)
        with_key = codes != Operation.CLEAR
        assert not differing(told, due)[with_key].any(), f"seed {seed}"
        # As many ticks as the stream has, but for what comes after all have expired.
        passed = np.minimum(np.diff(times, prepend=(seed - 1) * 10**15), spec.span + 1)
        passed[0] = told.time[0] - before
        assert np.array_equal(told.time, before + np.cumsum(passed))
        assert np.array_equal(unit.memory, model.memory_at(int(times[-1])))
    with pytest.raises(ValueError, match=r"^timestamps: must never decrease"):
        unit.perform([1], [1], [5])
    assert unit.check_and_insert([3, 3]).tolist()[1]
    assert unit.statistics["operations"] == 2 * count + 2


@pytest.mark.rtl
@pytest.mark.slow
def test_ticks_of_long_blocks():
    """The ages of cells by count, where clears come within blocks of several insertions."""
    spec = replace(timing_preset("counted-tiny"), window=21, block=3)
    unit, model = compiled_unit(spec, optimisation=1), from_spec(spec)
    for _ in range(3):
        codes, keys, windows = streams(spec, 3_001)["mixed"]
        codes[::500] = Operation.CLEAR
        due = model.perform(codes, keys, windows=windows * spec.block)
        told = unit.perform(codes, keys, windows=windows * spec.block)
        assert not differing(told, due)[codes != Operation.CLEAR].any()
        assert np.array_equal(unit.memory, model.memory)
    unit.reset()
    assert not unit.check_and_insert(np.arange(3)).any()
    with pytest.raises(ValueError, match=r"^windows: must be multiples of block = 3, not 4"):
        unit.perform([1], [1], windows=4)
