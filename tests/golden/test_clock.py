"""Filters with a clock: times that are left out, times of events, late ones, and saved ones."""

import gc
import io
import pickle
import re
import time
import weakref
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from cases import daily
from every_model import RINGS, build
from paths import PATHS, taking

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    BlockedGEBF,
    StateFileError,
    TimedTimingFilter,
    TimeLimitedRing,
    from_bytes,
    load,
)
from lately.golden.times import SteadyClock, nanoseconds
from papers.models import TimeLimitedAPBF

SECOND = 10**9
RING_CLASSES = (APBF, APBBF, GEBF, BlockedGEBF)
EACH = pytest.mark.parametrize("kind", [*RING_CLASSES, TimeLimitedAPBF, TimedTimingFilter])
RATE = 1e-5  # of false positives, none of which is expected in these tests


class HandClock:
    """A clock whose time a test sets."""

    now = 5 * SECOND

    def __call__(self):
        return self.now


def by_hand(kind, span="10s", **options):
    return kind.for_span(span, RATE, rate=10, clock=HandClock(), **options)


def slack(model):
    """Time after the span in which a key may still be reported: a generation, or more."""
    if isinstance(model, TimeLimitedRing):
        return model.spec.run * model.spec.generation_span
    return getattr(model, "period", model.span)


@EACH
def test_a_key_is_reported_for_the_span_by_the_clock(kind):
    model = by_hand(kind)
    assert model.span >= 10 * SECOND
    assert model.check_and_insert("a") is False
    assert "a" in model
    model.clock.now += model.span
    assert "a" in model
    assert model.query(["a", "b"]).tolist() == [True, False]
    assert model.age("a") >= 0
    model.clock.now += slack(model) + 1
    assert "a" not in model
    assert model.check_and_insert("a") is False
    assert model.late == 0


@EACH
def test_times_without_a_clock_are_real(kind):
    before = time.time_ns()
    model = kind.for_span(timedelta(minutes=10), rate=100)
    model.insert(["a", "b"])
    assert before <= model.latest <= time.time_ns() + SECOND
    assert "a" in model
    assert model.query("a", model.latest + 2 * model.span + SECOND) is False


@pytest.mark.parametrize("kind", RING_CLASSES)
def test_a_ring_for_a_span(kind):
    model = kind.for_span("10min", 0.02, rate=50, seed=3, when_full="shorten")
    assert isinstance(model, TimeLimitedRing)
    assert model.spec.untimed == kind.for_window(30_000, 0.02, seed=3).spec
    assert (model.span, model.spec.when_full) == (600 * SECOND, "shorten")
    assert kind.for_span("10min", rate=50).spec.when_full == "overfill"
    assert repr(model).startswith("<TimeLimitedRing: window of 10 min, false-positive rate 0.0")


@pytest.mark.parametrize("kind", RING_CLASSES)
def test_no_key_of_the_span_is_missed_at_any_rate(kind):
    """Four times the rate for a quarter of the time, then ten times the rate."""
    model = kind.for_span("10s", rate=100)
    times = np.concatenate([np.arange(0, 40, 0.01), np.arange(40, 45, 0.001)]) + 1.5e9
    for part in np.array_split(np.arange(len(times)), 50):
        model.insert(part, times[part])
        now = times[part[-1]]
        kept = np.flatnonzero((times >= now - 10) & (times <= now))
        assert model.query(kept, now).all()


def test_keyed_ring_for_a_span():
    model = GEBF.for_span("1h", rate=1, hash="siphash", secret=77)
    assert model.secrets[0] == 77


SAME = [
    1_500_000_000_250_000_000,
    1_500_000_000.25,
    np.datetime64("2017-07-14T02:40:00.250"),
    datetime(2017, 7, 14, 2, 40, 0, 250_000, tzinfo=UTC),
    datetime(2017, 7, 14, 4, 40, 0, 250_000, tzinfo=timezone(timedelta(hours=2))),
]


@pytest.mark.parametrize("now", SAME)
def test_times_of_events(now):
    model = by_hand(GEBF)
    model.insert("a", now)
    model.insert(["b", "c"], [now, now])
    model.insert(["d"], np.array([now]))
    assert (model.latest, model.late) == (SAME[0], 0)
    assert model.query("a", SAME[0] + model.span)


