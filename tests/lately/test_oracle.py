"""The oracle against a dictionary, and the sentences of its contract."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lately.golden import FilterSpec
from lately.intervals import clopper_pearson
from lately.replay.oracle import CLASSES, FRESH, GUARANTEED, SLACK, Oracle


def filter_spec(*, k=2, l=3, generation=4, window=None):
    return FilterSpec(
        family="apbbf", k=k, l=l, block_bits=8, hashes_per_block=2, blocks=4,
        generation=generation, window=window,
    )  # fmt: skip


class DictOracle:
    """One operation at a time."""

    def __init__(self, spec):
        self.spec = spec
        self.count = 0
        self.last = {}

    def check_and_insert(self, key):
        spec, before = self.spec, self.last.get(key)
        distance, age, kind = 0, -1, "fresh"
        if before is not None:
            distance = self.count + 1 - before
            age = (self.count - 1) // spec.generation - (before - 1) // spec.generation
            if age <= spec.window_generations:
                kind = "guaranteed"
            elif age < spec.ring_segments:
                kind = "slack"
        self.count += 1
        self.last[key] = self.count
        return distance, age, kind, before is not None and distance <= spec.window


def flatten(truth):
    return list(
        zip(
            truth.distance.tolist(),
            truth.age.tolist(),
            [CLASSES[kind] for kind in truth.kind],
            truth.repeat.tolist(),
            strict=True,
        )
    )


@given(
    keys=st.lists(st.integers(0, 12), max_size=150),
    cuts=st.lists(st.integers(0, 150), max_size=4),
    k=st.integers(1, 3),
    generations=st.integers(1, 4),
    generation=st.integers(1, 6),
    wide=st.booleans(),
    data=st.data(),
)
def test_against_dictionary(keys, cuts, k, generations, generation, wide, data):
    window = data.draw(st.integers(1, generations * generation))
    spec = filter_spec(k=k, l=generations, generation=generation, window=window)
    scalar, oracle = DictOracle(spec), Oracle(spec)
    expected = [scalar.check_and_insert(key) for key in keys]
    array = np.array(keys, np.uint64)
    if wide:
        # Keys that differ in one word only, not always the same one.
        array = np.stack([array >> np.uint64(index) & np.uint64(3) for index in range(0, 6, 2)], 1)
    found = []
    for part in np.split(array, sorted(min(cut, len(keys)) for cut in cuts)):
        found += flatten(oracle.check_and_insert(part))
    assert found == expected
    assert oracle.distinct_keys == len(scalar.last)
    assert oracle.insertions == len(keys)


@pytest.mark.parametrize("phase", range(4))
def test_classes_change_at_the_shift(phase):
    # Generations of 4, 3 of them guaranteed, 5 segments in the ring.
    for between in range(40):
        oracle = Oracle(filter_spec())
        oracle.check_and_insert(np.arange(100, 100 + phase, dtype=np.uint64))
        oracle.check_and_insert(np.array([7], np.uint64))
        oracle.check_and_insert(np.arange(200, 200 + between, dtype=np.uint64))
        truth = oracle.check_and_insert(np.array([7], np.uint64))
        age = (phase + between) // 4
        expected = GUARANTEED if age <= 3 else SLACK if age < 5 else FRESH
        assert (truth.age[0], truth.kind[0]) == (age, expected)
        assert truth.distance[0] == between + 1
        assert truth.repeat[0] == (between < 12)
        assert expected == GUARANTEED or not truth.repeat[0]


def test_traceless_changes_nothing():
    oracle = Oracle(filter_spec())
    assert oracle.traceless(np.array([1], np.uint64)).tolist() == [True]
    oracle.check_and_insert(np.array([1], np.uint64))
    oracle.check_and_insert(np.arange(10, 29, dtype=np.uint64))
    assert oracle.traceless(np.array([1, 2], np.uint64)).tolist() == [False, True]
    oracle.check_and_insert(np.array([3], np.uint64))
    assert oracle.traceless(np.array([1, 2, 3], np.uint64)).tolist() == [True, True, False]
    assert oracle.insertions == 21


def test_interval_of_nothing():
    assert clopper_pearson(0, 0) is None


def test_interval_wrong():
    with pytest.raises(ValueError, match="hits: must be between 0 and the 3 trials, not 4"):
        clopper_pearson(4, 3)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    # The ends have a closed form.
    [(0, 10, 0, 1 - 0.025**0.1), (10, 10, 0.025**0.1, 1), (1, 10, 0.002528579, 0.4450161)],
)
def test_interval(hits, trials, low, high):
    assert clopper_pearson(hits, trials) == pytest.approx((low, high), rel=1e-5)


def test_interval_agrees_with_scipy():
    from scipy.stats import binomtest

    for hits, trials in [(3, 50), (47, 2000), (1999, 2000)]:
        expected = binomtest(hits, trials).proportion_ci(0.95, "exact")
        assert clopper_pearson(hits, trials) == pytest.approx((expected.low, expected.high))
