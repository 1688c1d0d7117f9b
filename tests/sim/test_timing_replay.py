"""Timing units of explicit block RAMs, compiled, with models that answer with garbage."""

import numpy as np
import pytest
from compiled_timing import CompiledTiming

from lately.golden import Operation, from_spec, timing_preset
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


def golden_of(model, codes, keys, windows, times):
    return model.perform(codes, keys.astype(np.uint64), *times, windows)


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("name", "count", "rounds"),
    [("tiny", 50_000, 170), ("counted-tiny", 50_000, 500),
     pytest.param("small", 2_000_000, 3, marks=pytest.mark.slow)],
)  # fmt: skip
def test_like_golden_at_full_rate(name, count, rounds):
    """While stamps come round so many times."""
    assert cell_models("DP16KD")
    spec = timing_preset(name)
    unit, model = CompiledTiming(spec), from_spec(spec)
    interval = unit.top.unit.profile.rest_interval
    most = count * interval / (interval - 1) if interval else count
    for stream, (codes, keys, windows) in streams(spec, count).items():
        told, times, clocks = unit.apply(codes, keys, windows)
        due = golden_of(model, codes, keys, windows, times)
        differs = [one != other for one, other in zip(told, due, strict=True)]
        wrong = np.flatnonzero(np.any(differs, axis=0))
        print(f"{stream}: {clocks / count:.4f} clocks an operation, {due.seen.mean():.2f} seen")
        assert not len(wrong), f"{stream}: operation {wrong[0]} of {len(wrong)}"
        assert clocks <= most + PIPELINE, stream
        ages, now = unit.ages()
        cells = model.memory_at(now) if times else model.memory
        assert np.array_equal(ages, cells), stream
    assert now >= rounds << spec.stamp_bits
    assert unit.counts["insertions"] == model.insertions


@pytest.mark.rtl
@pytest.mark.parametrize("name", ["tiny", "counted-tiny"])
def test_pauses_and_clears(name):
    spec = timing_preset(name)
    unit, model = CompiledTiming(spec), from_spec(spec)
    for silence in (0, 700, 1500, 4000):
        codes, keys, windows = streams(spec, 5_000)["mixed"]
        codes[::1000] = Operation.CLEAR
        (seen, age, oldest), times, clocks = unit.apply(codes, keys, windows, pauses=(80, 120))
        due = golden_of(model, codes, keys, windows, times)
        with_key = codes != Operation.CLEAR
        assert np.array_equal(seen, due.seen)
        assert np.array_equal(age[with_key], due.age[with_key])
        assert np.array_equal(oldest[with_key], due.oldest[with_key])
        assert clocks > 1.4 * len(codes)
        unit.idle(silence)
