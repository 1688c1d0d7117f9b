"""The programs of docs/gallery.md at the edges of their windows; early data has its own tests."""

import numpy as np
import pytest

from campaigns.pages.pictures import EXAMPLES, STORIES, example
from lately.golden import Operation, from_spec
from lately.golden.spec.timestamp import TimedTimingSpec

MIRROR, LOG, SYN = map(example, ("mirror_port", "log_stream", "syn_check"))


def test_every_program_is_short_and_has_a_picture():
    for name in ("mirror_port", "log_stream", "syn_check", "early_data"):
        assert len((EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()) <= 200
        assert any(story.__name__ == name for story in STORIES.values())


@pytest.mark.parametrize("gap", [1, 9_999_999, 10_000_000])
def test_copy_within_the_span_is_dropped(gap):
    port = MIRROR.MirrorPort()
    ((frame, time),) = MIRROR.generated(1)
    answers = [port.forwards(entry, at) for at, entry in MIRROR.mirrored([(frame, time)], gap)]
    assert answers == [True, False]


def test_frame_that_is_sent_again_passes():
    port = MIRROR.MirrorPort()
    frame = MIRROR.generated(1)[0][0]
    # The span, a generation and a tick later the filter has forgotten it.
    assert [port.forwards(frame, at) for at in (0, 20_040_000)] == [True, True]


def test_message_returns_after_the_span():
    log = LOG.LogStream()
    minutes = [0, 5, 9, 10, 12, 22, 23]
    shown = [m for m in minutes if log.shows(f"2026-03-01T12:{m:02}:00Z disk {m} % full\n")]
    assert (shown, log.dropped) == ([0, 12, 23], 4)


@pytest.mark.parametrize("phase", range(0, 100, 33))
def test_syn_passes_between_two_ages(phase):
    keys = np.ones((2, 2), np.uint64)

    def answers(gap):
        return SYN.SynCheck().passes(keys, np.array([phase, phase + gap])).tolist()

    for gap in (900, 1_000, 2_500):
        assert answers(gap) == [False, True]
    for gap in (0, 800, 2_700):
        assert answers(gap) == [False, False]


@pytest.mark.parametrize(("rate", "minimum", "limit"), [(5_000, 0, 0.01), (25_000, 0.7, 0.8)])
def test_random_syns_that_pass(rate, minimum, limit):
    """At the rate of the filter, and at five times the rate, as the page says."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 1 << 64, (4 * rate, 2), np.uint64)
    times = np.sort(rng.integers(0, 4_000, len(keys)))
    passed = SYN.SynCheck().passes(keys, times)[times >= 3_000]
    assert minimum < passed.mean() < limit


@pytest.mark.slow
def test_hardware_of_the_syn_check():
    from lately.sim import compiled_unit

    spec = TimedTimingSpec.from_toml(SYN.SPEC)
    rng = np.random.default_rng(2)
    keys = rng.integers(0, 5_000, (20_000, 2), np.uint64)
    keys[:, 1] = 0
    ticks = np.sort(rng.integers(0, 40, len(keys)))
    codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
    expected = from_spec(spec).perform(codes, keys, ticks)
    with compiled_unit(spec, optimisation=2) as unit:
        result = unit.perform(codes, keys, ticks)
    assert 0.1 < (expected.seen & (expected.age >= SYN.MIN_AGE)).mean() < 0.9
    for name in ("seen", "age"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), err_msg=name)
