"""Timing Bloom filters against their scalar twin, and what their window promises."""

from copy import deepcopy

import numpy as np
import pytest
from paths import PATHS, taking
from scalar_twins import agree, evidence_of, twin_of

from lately.golden.timestamp.timing import (
    BlockTimingBloomFilter,
    TimestampFilter,
    TimingBloomFilter,
)
from lately.intervals import clopper_pearson


@pytest.mark.parametrize(("block", "padding"), [(1, 0), (1, None), (7, 0), (7, 3), (60, None)])
@pytest.mark.parametrize("path", PATHS)
def test_timestamps_go_round_many_times(path, block, padding):
    with taking(path):
        model = BlockTimingBloomFilter(window=50, block=block, cells=64, hashes=2, padding=padding)
    twin = twin_of(model)
    keys = np.random.default_rng(6).integers(0, 90, 3000)
    assert len(keys) / block > 5 * (model.last_timestamp + 1)
    seen = model.check_and_insert(keys[:2000]).tolist()
    for key, answer in zip(keys[:2000].tolist(), seen, strict=True):
        assert answer == twin.query(key)
        twin.insert(key)
    results = evidence_of(model.inspect_and_insert(keys[2000:]))
    for key, evidence in zip(keys[2000:].tolist(), results, strict=True):
        assert evidence == twin.evidence(key)
        twin.insert(key)
    agree(model, twin, range(90))


# The window


def alone_and_others(model):
    """Return a key, and one that touches none of its cells."""
    rows = np.stack(
        model._hash.indices(model._hash.state(np.arange(50, dtype=np.uint64)[:, None]), 0), 1
    )
    apart = [key for key in range(1, 50) if not set(rows[key]) & set(rows[0])]
    return 0, apart[0]


@pytest.mark.parametrize("block", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("before", [0, 1, 3, 11])
def test_expires_at_the_exact_insertion(block, before):
    """Definition 9: a block is forgotten `window` insertions after its last one."""
    window = 12
    model = BlockTimingBloomFilter(window=window, block=block, cells=200, hashes=3)
    key, other = alone_and_others(model)
    model.insert([other] * before)
    model.insert([key])
    last_of_block = (before // block + 1) * block
    for insertions in range(before + 1, before + 2 * window + 2 * block):
        assert model.insertions == insertions
        for w in (1, 5, window):
            reported = insertions < last_of_block + w
            assert model.query([key], w)[0] == reported
            # An insertion age below the window is never missed.
            assert reported or insertions - before - 1 >= w
        age = max(insertions - last_of_block, 0)
        assert model.age([key])[0] == (age if insertions < last_of_block + window else -1)
        model.insert([other])


# The sweep


@pytest.mark.parametrize(
    ("window", "block", "padding"), [(6, 1, 0), (6, 1, 3), (6, 3, 0), (6, 3, 2), (16, 8, 1)]
)
def test_sweep_is_just_in_time(window, block, padding, monkeypatch):
    """With one cell fewer after each insertion a timestamp comes round before it is marked."""
    cells = 12 * block * (padding + 1)
    model = BlockTimingBloomFilter(
        window=window, block=block, cells=cells, hashes=1, padding=padding
    )
    key, other = alone_and_others(model)
    assert model.swept == 12

    def remembered(swept, start):
        monkeypatch.setattr(TimestampFilter, "swept", swept)
        with taking("readable"):
            again = BlockTimingBloomFilter(**model.parameters)
        around = [other] * (block - 1 + block * (model.last_timestamp + 1))
        again.insert([other] * (start * block) + [key] + around)
        return again.query(key)

    assert not any(remembered(12, start) for start in range(13))
    assert any(remembered(11, start) for start in range(13))


def test_padding_is_the_least_for_the_sweep():
    for cells in (1, 7, 100, 101, 1024):
        for hashes in (1, 3, 10):
            for block in (1, 4, 200):
                model = BlockTimingBloomFilter(window=30, block=block, cells=cells, hashes=hashes)
                assert model.swept <= hashes
                if model.padding:
                    less = BlockTimingBloomFilter(
                        window=30, block=block, cells=cells, hashes=hashes,
                        padding=model.padding - 1,
                    )  # fmt: skip
                    assert less.swept > hashes


def test_example_of_the_paper():
    """Section 3.2: a window of 2**20 and 15,112,980 cells take 21 bits each, 303 a key."""
    model = TimingBloomFilter(window=1 << 20, cells=15_112_980, hashes=15)
    assert model.padding == 1_007_531
    assert model.timestamp_bits == 21
    assert model.storage_bits / model.window == pytest.approx(303, abs=0.5)


def test_bits_of_a_cell():
    """All of T_omega + 1 timestamps, and the mark."""
    model = TimingBloomFilter(window=4, cells=10, hashes=2, padding=0)
    assert (model.last_timestamp, model.expired, model.timestamp_bits) == (5, 6, 3)
    model = TimingBloomFilter(window=4, cells=10, hashes=2, padding=2)
    assert (model.last_timestamp, model.expired, model.timestamp_bits) == (7, 8, 4)
    model = BlockTimingBloomFilter(window=6, block=3, cells=10, hashes=2, padding=0)
    assert (model.last_timestamp, model.timestamp_bits, model.storage_bits) == (3, 3, 30)


# False positives


@pytest.mark.statistics
@pytest.mark.parametrize("block", [1, 64, 700])
def test_false_positive_rate(block):
    """Equation 1 over the insertions of the blocks that have not expired."""
    hits = trials = 0
    theory = []
    for seed in range(20):
        model = BlockTimingBloomFilter(window=500, block=block, cells=2500, hashes=3, seed=seed)
        model.insert(np.arange(2000 + 13 * seed))
        alive = model.insertions - (model.insertions - model.window) // block * block
        theory.append((1 - (1 - 1 / model.cells) ** (model.hashes * alive)) ** model.hashes)
        hits += int(model.query(np.arange(10**6, 10**6 + 5000)).sum())
        trials += 5000
    low, high = clopper_pearson(hits, trials, confidence=0.999)
    print(f"block {block}: {hits / trials:.4f}, theory {np.mean(theory):.4f}")
    assert low < np.mean(theory) < high


# Contracts


@pytest.fixture
def model():
    model = BlockTimingBloomFilter(window=40, block=6, cells=80, hashes=3, seed=2)
    model.insert(np.arange(500))
    return model


def test_parameters(model):
    assert model.parameters == {
        "window": 40, "block": 6, "cells": 80, "hashes": 3, "padding": 4, "seed": 2, "key_bits": 64,
    }  # fmt: skip
    assert type(model)(**model.parameters).parameters == model.parameters


def test_after_very_many_insertions():
    model, late = (TimingBloomFilter(window=20, cells=90, hashes=2) for _ in range(2))
    numbers, arrays = deepcopy(model._state())
    late._restore({**numbers, "insertions": 1 << 61}, arrays)
    keys = np.random.default_rng(3).integers(0, 60, 400)
    assert np.array_equal(late.check_and_insert(keys), model.check_and_insert(keys))
