"""Filters without a ring and their scalar twins: sizes, operations and contents."""

import math
from functools import partial

import numpy as np
from every_model import MODELS
from hypothesis import strategies as st
from scalar_baselines import (
    ScalarA2Buffering,
    ScalarBloom,
    ScalarCountingBloom,
    ScalarDoubleBuffering,
    ScalarForgetful,
    ScalarStableBloom,
    ScalarSwamp,
)
from scalar_cuckoo import ScalarCuckoo
from scalar_time_limited import ScalarTimeLimitedAPBF
from small_filters import as_keys
from timing_oracle import TimingOracle

BASELINES = {
    "BloomFilter": ScalarBloom,
    "PartitionedBloomFilter": partial(ScalarBloom, partitioned=True),
    "BlockedBloomFilter": ScalarBloom,
    "CountingBloomFilter": ScalarCountingBloom,
    "StableBloomFilter": ScalarStableBloom,
    "DoubleBuffering": ScalarDoubleBuffering,
    "A2Buffering": ScalarA2Buffering,
    "ForgetfulBloomFilter": ScalarForgetful,
    "Swamp": ScalarSwamp,
    "TimeLimitedAPBF": ScalarTimeLimitedAPBF,
}

CHUNKS = [
    "lately.golden.ring.segments._CHUNK",
    "lately.golden.ring.segments._BATCH",
    "papers.models.bloom._CHUNK",
    "papers.models.cuckoo._CHUNK",
]
"""Lengths of the parts into which modules cut a batch."""

TWO_BUFFERS = {"generation": (1, 9), "bits": (4, 81), "hashes": (1, 4)}
STAMPS = {"window": (1, 30), "cells": (1, 40), "hashes": (1, 5), "padding": [None, 0, 3, 20]}
PARTS = {"hashes": (1, 4), "cells": (1, 12), "classes": [None, 3]}
SIZES = {
    "BloomFilter": {"bits": (2, 40), "hashes": (1, 4)},
    "PartitionedBloomFilter": {"bits": (8, 160), "hashes": (1, 4)},
    "BlockedBloomFilter": {"bits": (9, 200), "hashes": (1, 4), "block_bits": (2, 9)},
    "CountingBloomFilter": {
        "window": (1, 12), "counters": (2, 40), "hashes": (1, 4), "counter_bits": (1, 8),
        "saturated": ["kept", "decremented"],
    },
    "StableBloomFilter": {
        "cells": (9, 40), "hashes": (1, 4), "decrements": (1, 9), "cell_bits": (1, 8),
    },
    "DoubleBuffering": TWO_BUFFERS,
    "A2Buffering": TWO_BUFFERS,
    "ForgetfulBloomFilter": {
        "generation": (1, 7), "past": (1, 4), "bits": (12, 240), "hashes": (1, 4),
    },
    "Swamp": {"window": (1, 12), "fingerprint_bits": [1, 2, 5, 33, 64]},
    "TimeLimitedAPBF": {
        "k": (1, 5), "l": (1, 6), "span": (1, 40), "capacity": (1, 60),
        "slice_bits_limit": [500, 1000],
    },
    "TimingBloomFilter": STAMPS,
    "BlockTimingBloomFilter": STAMPS | {"block": (1, 40)},
    "PartitionedTimingFilter": PARTS | {"block": (1, 5), "window": (1, 6)},
    "TimedTimingFilter": PARTS | {"period": (1, 5), "span": (1, 6)},
    "CuckooDictionary": {
        "window": (1, 12), "positions": (1, 20), "signature_bits": [0, 1, 3], "moves": (1, 9),
    },
    "WindowDictionary": {
        "window": (1, 40), "columns": (2, 5), "rows": [2, 4, 16], "digest_bits": (5, 33),
        "stash": (1, 5), "moves": [None, 1, 3, 40], "hash": ["h3", "siphash"],
    },
}  # fmt: skip
"""Sizes of small filters: a range of integers, or what is chosen from."""


def sizes(name):
    """Return a strategy for the parameters of a family."""
    if name not in SIZES:
        return st.just(MODELS[name])
    return st.fixed_dictionaries({
        field: st.integers(*range_) if isinstance(range_, tuple) else st.sampled_from(range_)
        for field, range_ in SIZES[name].items()
    }).map(in_whole_blocks)  # fmt: skip


def in_whole_blocks(chosen):
    """Return sizes whose window, drawn in blocks, is in insertions or units of time."""
    for window, block in (("window", "block"), ("span", "period")):
        if PARTS.keys() <= chosen.keys() and block in chosen:
            chosen = chosen | {window: chosen[window] * chosen[block]}
    return chosen


def twin_of(model):
    """Return an empty twin, or None of families that have none here."""
    hashing = {"seed": model.seed, "key_bits": model.key_bits}
    match type(model).__name__:
        case name if name.endswith(("TimingBloomFilter", "TimingFilter")):
            return TimingOracle(model)
        case "CuckooDictionary":
            return ScalarCuckoo(
                n=model.window, gamma=model.positions, K=model.signature_bits, moves=model.moves,
                **hashing,
            )  # fmt: skip
        case name if name in BASELINES:
            return BASELINES[name](**model.parameters)
    return None


