"""Policies of check_and_insert: the window begins when a key comes last, or when it passes."""

from copy import deepcopy
from functools import partial
from itertools import product

import numpy as np
import pytest
from cases import daily
from every_model import MODELS, RINGS, build, times, used
from paths import PATHS, taking

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    TimedTimingFilter,
)

CHECKED = sorted({*MODELS, *RINGS} - {"InferentialFilter"})


def one_by_one(model, keys, clock):
    """Return the answers of the policy in its plain words: ask, and insert if not reported."""
    seen = []
    for at, key in enumerate(keys.tolist()):
        now = [int(each[at]) for each in clock]
        seen.append(model.query(key, *now))
        if not seen[-1]:
            model.insert(key, *now)
    return seen


@pytest.mark.parametrize("path", daily(1, PATHS))
@pytest.mark.parametrize("name", CHECKED)
def test_a_key_that_is_reported_is_not_inserted(name, path):
    keys = np.random.default_rng(4).integers(0, 40, 150)
    with taking(path):
        batch, single, twin = used(name), used(name), used(name)
        clock = times(batch, 130, 150)
        seen = batch.check_and_insert(keys, *clock, refresh=False)
        assert seen.tolist() == one_by_one(twin, keys, clock)
        assert 0 < seen.sum() < 150
        for at, key in enumerate(keys.tolist()):
            now = [each[at] for each in clock]
            assert single.check_and_insert(key, *now, refresh=False) is bool(seen[at])
    assert batch == single == twin
    assert batch.counters == single.counters
    assert batch.counters["insertions"] == twin.counters["insertions"] == 40 + 150 - seen.sum()
    assert batch.counters["hits"] == seen.sum()
    assert batch.counters["operations"] == 190


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["APBF", "GEBF", "PartitionedTimingFilter", "WindowDictionary"])
def test_refresh_is_the_default(name, path):
    keys = np.random.default_rng(5).integers(0, 40, 150)
    with taking(path):
        model, twin = build(name), build(name)
        for key in keys.tolist():
            expected = twin.check_and_insert(key)
            assert model.check_and_insert(key, refresh=True) is expected
    assert model == twin
    assert model.counters == twin.counters


def passes(model, refresh):
    """Return the rounds in which a key passes that comes again after each fresh key."""
    found = []
    for turn in range(1000):
        if not model.check_and_insert("key", refresh=refresh):
            found.append(turn)
        model.check_and_insert(turn, refresh=refresh)
    return found


@pytest.mark.parametrize("path", daily(1, PATHS))
def test_a_key_that_repeats_for_ever_passes_once_in_a_window(path):
    with taking(path):
        model, other = (GEBF.for_window(100, 1e-6) for _ in range(2))
    assert passes(other, True) == [0]
    gaps, window = np.diff(passes(model, False)), model.spec.guaranteed_window
    assert len(gaps) >= 5
    # It is reported with a window of insertions after its own, and no more after the slack.
    assert (gaps > window).all()
    assert (gaps <= window + model.spec.slack + 1).all()


def test_a_key_passes_once_in_a_span_at_the_edges():
    model = GEBF.for_span("10s", 1e-6, rate=10)
    start = 10**18
    ends = start + model.span, start + model.span + model.spec.generation_span + 1
    assert model.check_and_insert("key", start, refresh=False) is False
    for now in (start + 1, ends[0] - 1, ends[0]):
        assert model.check_and_insert("key", now, refresh=False) is True
    assert model.check_and_insert("key", ends[1], refresh=False) is False
    assert model.insertions == 2
    last = GEBF.for_span("10s", 1e-6, rate=10)
    assert not last.check_and_insert("key", start)
    assert all(last.check_and_insert("key", start + n * model.span) for n in range(1, 20))


