"""Baselines: no false negatives, sizes, and rates as the theory of their sources has them."""

import math
from collections import deque

import numpy as np
import pytest
from cases import daily
from scipy import stats

from lately.golden.analysis import segment_false_positive_rate
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
from papers.models.cells import (
    stable_decrements,
    stable_false_positive_rate,
    stable_zero_fraction,
)

INSERTED, FRESH = 1 << 62, 1 << 63
SEEDS = 12
QUERIES = 40_000


def keys(rng, count):
    return rng.integers(0, INSERTED, count)


def measured(build, count):
    """Rates at which fresh keys are reported after `count` distinct ones, one for each seed."""
    rates = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        model = build(seed)
        model.insert(keys(rng, count))
        rates.append(float(model.query(rng.integers(INSERTED, FRESH, QUERIES)).mean()))
    return rates


def agrees(name, rates, expected):
    """Whether theory is within the 99.9 % interval of the mean over seeds."""
    interval = stats.ttest_1samp(rates, expected).confidence_interval(0.999)
    print(f"{name}: {np.mean(rates):.5f} measured, {expected:.5f} expected")
    assert interval.low < expected < interval.high
    # Otherwise it says nothing.
    assert interval.high - interval.low < 0.3 * expected


def shared(load, bits, hashes):
    """Of a bit array that all hash functions share."""
    return (1 - (1 - 1 / bits) ** (hashes * load)) ** hashes


@pytest.mark.statistics
def test_bloom():
    def build(seed):
        return BloomFilter(bits=20_000, hashes=5, seed=seed)

    agrees("Bloom", measured(build, 3000), shared(3000, 20_000, 5))


@pytest.mark.statistics
def test_partitioned():
    def build(seed):
        return PartitionedBloomFilter(bits=20_000, hashes=5, seed=seed)

    expected = segment_false_positive_rate(3000, blocks=1, cells=4000, parts=5)
    agrees("partitioned", measured(build, 3000), expected)


@pytest.mark.statistics
def test_blocked():
    def build(seed):
        return BlockedBloomFilter(bits=64_000, hashes=4, block_bits=64, seed=seed)

    loads = np.arange(0, 60)
    weights = stats.binom.pmf(loads, 8000, 1 / 1000)
    # Two hashes may select the same bit, of the query as of the keys: all 64**4 are equally likely.
    fills = np.array([_match(64, 4, load) for load in loads])
    agrees("blocked", measured(build, 8000), float(weights @ fills))


def _match(cells, hashes, load):
    """Mean of the fill ratio to the power of `hashes`, over what the keys of a block may set."""
    distribution = np.zeros(cells + 1)
    distribution[0] = 1
    ones = np.arange(cells + 1)
    for _ in range(hashes * load):
        moved = distribution * (1 - ones / cells)
        distribution = distribution - moved
        distribution[1:] += moved[:-1]
    return float(distribution @ (ones / cells) ** hashes)


@pytest.mark.statistics
def test_counting():
    """Only the window's keys count; a counter is above 0 where a bit would be set."""

    def build(seed):
        return CountingBloomFilter(window=2000, counters=12_000, hashes=3, seed=seed)

    agrees("counting", measured(build, 5000), shared(2000, 12_000, 3))


@pytest.mark.statistics
def test_double_buffering():
    """Just before a switch the active filter holds two generations."""

    def build(seed):
        return DoubleBuffering(generation=1500, bits=40_000, hashes=4, seed=seed)

    agrees("double buffering", measured(build, 6000), shared(3000, 20_000, 4))


@pytest.mark.statistics
def test_a2_buffering():
    """Each filter holds one generation; keys that are reported already fill it more slowly."""

    def build(seed):
        return A2Buffering(generation=1500, bits=40_000, hashes=5, seed=seed)

    rate = shared(1500, 20_000, 5)
    agrees("A2 buffering", measured(build, 6000), 1 - (1 - rate) ** 2)


