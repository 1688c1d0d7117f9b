"""Durations as people write them, and ticks of spans."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lately.golden import SpecificationError
from lately.golden.durations import (
    default_tick,
    span_ticks,
    tick_of_span,
    time_seconds,
    time_text,
    whole_nanoseconds,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("500ms", Fraction(1, 2)),
        ("1.5 h", 5400),
        ("2min", 120),
        ("2d", 172_800),
        ("7us", Fraction(7, 10**6)),
    ],
)
def test_time(text, seconds):
    assert time_seconds(text, "span") == seconds


@pytest.mark.parametrize("text", ["", "10", "s", "-1s", "0s", "1e3s", "10 y"])
def test_time_wrong(text):
    with pytest.raises(
        SpecificationError, match=r"^span: must be a number above 0 and a unit \(ns, "
    ):
        time_seconds(text, "span")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ns"),
        (Fraction(999, 10**9), "999 ns"),
        (Fraction(1, 10**6), "1 us"),
        (Fraction(5005, 10**5), "50.05 ms"),
        (90, "1.5 min"),
        (3600, "1 h"),
        (86_400, "1 d"),
    ],
)
def test_time_text(seconds, text):
    assert time_text(Fraction(seconds)) == text


def test_whole_nanoseconds():
    assert whole_nanoseconds("tick", Fraction(1, 10**6)) == 1000
    message = r"^tick: must be a whole number of nanoseconds, not '0.5 ns'$"
    with pytest.raises(SpecificationError, match=message):
        whole_nanoseconds("tick", Fraction(1, 2 * 10**9))


@given(
    span=st.integers(1, 10**6),
    tick=st.integers(1, 10**6),
    phase=st.integers(0, 10**6),
    apart=st.integers(0, 10**6),
)
def test_keys_of_the_span_are_within_its_ticks(span, tick, phase, apart):
    ticks = span_ticks(span, tick)
    first, second = phase // tick, (phase + min(apart, span)) // tick
    assert second - first <= ticks
    # A tick fewer would not do just before the end of one.
    assert span % tick == 0 or (tick - 1 + span) // tick == ticks


@given(span=st.integers(1, 10**9), ticks=st.integers(1, 5000))
def test_tick_of_a_span_is_the_shortest(span, ticks):
    tick = tick_of_span(span, ticks)
    assert span_ticks(span, tick) <= ticks
    assert tick == 1 or span_ticks(span, tick - 1) > ticks


def test_default_tick():
    assert [default_tick(span) for span in (50 * 10**6, 999, 1000, 1001)] == [50_000, 1, 1, 2]
    assert default_tick(Fraction(1, 2)) == 1