def test_a_key_that_is_reported_by_chance_is_not_remembered():
    model = GEBF(window=40, epochs=4, hashes=1, bits=200)
    model.insert(np.arange(40))
    before = deepcopy(model)
    chance = next(key for key in range(1000, 2000) if key in model)
    assert model.check_and_insert(chance, refresh=False) is True
    assert model == before
    assert model.insertions == 40


def test_a_late_key_that_is_reported_moves_no_later_time():
    """A batch is its keys one after another, also where times fall."""
    start = 10**18
    keys, times = ["a", "a", "b", "c"], [start, start + 5, start + 2, start + 1]
    batch, single = (GEBF.for_span("10s", 1e-6, rate=10) for _ in range(2))
    answers = batch.check_and_insert(keys, times, refresh=False).tolist()
    assert answers == [
        single.check_and_insert(key, now, refresh=False)
        for key, now in zip(keys, times, strict=True)
    ]
    assert (batch.latest, batch.late) == (single.latest, single.late) == (start + 2, 1)
    assert batch == single


def test_a_posterior_refreshes():
    with pytest.raises(ValueError, match=r"^refresh: must be True for InferentialFilter, not Fal"):
        build("InferentialFilter").check_and_insert([1], refresh=False)


SPANS = {
    "ring": partial(GEBF.for_span, "10s", 0.05, rate=20),
    "ring of runs": partial(APBF.for_span, "10s", 0.05, rate=20, when_full="shorten"),
    "joinable": partial(GEBF.for_span, "10s", 0.05, rate=20, joinable=True),
    "joinable runs": partial(APBBF.for_span, "10s", 0.05, rate=20, joinable=True),
    "timing": partial(TimedTimingFilter.for_span, "10s", 0.05, rate=20),
}


@pytest.mark.parametrize(("key_bits", "name"), daily(6, product([64, 104], SPANS)))
def test_times_in_the_extension_are_those_of_numpy(name, key_bits):
    """Batches and single keys, times that fall, and silences up to many spans."""
    rng = np.random.default_rng(9)
    keys = rng.integers(0, 80, (240, -(-key_bits // 64)), np.uint64)
    steps = rng.exponential(0.05, 240) * 10**9
    steps[rng.integers(0, 240, 8)] = np.geomspace(1e9, 1e12, 8)
    given = 10**18 + np.cumsum(steps).astype(np.int64) - rng.integers(0, 2 * 10**8, 240)
    states = []
    for path in ("numpy", "compiled"):
        with taking(path):
            model = SPANS[name](key_bits=key_bits)
        answers = []
        for at, part in enumerate(np.array_split(np.arange(160), 4)):
            model.clock = model.clock if at % 2 else None
            answers += model.check_and_insert(keys[part], given[part], refresh=False).tolist()
            model.insert(keys[part[:9]], given[part[:9]])
        for key, now, call in zip(keys[160:], given[160:], [0, 1, 2, 3] * 20, strict=True):
            model.clock = lambda now=int(now): now
            one = int(key[0]) if key_bits == 64 else key[None]
            method = (model.check_and_insert, model.insert, model.query, model.age)[call]
            answers.append(np.ravel(method(one)).tolist())
            if not call:
                answers.append(np.ravel(model.check_and_insert(one, refresh=False)).tolist())
        states.append((answers, model.latest, model.late, model.counters, model))
    assert states[0] == states[1]
    assert states[0][2] > 10


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model", [APBBF, APBF, GEBF, TimedTimingFilter])
def test_a_later_time_that_inserts_nothing_ages_no_key(model, path):
    span, step = 10**9, 2 * 10**7
    with taking(path):
        model = model.for_span("1s", rate=50)
    keys = np.arange(40)
    model.insert(keys, 10**18 + keys * step)
    latest, later = model.latest, model.latest + span
    assert model.check_and_insert([39, *keys], [later, *[latest] * 40], refresh=False).all()
    times = iter([later, *[latest] * 40])
    model.clock = lambda: next(times)
    assert all(key in model for key in [39, *keys.tolist()])
