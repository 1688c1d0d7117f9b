"""The time-limited filter: what it guarantees, how it grows, and its rates."""

import numpy as np
import pytest
from cases import daily
from scalar_time_limited import ScalarTimeLimitedAPBF

from lately.golden import TimeLimitedRing
from lately.golden.analysis import apbf_generation
from lately.golden.ring.rotation import PoolStatus
from lately.golden.spec import APBFSpec
from lately.intervals import clopper_pearson
from papers.models.time_limited import (
    TimeLimitedAPBF,
    find_runs,
    set_and_test,
    slice_bits,
)

LARGE = {"k": 4, "l": 5, "span": 1000, "capacity": 100_000}
"""So large that a chance match is not to be expected."""


def random_keys(count, seed):
    return np.random.default_rng(seed).integers(0, 1 << 63, count, np.uint64)


@pytest.mark.parametrize("make", [TimeLimitedAPBF, ScalarTimeLimitedAPBF])
def test_capacity_of_the_new_slice_by_hand(make):
    """k = 3, first slices of 9 insertions, so generations of 3; then the rate doubles.

    The first 3 insertions take 6 units, of a span of 12 in l = 2: g* = ceil(3 * 6 / 6) = 3, and
    no slice limits that. Those after the shift take 3: g* = 6. Now s_1 has room for 9 - 3 in 2
    generations, and s_2 for 9 - 6 in one: the latter limits, to 3 in it; then s_1 has room for 3
    in one, and limits again. So c_0 = 3 + 3 + 6 = 12.
    """
    model = make(k=3, l=2, span=12, capacity=6)
    times = [0, 2, 4, 6, 6, 7, 8, 8, 8, 9]
    for time in times[:3]:
        insert_one(model, time)
    assert capacities(model)[0] == 9
    for time in times[3:6]:
        insert_one(model, time)
    assert capacities(model)[:3] == [9, 9, 9]
    insert_one(model, times[6])
    assert capacities(model)[0] == 12


def insert_one(model, time):
    if isinstance(model, TimeLimitedAPBF):
        model.insert([1], [time])
    else:
        model.insert(1, time)


def capacities(model):
    if isinstance(model, TimeLimitedAPBF):
        return [apbf_generation(size, 1) for size in model.slice_sizes]
    return [s.c for s in model.s]


def test_slice_holds_its_capacity_exactly():
    for capacity in (*range(1, 300), 10**6, 10**9):
        assert apbf_generation(slice_bits(capacity), 1) == capacity


# Promises


def time_limited(**changed):
    return TimeLimitedAPBF(**(LARGE | changed))


def pool(**fields):
    return TimeLimitedRing(APBFSpec(**fields))


def bursty_times(count, seed):
    """Steps of 0 to 3, then ten times fewer and ten times more, with silences and bursts."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, 4, count)
    steps[count // 5 : 2 * count // 5] *= 10
    steps[2 * count // 5 : 3 * count // 5] //= 3
    steps[3 * count // 5 : 3 * count // 5 + 300] = 0
    steps[rng.integers(0, count, 5)] = rng.integers(300, 3000, 5)
    return np.cumsum(steps)


def false_negatives(model, keys, times, batch=97):
    """Insert distinct keys; query all of the span at the last insertion and later."""
    missed = 0
    for start in range(0, len(keys), batch):
        stop = min(len(keys), start + batch)
        model.insert(keys[start:stop], times[start:stop])
        last = int(times[stop - 1])
        for now in last + np.array([0, 1, model.span // 2, model.span]):
            within = (times[:stop] >= now - model.span).nonzero()[0]
            missed += int((~model.query(keys[within], now)).sum())
    return missed


SMALL = [
    lambda: TimeLimitedAPBF(k=3, l=4, span=1000, capacity=10),
    lambda: TimeLimitedAPBF(k=3, l=4, span=1000, capacity=10_000),
    lambda: TimeLimitedAPBF(k=1, l=1, span=1000, capacity=100),
    lambda: TimeLimitedAPBF(k=7, l=5, span=50, capacity=100, slice_bits_limit=500),
    lambda: pool(k=3, l=4, span=1000, slice_bits=1024, when_full="overfill"),
    lambda: pool(k=3, l=4, span=50, slice_bits=64, generation_span=40, when_full="overfill"),
    lambda: pool(k=1, l=1, span=300, slice_bits=64, when_full="overfill"),
]


@pytest.mark.parametrize("make", SMALL)
@pytest.mark.parametrize("seed", daily(1, [1, 2]))
def test_no_false_negative(make, seed):
    times = bursty_times(4000, seed)
    assert false_negatives(make(), random_keys(4000, seed), times) == 0


def last_times(keys, times, generations, later):
    """Time of the last insertion of each key's generation, and `later` generations on."""
    last = {}
    for generation, time in zip(generations, times, strict=True):
        last[generation] = time
    return [last[min(generation + later, generations[-1])] for generation in generations]


