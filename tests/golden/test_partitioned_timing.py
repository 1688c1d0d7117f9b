"""Partitioned timing Bloom filters against their scalar twin, and the edges of their windows."""

from copy import deepcopy

import numpy as np
import pytest

from lately.golden import (
    Operation,
    PartitionedTimingFilter,
    TimedTimingFilter,
)
from lately.golden.spec.timestamp import TimedTimingSpec

LARGE = {"hashes": 3, "cells": 1 << 12}


@pytest.mark.parametrize("silence", [0, 1, 2**31, 2**40])
@pytest.mark.parametrize(("period", "phase"), [(1, 0), (10, 0), (10, 9)])
def test_reported_to_the_end_of_each_window_of_time(period, phase, silence):
    """At exactly w, and until the tick after it; by the filter's own window at W."""
    for ticks in range(9):
        model = TimedTimingFilter(span=8 * period, period=period, **LARGE)
        start = silence * period + phase
        model.insert([5], [start])
        last = start - phase + (ticks + 1) * period - 1
        asked = [start + ticks * period, last, last + 1]
        verdicts = model.perform([1, 1, 1], [5] * 3, asked, ticks * period)
        assert verdicts.seen.tolist() == [True, True, False]
        assert verdicts.age.tolist() == [ticks, ticks, ticks + 1]
        assert model.query([5] * 3, asked).tolist() == [True, True, ticks < 8]
        for window in {ticks * period, max(0, ticks * period - period + 1)}:
            assert model.query([5] * 3, asked, window=window).tolist() == [True, True, False]
            for refresh in (True, False):
                seen = deepcopy(model).check_and_insert(5, last + 1, window=window, refresh=refresh)
                assert (seen, model.query(5, last, window=[window])) == (False, True)


@pytest.mark.parametrize("silence", [9, 2**16, 2**40, 2**61])
def test_nothing_comes_again_after_silence(silence):
    model = TimedTimingFilter(span=8, stamp_bits=5, **LARGE)
    model.insert([5], [3])
    verdicts = model.perform([1, 3, 1], [5] * 3, [3 + silence] * 3)
    assert verdicts.seen.tolist() == [False, False, True]
    assert verdicts.age.tolist() == [9, 9, 0]
    assert verdicts.oldest.tolist() == [3] * 3
    assert set(model.memory.ravel().tolist()) == {0, 9}


def test_block_ends_with_its_last_insertion():
    model = PartitionedTimingFilter(window=8, block=4, **LARGE)
    model.insert([1, 2, 3])
    assert model.age([1]).tolist() == [0]
    model.insert([4])
    assert model.age([1, 4, 9]).tolist() == [1, 1, -1]
    model.insert([5])
    assert model.age([5]).tolist() == [0]


def test_long_streams_are_cut_without_a_trace():
    """More operations than are hashed at a time, with a CLEAR in a later piece."""
    seed = 20261123
    print(f"seed {seed}")
    draw = np.random.default_rng(seed)
    operations = draw.choice([1, 2, 3], 80_000, p=[0.3, 0.3, 0.4])
    operations[70_000] = Operation.CLEAR
    keys = draw.integers(0, 3000, 80_000)
    windows = draw.integers(0, 9, 80_000) * 100
    whole = PartitionedTimingFilter(window=800, block=100, hashes=3, cells=1000)
    pieces = PartitionedTimingFilter(window=800, block=100, hashes=3, cells=1000)
    verdicts = whole.perform(operations, keys, windows=windows)
    cuts = [(at, at + 7777) for at in range(0, 80_000, 7777)]
    parts = [pieces.perform(operations[a:b], keys[a:b], windows=windows[a:b]) for a, b in cuts]
    for name in verdicts._fields:
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(getattr(verdicts, name), joined)
    assert whole == pieces


def test_false_positive_rate():
    """Of fresh keys with a full window: 99.9 % interval over 200 filters, of relative width 2 %."""
    seed = 20261123
    print(f"seed {seed}")
    keys = np.random.default_rng(seed).permutation(100_000)
    rates = []
    for number in range(200):
        model = PartitionedTimingFilter(window=400, block=10, hashes=3, cells=400, seed=number)
        model.insert(keys[: 800 + number % 10])
        rates.append(model.query(keys[5000:15_000]).mean())
    mean, error = np.mean(rates), 3.3 * np.std(rates) / np.sqrt(len(rates))
    print(f"{mean:.5f} within {error:.5f}, expected {model.fpr:.5f}")
    assert error < 0.02 * mean
    assert abs(mean - model.fpr) < error


@pytest.mark.parametrize(
    ("span", "stamp_bits", "chosen", "sweep"),
    [(29, None, 6, 33), (29, 5, 5, 1), (1, None, 2, 1), (32, None, 7, 94), (1, 64, 64, 2**64 - 3)],
)
def test_bits_of_a_stamp(span, stamp_bits, chosen, sweep):
    spec = TimedTimingSpec(span=span, stamp_bits=stamp_bits, **LARGE)
    assert (spec.stamp_bits, spec.sweep_blocks) == (chosen, sweep)
    assert TimedTimingFilter(span=span, stamp_bits=stamp_bits, **LARGE).spec == spec
