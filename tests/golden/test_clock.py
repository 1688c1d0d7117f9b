"""Filters with a clock: times that are left out, times of events, late ones, and saved ones."""

import gc
import io
import pickle
import time
import weakref
from copy import deepcopy
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import numpy as np
import pytest
from every_model import build
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
from lately.intervals import clopper_pearson
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
    assert model.spec.untimed == kind.for_window(30_001, 0.02, seed=3).spec
    assert (model.span, model.spec.when_full) == (600 * SECOND, "shorten")
    assert kind.for_span("10min", rate=50).spec.when_full == "overfill"
    assert repr(model).startswith("<TimeLimitedRing: window of 10 min, false-positive rate 0.0")


def test_keyed_ring_for_a_span():
    model = GEBF.for_span("1h", rate=1, hash="siphash", secret=77)
    assert model.secrets[0] == 77


# Units, and times ahead of the clock

UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
MOMENT = 1_700_000_000 * SECOND + 250_000_000


def numbers(times, unit):
    """Return times in a unit, as integers and as floats, in arrays and lists."""
    whole, real = times // (SECOND // UNITS[unit]), times / (SECOND / UNITS[unit])
    return [whole, whole.tolist()], [real, real.tolist()]


def right_forms(times):
    """Return times, which are whole microseconds, in every form that is taken."""
    since = [timedelta(microseconds=time // 1000) for time in times.tolist()]
    exact = {"s": SECOND, "ms": 10**6, "us": 1000, "ns": 1}
    units = [unit for unit, each in exact.items() if not (times % each).any()]
    return [
        *numbers(times, "nanoseconds")[0],
        *numbers(times, "seconds")[1],
        [datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))) + each for each in since],
        *(times.astype("datetime64[ns]").astype(f"datetime64[{unit}]") for unit in units),
    ]


def wrong_units(times):
    """Return each number that is in another unit than its kind has, with the name of the unit."""
    for unit in UNITS:
        integers, floats = numbers(times, unit)
        yield from ((unit, each) for each in integers if unit != "nanoseconds")
        yield from ((unit, each) for each in floats if unit != "seconds")


@pytest.mark.parametrize(("path", "rate"), [*((path, 60) for path in PATHS), ("compiled", 2)])
@EACH
def test_a_stream_of_events_and_clock_against_a_dictionary(kind, path, rate):
    """Times of all forms, a clock that goes back and forth, times far ahead, more than the rate."""
    seed = int(np.random.default_rng().integers(1 << 32))
    print(f"{seed=}")
    rng = np.random.default_rng(seed)
    # Equal times would have slices of the paper's filter grow to megabytes.
    options = {"slice_bits_limit": 1 << 14} if kind is TimeLimitedAPBF else {}
    with taking(path):
        model = kind.for_span("10s", 0.01, rate=rate, **options)
    model.clock = HandClock()
    model.clock.now = MOMENT
    steps = [0.1, 0.5, 1, -1, 3, 30]
    last, latest, late, new, wrong = {}, -1, 0, 0, 0
    for step in range(200):
        seconds = rng.choice(steps, p=[0.35, 0.35, 0.15, 0.1, 0.04, 0.01])
        model.clock.now += int(seconds * SECOND)
        keys = np.where(rng.random(4) < 0.6, rng.integers(0, 50, 4), 1000 + 4 * step + np.arange(4))
        times = np.full(4, model.clock.now)
        if rng.random() < 0.5:
            resolution = SECOND // rng.choice([1, 10**3, 10**6])
            times = (times - rng.integers(0, 2 * SECOND, 4)) // resolution * resolution
            forms = right_forms(times)
            given = forms[rng.integers(len(forms))]
            seen = model.check_and_insert(keys, given).tolist()
            assert np.abs(nanoseconds(given) - times).max() < 1000
            times = nanoseconds(given)
        else:
            seen = [model.check_and_insert(key) for key in keys.tolist()]
        for key, now, reported in zip(keys.tolist(), times.tolist(), seen, strict=True):
            latest, late = max(latest, now), late + (now < latest)
            assert reported or key not in last or latest - last[key] > model.span
            new, wrong = new + (key not in last), wrong + (reported and key not in last)
            last[key] = latest
        if step % 20 == 9:
            before = deepcopy(model)
            refuses_other_times(model, keys, times)
            assert model == before
            assert (model.latest, model.late) == (before.latest, before.late)
    print(f"{wrong} of {new} new keys reported")
    assert model.late == late > 30
    assert new > 250
    assert rate == 2 or clopper_pearson(wrong, new)[0] <= 0.01


def refuses_other_times(model, keys, times):
    """Give times of which one is far ahead of the clock, and times in other units."""
    message = r"^now: must be at most 1 d ahead of the clock \(max_ahead\), not 366 d$"
    for now in right_forms(times + np.array([0, 366 * 86_400 * SECOND, 0, 0])):
        with pytest.raises(ValueError, match=message):
            model.insert(keys, now)
    for unit, now in wrong_units(times):
        for call in (model.insert, model.query, partial(model.check_and_insert, refresh=False)):
            with pytest.raises(ValueError, match=f"^now: .* looks like {unit}, "):
                call(keys, now)


