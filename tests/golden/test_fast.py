"""The compiled path of the golden models is the numpy path, bit for bit."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import taking
from small_filters import CLASSES, OPERATIONS, as_keys, counters_of, key_lists, specs

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    PRESETS,
    BlockedGEBF,
    BlockTimingBloomFilter,
    FilterSpec,
    Operation,
    SlidingFilter,
    TimingBloomFilter,
    compilation,
    from_spec,
    load,
    preset,
)
from papers.gebf_runs import DoubleHashedGEBF
from papers.models import CuckooDictionary

pytest.importorskip("numba", reason="the compiled path needs numba")

SEEDS = [11, 12, 13]


def pair(spec, *, partitioned=True, secret=0):
    """Build the same filter for either path."""
    models = []
    for path in ("compiled", "numpy"):
        with taking(path):
            model = CLASSES[spec.family].__new__(CLASSES[spec.family])
            SlidingFilter.__init__(model, spec, partitioned=partitioned, secret=secret)
        assert model.compiled == (path == "compiled")
        models.append(model)
    return models


def same(fast, slow):
    """Hold every bit, every counter and the position of two filters against each other."""
    assert np.array_equal(fast.memory, slow.memory)
    assert fast == slow
    assert counters_of(fast) == counters_of(slow)
    assert fast.secrets == slow.secrets
    assert fast.rekey_ready == slow.rekey_ready
    assert fast.ring_position == slow.ring_position
    return True


# Both paths


@settings(max_examples=150, deadline=None)
@given(spec=specs(), data=st.data())
def test_mixed_operations(spec, data):
    together = spec.family.endswith("gebf") and spec.lanes == 1 and data.draw(st.booleans())
    keyed = spec.hash == "siphash"
    fast, slow = pair(spec, partitioned=not together, secret=5 if keyed else 0)
    keys = data.draw(key_lists(spec.key_bits, 120), "keys")
    codes = data.draw(st.lists(OPERATIONS, min_size=len(keys), max_size=len(keys)), "operations")
    while keys:
        size = data.draw(st.integers(1, len(keys)), "size")
        array = as_keys(keys[:size], spec.key_bits)
        some, expected = fast.apply(codes[:size], array), slow.apply(codes[:size], array)
        assert some.age.tolist() == expected.age.tolist()
        assert some.seen.tolist() == expected.seen.tolist()
        assert same(fast, slow)
        assert fast.age(array).tolist() == slow.age(array).tolist()
        assert same(fast, slow)
        if keyed and slow.rekey_ready and data.draw(st.booleans(), "rekey"):
            secret = data.draw(st.integers(0, 2**128 - 1), "secret")
            fast.rekey(secret)
            slow.rekey(secret)
        if data.draw(st.booleans(), "change"):
            fast.generation = slow.generation = data.draw(st.integers(1, 9), "generation")
        keys, codes = keys[size:], codes[size:]


LARGE = {
    "apbf": FilterSpec(family="apbf", k=10, l=7, slice_bits=1001, generation=69),
    "apbf of 62 slices": FilterSpec(family="apbf", k=20, l=42, slice_bits=129, generation=7),
    "word": FilterSpec(
        family="apbbf", k=2, l=5, block_bits=64, hashes_per_block=4, blocks=61, generation=300
    ),
    "half a word": FilterSpec(
        family="apbbf", k=3, l=4, block_bits=32, hashes_per_block=4, blocks=99, generation=100
    ),
    "two words of hash": FilterSpec(
        family="apbbf", k=1, l=3, block_bits=64, hashes_per_block=8, blocks=5, generation=21
    ),
    "blocks of 512": FilterSpec(
        family="apbbf", k=1, l=5, block_bits=512, hashes_per_block=8, blocks=9, generation=200
    ),
    "gebf": FilterSpec(family="gebf", window=2000, epochs=6, hashes=8, bits=28_000),
    "gebf of 16 bits": FilterSpec(family="gebf", window=2000, epochs=8, hashes=5, bits=28_001),
    "gebf of 32 bits": FilterSpec(family="gebf", window=999, epochs=25, hashes=3, bits=14_000),
    "gebf of 61 epochs": FilterSpec(family="gebf", window=999, epochs=61, hashes=3, bits=14_000),
    "blocked": FilterSpec(
        family="blocked-gebf", window=900, epochs=5, hashes=3, bits=9_000, block_bits=64
    ),
    "lanes": FilterSpec(
        family="apbbf",
        k=2,
        l=4,
        block_bits=64,
        hashes_per_block=4,
        blocks=66,
        generation=200,
        lanes=4,
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", LARGE)
def test_long_streams(name, seed):
    """Chunks, generations, and keys that come again at once or later; seeds are printed."""
    print("seed", seed)
    spec = replace(LARGE[name], seed=seed, key_bits={11: 64, 12: 41, 13: 100}[seed])
    random = np.random.default_rng(seed)
    fast, slow = pair(spec)
    for size in (
        1,
        300,
        40_000 if name in ("word", "gebf") and seed == 11 else 12 * spec.generation,
    ):
        values = random.integers(0, 2_500, size)
        keys = as_keys([int(value) * 0x9E3779B for value in values], spec.key_bits)
        codes = random.choice([1, 2, 3, 3, 3], size)
        codes[random.random(size) < 0.001] = Operation.SHIFT
        codes[random.random(size) < 0.0003] = Operation.CLEAR
        assert np.array_equal(fast.check_and_insert(keys), slow.check_and_insert(keys))
        assert np.array_equal(fast.apply(codes, keys).age, slow.apply(codes, keys).age)
        fast.insert(keys)
        slow.insert(keys)
        assert same(fast, slow)
    assert slow.shifts > 5


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"timed-tiny"}))
def test_presets(name):
    spec = preset(name)
    fast, slow = pair(spec)
    keys = as_keys(range(3000), spec.key_bits if spec.key_bits > 16 else 64)
    keys = keys % (1 << min(spec.key_bits, 63))
    assert np.array_equal(fast.check_and_insert(keys), slow.check_and_insert(keys))
    assert same(fast, slow)


def test_the_insertion_that_turns_the_ring_and_is_the_last_of_a_batch():
    spec = LARGE["word"]
    fast, slow = pair(spec)
    keys = np.arange(spec.generation + 1, dtype=np.uint64)
    for model in (fast, slow):
        model.insert(keys[:-1])
        assert model.shifts == 0
        assert model.age(keys[:1]) == [0]
        assert not model.check_and_insert(keys[-1:])[0]
        assert model.shifts == 1
        assert model.age(keys[[0, -1]]).tolist() == [1, 0]
    assert same(fast, slow)


@pytest.mark.parametrize("name", ["word", "gebf", "apbf"])
def test_clear_asks_nothing(name):
    fast, slow = pair(LARGE[name])
    for model in (fast, slow):
        model.insert([7])
        verdicts = model.apply([Operation.CLEAR, Operation.SHIFT, Operation.NONE], [7, 7, 7])
        assert verdicts.age.tolist() == [-1, -1, -1]
        assert not model.memory.any()


@pytest.mark.parametrize("name", ["word", "gebf"])
def test_any_layout_of_keys(name):
    keys = np.arange(4000, dtype=np.uint64)
    fixed = keys.copy()
    fixed.flags.writeable = False
    fast, slow = pair(LARGE[name])
    for some in (keys[::2], fixed, keys[::-1], keys.astype(">u8"), keys.astype(np.uint16), []):
        assert np.array_equal(fast.check_and_insert(some), slow.check_and_insert(some))
        assert same(fast, slow)


@pytest.mark.parametrize("name", ["word", "gebf"])
def test_generation_beyond_what_a_machine_counts(name):
    fast, slow = pair(LARGE[name])
    for model in (fast, slow):
        model.generation = 1 << 80
        model.shift()
        model.insert(np.arange(2000))
        assert model.shifts == 1
    assert same(fast, slow)


def test_counters_beyond_what_a_machine_counts(tmp_path):
    """2**63 insertions take nothing from a filter; it is loaded with as many as it has made."""
    from lately.golden.state_files import FORMATS, read_state, write_state

    fast, slow = pair(LARGE["gebf"])
    for model in (fast, slow):
        model.save(tmp_path / "state")
        header, arrays = read_state(tmp_path / "state", FORMATS)
        header["numbers"]["counters"] = [1 << 63] * 4
        del header["numbers"]["events"]
        write_state(tmp_path / "state", header, arrays)
        with taking("compiled" if model.compiled else "numpy"):
            loaded = load(tmp_path / "state")
        assert loaded.compiled == model.compiled
        loaded.check_and_insert([5, 5])
        loaded.shift()
        assert counters_of(loaded) == [
            (1 << 63) + 3,
            (1 << 63) + 2,
            (1 << 63) + 1,
            (1 << 63) + 1,
        ]


# States


@pytest.mark.parametrize("name", LARGE)
def test_states_go_from_one_path_to_the_other(name, tmp_path):
    spec = LARGE[name]
    fast, slow = pair(spec)
    keys = np.random.default_rng(4).integers(0, 1 << 64, 3 * spec.generation + 5, np.uint64)
    files = {}
    for model in (fast, slow):
        model.check_and_insert(keys)
        path = tmp_path / str(model.compiled)
        model.save(path)
        files[model.compiled] = dict(np.load(path))
    assert all(np.array_equal(files[True][field], files[False][field]) for field in files[True])
    with taking("compiled"):
        fast = load(tmp_path / "False")
    with taking("numpy"):
        slow = load(tmp_path / "True")
    assert fast.compiled
    assert not slow.compiled
    assert same(fast, slow)
    assert np.array_equal(fast.check_and_insert(keys[::-1]), slow.check_and_insert(keys[::-1]))
    assert same(fast, slow)


def test_secrets_go_from_one_path_to_the_other(tmp_path):
    spec = replace(LARGE["gebf"], hash="siphash", rekey=True)
    fast, slow = pair(spec, secret=3)
    keys = np.arange(1000)
    for model in (fast, slow):
        model.insert(keys)
        model.rekey(1 << 127)
        model.insert(keys + 1000)
        model.save(tmp_path / str(model.compiled), secrets=True)
    assert same(fast, slow)
    with taking("compiled"):
        fast = load(tmp_path / "False")
    with taking("numpy"):
        slow = load(tmp_path / "True")
    for model in (fast, slow):
        assert model.query(np.arange(2000)).all()
        model.insert(keys + 3000)
    assert same(fast, slow)


# The cuckoo dictionary


def dictionaries(**parameters):
    models = []
    for path in ("compiled", "numpy"):
        with taking(path):
            models.append(CuckooDictionary(**parameters))
        assert models[-1].compiled == (path == "compiled")
    return models


@pytest.mark.parametrize("seed", range(12))
def test_cuckoo_dictionaries(seed, tmp_path):
    """At every load, from a list that is empty to one of most keys; seeds are printed."""
    print("seed", seed)
    random = np.random.default_rng(seed)
    window = int(random.integers(1, 3000))
    fast, slow = dictionaries(
        window=window,
        positions=int(window * random.choice([0.1, 0.4, 0.5, 0.55, 2])) + 1,
        signature_bits=int(random.integers(0, 9)),
        moves=int(random.integers(1, 30)),
        seed=seed,
        key_bits=[64, 17, 100][seed % 3],
    )
    universe = as_keys([int(key) for key in random.integers(0, 1 << 17, 2 * window)], fast.key_bits)
    for size in (1, 5, 2 * window, 3, 40_000):
        keys = universe[random.integers(0, len(universe), size)]
        asked = int(random.integers(1, window + 1))
        expected = slow.check_and_insert(keys, asked)
        assert np.array_equal(fast.check_and_insert(keys, asked), expected)
        assert fast == slow
        assert np.array_equal(fast.last_update(universe), slow.last_update(universe))
    assert fast.moved == slow.moved
    assert fast.overflow_peak == slow.overflow_peak
    fast.save(tmp_path / "state")
    with taking("numpy"):
        assert load(tmp_path / "state") == slow


def test_cuckoo_loop_runs():
    from papers.models import compiled_cuckoo

    fast, slow = dictionaries(window=500, positions=100)
    keys = np.random.default_rng(1).integers(0, 1 << 64, 2000, np.uint64)
    assert np.array_equal(fast.check_and_insert(keys), slow.check_and_insert(keys))
    assert fast.overflow > 200
    assert fast == slow
    assert compiled_cuckoo.insert_keys.signatures


# The timing Bloom filters


@pytest.mark.parametrize("seed", range(10))
def test_timing_filters(seed, tmp_path):
    """Timestamps that go round many times, and sweeps; seeds are printed."""
    print("seed", seed)
    random = np.random.default_rng(seed)
    window = int(random.integers(1, 700))
    parameters = {
        "window": window,
        "cells": int(random.integers(1, 6 * window)),
        "hashes": int(random.integers(1, 7)),
        "padding": [None, 0, 5][seed % 3],
        "seed": seed,
        "key_bits": [64, 17, 100][seed % 3],
        "block": int(random.choice([1, 2, 50, 1000])),
    }
    models = []
    for path in ("compiled", "numpy"):
        with taking(path):
            models.append(BlockTimingBloomFilter(**parameters))
        assert models[-1].compiled == (path == "compiled")
    fast, slow = models
    universe = as_keys([int(key) for key in random.integers(0, 1 << 17, 2000)], fast.key_bits)
    for size in (1, 5, 2 * window, 3, 20_000):
        keys = universe[random.integers(0, len(universe), size)]
        assert np.array_equal(fast.check_and_insert(keys), slow.check_and_insert(keys))
        fast.insert(keys[: size // 2])
        slow.insert(keys[: size // 2])
        assert fast == slow
        assert np.array_equal(fast.age(universe), slow.age(universe))
    slow.save(tmp_path / "state")
    with taking("compiled"):
        loaded = load(tmp_path / "state")
    assert loaded.compiled
    assert np.array_equal(loaded.check_and_insert(universe), slow.check_and_insert(universe))
    assert loaded == slow


def test_timing_loop_runs():
    from lately.golden.timestamp import compiled_timing

    TimingBloomFilter(window=50, cells=500, hashes=3).insert([1])
    assert compiled_timing.insert_keys.signatures


# Which path


def test_compiled_path_is_the_usual_one(monkeypatch):
    monkeypatch.delenv(compilation.VARIABLE, raising=False)
    models = [
        APBF(k=3, l=4, slice_bits=64),
        APBBF(k=2, l=5, block_bits=64, hashes_per_block=4, blocks=8),
        GEBF(window=100, epochs=4, hashes=3, bits=1000),
        BlockedGEBF(window=100, epochs=4, hashes=3, bits=1000, block_bits=64),
    ]
    for model in models:
        assert model.compiled
        assert type(model._segments).__name__ == "CompiledSegments"
        model.insert([1])
    from lately.golden.ring import compiled_loops

    # What numba has compiled is what ran.
    assert compiled_loops.perform_columns.signatures
    assert compiled_loops.perform_words.signatures


def test_longer_rings_take_the_numpy_path():
    spec = FilterSpec(family="apbf", k=20, l=42, slice_bits=50, generation=5)
    assert spec.segments == compilation.MOST_SEGMENTS
    assert from_spec(spec).compiled
    assert not from_spec(replace(spec, l=43)).compiled


def test_layouts_of_studies_take_the_numpy_path():
    shared = {"window": 100, "epochs": 4, "hashes": 3, "bits": 1024, "block_bits": 64}
    assert BlockedGEBF(**shared, partitioned=False).compiled
    assert not DoubleHashedGEBF(**shared, partitioned=False).compiled


def test_absence_of_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    compilation.importable.cache_clear()
    try:
        model = from_spec(preset("tiny"))
        assert not model.compiled
        assert model.check_and_insert([1, 1]).tolist() == [False, True]
    finally:
        compilation.importable.cache_clear()


PROGRAM = """
import sys
import lately.golden
assert "numba" not in sys.modules
model = lately.golden.from_spec(lately.golden.preset("tiny"))
print(model.compiled, "numba" in sys.modules, model.check_and_insert([1, 1]).tolist())
"""


def run_program(**environment):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_environment_refuses_it():
    assert run_program(LATELY_FAST="0") == "False False [False, True]"
    assert run_program(LATELY_FAST="") == "True True [False, True]"


def test_folders_that_cannot_be_written(monkeypatch):
    """Without a place for its cache, numba compiles in each process; it tells so by an error."""
    import numba

    asked = []

    def njit(**options):
        asked.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(numba, "njit", njit)
    assert compilation.jit(abs) is abs
    assert asked == [True, False]


def test_secrets_of_a_ring_that_has_one():
    """A clear leaves nothing under an older secret, and both paths keep the same of it."""
    fast, slow = pair(PRESETS["siphash-tiny"], secret=5)
    for model in (fast, slow):
        model.rekey(6)
        codes = [Operation.CHECK_AND_INSERT, Operation.SHIFT, Operation.CLEAR, Operation.SHIFT]
        model.apply(codes, np.arange(4))
    assert same(fast, slow)
    assert set(fast.secrets) == {6}
    assert fast._ring.older_secret == slow._ring.older_secret == 0
