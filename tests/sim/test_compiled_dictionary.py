"""The compiled dictionary against golden: ages, statuses, counters and cells."""

from dataclasses import replace

import numpy as np
import pytest

from lately.golden import Operation, SpecificationError, dictionary_preset, from_spec
from lately.hdl import DictionaryUnit
from lately.hdl.dictionary.dictionary_figures import COUNTERS
from lately.sim.replay.compiled_dictionary import CompiledDictionary

pytestmark = pytest.mark.rtl

CODES = (Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT, Operation.REMOVE)
TINY = dictionary_preset("tiny")


def drawn(spec, count, *, seed, clears=0):
    """Operations, keys and windows of which many overfill the cells of a tiny dictionary."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(CODES, count, p=[0.25, 0.2, 0.5, 0.05])
    codes[rng.integers(0, count, clears)] = Operation.CLEAR
    keys = rng.integers(0, min(1 << 62, 1 << spec.key_bits), count)
    return codes, keys, rng.integers(1, spec.window + 1, count)


def assert_alike(unit, model, operations, **pauses):
    codes, keys, windows = operations
    found = unit.perform(codes, keys, windows=windows, **pauses)
    expected = model.perform(codes, keys, windows=windows)
    asked = np.isin(codes, (Operation.QUERY, Operation.CHECK_AND_INSERT))
    assert np.array_equal(found.seen, expected.seen)
    assert np.array_equal(found.age, expected.age)
    assert np.array_equal(found.status, asked & (windows > expected.covered))
    assert np.array_equal(unit.memory, model.memory)
    return found


@pytest.mark.parametrize("hash", ["h3", pytest.param("siphash", marks=pytest.mark.slow)])
def test_like_golden(hash):
    spec = replace(TINY, hash=hash)
    with CompiledDictionary(spec, optimisation=0) as unit:
        model = from_spec(spec)
        found = assert_alike(unit, model, drawn(spec, 20_000, seed=1))
        assert found.status.any()
        counted = unit.statistics
        assert tuple(counted) == COUNTERS
        assert counted["operations"] == 20_000
        assert counted["hits"] == found.seen.sum()
        assert (counted["insertions"], counted["lost"]) == (model.insertions, model.lost)
        if hash == "siphash":
            unit.rekey(1 << 100)
            model.rekey(1 << 100)
        assert_alike(unit, model, drawn(spec, 5_000, seed=2, clears=3))
        assert_alike(unit, model, drawn(spec, 2_000, seed=3), pause_before=0.4, pause_after=0.4)
        keys = np.arange(300) % 256
        assert np.array_equal(unit.check_and_insert(keys), model.check_and_insert(keys))


def test_one_operation_a_clock_from_the_first_on():
    with CompiledDictionary(TINY, optimisation=0) as unit:
        start = unit.cycles
        unit.check_and_insert(np.arange(5_000) % 256)
        assert unit.cycles - start <= 5_000 + unit.profile.latency + 1
        # Again, from reset.
        unit.reset()
        assert not unit.check_and_insert([3])[0]


def test_counters_are_those_of_the_unit():
    members = set(DictionaryUnit(TINY).signature.members)
    assert members == {*COUNTERS, "i", "o", "guaranteed"}


def test_refusals():
    with CompiledDictionary(TINY, optimisation=0) as unit:
        with pytest.raises(SpecificationError, match=r"^secret: must not be given for hash h3, "):
            unit.rekey(1)
        with pytest.raises(ValueError, match="key"):
            unit.check_and_insert([1 << 8])
