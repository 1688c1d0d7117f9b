"""What the papers promise, at the exact edge: window, slack, staleness, rates."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from cases import daily
from scipy import stats

from lately.golden import GEBF, BlockedGEBF, FilterSpec, Operation, from_spec, preset
from lately.golden.analysis import apbf_false_positive_rate

# Sparse filters: in these streams no false positive hides an expiry, which the tests show, as
# they demand the exact set of the reported keys. Segments of the papers, some of other sizes.
SPARSE = {
    "apbf k=3 l=2": FilterSpec(family="apbf", k=3, l=2, slice_bits=1 << 16, generation=7),
    "apbf k=1 l=4": FilterSpec(family="apbf", k=1, l=4, slice_bits=1 << 20, generation=5),
    "apbf k=10 l=7": FilterSpec(family="apbf", k=10, l=7, slice_bits=4099, generation=3),
    "apbf g=1": FilterSpec(family="apbf", k=4, l=3, slice_bits=1 << 14, generation=1),
    "apbbf k=2 l=5": FilterSpec(
        family="apbbf", k=2, l=5, block_bits=64, hashes_per_block=4, blocks=256, generation=6
    ),
    "apbbf k=3 l=1": FilterSpec(
        family="apbbf", k=3, l=1, block_bits=512, hashes_per_block=8, blocks=100, generation=4
    ),
    "gebf r | W": FilterSpec(family="gebf", window=24, epochs=4, hashes=4, bits=5 * 4 * 2048),
    "gebf r !| W": FilterSpec(family="gebf", window=21, epochs=4, hashes=3, bits=5 * 3 * 5000),
    "gebf r = 1": FilterSpec(family="gebf", window=9, epochs=1, hashes=4, bits=2 * 4 * 2048),
    "gebf r > W": FilterSpec(family="gebf", window=3, epochs=5, hashes=4, bits=6 * 4 * 2048),
    "blocked-gebf": FilterSpec(
        family="blocked-gebf", window=23, epochs=3, hashes=4, bits=4 << 15, block_bits=256
    ),
}


def models(name):
    """The filter of a specification, and for the guarded-epoch families the paper's own."""
    spec = SPARSE[name]
    yield from_spec(spec)
    if spec.family not in ("gebf", "blocked-gebf"):
        return
    shared = {
        "window": spec.window, "epochs": spec.epochs, "hashes": spec.hashes, "bits": spec.bits,
    }  # fmt: skip
    if spec.family == "gebf":
        yield GEBF(**shared, partitioned=False)
    if spec.family == "blocked-gebf":
        yield BlockedGEBF(**shared, block_bits=spec.block_bits, partitioned=False)


def wraps(spec, count=3):
    """Insertions in which the ring turns `count` times."""
    return count * spec.segments * spec.generation


def generations_between(spec, first, last):
    """Shifts from the `first` to the `last` insertion, counted from 1 (APBF, section 5.1)."""
    return (last - 1) // spec.generation - (first - 1) // spec.generation


@pytest.mark.parametrize("name", SPARSE)
def test_exactly_the_generations_of_the_window_are_reported(name):
    for model in models(name):
        spec = model.spec
        total = wraps(spec)
        keys = np.arange(1, total + 1) * 0x9E3779B1
        edge_passed = edge_failed = 0
        for n in range(1, total + 1):
            model.insert(keys[n - 1 : n])
            ages = model.age(keys[:n])
            for i in range(1, n + 1):
                age = generations_between(spec, i, n)
                reported = age <= spec.window_generations
                # Past the window a key may match by chance; in these streams it never does.
                assert ages[i - 1] == (age if reported else -1), (i, n)
                since = n - i
                if since <= spec.guaranteed_window or since <= spec.window:
                    assert reported
                if since == spec.guaranteed_window:
                    edge_passed += 1
                if since == spec.guaranteed_window + 1 and not reported:
                    edge_failed += 1
        # The last insertion of a generation is the one that goes at the edge.
        assert edge_passed == total - spec.guaranteed_window
        assert edge_failed == (total - 1) // spec.generation - spec.window_generations
        assert edge_failed > 2 * spec.segments