def test_times_of_events_in_arrays():
    days = np.array(["2017-07-14", "2017-07-15"], "datetime64[D]")
    assert nanoseconds(days).tolist() == [1_499_990_400 * SECOND, 1_500_076_800 * SECOND]
    assert nanoseconds([0.1, 2.0]).tolist() == [SECOND // 10, 2 * SECOND]
    assert nanoseconds([]).size == 0


@pytest.mark.parametrize(
    ("now", "error", "message"),
    [
        (float("nan"), ValueError, "now: must be finite, not nan"),
        (1e18, ValueError, "now: must be at least 0 and below 2**62 ns, not 1e+18 s"),
        (-1.5, ValueError, "now: must be at least 0 and below 2**62, not -1500000000"),
        (np.datetime64("NaT"), ValueError, "now: must be between 1970 and 2116, not NaT or"),
        (np.datetime64("9999-01-01"), ValueError, "now: must be between 1970 and 2116"),
        (datetime(2017, 1, 1), TypeError, "now: must be a datetime with a time zone, not "),
        ("10s", TypeError, "now: must be integers (nanoseconds), floats (seconds), datetime64"),
        (True, TypeError, "now: must be integers (nanoseconds), floats (seconds), datetime64"),
        ([object()], TypeError, "now: must be a datetime with a time zone, not object"),
        (date(2026, 1, 1), TypeError, "now: must be a datetime with a time zone, not date"),
    ],
)
def test_time_of_an_event_wrong(now, error, message):
    model = by_hand(GEBF)
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        model.insert(["a"], now)
    assert model.insertions == model.late == 0


@pytest.mark.parametrize(
    ("span", "error", "message"),
    [
        (600, TypeError, 'span: must be a text such as "10min" or a timedelta, not 600'),
        ("10 parsecs", ValueError, "span: must be a number above 0 and one of ns, us, ms, s, "),
        (timedelta(0), ValueError, "span: must be above 0, not datetime.timedelta(0)"),
        (
            np.timedelta64(1500, "ps"),
            ValueError,
            "span: must be a whole number of nanoseconds below",
        ),
        (np.timedelta64(5), ValueError, "span: must be a whole number of nanoseconds below"),
        (np.timedelta64(10**6, "D"), ValueError, "span: must be a whole number of nanoseconds be"),
        ("0.5ns", ValueError, "span: must be a whole number of nanoseconds, not '0.5 ns'"),
    ],
)
def test_span_wrong(span, error, message):
    for kind in (GEBF, TimedTimingFilter):
        with pytest.raises(error, match=f"^{re.escape(message)}"):
            kind.for_span(span, rate=1)


def test_rate_and_options_wrong():
    with pytest.raises(ValueError, match=r"^rate: must be above 0 .*, not 0$"):
        GEBF.for_span("1s", rate=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sed'"):
        GEBF.for_span("1s", rate=1, sed=3)
    with pytest.raises(ValueError, match=r"^partitioned: must be True with a span, not False$"):
        GEBF.for_span("1s", rate=1, partitioned=False)
    with pytest.raises(ValueError, match=r"^when_full: must be one of shorten, overfill"):
        GEBF.for_span("1s", rate=1, when_full="explode")


# Late times


@EACH
def test_a_late_key_counts_from_the_latest_time(kind):
    model = by_hand(kind)
    model.insert("on time", 100.0)
    model.insert(["late", "later", "again on time"], [99.0, 90.0, 100.5])
    assert model.late == 2
    assert model.latest == int(100.5 * SECOND)
    # It is reported at the very end of the span after its own time, and after the latest.
    for key, end in {"late": 100, "later": 100, "again on time": 100.5}.items():
        assert model.query(key, int(end * SECOND) + model.span)
    model.check_and_insert("late too", 1.0)
    assert model.late == 3


@EACH
def test_a_late_query_is_of_the_latest_time(kind):
    model = by_hand(kind)
    model.insert("a", 100 * SECOND)
    end = 100 * SECOND + model.span
    model.insert("b", end)
    assert model.query("a", 100 * SECOND)
    model.insert("c", end + slack(model) + 1)
    assert not model.query("a", 100 * SECOND)
    assert model.late == 0


def test_a_clock_that_goes_back_is_late():
    model = by_hand(GEBF)
    model.insert("a")
    model.clock.now -= SECOND
    assert model.check_and_insert("a") is True
    assert (model.late, model.latest) == (1, 5 * SECOND)


@pytest.mark.parametrize("name", ["TimeLimitedAPBF", *RINGS, "TimedTimingFilter"])
def test_filters_without_a_clock_take_late_times_too(name):
    model = build(name)
    model.insert([1, 2, 3], [10, 7, 12])
    assert (model.late, model.latest) == (1, 12)
    with pytest.raises(TypeError, match=rf"^now: must be given for a {type(model).__name__} with"):
        model.insert(4)
    assert 3 in model


# Single keys in the extension


@pytest.mark.parametrize("when_full", ["overfill", "shorten"])
@pytest.mark.parametrize("kind", daily(2, RING_CLASSES))
def test_single_keys_are_as_in_numpy(kind, when_full):
    """At rates below and above the expected one, with silences, late times and other calls."""
    seed = int(np.random.default_rng().integers(1 << 32))
    print(f"{seed=}")
    rng, models = np.random.default_rng(seed), []
    clock = HandClock()
    for path in PATHS:
        with taking(path):
            model = kind.for_span("10s", 0.05, rate=5, when_full=when_full)
        model.clock = clock
        models.append(model)
    acts = (
        lambda model, key: model.check_and_insert(key),
        lambda model, key: model.check_and_insert(key, refresh=False),
        lambda model, key: model.insert(key),
        lambda model, key: key in model,
        lambda model, key: model.age(key),
        lambda model, key: model.check_and_insert([key, key]).tolist(),
        lambda model, key: (model.status(), model.latest, model.guaranteed_span()),
        lambda model, key: model.counters | {"late": model.late},
    )
    steps = [0, 0.01, 0.05, 0.5, -0.3, 3, 11]
    chances = [0.3, 0.2, 0.1, 0.2, 0.14, 0.02, 0.02, 0.02]
    for act in rng.choice(len(acts), 300, p=chances):
        step = rng.choice(steps, p=[0.1, 0.5, 0.2, 0.1, 0.08, 0.01, 0.01])
        clock.now = max(0, clock.now + int(step * SECOND))
        key = int(rng.integers(0, 60)) if rng.random() < 0.5 else f"{rng.integers(0, 60)}"
        with_extension, in_numpy = (acts[act](model, key) for model in models)
        assert with_extension == in_numpy
    assert models[0] == models[1]
    assert models[0].counters == models[1].counters
    assert models[0].late == models[1].late > 0
    assert models[0].shifts > 2


def test_a_clock_that_refers_to_its_filter_is_collected():
    class Service:
        def __init__(self):
            self.seen = GEBF.for_span("10s", rate=10)
            self.seen.clock = self.now
            assert not self.seen.check_and_insert("key")

        def now(self):
            return 10**18

    service = weakref.ref(Service())
    gc.collect()
    assert service() is None


def test_a_clock_that_gives_no_time():
    model = by_hand(GEBF)
    model.insert("a")
    model.clock = lambda: "now"
    with pytest.raises(TypeError, match=r"^now: must be integers"):
        model.insert("b")
    model.clock = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        model.insert("b")
    model.clock = lambda: -5
    with pytest.raises(ValueError, match=r"^now: must be at least 0"):
        model.insert("b")
    model.clock = None
    assert "a" in model
    assert model.insertions == 1


# States


@EACH
@pytest.mark.parametrize("how", ["file", "pickle"])
def test_a_saved_filter_goes_on_by_the_wall_clock(kind, how, tmp_path, monkeypatch):
    model = kind.for_span("10s", RATE, rate=10)
    model.insert("a")
    model.insert("b", model.latest - 1)
    # The machine starts again: its monotonic clock begins at 0, the wall clock goes on.
    wall = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall + 9 * SECOND)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 0)
    if how == "file":
        model.save(tmp_path / "state")
        copy = load(tmp_path / "state")
    else:
        copy = pickle.loads(pickle.dumps(model))
    assert isinstance(copy.clock, SteadyClock)
    assert (copy.late, copy) == (1, model)
    assert "a" in copy
    monkeypatch.setattr(time, "monotonic_ns", lambda: model.span + slack(model))
    assert "a" not in copy


