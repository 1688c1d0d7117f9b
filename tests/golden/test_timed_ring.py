"""Rings of all families with a span of time: their twin, and each promise at its edge."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_filters import (
    as_keys,
    segments_of,
    spare_of,
    specs,
    timed_twin,
)

from lately.golden import (
    FilterSpec,
    Operation,
    TimeLimitedRing,
)
from lately.golden.ring.turn_policy import STATUSES

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
BOTH = pytest.mark.parametrize("when_full", ["shorten", "overfill"])


def ring(family, span=1000, **changed):
    return TimeLimitedRing(FilterSpec(family=family, span=span, **FAMILIES[family] | changed))


# Against the twin


@st.composite
def timed_specs(draw):
    spec = draw(specs())
    span = draw(st.sampled_from([1, 2, 5, 13, 40, 1000]))
    least = span // spec.window_generations + 1
    return replace(
        spec,
        span=span,
        generation_span=draw(st.integers(least, span + 1)),
        when_full=draw(st.sampled_from(["shorten", "overfill"])),
    )


def stream(spec, seed, count):
    """Operations, keys and times: bursts, equal times, slow spells and silences."""
    rng = np.random.default_rng(seed)
    span = spec.span
    steps = rng.choice([0, 1, span // 4 + 1, span // 2, span, span + 1, 3 * span, 1 << 40], count)
    steps *= rng.random(count) < rng.choice([0.01, 0.1, 0.5])
    steps += (rng.random(count) < rng.choice([0, 0.3, 1])) * rng.integers(0, 3, count)
    codes = rng.choice(6, count, p=[0.04, 0.2, 0.34, 0.36, 0.04, 0.02])
    pool = [int(key) for key in rng.integers(0, 1 << min(62, spec.key_bits), 12)]
    return codes, [pool[i] for i in rng.integers(0, 12, count)], np.cumsum(steps)


def one_by_one(twin, code, key, now):
    """Perform an operation on the twin; its age, and the guarantees after it."""
    age = -1
    if code in (Operation.QUERY, Operation.CHECK_AND_INSERT):
        age = twin.age(key, now)
    if code in (Operation.INSERT, Operation.CHECK_AND_INSERT):
        twin.insert(key, now)
    elif code == Operation.SHIFT:
        twin.shift(now)
    elif code == Operation.CLEAR:
        twin.clear()
    return age, twin.status(now), twin.guaranteed_span(now)


@settings(max_examples=150, deadline=None)
@given(spec=timed_specs(), seed=st.integers(0, 1 << 32), data=st.data())
def test_twin(spec, seed, data):
    """24,000 operations: every answer, guarantee, counter and bit."""
    model, twin = TimeLimitedRing(spec), timed_twin(spec)
    codes, keys, times = stream(spec, seed, 160)
    cuts = sorted(data.draw(st.sets(st.integers(1, 159), max_size=4), "cuts"))
    for part in np.split(np.arange(160), cuts):
        batch = [keys[i] for i in part]
        expected = [one_by_one(twin, codes[i], keys[i], int(times[i])) for i in part]
        got = model.perform(codes[part], as_keys(batch, spec.key_bits), times[part])
        assert got.age.tolist() == [age for age, _, _ in expected]
        assert got.seen.tolist() == [age >= 0 for age, _, _ in expected]
        assert [STATUSES[code] for code in got.status] == [status for _, status, _ in expected]
        assert got.guaranteed_span.tolist() == [span for _, _, span in expected]
        blocks = range(spec.segment_blocks)
        assert segments_of(model) == [[s.blocks.get(b, 0) for b in blocks] for s in twin.s]
        assert not spare_of(model).any()
        assert model.settled_times == [s.t for s in twin.s]
        for name in ("shortened", "overfilled", "shifts"):
            assert getattr(model, name) == getattr(twin, name)
        now = int(times[part[-1]])
        for later in (now, now + spec.span, now + spec.span + 1):
            assert model.status(later) == twin.status(later)
            assert model.guaranteed_span(later) == twin.guaranteed_span(later)
            ages = model.age(as_keys(batch, spec.key_bits), later)
            assert ages.tolist() == [twin.age(key, later) for key in batch]
        twin.g = model.generation = data.draw(st.integers(1, 9), "generation")
