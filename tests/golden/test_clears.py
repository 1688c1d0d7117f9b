"""Clears, new secrets, and keys that are reported and not inserted again."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from cases import daily
from paths import PATHS, needs_extension, taking
from scipy import stats

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    FilterSpec,
    TimedTimingFilter,
    from_spec,
    load,
)
from lately.golden.ring.segments import CompiledSegments

pytestmark = needs_extension

GENERATION = 60
"""Insertions of a generation; a clear takes 3 to 30 of them."""

RINGS = {
    "gebf": FilterSpec(family="gebf", window=240, epochs=4, hashes=3, bits=600_000),
    "gebf of 16 bits": FilterSpec(family="gebf", window=480, epochs=8, hashes=2, bits=450_007),
    "apbf": FilterSpec(family="apbf", k=3, l=4, slice_bits=66_666, generation=60),
    "apbbf": FilterSpec(
        family="apbbf", k=2, l=3, block_bits=64, hashes_per_block=4, blocks=4_999, generation=60
    ),
}  # fmt: skip


def on_both(spec):
    filters = []
    for path in ("compiled", "readable"):
        with taking(path):
            filters.append(from_spec(spec))
    return filters


def same(fast, slow):
    assert np.array_equal(fast.memory, slow.memory)
    assert fast == slow
    assert (fast.fill_ratios() == slow.fill_ratios()).all()
    assert fast.counters == slow.counters


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("singly", [False, True])
def test_memory_around_a_turn(name, singly, tmp_path):
    """Calls end just before, at and after a turn, and in the middle and at the end of a clear."""
    keys = np.random.default_rng(1).integers(0, 1 << 64, 9 * GENERATION, np.uint64)
    turn = 7 * GENERATION
    for end in (turn - 1, turn, turn + 1, turn + 5, turn + GENERATION):
        fast, slow = on_both(RINGS[name])
        for key in keys[:end].tolist() if singly else [keys[:end]]:
            fast.insert(key)
        slow.insert(keys[:end])
        fast.save(tmp_path / "filter.npz")
        with taking("compiled"):
            again = load(tmp_path / "filter.npz")
        same(fast, slow)
        same(again, slow)
        for some in (fast, slow, again):
            some.insert(keys[end:])
        same(fast, slow)
        same(again, slow)


@pytest.mark.parametrize("name", RINGS)
def test_many_turns_without_a_look(name):
    """Turns that come early clear the rest of the segment before."""
    random = np.random.default_rng(2)
    fast, slow = on_both(RINGS[name])
    for _ in range(20):
        keys = random.integers(0, 1 << 64, int(random.integers(1, 90)), np.uint64)
        turns, length = int(random.integers(3)), int(random.integers(1, 99))
        for some in (fast, slow):
            some.insert(keys)
            for _ in range(turns):
                some.shift()
            some.generation = length
    same(fast, slow)
    fast.insert(keys)
    fast.clear()
    slow.clear()
    slow.insert([])
    assert not fast.memory.any()
    fast.insert(keys)
    slow.insert(keys)
    assert np.array_equal(fast.memory, slow.memory)


def test_steps_of_a_clear():
    """After a turn the old bits are there, and each insertion clears 4 KiB of 117."""
    fast, _ = on_both(RINGS["gebf"])
    fast.insert(np.arange(6 * GENERATION, dtype=np.uint64))
    raw, retired = fast._segments._memory, None
    counts = []
    for number in range(GENERATION):
        fast.insert(np.array([10_000 + number], np.uint64))
        if retired is None:
            retired = (fast.ring_position - 1) % fast.spec.segments
        counts.append(int((raw >> np.uint8(retired) & 1).sum()))
    assert counts[0] > counts[10] > counts[20] > 0 == counts[40]
    assert counts == sorted(counts, reverse=True)
    fast.insert(np.array([1], np.uint64))
    assert fast.shifts == 7


def test_queries_write_nothing():
    """A query in the middle of a clear leaves every byte."""
    fast, _ = on_both(RINGS["gebf"])
    fast.insert(np.arange(6 * GENERATION + 1, dtype=np.uint64))
    before = fast._segments._memory.copy()
    fast.query(np.arange(5000, dtype=np.uint64))
    assert all(key in fast for key in range(6 * GENERATION - 100, 6 * GENERATION))
    assert np.array_equal(before, fast._segments._memory)


def test_a_clear_ends_with_the_memory():
    """The pace is 4,097 bytes here, and the bytes behind the last whole step fewer than a word."""
    model = from_spec(
        FilterSpec(family="gebf", window=4108, epochs=4, hashes=1, bits=5 * 4_206_594)
    )
    size = model._segments.memory.size
    memory = np.full(size + 64, 0xFF, np.uint8)
    memory[:size] = 0
    model._adopt(CompiledSegments(model._layout, model._numbers, memory[:size]))
    for key in range(3 * 1027):
        model.insert(key)
    assert (memory[size:] == 0xFF).all()


# New secrets while the filter runs: guarantees and rates across them


# Sparse, so that no false positive hides an expiry.
SPARSE = {
    "apbf": FilterSpec(family="apbf", k=3, l=2, slice_bits=1 << 16, generation=5),
    "apbbf": FilterSpec(
        family="apbbf", k=2, l=3, block_bits=64, hashes_per_block=4, blocks=256, generation=4
    ),
    "gebf": FilterSpec(family="gebf", window=12, epochs=3, hashes=4, bits=4 * 4 * 4096),
    "blocked-gebf": FilterSpec(
        family="blocked-gebf", window=12, epochs=3, hashes=4, bits=4 << 15, block_bits=256
    ),
}
SPARSE = {name: replace(spec, hash="siphash", rekey=True) for name, spec in SPARSE.items()}


@pytest.fixture(params=SPARSE)
def spec(request):
    return SPARSE[request.param]


# Guarantees


def test_window_across_a_new_secret_at_every_phase(spec):
    """Exactly the generations of the window are reported, as if there had been no new secret."""
    total = 3 * spec.segments * spec.generation
    keys = np.arange(1, total + 1) * 0x9E3779B1
    for first in range(1, (spec.segments + 1) * spec.generation + 1):
        model = from_spec(spec, secret=1)
        loaded = 0
        for n in range(1, total + 1):
            if n >= first and model.rekey_ready:
                loaded += 1
                model.rekey(loaded)
            model.insert(int(keys[n - 1]) if (n + first) % 2 else keys[n - 1 : n])
            generations = (n - 1) // spec.generation - np.arange(n) // spec.generation
            reported = generations <= spec.window_generations
            assert np.array_equal(model.age(keys[:n]), np.where(reported, generations, -1))
            since = np.arange(n)[::-1]
            assert reported[since <= spec.guaranteed_window].all()
        assert loaded >= 2


# Rates: the seeds are clusters, one figure each, with a secret each; a two-sided t interval that
# holds at 99.99 % for all comparisons together (Bonferroni).

SEEDS = 16
STREAMS = {"sequential": 0, "stride 2**12": 12, "stride 2**32": 32}
FILTERS = {
    "apbbf": FilterSpec(
        family="apbbf", k=2, l=5, block_bits=64, hashes_per_block=4, blocks=256, generation=1374
    ),
    "apbf": FilterSpec(family="apbf", k=4, l=3, slice_bits=1 << 13),
    "gebf": FilterSpec(family="gebf", window=5000, epochs=4, hashes=4, bits=5 * 4 << 12),
}
COMPARISONS = len(STREAMS) * len(FILTERS) * 2


@pytest.mark.statistics
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("rekeyed", [False, True])
def test_rate_of_regular_keys(name, stream, rekeyed):
    """Just before a shift; `rekeyed` with half of the segments of an older secret."""
    spec = replace(FILTERS[name], hash="siphash", rekey=True)
    expected = spec.worst_false_positive_rate
    inserted = spec.ring_segments * spec.generation
    queries = round(400 / expected)
    rates = []
    for seed in range(SEEDS):
        random = np.random.default_rng([seed, 64])
        secrets = [int.from_bytes(random.bytes(16), "little") for _ in range(2)]
        model = from_spec(replace(spec, seed=seed), secret=secrets[0])
        keys = np.arange(inserted + queries, dtype=np.uint64) << np.uint64(STREAMS[stream])
        half = (spec.ring_segments // 2) * spec.generation
        model.insert(keys[:half])
        if rekeyed:
            model.rekey(secrets[1])
        model.insert(keys[half:inserted])
        assert len(set(model.secrets)) == 1 + rekeyed
        rates.append(model.query(keys[inserted:]).mean())
    spread = np.std(rates, ddof=1)
    half = stats.t.isf(1e-4 / COMPARISONS / 2, SEEDS - 1) * spread / SEEDS**0.5
    mean = np.mean(rates)
    print(f"{name}, {stream}: rate {mean:.6f} +- {half:.6f}, theory {expected:.6f}")
    assert half < 0.2 * expected, "the interval says nothing"
    assert abs(mean - expected) <= half


# Policies of check_and_insert: the window begins when a key comes last, or when it passes


def passes(model, refresh):
    """Return the rounds in which a key passes that comes again after each fresh key."""
    turns = []
    for turn in range(1000):
        if not model.check_and_insert("key", refresh=refresh):
            turns.append(turn)
        model.check_and_insert(turn, refresh=refresh)
    return turns


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
