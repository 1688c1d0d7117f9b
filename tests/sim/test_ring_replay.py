"""Compiled dictionaries with moves, on random keys, past the time when timestamps repeat."""

import numpy as np
import pytest

from lately.golden import Operation, WindowDictionary, dictionary_preset
from lately.sim.replay.compiled_dictionary import CompiledDictionary

COUNT = 100_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ring-1000", "ring-10000"])
def test_random_keys_take_one_clock_each_and_none_is_lost(name):
    """Seed 4; no entry is kept past its time, to seem young again."""
    spec = dictionary_preset(name)
    assert 3 << spec.timestamp_bits < COUNT
    unit, model = CompiledDictionary(spec), WindowDictionary.from_spec(spec)
    keys = np.random.default_rng(4).integers(0, 1 << 63, COUNT, np.uint64)
    codes = np.full(COUNT, Operation.CHECK_AND_INSERT)
    before = unit.cycles
    found, expected = unit.perform(codes, keys), model.perform(codes, keys)
    clocks = (unit.cycles - before) / COUNT
    print(f"{name}: {clocks:.5f} clocks an operation, {unit.statistics}")
    assert clocks < 1.001
    assert np.array_equal(found.age, expected.age)
    assert not found.status.any()
    assert unit.statistics["lost"] == model.lost == 0
    unit.idle(300)
    entries = model.entries_of(unit.memory)
    assert {*map(tuple, entries.tolist())} == {*map(tuple, model.entries.tolist())}
