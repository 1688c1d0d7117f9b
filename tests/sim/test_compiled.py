"""The contract of compiled units, held for each kind: results, counters and memory are golden's."""

from dataclasses import replace

import numpy as np
import pytest

from lately.golden import Operation, SpecificationError, any_preset, from_spec
from lately.hdl.build import filter_unit
from lately.sim import compiled_unit
from lately.sim.replay.compiled import unit_counters

pytestmark = pytest.mark.rtl

TINY = [
    "tiny", "apbf-tiny", "gebf-tiny", pytest.param("blocked-gebf-tiny", marks=pytest.mark.slow),
    "two-lanes-tiny", "timed-tiny", "dictionary-tiny", "timing-tiny", "timing-counted-tiny",
]  # fmt: skip
KEYED = [
    "siphash-tiny",
    pytest.param("dictionary-tiny", marks=pytest.mark.slow),
]
SEED = 5


def drawn(spec, random, count):
    """Operations of all kinds, keys of which many come again, times and windows."""
    codes = [Operation.NONE, Operation.QUERY, Operation.INSERT, *[Operation.CHECK_AND_INSERT] * 3]
    codes += [Operation.REMOVE] * (spec.kind == "dictionary")
    operations = random.choice(codes, count).astype(np.uint8)
    alone = random.random(count) < 0.01
    kinds = [Operation.CLEAR] + [Operation.SHIFT] * 4 * (spec.kind == "ring")
    operations[alone] = random.choice(kinds, alone.sum())
    keys = random.integers(0, 1 << min(spec.key_bits, 7), count)
    times = np.cumsum(random.integers(0, 2, count)) if spec.timed else None
    windows = None
    if spec.query_field:
        windows = random.integers(1, spec.window_blocks + 1, count) * spec.block_units
    return operations, keys, times, windows


def assert_like_golden(unit, golden, drawn, **how):
    """A unit reports nothing of the cells for a CLEAR."""
    found, expected = unit.perform(*drawn, **how), golden.perform(*drawn)
    with_key = drawn[0] != Operation.CLEAR
    for name in ("seen", "age", "status", "oldest"):
        wrong = getattr(found, name) != getattr(expected, name)
        assert not wrong[with_key].any(), f"{name} at {np.flatnonzero(wrong & with_key)[:5]}"
    assert not found.seen[~with_key].any()
    counters = golden.counters
    assert unit.statistics == {name: counters[name] for name in unit.statistics}
    at = golden.spec.timed and golden.spec.kind == "timing"
    due = golden.memory_at(int(drawn[2][-1])) if at else golden.memory
    assert np.array_equal(unit.memory, due)
    return found


@pytest.mark.parametrize("name", TINY)
def test_results_counters_and_memory_are_those_of_golden(name):
    """From reset, again after a reset, and with pauses; progress counts every operation."""
    spec, random, done = any_preset(name), np.random.default_rng(SEED), []
    with compiled_unit(spec, optimisation=0, progress=done.append) as unit:
        assert list(unit.statistics) == unit_counters(filter_unit(spec, tag_bits=8))
        parts = 5_000, 1_000
        assert_like_golden(unit, from_spec(spec), drawn(spec, random, parts[0]))
        unit.reset()
        golden = from_spec(spec)
        first = drawn(spec, random, parts[1])
        found = assert_like_golden(unit, golden, first, pause_before=0.4, pause_after=0.4)
        assert found.seen.any()
        assert sum(done) == sum(parts)
        keys = np.arange(300) % 100
        if not spec.timed:
            assert np.array_equal(unit.check_and_insert(keys), golden.check_and_insert(keys))


@pytest.mark.parametrize("name", KEYED)
def test_secrets(name):
    spec, random = replace(any_preset(name), hash="siphash"), np.random.default_rng(SEED)
    golden = from_spec(spec)
    with compiled_unit(spec, optimisation=0) as unit:
        for secret in (0, 1 << 100):
            for one in (unit, golden):
                one.rekey(secret)
                one.perform([Operation.CLEAR], [0])
            assert_like_golden(unit, golden, drawn(spec, random, 2_000))


@pytest.mark.parametrize("name", ["dictionary-tiny", "timing-tiny"])
def test_input_is_open_after_reset(name):
    """A reset waits until the memory is clear; then each operation takes one cycle."""
    with compiled_unit(any_preset(name), optimisation=0) as unit:
        start = unit.cycles
        unit.check_and_insert(np.arange(1_000) % 256)
        assert unit.cycles - start <= 1_000 + unit.profile.latency + 1


def test_refusals():
    with compiled_unit(any_preset("dictionary-tiny"), optimisation=0) as unit:
        with pytest.raises(SpecificationError, match=r"^secret: must not be given for hash h3, "):
            unit.rekey(1)
        with pytest.raises(SpecificationError, match=r"^span: must be given for operations with "):
            unit.perform([3], [5], [7])
        with pytest.raises(ValueError, match=r"^keys: must be below 2\*\*8, not 0x100"):
            unit.check_and_insert([1 << 8])
        with pytest.raises(ValueError, match=r"^windows: must be at most 40, not 41"):
            unit.perform([1], [1], windows=[41])
