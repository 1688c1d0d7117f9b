"""Cuckoo dictionary against its scalar twin, its guarantees and its bounds."""

import math
import random

import numpy as np
import pytest
from cases import daily
from paths import PATHS, taking
from scalar_twins import agree, twin_of

from lately.intervals import clopper_pearson
from papers.models import CuckooDictionary
from papers.models.cuckoo import (
    cuckoo_error_bound,
    cuckoo_signature_bits,
    time_decaying_space_bound,
)


@pytest.mark.parametrize("path", PATHS)
def test_like_the_twin_past_a_chunk(path, monkeypatch):
    monkeypatch.setattr("papers.models.cuckoo._CHUNK", 7)
    with taking(path):
        model = CuckooDictionary(window=20, positions=12, signature_bits=2)
    twin = twin_of(model)
    keys = np.random.default_rng(5).integers(0, 60, 400)
    expected = []
    for key in keys.tolist():
        expected.append(twin.query(key, 20))
        twin.insert(key)
    assert model.check_and_insert(keys).tolist() == expected
    agree(model, twin, range(9))
    assert model.query(np.arange(60)).tolist() == [twin.query(x, 20) for x in range(60)]


def test_keys_alike_in_list_and_tables():
    """A key of the list whose positions and signature another has in the tables by now."""
    both = 0
    for seed in range(10):
        rng = random.Random(seed)
        model = CuckooDictionary(window=8, positions=3, moves=1, seed=seed)
        twin = twin_of(model)
        for _ in range(300):
            key, window = rng.randrange(30), rng.randint(1, 8)
            listed = [x for x, _ in twin.L]
            expected = twin.query(key, window)
            both += key in listed and ages_differ(twin, key)
            twin.insert(key)
            assert model.check_and_insert([key], window).tolist() == [expected]
            agree(model, twin, range(9))
    print(f"{both} such keys")
    assert both


def ages_differ(twin, key):
    """Whether a key of the list is reported as younger than its entry there."""
    return twin.last_update(key) < next(twin.d(t) for x, t in twin.L if x == key)


# Guarantees


@pytest.mark.parametrize("positions", [3, 20, 100])
@pytest.mark.parametrize("window", [1, 2, 7, 50])
def test_every_key_of_every_window_is_reported(window, positions):
    rng = np.random.default_rng(window * 1000 + positions)
    model = CuckooDictionary(window=window, positions=positions, signature_bits=3)
    inserted = []
    for _ in range(3 * window + 20):
        keys = rng.integers(0, 3 * window, rng.integers(1, 4))
        model.insert(keys)
        inserted += keys.tolist()
        for w in {1, (window + 1) // 2, window}:
            assert model.query(np.array(inserted[-w:]), w).all()


# Edges


def test_list_is_short_at_the_paper_s_load():
    model = CuckooDictionary(window=2000)
    model.insert(np.arange(20000))
    print(f"peak {model.overflow_peak}, {model.moved / 20000:.3f} moves per insertion")
    assert model.overflow_peak <= 3
    assert model.moved < 20000


# Rates


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("positions", "signature_bits"), daily(2, [(2000, 0), (1000, 0), (500, 2), (300, 4)])
)
def test_false_positive_rate(positions, signature_bits):
    model = CuckooDictionary(
        window=1000, positions=positions, signature_bits=signature_bits, seed=11
    )
    rng = np.random.default_rng(positions)
    trials, hits, expected = 4_000_000, 0, []
    for _ in range(5):
        model.insert(rng.integers(0, 1 << 40, 1700))
        fresh = rng.integers(1 << 41, 1 << 63, trials // 5)
        hits += int(model.query(fresh).sum())
        expected.append(model.expected_false_positive_rate())
    theory = float(np.mean(expected))
    low, high = clopper_pearson(hits, trials, confidence=0.999)
    print(f"{hits / trials:.3g} in [{low:.3g}, {high:.3g}], theory {theory:.3g}")
    assert low <= theory <= high
    assert high < model.error_bound


@pytest.mark.statistics
def test_false_positive_rate_within_smaller_windows():
    model = CuckooDictionary(window=1000, positions=600, seed=1)
    rng = np.random.default_rng(9)
    model.insert(rng.integers(0, 1 << 40, 3000))
    fresh = rng.integers(1 << 41, 1 << 63, 300_000)
    for window in (100, 500, 1000):
        hits = int(model.query(fresh, window).sum())
        low, high = clopper_pearson(hits, len(fresh), confidence=0.999)
        theory = model.expected_false_positive_rate(window)
        print(f"{window}: {hits} in [{low:.3g}, {high:.3g}], theory {theory:.3g}")
        assert low <= theory <= high


# Sizes


@pytest.mark.parametrize("error_rate", [0.5, 0.1, 0.01, 1e-3, 2 / 5000, 1e-6])
def test_signature_bits(error_rate):
    for positions in (1, 3, 1000, 1667, 2000, 5000, 1 << 20):
        sizes = {"positions": positions, "error_rate": error_rate}
        fewest = math.ceil(math.log2(1 / error_rate) - math.log2(positions) + 1 - 1e-9)
        model = CuckooDictionary.for_error_rate(window=10, **sizes)
        assert cuckoo_signature_bits(**sizes) == model.signature_bits == max(0, fewest)
        assert model.error_bound <= error_rate


def test_error_bound():
    assert cuckoo_error_bound(positions=1000, signature_bits=0) == 0.002
    assert cuckoo_error_bound(positions=1000, signature_bits=4) == 0.000125
    assert cuckoo_error_bound(positions=1, signature_bits=0) == 1


def test_space_bound():
    bound = time_decaying_space_bound(window=1000, universe=100_000, error_rate=0.001)
    assert bound == pytest.approx(900 * math.log2(900))
    assert time_decaying_space_bound(window=1000, universe=10**6, error_rate=0.001) == 0
    assert time_decaying_space_bound(window=1, universe=10**6, error_rate=1e-9) == 0


def test_storage():
    model = CuckooDictionary(window=1000, signature_bits=4)
    # Timestamps of 0 to 2000, positions of 0 to 1999.
    assert model.entry_bits == 11 + 11 + 4
    assert model.storage_bits == 2 * 2000 * 26
    assert model.variable_length_bits == 4000
    model.insert(np.arange(100))
    assert model.occupied == 100
    assert model.variable_length_bits == 4000 + 100 * 26
    assert CuckooDictionary(window=1024).entry_bits == 12 + 11
    # Two entries fill the tables; the list has the others, with timestamps of 0 to 16.
    model = CuckooDictionary(window=8, positions=1, signature_bits=20)
    model.insert([1, 2, 3, 4])
    assert (model.overflow, model.overflow_bits) == (2, 2 * (64 + 5))


def test_defaults():
    model = CuckooDictionary(window=1000)
    assert model.parameters == {
        "window": 1000,
        "signature_bits": 0,
        "positions": 2000,
        "moves": 30,
        "seed": 0,
        "key_bits": 64,
    }
    assert CuckooDictionary.for_error_rate(window=1000, error_rate=1e-4).parameters == {
        **model.parameters,
        "signature_bits": 4,
    }
    numbers = {name: np.int64(value) for name, value in model.parameters.items()}
    assert CuckooDictionary(**numbers) == model