@EACH
def test_the_limit_of_times_ahead(kind):
    model = kind.for_span("10s", RATE, rate=10, max_ahead="2min")
    model.clock = HandClock()
    edge = model.clock.now + 120 * SECOND
    assert model.max_ahead == 120 * SECOND
    with pytest.raises(ValueError, match=r"^now: .* 2 min ahead of the clock .* not 2.5 min$"):
        model.check_and_insert([1, 2], [0, edge + 30 * SECOND])
    with pytest.raises(ValueError, match="max_ahead"):
        model.insert(1, edge + 1)
    assert (model.latest, model.query(1, 0), model.query(1, edge * 10**6)) == (-1, False, False)
    model.insert(1, edge)
    copies = [from_bytes(model.to_bytes()), pickle.loads(pickle.dumps(model)), deepcopy(model)]
    assert [each.max_ahead for each in copies] == [model.max_ahead] * 3
    # The zero of the clock is that of numbers; a date is far ahead of it.
    with pytest.raises(ValueError, match="max_ahead"):
        model.insert(1, datetime(2017, 1, 1, tzinfo=UTC))
    model.max_ahead = None
    model.insert(1, datetime(2017, 1, 1, tzinfo=UTC))
    assert from_bytes(model.to_bytes()).max_ahead is None
    numbers, arrays = model._saved()
    del numbers["max_ahead"]  # as in older files
    model._take_saved(numbers, arrays)
    assert model.max_ahead == 86_400 * SECOND
    with pytest.raises(TypeError, match=r"^max_ahead: must be a text such as .*, not 5$"):
        kind.for_span("10s", RATE, rate=10, max_ahead=5)


# Single keys in the extension

FORMS = [int, np.int64, lambda now: now / SECOND, lambda now: right_forms(np.array([now]))[4][0]]
"""Times that the extension takes."""

OTHERS = [
    lambda now: np.datetime64(now, "ns"),
    lambda now: datetime.fromtimestamp(now // SECOND, UTC).date(),
    lambda now: now // 10**6, lambda now: now / 1000, lambda now: -now, lambda now: now << 12,
    lambda now: True, lambda now: float("nan"), lambda now: "now", lambda now: datetime(2024, 1, 1),
    lambda now: now + 366 * 86_400 * SECOND, lambda now: np.float32(now),
]  # fmt: skip
"""Times that the extension leaves to Python, which refuses most of them."""


@pytest.mark.parametrize("clocked", [True, False])
@pytest.mark.parametrize("kind", [*RING_CLASSES, TimedTimingFilter])
def test_times_of_single_keys_are_those_of_lists(kind, clocked):
    seed = int(np.random.default_rng().integers(1 << 32))
    print(f"{seed=}")
    rng = np.random.default_rng(seed)
    models = [kind.for_span("10s", RATE, rate=10) for _ in "ab"]
    clock = HandClock()
    for model in models:
        model.clock = clock if clocked else None
    clock.now = MOMENT

    def outcome(model, name, keys, now, options):
        try:
            result = getattr(model, name)(
                keys, **({"now": now} if now is not None else {}), **options
            )
        except (TypeError, ValueError) as error:
            return repr(error)
        return result.tolist()[0] if isinstance(result, np.ndarray) else result

    for step in range(1000):
        clock.now += int(rng.integers(0, SECOND))
        name = ["insert", "query", "age", "check_and_insert", "check_and_insert"][step % 5]
        options = {"refresh": bool(rng.integers(2))} if name == "check_and_insert" else {}
        key, now = int(rng.integers(40)), clock.now - int(rng.integers(0, 12 * SECOND))
        forms = OTHERS if rng.random() < 0.2 else FORMS[: 4 if clocked else 2]
        now = forms[rng.integers(len(forms))](now) if rng.random() < 0.8 else None
        alone = outcome(models[0], name, key, now, options)
        assert alone == outcome(models[1], name, [key], now, options), (name, now)
        assert (key in models[0]) == (key in models[1])
        if step % 20 == 19:
            assert models[0] == models[1]
            assert models[0].counters == models[1].counters
            assert models[0]._event_times == models[1]._event_times


@pytest.mark.parametrize("kind", [GEBF, TimedTimingFilter])
def test_the_extension_takes_times(kind, monkeypatch):
    model = kind.for_span("10s", RATE, rate=10)
    for name in ("insert", "add", "query", "age", "check_and_insert"):
        monkeypatch.setattr(type(model), f"_python_{name}", None)
        call, options = getattr(model, name), {"check_and_insert": {"refresh": False}}
        for form in FORMS:
            model.clock = SteadyClock()
            call("key", form(time.time_ns()))
            call("key", now=form(time.time_ns()), **options.get(name, {}))
        model.clock = None
        call(5, time.time_ns())
    monkeypatch.setattr(type(model), "_python___contains__", None)
    assert "key" in model


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
    for value in ("now", 1.5, True, None):
        model.clock = lambda value=value: value
        with pytest.raises(TypeError, match=r"^clock: must return integers, as time.time_ns does"):
            model.insert("b")
    model.clock = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        model.insert("b")
    model.clock = lambda: -5
    with pytest.raises(
        ValueError, match=r"^clock: must return at least 0 and below 2\*\*62, not -5"
    ):
        model.insert("b")
    model.clock = None
    assert "a" in model
    assert model.insertions == 1


# States


@EACH
@pytest.mark.parametrize("form", ["file", "pickle"])
def test_a_saved_filter_goes_on_by_the_wall_clock(kind, form, tmp_path, monkeypatch):
    model = kind.for_span("10s", RATE, rate=10)
    model.insert("a")
    model.insert("b", model.latest - 1)
    # The machine starts again: its monotonic clock begins at 0, the wall clock goes on.
    wall = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall + 9 * SECOND)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 0)
    if form == "file":
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
    with pytest.raises(TypeError, match=r"^clock: GEBF counts insertions, not time$"):
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
