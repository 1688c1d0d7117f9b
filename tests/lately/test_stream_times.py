"""Windows in real time: ticks of a span, what they promise, and what times of a stream become."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lately.cli.filter_choice import with_span
from lately.golden import SpecificationError, preset
from lately.replay.traces import TickCounter, TraceError

MS = 10**6
COUNTED = preset("default")
TIMED = replace(COUNTED, span=400)
SHORTEN = {"when_full": "shorten"}


def test_default_tick():
    spec, tick = with_span(COUNTED, 50 * MS, None)
    assert (spec.span, tick, spec.when_full, spec.generation_span) == (1001, 50_000, "shorten", 201)
    assert replace(spec, span=None, generation_span=None, when_full=None) == COUNTED


def test_when_full():
    assert with_span(COUNTED, 50 * MS, MS, when_full="overfill")[0].when_full == "overfill"


def test_without_a_span_nothing_changes():
    assert with_span(COUNTED, None, None) == (COUNTED, None)


@given(ticks=st.integers(1, 5000), span=st.integers(1, 10**9))
def test_span_of_a_filter_that_has_ticks(ticks, span):
    spec = replace(preset("gebf-tiny"), span=ticks)
    same, tick = with_span(spec, span, None)
    assert same == spec
    assert span // tick + 1 <= ticks
    # The least such tick.
    assert tick == 1 or span // (tick - 1) + 1 > ticks


def test_tick_of_a_filter_that_has_ticks():
    assert with_span(TIMED, None, 7) == (TIMED, 7)


@pytest.mark.parametrize(
    ("spec", "times", "fields", "message"),
    [
        (COUNTED, (None, MS), {}, r"--tick needs --span"),
        (COUNTED, (None, None), SHORTEN, r"when_full: the filter has no span"),
        (TIMED, (None, None), {}, r"a filter with a span of 400 ticks needs --span or --tick"),
        (
            TIMED,
            (MS, MS),
            {},
            r"--span cannot be combined with --tick for a filter with a span of 400 ticks",
        ),
        (TIMED, (MS, None), SHORTEN, r"when_full: the filter already has a span of"),
        (COUNTED, (MS, None), {"when_full": "wait"}, r"when_full: must be one of shorten, overf"),
    ],
)
def test_span_wrong(spec, times, fields, message):
    with pytest.raises(SpecificationError, match=rf"^{message}"):
        with_span(spec, *times, **fields)


def test_ticks():
    counter = TickCounter(10)
    assert not counter.begun
    # The first time may come late.
    assert counter.ticks([None, 1005, 1014, 1015, 1014, 1003, None, 1025]).tolist() == [
        0, 0, 0, 1, 1, 1, 1, 2,
    ]  # fmt: skip
    assert (counter.late, counter.latest, counter.missing, counter.begun) == (2, 12, 2, True)
    assert counter.ticks([1024, -5]).tolist() == [2, 2]
    assert (counter.late, counter.latest) == (4, 1030)


@given(times=st.lists(st.none() | st.integers(-50, 50), max_size=40), cut=st.integers(0, 40))
def test_ticks_of_parts(times, cut):
    whole, parts = TickCounter(7), TickCounter(7)
    result = whole.ticks(times)
    assert (np.concatenate([parts.ticks(times[:cut]), parts.ticks(times[cut:])]) == result).all()
    assert vars(whole) == vars(parts)
    assert all(earlier <= later for earlier, later in pairwise(result))


def test_ticks_wrong():
    counter = TickCounter(1)
    assert counter.ticks([0, (1 << 62) - 1])[-1] == (1 << 62) - 1
    with pytest.raises(TraceError, match=r"^time: must be below 2\*\*62 ticks, not 4611"):
        counter.ticks([1 << 62])
