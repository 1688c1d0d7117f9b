"""Rings that the clock turns: their union is the ring that had all keys, bit for bit."""

from copy import deepcopy
from threading import Thread

import numpy as np
import pytest
from cases import daily
from paths import PATHS, taking

from lately.golden import APBBF, APBF, GEBF, BlockedGEBF, analysis
from lately.intervals import clopper_pearson

SECOND = 10**9
FAMILIES = (APBF, APBBF, GEBF, BlockedGEBF)
EACH = pytest.mark.parametrize("kind", FAMILIES)


def ring(kind, **options):
    return kind.for_span("10s", 0.001, rate=100, joinable=True, **options)


def keys_in_time(seed, count=3000, seconds=60):
    """Return keys at times that bursts and silences lie between, in order."""
    rng = np.random.default_rng(seed)
    steps = rng.exponential(seconds / count, count)
    steps[rng.integers(0, count, 3)] = [3, 15, 300]
    times = (np.cumsum(steps) * SECOND).astype(np.int64) + 1_700_000_000 * SECOND
    return rng.integers(0, 1 << 63, count, np.uint64), times


@pytest.mark.parametrize("path", daily(1, PATHS))
@EACH
def test_union_is_the_ring_of_all_keys(kind, path):
    keys, times = keys_in_time(3)
    part = np.random.default_rng(4).integers(0, 3, len(keys))
    part[-200:] = 2  # The others have not turned for long.
    with taking(path):
        whole, rings = ring(kind), [ring(kind) for _ in range(3)]
        whole.insert(keys, times)
        for number, member in enumerate(rings):
            for batch in np.array_split(np.flatnonzero(part == number), 5):
                member.insert(keys[batch], times[batch])
        before = deepcopy(rings)
        joined = rings[0].union(*rings[1:])
    assert joined == whole
    assert np.array_equal(joined.memory, whole.memory)
    assert joined.insertions == whole.insertions == len(keys)
    assert joined.settled_times == whole.settled_times
    for now in (times[-1], times[-1] + whole.span // 2, times[-1] + 2 * whole.span):
        assert np.array_equal(joined.age(keys, now), whole.age(keys, now))
        kept = times >= now - whole.span
        assert joined.query(keys[kept], now).all()
    assert rings == before
    assert rings[2].union(rings[0], rings[1]) == joined
    more, later = keys_in_time(5)
    later = later - later[0] + times[-1]
    joined.check_and_insert(more, later)
    whole.check_and_insert(more, later)
    assert joined == whole


@EACH
def test_no_key_of_the_span_is_missed_at_its_edge(kind):
    model = ring(kind)
    start = 1_700_000_000 * SECOND + 3
    model.insert(1, start)
    for now in range(start, start + model.span + 1, model.span // 40):
        model.insert(now, now)
        assert model.query(1, now)
    assert model.query(1, start + model.span)
    assert model.shortened == 0
    model.insert(2, start + model.span + (model.spec.run + 1) * model.spec.generation_span)
    assert not model.query(1, model.latest)


def test_keys_of_any_number_stay_in_their_generation():
    """Ten times the rate: the false-positive rate grows, and no key is missed."""
    model = ring(GEBF)
    times = np.arange(0, 12, 0.001) + 1.5e9
    model.insert(np.arange(len(times)), times)
    now = times[-1]
    assert model.query(np.flatnonzero(times >= now - 9.999), now).all()
    assert model.shifts < 20 + 2 * model.spec.segments
    assert (model.status(now), model.overfilled > 0) == ("rate exceeded", True)


def test_rate_of_a_union():
    """Four rings, each with a quarter of the keys that they are sized for."""
    rings = [ring(GEBF) for _ in range(4)]
    spec = rings[0].spec
    period = spec.generation_span
    each = spec.generation // 4
    rng = np.random.default_rng(9)
    for member in rings:
        begun = 10**18 // period + np.arange(spec.window_generations)
        times = np.repeat(begun * period, each)
        member.insert(rng.integers(0, 1 << 63, len(times), np.uint64), times)
    joined = rings[0].union(*rings[1:])
    segment = (1 - (1 - 1 / spec.part_bits) ** (4 * each)) ** spec.parts
    expected = 1 - (1 - segment) ** spec.window_generations
    fills = [analysis.segment_false_positive_rate(
        4 * each, blocks=spec.segment_blocks, cells=spec.cells, parts=spec.parts
    )] * spec.window_generations  # fmt: skip
    assert expected == pytest.approx(
        analysis.apbf_false_positive_rate(1, spec.window_generations - 1, fills=fills)
    )
    fresh = rng.integers(0, 1 << 63, 1_000_000, np.uint64)
    hits = int(joined.query(fresh, joined.latest).sum())
    low, high = clopper_pearson(hits, len(fresh))
    print(f"{hits} of {len(fresh)}, {expected:.3g} expected")
    # Of all fillings: the rate of this one varies by a few percent.
    assert low * 0.9 < expected < high * 1.1
    assert joined.estimated_false_positive_rate(joined.latest) == pytest.approx(expected, rel=0.1)


def test_unions_in_two_threads_do_not_wait_for_each_other():
    left, right = ring(GEBF), ring(GEBF)

    def unions(first, second):
        for _ in range(20):
            first.union(second)

    threads = [
        Thread(target=unions, args=pair, daemon=True) for pair in ((left, right), (right, left))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_counters_of_a_union_are_sums():
    first, second = ring(GEBF), ring(GEBF)
    first.insert([1, 2], [1.5e9 + 1, 1.5e9])
    second.check_and_insert([1, 1], [1.5e9, 1.5e9])
    joined = first.union(second)
    assert joined.counters["insertions"] == joined.insertions == 4
    assert (joined.counters["operations"], joined.counters["hits"], joined.late) == (4, 1, 1)


def test_what_cannot_be_joined():
    model, plain = ring(GEBF), GEBF.for_span("10s", 0.001, rate=100)
    keyed = [ring(GEBF, hash="siphash", secret=secret) for secret in (1, 2, 1)]
    for first, second, error, message in (
        (model, plain, TypeError, r"needs rings built with for_span\(joinable=True\), not"),
        (plain, model, TypeError, r"needs rings built with .*, not <TimeLimitedRing: window "),
        (model, GEBF.for_window(10), TypeError, r"needs rings built with .*, not <GEBF: window"),
        (model, ring(GEBF, seed=4), ValueError, r"the specifications differ: GEBFSpec"),
        (*keyed[:2], ValueError, r"the secrets of the rings differ$"),
    ):
        with pytest.raises(error, match=f"^union: {message}"):
            first.union(second)
    keyed[2].insert("a")
    assert "a" in keyed[0].union(keyed[2])
