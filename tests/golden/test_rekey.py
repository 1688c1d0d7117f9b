"""New secrets while the filter runs: guarantees and rates across them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lately.golden import FilterSpec, from_spec

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
