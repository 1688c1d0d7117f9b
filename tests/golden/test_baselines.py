"""Baselines: no false negatives in crowded filters, and sizes."""

from collections import deque

import numpy as np
import pytest
from cases import daily

from papers.models import (
    A2Buffering,
    BlockedBloomFilter,
    BloomFilter,
    CountingBloomFilter,
    DoubleBuffering,
    ForgetfulBloomFilter,
    PartitionedBloomFilter,
    StableBloomFilter,
    Swamp,
)

SHARED = {"bits": 200, "hashes": 3}
CROWDED = [
    (BloomFilter, SHARED, 600),
    (PartitionedBloomFilter, SHARED, 600),
    (BlockedBloomFilter, SHARED | {"block_bits": 32}, 600),
    (CountingBloomFilter, {"window": 50, "counters": 64, "hashes": 3}, 50),
    (CountingBloomFilter, {"window": 50, "counters": 64, "hashes": 3, "counter_bits": 1}, 50),
    (DoubleBuffering, SHARED | {"generation": 30}, 31),
    (A2Buffering, SHARED | {"generation": 30}, 31),
    (ForgetfulBloomFilter, {"generation": 10, "past": 3, "bits": 300, "hashes": 2}, 31),
    (Swamp, {"window": 50, "fingerprint_bits": 6}, 50),
]


@pytest.mark.parametrize(("kind", "sizes", "window"), CROWDED)
def test_no_false_negative_in_crowded_filters(kind, sizes, window):
    """Fullness and repetition add reports and take none."""
    model, live = kind(**sizes, seed=1), deque(maxlen=window)
    for key in np.random.default_rng(1).integers(0, 200, 400).tolist():
        assert model.check_and_insert([key])[0] or key not in live
        live.append(key)
        assert model.query(list(live)).all()


@pytest.mark.parametrize("seed", daily(3, range(8)))
def test_decremented_counters_miss_nothing_before_an_overflow(seed):
    rng = np.random.default_rng(seed)
    model = CountingBloomFilter(
        window=20, counters=50, hashes=2, counter_bits=3, saturated="decremented", seed=seed
    )
    live = deque(maxlen=20)
    for key in rng.integers(0, 30, 400).tolist():
        model.insert([key])
        live.append(key)
        if model.overflows:
            break
        assert model.query(list(live)).all()


def test_storage():
    assert BloomFilter(bits=61, hashes=2).storage_bits == 61
    assert PartitionedBloomFilter(bits=61, hashes=3).storage_bits == 60
    assert BlockedBloomFilter(bits=61, hashes=3, block_bits=8).storage_bits == 56
    assert DoubleBuffering(generation=5, bits=61, hashes=3).storage_bits == 60
    assert A2Buffering(generation=5, bits=61, hashes=3).storage_bits == 60
    assert ForgetfulBloomFilter(generation=5, past=2, bits=61, hashes=3).storage_bits == 60
    assert StableBloomFilter(cells=61, hashes=2, decrements=1, cell_bits=3).storage_bits == 183
    model = CountingBloomFilter(window=10, counters=61, hashes=2, key_bits=100)
    assert (model.storage_bits, model.queue_bits) == (244, 1000)
