"""The oracle against a dictionary, and the sentences of its contract."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lately.golden import FilterSpec, Operation, from_spec
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
    result = []
    for part in np.split(array, sorted(min(cut, len(keys)) for cut in cuts)):
        result += flatten(oracle.check_and_insert(part))
    assert result == expected
    assert oracle.distinct_keys == len(scalar.last)
    assert oracle.insertions == len(keys)


def test_traceless_changes_nothing():
    oracle = Oracle(filter_spec())
    assert oracle.traceless(np.array([1], np.uint64)).tolist() == [True]
    oracle.check_and_insert(np.array([1], np.uint64))
    oracle.check_and_insert(np.arange(10, 29, dtype=np.uint64))
    assert oracle.traceless(np.array([1, 2], np.uint64)).tolist() == [False, True]
    oracle.check_and_insert(np.array([3], np.uint64))
    assert oracle.traceless(np.array([1, 2, 3], np.uint64)).tolist() == [True, True, False]
    assert oracle.insertions == 21


class DictTimedOracle:
    """One operation at a time, by the times of the generations' last insertions."""

    def __init__(self, spec):
        self.spec = spec
        self.ends = []  # Time of the last insertion of each generation.
        self.filled, self.first, self.lost = 0, None, None
        self.last = {}

    def check_and_insert(self, key, now):
        answer = self.ask(key, now)
        self.insert(now)
        self.last[key] = now, len(self.ends) - 1
        return answer

    def ask(self, key, now):
        if key not in self.last:
            return "fresh", -1
        spec, (then, generation) = self.spec, self.last[key]
        covered = spec.span if self.lost is None else min(spec.span, now - self.lost - 1)
        if now - then <= covered:
            return "guaranteed", now - then
        newest = len(self.ends) - 1
        # The youngest of the segments that the key was written to.
        written = min(generation + spec.run - 1, newest)
        left = now - self.ends[written] <= spec.span and newest - generation < spec.ring_segments
        return "slack" if left else "fresh", now - then

    def insert(self, now):
        spec, oldest = self.spec, len(self.ends) - 1 - self.spec.window_generations
        out = oldest >= 0 and now - self.ends[oldest] <= spec.span
        full = self.filled >= spec.generation
        old = self.filled > 0 and now - self.first >= spec.generation_span
        if not self.ends or ((full or old) and not out) or (full and spec.when_full == "shorten"):
            if out:
                self.lost = self.ends[oldest]
            self.ends.append(now)
            self.filled, self.first = 0, now
        self.filled += 1
        self.ends[-1] = now


TIMED = {
    "apbf": {"k": 3, "l": 4, "slice_bits": 1 << 16, "generation": 6},
    "gebf": {"window": 24, "epochs": 4, "hashes": 4, "bits": 5 << 18},
}
"""So large that a chance match is not to be expected; 4 generations of 6 insertions."""


def timed_stream(seed, span, keys=9, count=1500):
    """Keys and times: repetitions at all distances, bursts, silences."""
    random = np.random.default_rng(seed)
    steps = random.choice([0, 1, 2, span // 4, span, span + 1, 4 * span], count)
    steps *= random.random(count) < np.repeat(random.choice([0.05, 0.3, 0.6], count // 50), 50)
    return random.integers(0, keys, count).astype(np.uint64), np.cumsum(steps)


@pytest.mark.parametrize("when_full", ["shorten", "overfill"])
@pytest.mark.parametrize("family", TIMED)
@pytest.mark.parametrize("span", [4, 15, 40])
def test_timed_against_dictionary_and_model(family, when_full, span):
    spec = FilterSpec(family=family, span=span, when_full=when_full, **TIMED[family])
    met = set()
    for seed in range(4):
        keys, times = timed_stream(seed, span, keys=[9, 30, 90, 200][seed])
        scalar, oracle, model = DictTimedOracle(spec), Oracle(spec), from_spec(spec)
        expected = [scalar.check_and_insert(*pair) for pair in zip(keys, times, strict=True)]
        parts = np.array_split(np.arange(len(keys)), 5)
        truths = [oracle.check_and_insert(keys[part], times[part]) for part in parts]
        kind, elapsed, age, distance = (
            np.concatenate([getattr(truth, name) for truth in truths])
            for name in ("kind", "elapsed", "age", "distance")
        )
        assert [
            (CLASSES[entry], ticks) for entry, ticks in zip(kind, elapsed, strict=True)
        ] == expected
        report = model.perform([Operation.CHECK_AND_INSERT] * len(keys), keys, times)
        assert report.seen[kind == GUARANTEED].all()
        assert not report.seen[kind == FRESH].any()
        repeat = np.concatenate([truth.repeat for truth in truths])
        assert (repeat == ((elapsed >= 0) & (elapsed <= span))).all()
        assert ((distance > 0) == (elapsed >= 0)).all()
        assert ((age >= 0) == (elapsed >= 0)).all()
        assert oracle.distinct_keys == len(scalar.last)
        assert oracle.traceless(np.unique(keys)).tolist() == [
            scalar.ask(key, times[-1])[0] == "fresh" for key in np.unique(keys)
        ]
        # Each edge is met: a tick less or more would be seen.
        met |= {("covers", at) for at in elapsed[kind == GUARANTEED] - span if at == 0}
        met |= {("over", at) for at in elapsed[kind == SLACK] - span if at == 1}
        short = report.covered[kind == GUARANTEED] <= span
        edge = (elapsed - report.covered + 1)[kind == GUARANTEED][short] == 0
        met |= {"shortened"} if edge.any() else set()
    assert met == {("covers", 0), ("over", 1)} | (
        {"shortened"} if when_full == "shorten" else set()
    )


@pytest.mark.parametrize("family", TIMED)
@pytest.mark.parametrize(("after", "traceless"), [(100, False), (101, True)])
def test_a_trace_ends_with_the_last_generation_that_writes_it(family, after, traceless):
    spec = FilterSpec(family=family, span=100, when_full="overfill", **TIMED[family])
    oracle = Oracle(spec)
    key, other = np.array([7], np.uint64), np.array([8], np.uint64)
    # One insertion at a time, of which every one begins a generation.
    times = np.arange(spec.run) * spec.generation_span
    oracle.check_and_insert(np.repeat([key[0], other[0]], [1, spec.run - 1]), times)
    oracle.check_and_insert(other, times[-1:] + after)
    assert oracle.traceless(key).tolist() == [traceless]


def test_interval_of_nothing():
    assert clopper_pearson(0, 0) is None


def test_interval_wrong():
    with pytest.raises(
        ValueError, match=r"hits: must be between 0 and 3, the number of trials, not 4"
    ):
        clopper_pearson(4, 3)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    # The ends have a closed form.
    [(0, 10, 0, 1 - 0.025**0.1), (10, 10, 0.025**0.1, 1), (1, 10, 0.002528579, 0.4450161)],
)
def test_interval(hits, trials, low, high):
    assert clopper_pearson(hits, trials) == pytest.approx((low, high), rel=1e-5)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_interval_agrees_with_scipy(confidence):
    from scipy.stats import binomtest

    for trials in (1, 2, 50, 2000, 10**6, 10**9):
        few = {n for n in (0, 1, 3, 40, 1999, 10**5) if n <= trials}
        for hits in few | {trials - n for n in few} | {trials // 2}:
            expected = binomtest(hits, trials).proportion_ci(confidence, "exact")
            # Of 10**9 trials, lgamma leaves six digits.
            assert clopper_pearson(hits, trials, confidence=confidence) == pytest.approx(
                (expected.low, expected.high), rel=1e-5 if trials == 10**9 else 1e-8
            )
