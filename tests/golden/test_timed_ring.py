"""Rings of all families with a span of time: what they guarantee at any rate, and their rates."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import PATHS, taking
from small_filters import as_keys, specs

from lately.golden import (
    FilterSpec,
    Operation,
    PoolStatus,
    RotationPolicy,
    RotationState,
    TimeLimitedRing,
    from_spec,
    preset,
)

FAMILIES = {
    "apbf": {"k": 4, "l": 5, "slice_bits": 1 << 20, "generation": 10},
    "apbbf": {
        "k": 3, "l": 5, "block_bits": 64, "hashes_per_block": 4, "blocks": 1 << 16,
        "generation": 10,
    },
    "gebf": {"window": 50, "epochs": 5, "hashes": 4, "bits": 6 << 22},
    "blocked-gebf": {
        "window": 50, "epochs": 5, "hashes": 4, "bits": 6 << 22, "block_bits": 256,
    },
}  # fmt: skip
"""So large that a chance match is not to be expected; 5 generations of 10 insertions."""

EACH = pytest.mark.parametrize("family", FAMILIES)


def ring(family, span=1000, **changed):
    return TimeLimitedRing(FilterSpec(family=family, span=span, **FAMILIES[family] | changed))


def bursty_times(count, seed):
    """Steps of 0 to 9, with a burst in one tick, and silences of up to three spans."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, 10, count)
    steps[count // 2 : count // 2 + 200] = 0
    steps[rng.integers(0, count, 8)] = rng.integers(300, 3000, 8)
    return np.cumsum(steps)


def asked_later(times, ages):
    """Insertions of keys 0, 1, ... at `times`, each asked for at an age: codes, keys, times."""
    count = len(times)
    codes = np.repeat([Operation.INSERT, Operation.QUERY], count)
    all_times = np.concatenate([times, times + ages])
    order = np.lexsort((codes == Operation.QUERY, all_times))
    return codes[order], np.tile(np.arange(count), 2)[order], all_times[order]


@pytest.mark.parametrize("seed", [1, 2])
@EACH
def test_overfill_reports_at_the_very_span_at_any_rate(family, seed):
    model = ring(family, when_full="overfill")
    codes, keys, times = asked_later(bursty_times(3000, seed), 1000)
    verdicts = model.perform(codes, keys, times)
    assert verdicts.seen[codes == Operation.QUERY].all()
    assert (verdicts.covered == 1001).all()
    assert model.overfilled > 500
    assert model.shortened == 0


@EACH
def test_shorten_reports_at_the_very_span_at_the_rate_it_is_made_for(family):
    model = ring(family)
    codes, keys, times = asked_later(np.arange(0, 10_000, 21), 1000)
    verdicts = model.perform(codes, keys, times)
    assert verdicts.seen[codes == Operation.QUERY].all()
    assert not verdicts.status.any()
    assert model.shifts == 10_000 // 210


@EACH
def test_shorten_reports_for_the_guaranteed_span_and_not_longer(family):
    """At four times that rate; the key of the loss itself is the next older one."""
    model = ring(family)
    times = np.arange(0, 5000, 5)
    model.insert(np.arange(93), times[:93])
    for stop in range(100, 1001, 7):
        model.insert(np.arange(stop - 7, stop), times[stop - 7 : stop])
        now = int(times[stop - 1])
        kept = model.guaranteed_span(now)
        assert 200 <= kept < 300
        assert model.query(np.flatnonzero(times[:stop] >= now - kept), now).all()
        (lost,) = np.flatnonzero(times == now - kept - 1)
        assert not model.query([lost], now)[0]
    lost = now - kept - 1
    assert model.status(lost + 1000) is PoolStatus.WINDOW_SHORTENED
    assert model.guaranteed_span(lost + 1000) == 999
    assert model.status(lost + 1001) is PoolStatus.OK
    assert model.guaranteed_span(lost + 1001) == 1000


@given(spec=specs(), seed=st.integers(0, 1 << 32))
def test_policy_without_a_span_turns_as_filters_that_count_insertions(spec, seed):
    rng = np.random.default_rng(seed)
    codes = rng.choice(6, 80, p=[0.05, 0.2, 0.35, 0.35, 0.03, 0.02]).astype(np.uint8)
    times, model, shifts = np.sort(rng.integers(0, 100, 80)), from_spec(spec), []
    for code in codes:
        model.perform([code], as_keys([0], spec.key_bits))
        shifts.append(model.shifts)
    for path in PATHS:
        turns = RotationState(RotationPolicy.of(spec))
        with taking(path):
            passage = turns.follow(codes, times)
        assert np.cumsum(passage.turned | (codes == Operation.SHIFT)).tolist() == shifts
        assert (turns.insertions, turns.shifts) == (model.insertions, model.shifts)
        assert (turns.shortened, turns.overfilled, turns.guaranteed_span(100)) == (0, 0, -1)
        assert not passage.status.any()


# Bursts


@given(seed=st.integers(0, 1 << 32))
def test_longest_generations_keep_all_that_fits(seed):
    """No slice is lost while no span has more keys than the generations hold, in any bursts."""
    rng = np.random.default_rng(seed)
    writes, settled, generation = (int(number) for number in rng.integers(1, 5, 3))
    span = int(rng.integers(1, 60))
    policy = RotationPolicy(
        writes=writes, settled=settled, generation=generation, span=span, generation_span=span + 1
    )
    maximum = settled * generation + 1
    # As many at a time as the span has room for: now and then all, at once.
    times, now = [], 0
    while len(times) < 300:
        now += int(rng.choice([0, 1, span // 2, span, span + 1]))
        room = maximum - sum(now - time <= span for time in times)
        times += [now] * int(rng.choice([0, min(1, room), room]))
    turns = RotationState(policy)
    turns.follow(np.full(len(times), Operation.INSERT, np.uint8), np.array(times))
    assert turns.shortened == 0
    # One key more, in a span that begins with the last of a generation, is one too many.
    times = [0] * (generation - 1) + [1] + [span + 1] * maximum
    for count in (len(times) - 1, len(times)):
        turns = RotationState(policy)
        turns.follow(np.full(count, Operation.INSERT, np.uint8), np.array(times[:count]))
        assert turns.shortened == (count == len(times))


# Rates


@pytest.mark.parametrize("name", ["apbf-tiny", "tiny", "gebf-tiny", "blocked-gebf-tiny"])
def test_estimated_rate_is_of_what_counts(name):
    spec = replace(preset(name), span=100, key_bits=64)
    model = from_spec(spec)
    rng = np.random.default_rng(4)
    count = 4 * spec.generation
    model.insert(rng.integers(0, 1 << 63, count, np.uint64), np.arange(count) * 25)
    fresh = rng.integers(0, 1 << 63, 20_000, np.uint64)
    rates = []
    for now in range(model.last_insertion, model.last_insertion + 101, 20):
        rates.append(model.estimated_false_positive_rate(now))
        deviation = np.sqrt(rates[-1] * (1 - rates[-1]) / len(fresh))
        assert abs(model.query(fresh, now).mean() - rates[-1]) < 5 * deviation
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1] > 0
    assert model.estimated_false_positive_rate(model.last_insertion + 101) == 0
    # The bits are there all the same.
    assert (model.fill_ratios()[: spec.run] > 0).all()
