"""The register of early data of TLS 1.3, in examples/early_data.py."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from lately.golden import Operation, from_spec
from lately.golden.spec import FilterSpec

ROOT = Path(__file__).parents[2]


def loaded():
    position = importlib.util.spec_from_file_location("early_data", ROOT / "examples/early_data.py")
    module = importlib.util.module_from_spec(position)
    position.loader.exec_module(module)
    return module


EXAMPLE = loaded()
SPEC = FilterSpec.from_toml(EXAMPLE.SPEC)
ERROR = EXAMPLE.CLOCK_ERROR
START = 2 * ERROR
"""Milliseconds after which a server that started at 0 takes early data."""


def register():
    return EXAMPLE.EarlyDataRegister(SPEC, started=0)


def test_span():
    assert SPEC.when_full == "overfill"
    assert SPEC.hash == "siphash"
    assert SPEC.span * EXAMPLE.TICK > 2 * ERROR


@pytest.mark.parametrize("phase", range(EXAMPLE.TICK))
def test_replay_at_the_last_moment(phase):
    entry, expected = register(), START + ERROR + phase
    assert entry.accept(b"binder" * 4, expected, expected - ERROR)
    assert not entry.accept(b"binder" * 4, expected, expected + ERROR)
    # Too late for early data, first or not.
    assert not entry.accept(b"another" * 4, expected, expected + ERROR + 1)


def test_expected_arrival():
    entry, expected = register(), START + 2 * ERROR
    assert not entry.accept(b"binder" * 4, expected, expected - ERROR - 1)
    assert entry.accept(b"binder" * 4, expected, expected - ERROR)


def test_start():
    entry = register()
    assert not entry.accept(b"binder" * 4, START - 1, START - 1)
    assert entry.accept(b"binder" * 4, START, START)


def replays(count, seed):
    """Keys and ticks of ClientHellos and of their replays, which come within the span."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 40 * SPEC.span // 10, count)
    again = first + rng.choice([0, 1, SPEC.span - 1, SPEC.span], count)
    keys = rng.integers(0, 1 << 64, (count, 2), np.uint64)
    ticks = np.concatenate([first, again])
    order = np.argsort(ticks, kind="stable")
    return np.concatenate([keys, keys])[order], ticks[order], (order >= count)


# More come than there is room for, too.
@pytest.mark.parametrize("count", [20_000, 400_000])
def test_no_replay_is_new(count):
    keys, ticks, replay = replays(count, seed=8446)
    codes = np.full(len(ticks), Operation.CHECK_AND_INSERT, np.uint8)
    report = from_spec(SPEC, secret=1 << 100).perform(codes, keys, ticks)
    assert report.seen[replay].all()
    assert (report.status != 0).any() == (count > SPEC.window)


@pytest.mark.slow
def test_hardware():
    from lately.sim import compiled_unit

    keys, ticks, replay = replays(200_000, seed=1446)
    codes = np.full(len(ticks), Operation.CHECK_AND_INSERT, np.uint8)
    golden = from_spec(SPEC)
    with compiled_unit(SPEC, optimisation=2) as unit:
        rtl, report = unit.perform(codes, keys, ticks), golden.perform(codes, keys, ticks)
    assert rtl.seen[replay].all()
    for name in ("seen", "age", "status"):
        np.testing.assert_array_equal(getattr(rtl, name), getattr(report, name), err_msg=name)