@pytest.mark.statistics
def test_less_memory_than_double_buffering():
    """Of two filters of the same memory and generation, A2 reports fewer fresh keys."""
    sizes = {"generation": 1500, "bits": 24_000, "hashes": 5}
    double = measured(lambda seed: DoubleBuffering(**sizes, seed=seed), 6000)
    active = measured(lambda seed: A2Buffering(**sizes, seed=seed), 6000)
    print(f"double buffering {np.mean(double):.5f}, A2 {np.mean(active):.5f}")
    assert stats.ttest_ind(active, double, alternative="less").pvalue < 1e-6


@pytest.mark.statistics
def test_forgetful_neighbours_are_not_independent():
    """Two neighbours share a generation: a bit is set in both by it, or by one of each.

    With g keys in each generation and N = 1 there are the pairs future and
    present, and present and past. A bit is in the past if ages 1 or 2 set it,
    in the present by ages 0 or 1, in the future by age 0.
    """
    generation, bits, hashes = 1000, 9_000, 3

    def build(seed):
        return ForgetfulBloomFilter(
            generation=generation, past=1, bits=3 * bits, hashes=hashes, seed=seed
        )

    clear = math.exp(-hashes * generation / bits)
    future, present = 1 - clear, 1 - clear**2
    both = 1 - 2 * clear**2 + clear**3
    # The future is a part of the present; both pairs match where age 0, and 1 or 2, set the bit.
    either = future**hashes + both**hashes - (future * present) ** hashes
    independent = (future * present) ** hashes + present ** (2 * hashes)
    rates = measured(build, 4 * generation)
    agrees("forgetful", rates, either)
    assert np.mean(rates) > 2 * independent


# The stable filter


@pytest.mark.statistics
@pytest.mark.parametrize(("hashes", "decrements", "cell_bits"), [(3, 7, 1), (4, 10, 2), (2, 40, 3)])
def test_stable_point(hashes, decrements, cell_bits):
    zeros, reported = [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        model = StableBloomFilter(
            cells=4000, hashes=hashes, decrements=decrements, cell_bits=cell_bits, seed=seed
        )
        model.insert(keys(rng, 12_000))
        zeros.append(1 - model.fill)
        reported.append(float(model.query(rng.integers(INSERTED, FRESH, QUERIES)).mean()))
    parameters = (4000, hashes, decrements, cell_bits)
    agrees("stable: zeros", zeros, stable_zero_fraction(*parameters))
    agrees("stable: fresh keys", reported, stable_false_positive_rate(*parameters))


@pytest.mark.parametrize("rate", [0.3, 0.1, 0.01, 0.001])
@pytest.mark.parametrize(
    ("cells", "hashes", "cell_bits"), [(1000, 1, 1), (5000, 3, 2), (999, 6, 3)]
)
def test_stable_decrements_are_the_fewest(rate, cells, hashes, cell_bits):
    decrements = stable_decrements(cells, hashes, cell_bits, rate)
    assert stable_false_positive_rate(cells, hashes, decrements, cell_bits) <= rate * (1 + 1e-9)
    if decrements > 1:
        assert stable_false_positive_rate(cells, hashes, decrements - 1, cell_bits) > rate


def test_stable_filter_of_decrements_that_wrap():
    """All cells are decremented once when there are as many decrements."""
    model = StableBloomFilter(cells=10, hashes=1, decrements=10, cell_bits=2)
    model.insert([1])
    assert sorted(model.memory.tolist()) == [0] * 9 + [3]
    assert 1 - model.fill == 0.9
    model.insert([2])
    assert sorted(model.memory.tolist())[-2:] in ([2, 3], [0, 3])


# Crowded filters

SIZES = {"bits": 200, "hashes": 3}
CROWDED = [
    (BloomFilter, SIZES, 600),
    (PartitionedBloomFilter, SIZES, 600),
    (BlockedBloomFilter, SIZES | {"block_bits": 32}, 600),
    (CountingBloomFilter, {"window": 50, "counters": 64, "hashes": 3}, 50),
    (CountingBloomFilter, {"window": 50, "counters": 64, "hashes": 3, "counter_bits": 1}, 50),
    (DoubleBuffering, SIZES | {"generation": 30}, 31),
    (A2Buffering, SIZES | {"generation": 30}, 31),
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