@EACH
def test_a_class_loads_what_its_constructors_return(kind, tmp_path):
    """With a clock, if one is given; also the ring that `for_span` of a family returns."""
    model, path = by_hand(kind), tmp_path / "state"
    model.insert("a")
    model.save(path)
    data, clock = model.to_bytes(), model.clock
    loaded = [kind.load(path, clock=clock), kind.from_bytes(data, clock=clock)]
    loaded += [load(path, clock=clock), from_bytes(data, clock=clock)]
    for copy in loaded:
        assert copy == model
        assert copy.clock is clock
        assert "a" in copy
    for other in {GEBF, APBBF, TimedTimingFilter} - {kind}:
        with pytest.raises(StateFileError, match=rf"expected the state of {other.__name__}, found"):
            other.load(path)
    with pytest.raises(TypeError, match=r"^clock: a GEBF counts insertions$"):
        load(io.BytesIO(build("GEBF").to_bytes()), clock=clock)


def test_a_wall_clock_that_was_set_back_forgets_nothing(tmp_path, monkeypatch):
    model = GEBF.for_span("10s", RATE, rate=10)
    model.insert("a")
    model.save(tmp_path / "state")
    wall = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall - 3600 * SECOND)
    copy = load(tmp_path / "state")
    assert "a" in copy
    assert copy.check_and_insert("a") is True
    assert copy.late == 1


def test_a_step_of_the_wall_clock_does_not_matter(monkeypatch):
    model = GEBF.for_span("10s", RATE, rate=10)
    model.insert("a")
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert "a" in model
    assert model.check_and_insert("a")
    assert model.late == 0
