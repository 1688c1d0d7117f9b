"""Dictionary units of explicit block RAMs, compiled, with models that answer with garbage."""

import numpy as np
import pytest

from lately.golden import Operation, dictionary_preset, from_spec
from lately.hdl.dictionary.dictionary_figures import swept_per_row
from lately.sim import CompiledUnit
from lately.sim.toolchain import cell_models

CODES = (Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT, Operation.REMOVE)
PIPELINE = 30
"""Clocks that the last operations of a stream take to leave."""


def streams(spec, count):
    """Operations, keys and windows by name, and the share of clocks that may be idle."""
    rng = np.random.default_rng(2)
    codes = rng.choice(CODES, count, p=[0.25, 0.2, 0.5, 0.05])
    checks = np.full(count, Operation.CHECK_AND_INSERT)
    windows = rng.integers(1, spec.window + 1, count)
    most = 1 << min(62, spec.key_bits)
    few, some = min(most, 12), min(most, 3 * spec.window)
    return {
        "distinct": (checks, rng.integers(0, most, count), windows, 0),
        "mixed": (codes, rng.integers(0, some, count), windows, 0),
        "near": (codes, rng.integers(0, few, count), windows, 0),
        "one key": (checks, np.full(count, 7), windows, 0),
        # Both write the first column, whose sweep takes a clock or two for each row.
        "two keys": (checks, np.arange(count) % 2, windows, 0.15),
    }


def fill(unit, model):
    """Insert random keys into empty columns, until the first no longer takes nearly all of them.

    Before insertion k that has fewer than k cells in use, and leaves the sweep the clock with a
    chance of k / rows. So after k insertions the sweep has had k^2 / (2 rows) clocks, and a row
    every s insertions needs k / s. Until these are as many, when k is 2 rows / s, the input rests
    for a clock a row. After twice as many insertions the sweep has had twice what it needs.
    """
    spec = unit.spec
    due = 4 * spec.rows // swept_per_row(spec) ** 2
    keys = np.random.default_rng(1).integers(
        0, 1 << min(62, spec.key_bits), due * swept_per_row(spec)
    )
    start = unit.cycles
    unit.apply(np.full(len(keys), Operation.INSERT), keys)
    model.insert(keys)
    rested = unit.cycles - start - len(keys)
    print(f"filling: {rested} clocks of rest or latency, {due} rows due")
    assert rested <= due + PIPELINE


def opened(spec):
    # Long runs are worth it.
    return CompiledUnit(spec, memory="ecp5", optimisation=2 if spec.window > 100 else 0)


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("name", "count"),
    [("tiny", 50_000), *(pytest.param(name, 1_000_000, marks=pytest.mark.slow)
                         for name in ("1000", "10000"))],
)  # fmt: skip
def test_like_golden_one_operation_a_clock(name, count):
    assert cell_models("DP16KD")
    spec = dictionary_preset(name)
    unit, model = opened(spec), from_spec(spec)
    fill(unit, model)
    for stream, (codes, keys, windows, idle) in streams(spec, count).items():
        start = unit.cycles
        ages = unit.perform(codes, keys, windows=windows).age
        clocks = unit.cycles - start
        wrong = np.flatnonzero(ages != model.apply(codes, keys, windows=windows).age)
        print(f"{name}, {stream}: {clocks / count:.4f} clocks an operation")
        assert not len(wrong), f"{stream}: operation {wrong[0]} of {len(wrong)}"
        assert clocks <= count * (1 + idle) + PIPELINE, stream
    assert np.array_equal(unit.memory, model.memory)
    assert unit.statistics["insertions"] == model.insertions
    assert unit.statistics["lost"] == model.lost


@pytest.mark.rtl
def test_pauses():
    spec = dictionary_preset("tiny")
    unit, model = opened(spec), from_spec(spec)
    codes, keys, windows, _ = streams(spec, 20_000)["mixed"]
    start = unit.cycles
    ages = unit.perform(codes, keys, windows=windows, pause_before=0.3, pause_after=0.5).age
    assert np.array_equal(ages, model.apply(codes, keys, windows=windows).age)
    assert unit.cycles - start > 1.4 * len(codes)