def test_reported_until_its_generation_is_past_and_traceless_after_k():
    """Surely until the span after the last insertion of its generation; no trace after k."""
    model = time_limited(capacity=50, slice_bits_limit=1 << 22)
    # Slices so large that nothing matches by chance, though generations are short.
    model._first_bits = 1 << 20
    model.clear()
    model.generation = model.insertions_left = 10
    keys, times = random_keys(200, 6), np.cumsum(np.random.default_rng(6).integers(0, 200, 200))
    generations = []
    for key, time in zip(keys, times, strict=True):
        model.insert([key], [time])
        generations.append(model.shifts)
    shifts = model.shifts
    assert shifts > 4
    sure = last_times(keys, times, generations, 0)
    final = last_times(keys, times, generations, model.k - 1)
    now = int(times[-1])
    for key, until, end in zip(keys, sure, final, strict=True):
        if until + model.span >= now:
            assert model.query([key], until + model.span)[0]
        if end + model.span + 1 >= now:
            assert not model.query([key], end + model.span + 1)[0]
    assert not model.query(keys, now + model.span + 1).any()


def steady(model, rate, spans, seed):
    """Insert distinct keys, `rate` of them per span, for a number of spans."""
    count = int(rate * spans)
    start = 0 if model.last_insertion is None else model.last_insertion + 1
    times = start + np.arange(count) * model.span // rate
    keys = random_keys(count, seed)
    model.insert(keys, times)
    return keys, times


def test_steady_rate_leads_to_the_size_of_the_paper():
    """k + l slices of ceil(k g / ln 2) bits, from a first capacity that is too small or large."""
    for capacity in (50, 1000, 20_000):
        model = TimeLimitedAPBF(k=4, l=3, span=10_000, capacity=capacity)
        steady(model, 1000, 40, 1)
        generation = -(-1000 // 3)
        assert model.generation == generation
        assert model.slice_sizes == [slice_bits(4 * generation)] * 7
        assert model.slice_insertions[4:] == [4 * generation] * 3


def test_growth_and_shrinkage_with_the_rate():
    """Ten times the rate adds slices, and larger ones; both go back with it."""
    model = TimeLimitedAPBF(k=4, l=5, span=10_000, capacity=250)
    steady(model, 250, 10, 1)
    assert model.slice_sizes == [slice_bits(4 * 50)] * 9
    maximum = 0
    for seed in range(100):
        steady(model, 2500, 1 / 100, seed)
        maximum = max(maximum, len(model.slice_sizes))
    assert maximum > 9
    steady(model, 2500, 8, 100)
    assert model.slice_sizes == [slice_bits(4 * 500)] * 9
    steady(model, 250, 25, 101)
    assert model.slice_sizes == [slice_bits(4 * 50)] * 9


@pytest.mark.statistics
@pytest.mark.parametrize(("k", "l", "capacity"), [(4, 3, 3000), (7, 5, 1000), (8, 8, 2000)])
def test_rate_of_false_positives_is_that_of_the_fill_ratios(k, l, capacity):
    """Slices of many sizes, as left by a rate that changed; keys that were never inserted."""
    model = TimeLimitedAPBF(k=k, l=l, span=10_000, capacity=capacity)
    for seed, rate in enumerate((2000, 700, 5000)):
        steady(model, rate, 1.7, seed)
    assert len(set(model.slice_sizes)) >= 3
    now = model.last_insertion
    hits = int(model.query(random_keys(400_000, 9), now).sum())
    low, high = clopper_pearson(hits, 400_000, confidence=0.999)
    expected = model.estimated_false_positive_rate(now)
    print(f"measured {low:.6f} to {high:.6f}, expected {expected:.6f}")
    assert low <= expected <= high
    assert model.estimated_false_positive_rate(now + 10_001) == 0


@pytest.mark.statistics
def test_sequential_keys_meet_the_rate():
    model = TimeLimitedAPBF(k=7, l=5, span=10_000, capacity=2000)
    model.insert(np.arange(9000), np.arange(9000) * 5)
    now = model.last_insertion
    hits = int(model.query(np.arange(10**6, 10**6 + 400_000), now).sum())
    low, high = clopper_pearson(hits, 400_000, confidence=0.999)
    expected = model.estimated_false_positive_rate(now)
    print(f"measured {low:.6f} to {high:.6f}, expected {expected:.6f}")
    assert low <= expected <= high


# Pool


@pytest.mark.statistics
def test_pool_rate_is_within_its_bound():
    model = pool(k=7, l=5, span=10_000, slice_bits=4096)
    bound = model.worst_false_positive_rate
    steady(model, 3 * 5 * model.generation, 4, 1)
    assert model.status(model.last_insertion) is PoolStatus.WINDOW_SHORTENED
    hits = int(model.query(random_keys(400_000, 2), model.last_insertion).sum())
    low, high = clopper_pearson(hits, 400_000, confidence=0.999)
    print(f"measured {low:.6f} to {high:.6f}, bound {bound:.6f}")
    assert low <= bound
    over = pool(k=7, l=5, span=10_000, slice_bits=4096, when_full="overfill")
    steady(over, 3 * 5 * over.generation, 4, 1)
    hits = int(over.query(random_keys(400_000, 2), over.last_insertion).sum())
    assert clopper_pearson(hits, 400_000)[0] > bound


def test_runs_and_setting_by_hand():
    matches = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]], bool)
    assert find_runs(matches, 2, 3).tolist() == [0, 2, 1]
    assert find_runs(matches, 3, 3).tolist() == [-1, -1, 1]
    assert find_runs([], 1, 2).tolist() == [-1, -1]
    bits = np.array([False, True, False])
    assert set_and_test(bits, np.array([0, 1, 0, 2, 2])).tolist() == [0, 1, 1, 0, 1]
    assert bits.all()