@pytest.mark.parametrize("name", SPARSE)
def test_window_holds_in_crowded_filters(name):
    """Fullness adds reports and takes none."""
    spec = SPARSE[name]
    if spec.family in ("apbf", "apbbf"):
        crowded = replace(spec, **{"apbf": {"slice_bits": 8}, "apbbf": {"blocks": 1}}[spec.family])
    else:
        crowded = replace(spec, bits=spec.ring_segments * max(2 * spec.hashes, spec.parts * 2, 256))
    model = from_spec(crowded)
    keys = np.random.default_rng(3).integers(0, 1 << 63, wraps(spec))
    for n in range(1, len(keys) + 1):
        model.insert(keys[n - 1 : n])
        assert model.query(keys[max(0, n - 1 - crowded.guaranteed_window) : n]).all()


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("phase", [0, 1, -1])
def test_window_holds_within_one_call(name, phase):
    """The same edges, inside one batch: each key again after exactly l g insertions or one more."""
    spec = SPARSE[name]
    distance = spec.guaranteed_window + max(phase, 0)
    fresh = iter(range(10**6, 10**9))
    total = wraps(spec)
    stream = []
    again = []
    for position in range(total):
        old = position - distance - 1
        if old >= 0 and old % (2 * distance + 2) == 0:
            stream.append(stream[old])
            again.append(position)
        else:
            stream.append(next(fresh))
    if phase == -1:
        # A key that is inserted again in time starts its window anew.
        stream = [position % distance for position in range(total)]
        again = list(range(distance, total))
    seen = from_spec(spec).check_and_insert(stream)
    # Verdicts are from before the insertion: at `distance` insertions after the key's own.
    for position in again:
        reported = (
            phase == -1
            or generations_between(spec, position - distance, position) <= spec.window_generations
        )
        assert seen[position] == reported
    if phase < 1:
        assert seen[again].all()
    assert not np.delete(seen, again).any()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (number % 2))
        for number, name in enumerate(SPARSE)
    ],
)
def test_no_trace_after_window_and_slack(name):
    """Two filters that differ in one key are in the same state exactly from the bound on."""
    spec = SPARSE[name]
    bound = spec.guaranteed_window + spec.slack
    assert bound == spec.ring_segments * spec.generation
    if spec.family in ("apbf", "apbbf"):
        assert bound == (spec.k + spec.l) * spec.generation
    else:
        assert bound == (spec.epochs + 1) * -(-spec.window // spec.epochs)
    longest = []
    for with_key, without in zip(models(name), models(name), strict=True):
        # Every phase, and every place of the ring that the key can be written to.
        for first in range(1, (spec.segments + 1) * spec.generation + 1):
            with_key.clear()
            without.clear()
            before = np.arange(first - 1)
            with_key.insert([*before, 10**9])
            without.insert([*before, 10**9 + 1])
            trace = []
            for n in range(first, first + bound + spec.generation + 1):
                if n > first:
                    with_key.insert([n])
                    without.insert([n])
                trace.append(with_key != without)
                expected = generations_between(spec, first, n) < spec.ring_segments
                assert trace[-1] == expected, (first, n)
            assert not any(trace[bound:])
            longest.append(max(since for since, held in enumerate(trace) if held))
    # At the phase of a generation's first insertion there is a trace up to the bound.
    assert max(longest) == bound - 1
    assert min(longest) == bound - spec.generation


def test_staleness_beyond_the_papers_formula():
    """Where r does not divide W, a key stays for more than W + ceil(W/r) insertions."""
    spec = SPARSE["gebf r !| W"]
    epoch = spec.generation
    model = from_spec(spec)
    keys = np.arange(1000)
    model.insert(keys[: 1 + spec.window + epoch + 1])
    assert spec.window % spec.epochs
    assert model.query(keys[:1]).all()
    model.insert(keys[500 : 500 + spec.epochs * epoch - spec.window])
    assert not model.query(keys[:1]).any()


def test_shifts_age_keys_like_insertions():
    for spec in SPARSE.values():
        model = from_spec(spec)
        model.insert([1])
        for age in range(spec.window_generations + 1):
            assert model.age([1]).tolist() == [age]
            model.shift()
        assert not model.query([1]).any()
        assert model.memory.any() == (spec.run > 1)
        for _ in range(spec.run - 1):
            assert model.memory.any()
            model.shift()
        assert not model.memory.any()


# Rates, on fixed seeds. The seeds are clusters: one figure each, and a two-sided t interval.

SEEDS = 24
ALPHA = 1e-4  # of every test below, all its comparisons together (Bonferroni)


def contains(name, figures, expected, comparisons):
    """Whether the interval of the seeds' mean holds what is expected; prints both."""
    mean = np.mean(figures)
    half = stats.t.isf(ALPHA / comparisons / 2, len(figures) - 1) * np.std(figures, ddof=1)
    half /= len(figures) ** 0.5
    print(f"{name}: {mean:.6f} +- {half:.6f}, expected {expected:.6f}")
    assert half < max(0.2 * expected, 2e-4), "the interval says nothing"
    return abs(mean - expected) <= half


def full_filter(spec, seed, *, phase):
    """Filter in the steady state, at `phase` insertions of a generation; and its stream."""
    model = from_spec(replace(spec, seed=seed))
    count = (spec.ring_segments + 2) * spec.generation + phase
    keys = np.random.default_rng([seed, 77]).permutation(4 * count).astype(np.uint64)[:count]
    model.insert(keys)
    return model, keys


@pytest.mark.statistics
@pytest.mark.parametrize(
    "spec",
    daily(
        1,
        [
            FilterSpec(family="apbf", k=10, l=15, slice_bits=32768),
            FilterSpec(family="apbf", k=4, l=3, slice_bits=20000),
            FilterSpec(family="apbbf", k=3, l=8, block_bits=64, hashes_per_block=4, blocks=1024),
        ],
    ),
    ids=["apbf k=10 l=15", "apbf k=4 l=3", "apbbf k=3 l=8"],
)
def test_slack_decays(spec):
    """Figure 4 of the APBF paper: the i-th generation past the window has i matches to find.

    Just before a shift. Chance matches elsewhere add to fill**i; the recursion
    with the key's own segments surely matching counts them as well.
    """
    assert spec.k > 1
    reported = np.zeros((SEEDS, spec.k + 1))
    for seed in range(SEEDS):
        model, keys = full_filter(spec, seed, phase=0)
        generations = keys.reshape(-1, spec.generation)[::-1]
        assert model.query(generations[: spec.l + 1].ravel()).all()
        for past in range(spec.k + 1):
            reported[seed, past] = model.query(generations[spec.l + past]).mean()
    fills = spec.segment_false_positive_rates(phase=1)
    for past in range(spec.k + 1):
        newest = [1.0] * (spec.k - past)
        expected = apbf_false_positive_rate(
            spec.k, spec.l, fills=fills[: spec.ring_segments - len(newest)] + newest
        )
        if past == 0:
            assert reported[:, 0].min() == 1
            assert expected == pytest.approx(1)
            continue
        # The simple decay is its lower bound; in the paper's regime l >= k it is close.
        decay = np.prod(fills[spec.l : spec.l + past])
        assert decay <= expected
        if spec.l >= spec.k:
            assert decay == pytest.approx(fills[-1] ** past)
            assert expected - decay < 0.01
        name = f"{past} generations past (fill**i = {decay:.6f})"
        # Rarer reports are too few for a narrow interval.
        if expected * SEEDS * spec.generation > 2000:
            assert contains(name, reported[:, past], expected, spec.k)


UNSIZED = {"window": None, "generation": None}
DENSE = {
    "apbf k=4 l=3, odd size": FilterSpec(family="apbf", k=4, l=3, slice_bits=1000),
    "apbbf k=2 l=5, four lanes": replace(preset("small"), blocks=1536, lanes=4, **UNSIZED),
    "gebf, odd size": FilterSpec(family="gebf", window=1999, epochs=3, hashes=5, bits=40000),
    "blocked-gebf": FilterSpec(
        family="blocked-gebf", window=2000, epochs=8, hashes=4, bits=9 << 12, block_bits=64
    ),
    "apbf k=10 l=7": FilterSpec(family="apbf", k=10, l=7, slice_bits=2048),
    "apbbf k=2 l=5": preset("small"),
    "apbbf k=3 l=5, odd size": FilterSpec(
        family="apbbf", k=3, l=5, block_bits=64, hashes_per_block=4, blocks=300
    ),
    "gebf": FilterSpec(family="gebf", window=2000, epochs=8, hashes=4, bits=9 * 4 * 1024),
}


def false_positives(model, seed, queries):
    fresh = np.random.default_rng([seed, model.insertions]).integers(
        1 << 62, 1 << 63, queries, dtype=np.uint64
    )
    return model.query(fresh).mean()


@pytest.mark.statistics
@pytest.mark.parametrize("name", daily(4, DENSE))
def test_rate_just_before_a_shift(name):
    spec = DENSE[name]
    expected = spec.worst_false_positive_rate
    rates, estimates = [], []
    for seed in range(SEEDS):
        model, _ = full_filter(spec, seed, phase=0)
        rates.append(false_positives(model, seed, max(20_000, int(400 / expected))))
        estimates.append(model.estimated_false_positive_rate())
    assert contains("measured", rates, expected, 2)
    assert contains("estimated from the fill", estimates, expected, 2)


@pytest.mark.statistics
@pytest.mark.parametrize("name", daily(4, DENSE))
def test_rate_over_the_phases(name):
    """Each seed measures at 8 phases; their mean is the cluster's figure."""
    spec = DENSE[name]
    phases = [round((step + 0.5) / 8 * spec.generation) for step in range(8)]
    expected = [spec.false_positive_rate(phase=phase / spec.generation) for phase in phases]
    mean = spec.mean_false_positive_rate
    assert np.mean(expected) == pytest.approx(mean, rel=5e-3)
    queries = max(5_000, int(100 / mean))
    rates = []
    for seed in range(SEEDS):
        model, _ = full_filter(spec, seed, phase=phases[0])
        rates.append([false_positives(model, seed, queries)])
        for low, high in pairwise(phases):
            # Above all keys so far, below the fresh ones.
            model.insert(np.arange(1 << 61, (1 << 61) + high - low) + seed * 10**9 + low)
            rates[-1].append(false_positives(model, seed, queries))
        assert model.shifts == spec.ring_segments + 2
    rates = np.array(rates)
    assert contains("mean over the phases", rates.mean(axis=1), np.mean(expected), 9)
    for phase, column, value in zip(phases, rates.T, expected, strict=True):
        assert contains(f"phase {phase} of {spec.generation}", column, value, 9)


@pytest.mark.statistics
def test_duplicates_only_lower_the_rate():
    """Section 5.6.2: distinct keys are the worst case."""
    spec = DENSE["apbbf k=2 l=5"]
    distinct, repeated = [], []
    for seed in range(SEEDS):
        model, keys = full_filter(spec, seed, phase=0)
        distinct.append(false_positives(model, seed, 20_000))
        half = from_spec(replace(spec, seed=seed))
        half.insert(keys // np.uint64(8))
        repeated.append(false_positives(half, seed, 20_000))
    print(f"distinct {np.mean(distinct):.5f}, repeated {np.mean(repeated):.5f}")
    assert max(repeated) < min(distinct)


def test_inserted_means_found_whatever_the_operation():
    spec = SPARSE["apbbf k=2 l=5"]
    model = from_spec(spec)
    rng = np.random.default_rng(9)
    last = {}
    shifts = 0
    for _ in range(3000):
        operation = rng.choice(
            [Operation.INSERT, Operation.CHECK_AND_INSERT, Operation.QUERY, Operation.SHIFT],
            p=[0.4, 0.4, 0.15, 0.05],
        )
        key = int(rng.integers(0, 60))
        verdict = model.perform([operation], [key]).seen[0]
        if operation in (Operation.QUERY, Operation.CHECK_AND_INSERT):
            held = key in last and shifts - last[key] <= spec.window_generations
            assert verdict == held
        shifts = model.shifts
        if operation in (Operation.INSERT, Operation.CHECK_AND_INSERT):
            last[key] = shifts
    assert shifts > 5 * spec.segments
