"""Attacks with chosen keys: what is gained with known constants, and nothing without."""

import numpy as np
import pytest

from campaigns import attacks
from lately.golden import WindowDictionary, WindowDictionarySpec

KNOWN, OTHER_SEED, KEYED = attacks.WAYS
DICTIONARY = WindowDictionarySpec(window=200, columns=3, rows=256, digest_bits=15, stash=4)


def runs_of(attack, queries=20_000, seed=3):
    runs = list(attack(queries, np.random.default_rng(seed)))
    assert not [*attacks.wrong({"runs": runs})]
    return {(run["unit"], run["hash"]): run for run in runs}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(attacks, "FORGED", ("large",))
    monkeypatch.setattr(attacks, "FILLED", ("default",))
    monkeypatch.setattr(attacks, "DICTIONARIES", ("small",))
    monkeypatch.setattr(attacks, "FLOODED", ("default",))
    monkeypatch.setattr(attacks, "dictionary_preset", lambda name: DICTIONARY)
    monkeypatch.setattr(attacks, "FOLDED", (12,))
    monkeypatch.setattr(attacks, "TRIALS", 2)


@pytest.mark.parametrize("unit", ["large", "apbf-default", "gebf-default"])
def test_forged(unit, monkeypatch):
    """Certain with known constants, in every family; else as before."""
    monkeypatch.setattr(attacks, "FORGED", (unit,))
    runs = runs_of(attacks.forge)
    assert runs[unit, KNOWN]["attacked"] == 1
    assert runs[unit, KNOWN]["usual"] < 0.1
    for way in (OTHER_SEED, KEYED):
        assert runs[unit, way]["attacked"] <= runs[unit, way]["usual"] + 0.01


def test_filled():
    runs = runs_of(attacks.fill, queries=50_000)
    for unit, factor in (("default", 5), ("gebf-default", 1.6)):
        assert runs[unit, KNOWN]["attacked"] > factor * runs[unit, KNOWN]["usual"]
        for way in (OTHER_SEED, KEYED):
            assert 0.85 < runs[unit, way]["attacked"] / runs[unit, way]["usual"] < 1.15


def test_twins(small):
    runs = runs_of(attacks.twins)
    assert {way: run["attacked"] > 0.99 for (_, way), run in runs.items()} == {
        KNOWN: True,
        OTHER_SEED: False,
        KEYED: False,
    }


def test_crowded(small):
    runs = runs_of(attacks.crowd)
    assert runs["dictionary-small", KNOWN]["attacked"] > 0.3
    assert runs["dictionary-small", KNOWN]["guaranteed"] < DICTIONARY.window / 2
    for way in (OTHER_SEED, KEYED):
        assert runs["dictionary-small", way]["attacked"] == 0
        assert runs["dictionary-small", way]["guaranteed"] == DICTIONARY.window


def test_crowded_digests():
    digests, cells = attacks.crowded_digests(DICTIONARY)
    assert len(np.unique(digests)) == DICTIONARY.window
    rows = attacks.rows_of(DICTIONARY, digests)
    cells_used = sum(len(np.unique(row)) for row in rows)
    assert cells_used <= cells < DICTIONARY.window / 2
    keys = attacks.keys_of_digests(DICTIONARY, digests, np.random.default_rng(1))
    model = WindowDictionary.from_spec(DICTIONARY)
    model.insert(keys)
    assert set(model.entries[:, 0].tolist()) <= set(digests.tolist())
    # The cells are those of the model.
    used = np.nonzero(model.memory[0])
    for column, row in zip(*used, strict=True):
        assert row in rows[column]


def test_difference(small):
    """Found by verdicts alone, it makes strangers of all keys, whatever the seed is."""
    ((unit, way), run), *others = runs_of(attacks.differences, queries=2_000).items()
    assert (unit, way, others) == ("dictionary-1000, fold of 12 bits", OTHER_SEED, [])
    assert run["attacked"] == 1
    assert run["usual"] < 0.2
    assert 1 <= run["queries"] < 1000


def test_replayed():
    """Only a new secret makes what was found worthless."""
    runs = {way: run for (_, way), run in runs_of(attacks.replayed).items()}
    assert list(runs) == [OTHER_SEED, KEYED, "siphash, re-keyed"]
    assert [run["attacked"] == 1 for run in runs.values()] == [True, True, False]
    assert runs["siphash, re-keyed"]["attacked"] < 0.08


def test_forged_cells():
    runs = runs_of(attacks.forge_cells)
    assert {unit for unit, _ in runs} == {*attacks.TIMING}
    for (_, way), run in runs.items():
        assert run["usual"] < 0.08
        assert run["attacked"] == 1 if way == KNOWN else run["attacked"] <= run["usual"] + 0.05
    # They have no other hash.
    assert {way for _, way in runs} == {KNOWN, OTHER_SEED}


def test_flooded(monkeypatch):
    """What gives way is the window, which is told, or the rate; a key that is vouched for never."""
    monkeypatch.setattr(attacks, "FACTORS", (4,))
    runs = runs_of(attacks.flood, queries=5_000)
    assert {unit for unit, _ in runs} == {
        f"{name}, span, {policy}" for name in attacks.FLOODED for policy in ("shorten", "overfill")
    }
    for (unit, way), run in runs.items():
        assert way in (KNOWN, KEYED)
        if unit.endswith("shorten"):
            assert run["usual"] == 0
            assert run["attacked"] > 0.6
            # All that is younger than the window that is told is there, and nearly all else is not.
            assert 0.6 < run["attacked"] / (1 - run["guaranteed"] / attacks.SPAN) < 1.05
        else:
            assert run["usual"] < 0.01
            assert run["attacked"] > 0.8


def test_campaign(small):
    points = attacks.points(queries=2_000)
    assert [point["attack"] for point in points] == [*attacks.ATTACKS]
    result = attacks.run(points[0])
    assert {run["attack"] for run in result["runs"]} == {"forged"}
    result["runs"][1]["false_negatives"] = 2
    assert [*attacks.wrong(result)] == ["large: false negatives must be 0, not 2"]


@pytest.mark.rtl
@pytest.mark.slow
def test_speed_of_hardware(monkeypatch):
    """Known constants slow lanes down; so does the time that the attacker sees, keyed or not."""
    monkeypatch.setattr(attacks, "LANES", "two-lanes-tiny")
    monkeypatch.setattr(attacks, "DICTIONARIES", ("ring-1000",))
    random = np.random.default_rng(1)
    lanes = ({"attack": "one shard"} | run for run in attacks.slow_lanes(8_000, random))
    runs = [*lanes, *attacks.slow_dictionaries(8_000, random)]
    rates = {(run["attack"], run["hash"]): run["attacked"] for run in runs}
    # The shifts of so small a unit take a part of the cycles.
    assert min(run["usual"] for run in runs if "shard" in run["attack"]) > 1.3
    assert rates["one shard", KNOWN] < 0.9
    assert rates["one shard", KEYED] > 1.3
    for way in (KNOWN, KEYED):
        assert rates["one shard, by time", way] < 0.9
    assert 0.85 < rates["crowded", KNOWN] < 0.95 < rates["crowded", KEYED] <= 1
