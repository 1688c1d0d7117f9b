"""SWAMP: what it counts, how often it errs, and what it takes."""

import math

import numpy as np
import pytest
from scipy import stats

from papers.apbf_tables import metrics
from papers.models import Swamp
from papers.models.cells import SLOT_OVERHEAD, TABLE_SPARE, swamp_bits_per_element

# k, l, b: bits per element of SWAMP in Table 4 of the APBF paper, read off a figure there.
TABLE_4 = {(2, 5, 4): 32.0, (3, 8, 4): 39.8, (2, 5, 8): 48.5, (3, 8, 8): 64.6}


def test_multiplicity_and_distinct_keys():
    model = Swamp(window=10, fingerprint_bits=50)
    model.insert([1, 2, 2, 3, 3, 3])
    assert model.multiplicity([1, 2, 3, 4]).tolist() == [1, 2, 3, 0]
    assert model.distinct() == 3
    model.insert([9] * 6)
    # 1 and one of the two 2 have left.
    assert model.multiplicity([1, 2, 3, 9]).tolist() == [0, 1, 3, 6]
    assert model.distinct() == 3
    assert model.estimated_distinct() == pytest.approx(3)


def test_fingerprints():
    model = Swamp(window=3, fingerprint_bits=8)
    assert model.fingerprints.shape == (0,)
    model.insert([1, 2, 3, 4])
    singles = [Swamp(window=1, fingerprint_bits=8) for _ in range(3)]
    for single, key in zip(singles, (2, 3, 4), strict=True):
        single.insert([key])
    assert model.fingerprints.tolist() == [int(single.fingerprints[0]) for single in singles]
    assert model.fingerprints.max() < 256


def test_every_fingerprint_is_there():
    model = Swamp(window=50, fingerprint_bits=2)
    model.insert(range(50))
    assert model.distinct() == 4
    assert model.estimated_distinct() == math.inf


@pytest.mark.statistics
def test_false_positive_rate():
    model = Swamp(window=1 << 12, fingerprint_bits=18, seed=1)
    rng = np.random.default_rng(1)
    model.insert(rng.integers(0, 1 << 62, 1 << 13))
    hits = int(model.query(rng.integers(1 << 62, 1 << 63, 400_000)).sum())
    interval = stats.binomtest(hits, 400_000).proportion_ci(0.999)
    print(f"SWAMP: {hits / 400_000:.5f} of fresh keys, {model.fpr:.5f} expected")
    assert interval.low < model.fpr < interval.high
    assert model.fpr < (1 << 12) / (1 << 18)


@pytest.mark.statistics
def test_estimate_of_distinct_keys():
    """Unbiased, where the count of fingerprints is 2 % low."""
    errors = []
    for seed in range(30):
        model = Swamp(window=10_000, fingerprint_bits=18, seed=seed)
        keys = np.random.default_rng(seed).integers(0, 20_000, 10_000)
        model.insert(keys)
        distinct = len(np.unique(keys))
        assert model.distinct() < distinct
        errors.append(model.estimated_distinct() / distinct - 1)
    interval = stats.ttest_1samp(errors, 0).confidence_interval(0.999)
    print(f"SWAMP: distinct keys estimated with an error of {np.mean(errors):.5f}")
    assert interval.low < 0 < interval.high
    assert interval.high - interval.low < 0.003


@pytest.mark.parametrize("row", TABLE_4)
def test_bits_per_element(row):
    """Within the 1.2 % that reading a figure leaves."""
    k, l, b = row
    rate = metrics("3", {}, [k, l, 512, b])["fp_apbbf"]
    assert swamp_bits_per_element(1 << 16, rate) == pytest.approx(TABLE_4[row], rel=0.012)


def test_spare_slots_of_the_printed_figures():
    """The share is a reading: each figure of Table 4 would take one a little off 0.2."""
    spares = []
    for (k, l, b), bits in TABLE_4.items():
        exponent = -math.log2(metrics("3", {}, [k, l, 512, b])["fp_apbbf"])
        spares.append((bits - 16 - exponent) / (exponent + SLOT_OVERHEAD) - 1)
    print("spare shares:", [round(spare, 3) for spare in spares])
    assert {round(spare, 1) for spare in spares} == {TABLE_SPARE}
    assert 0.19 < min(spares) < max(spares) < 0.235


def test_storage_is_the_formula_with_whole_fingerprints():
    model = Swamp(window=1 << 12, fingerprint_bits=20)
    assert model.storage_bits == math.ceil((1 << 12) * (20 + 1.2 * (8 + 3)))
    rate = (1 << 12) / (1 << 20)
    assert math.ceil(swamp_bits_per_element(1 << 12, rate) * (1 << 12)) == model.storage_bits
    # The bucket's number says all of a short fingerprint.
    assert Swamp(window=1 << 12, fingerprint_bits=9).storage_bits == math.ceil((1 << 12) * 12.6)