def ask(twin, model, key, now, window):
    """Fields of the answer of a twin; not whether it is seen if a table of thresholds decides."""
    match twin:
        case TimingOracle(partitioned=True):
            age, oldest, *_ = twin.evidence(key, time=now)
            seen = age <= (twin.w if window is None else window) // twin.B
            known = {"age": age, "oldest": oldest}
            return known if model.spec.classes else known | {"seen": seen}
        case ScalarTimeLimitedAPBF():
            return {"seen": twin.query(key, now)}
        case ScalarCuckoo():
            return {"seen": twin.query(key, model.window)}
    return {"seen": twin.query(key)}


def insert(twin, key, now):
    if isinstance(twin, TimingOracle | ScalarTimeLimitedAPBF):
        twin.insert(key, now)
    else:
        twin.insert(key)


def evidence_of(evidence):
    """Return evidence as the twin of timing filters has it."""
    ages = [math.inf if age < 0 else age for age in evidence.age.tolist()]
    columns = [evidence.oldest, evidence.touched, evidence.filled]
    return list(zip(ages, *(column.tolist() for column in columns), strict=True))


def bits_of(ones, size):
    return [position in ones for position in range(size)]


def as_integer(bits):
    return sum(1 << int(bit) for bit in np.flatnonzero(bits))


def agree_in_entries(model, twin, pool):
    """Compare a dictionary with its twin."""
    assert model.timestamps.tolist() == twin.T
    assert model.signatures.tolist() == twin.S
    assert model.other_positions.tolist() == twin.P
    listed, times = model.overflow_entries
    assert times.tolist() == [time for _, time in twin.L]
    expected = as_keys([key for key, _ in twin.L], model.key_bits)
    assert listed.tolist() == expected.reshape(listed.shape).tolist()
    assert model.insertions == twin.i
    keys = as_keys(pool, model.key_bits)
    assert model.last_update(keys).tolist() == [twin.last_update(key) for key in pool]
    for window in {1, model.window}:
        assert model.query(keys, window).tolist() == [twin.query(key, window) for key in pool]


def agree(model, twin, pool, now=0):
    """Compare the memory of a model with that of its twin, and answers that only its class has."""
    keys = as_keys(pool, model.key_bits)
    match twin:
        case TimingOracle(partitioned=False):
            assert model.timestamps.tolist() == [twin.timestamp(cell) for cell in range(twin.m)]
            assert evidence_of(model.inspect(keys)) == [twin.evidence(key) for key in pool]
            for window in {1, 1 + model.window // 2, model.window}:
                seen = [twin.query(key, window) for key in pool]
                assert model.query(keys, window).tolist() == seen
        case TimingOracle():
            memory, limit = model.memory_at(now) if twin.timed else model.memory, model.expired_age
            for part, ages in enumerate(memory.tolist()):
                cells = [(part, cell) for cell in range(twin.m)]
                assert ages == [min(twin.age(cell, now), limit) for cell in cells]
        case ScalarTimeLimitedAPBF():
            assert model.slice_sizes == [each.m for each in twin.s]
            assert model.slice_insertions == [each.n for each in twin.s]
            assert model.settled_times == [each.t for each in twin.s]
            assert (model.generation, model.last_insertion) == (twin.g, twin.last)
            slices = np.split(model.memory, np.cumsum(model.slice_sizes)[:-1])
            assert list(map(as_integer, slices)) == [each.bits for each in twin.s]
        case ScalarCuckoo():
            agree_in_entries(model, twin, pool)
        case ScalarSwamp():
            ordered = twin.cfb[twin.curr :] + twin.cfb[: twin.curr]
            assert model.fingerprints.tolist() == [each for each in ordered if each is not None]
            assert model.multiplicity(keys).tolist() == [twin.multiplicity(key) for key in pool]
            assert model.distinct() == twin.distinct()
        case ScalarCountingBloom():
            assert model.memory.tolist() == twin.c
            assert (model.overflows, len(model.queue)) == (twin.overflows, len(twin.queue))
        case ScalarStableBloom():
            assert model.memory.tolist() == twin.sbf
        case ScalarBloom():
            assert model.memory.tolist() == bits_of(twin.ones, model.storage_bits)
        case ScalarForgetful():
            size = model.bits // (model.past + 2)
            assert model.memory.tolist() == [bits_of(each.ones, size) for each in twin.segments]
        case ScalarDoubleBuffering() | ScalarA2Buffering():
            double = isinstance(twin, ScalarDoubleBuffering)
            names = ("warm_up", "active") if double else ("active1", "active2")
            held = [bits_of(getattr(twin, name).ones, model.bits // 2) for name in names]
            assert model.memory.tolist() == held
