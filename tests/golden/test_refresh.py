"""Policies of check_and_insert: the window begins when a key comes last, or when it passes."""

from copy import deepcopy

import numpy as np
import pytest
from cases import daily
from paths import PATHS, taking

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    TimedTimingFilter,
)


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
