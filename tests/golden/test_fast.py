"""The compiled path of the golden models is the numpy path, bit for bit."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from cases import daily
from hypothesis import given
from hypothesis import strategies as st
from paths import taking
from small_filters import CLASSES, OPERATIONS, as_keys, counters_of, key_lists, specs

from lately.golden import (
    GEBF,
    PRESETS,
    BlockedGEBF,
    FilterSpec,
    Operation,
    PartitionedTimingFilter,
    SlidingFilter,
    TimedFilter,
    TimingBloomFilter,
    compilation,
    from_spec,
    load,
    preset,
)
from lately.golden.spec.dictionary_sizes import WindowDictionarySpec
from lately.golden.spec.timestamp import BlockTimingSpec, PartitionedTimingSpec, TimedTimingSpec
from papers.gebf_runs import DoubleHashedGEBF

pytestmark = pytest.mark.skipif(
    compilation.extension() is None, reason="the extension module is not built"
)

SINGLE = ("query", "check_and_insert", "insert", "age", "__contains__")


def on_both(build):
    """Build the same filter for either path."""
    models = []
    for path in ("compiled", "numpy"):
        with taking(path):
            models.append(build())
        assert getattr(models[-1], "compiled", path == "compiled") == (path == "compiled")
    return models


def pair(spec, *, partitioned=True, secret=0):
    def build():
        model = CLASSES[spec.family].__new__(CLASSES[spec.family])
        SlidingFilter.__init__(model, spec, partitioned=partitioned, secret=secret)
        return model

    return on_both(build)


def same(fast, slow):
    """Compare every bit, every counter and the position of two filters."""
    assert np.array_equal(fast.memory, slow.memory)
    assert fast == slow
    assert fast.counters == slow.counters
    for name in ("secrets", "rekey_ready", "ring_position", "insertions", "guaranteed_window"):
        assert getattr(fast, name, None) == getattr(slow, name, None)
    return True


# Rings


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
        some, expected = fast.perform(codes[:size], array), slow.perform(codes[:size], array)
        assert some.age.tolist() == expected.age.tolist()
        assert some.seen.tolist() == expected.seen.tolist()
        assert same(fast, slow)
        assert fast.age(array).tolist() == slow.age(array).tolist()
        for name in data.draw(st.lists(st.sampled_from(SINGLE), max_size=20), "single keys"):
            key = data.draw(st.sampled_from(keys), "key")
            assert getattr(fast, name)(key) == getattr(slow, name)(key)
        assert same(fast, slow)
        if keyed and slow.rekey_ready and data.draw(st.booleans(), "rekey"):
            secret = data.draw(st.integers(0, 2**128 - 1), "secret")
            fast.rekey(secret)
            slow.rekey(secret)
        if data.draw(st.booleans(), "change"):
            fast.generation = slow.generation = data.draw(st.integers(1, 9), "generation")
        keys, codes = keys[size:], codes[size:]


RINGS = {
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
    "gebf of 61 epochs": FilterSpec(family="gebf", window=999, epochs=61, hashes=13, bits=14_000),
    "gebf with a secret": FilterSpec(
        family="gebf", window=500, epochs=6, hashes=4, bits=7_000, hash="siphash", rekey=True
    ),
    "blocked": FilterSpec(
        family="blocked-gebf", window=900, epochs=5, hashes=3, bits=9_000, block_bits=64
    ),
    "lanes": FilterSpec(
        family="apbbf", k=2, l=4, block_bits=64, hashes_per_block=4, blocks=66, generation=200,
        lanes=4,
    ),
}  # fmt: skip


def ring_in_time(random):
    spec = RINGS[str(random.choice([name for name in RINGS if name != "lanes"]))]
    return FilterSpec.from_dict(spec.to_dict() | {"span": int(random.integers(50, 9000))})


def dictionary(random):
    rows = 1 << int(random.integers(1, 8))
    return WindowDictionarySpec(
        window=int(random.integers(1, 600)),
        columns=int(random.integers(3, 8)),
        rows=rows,
        digest_bits=rows.bit_length() + int(random.integers(0, 20)),
        stash=int(random.integers(1, 20)),
        moves=int(random.integers(1, 30)) if random.integers(2) else None,
        hash=str(random.choice(["h3", "siphash"])),
    )


def timing(random):
    window = int(random.integers(1, 700))
    return BlockTimingSpec(
        window=window,
        cells=int(random.integers(1, 6 * window + 1)),
        hashes=int(random.integers(1, 7)),
        padding=[None, 0, 5][random.integers(3)],
        block=int(random.choice([1, 2, 50, 1000])),
    )


def timing_in_parts(random):
    block = int(random.choice([1, 2, 50]))
    sizes = {"cells": int(random.integers(1, 3000)), "hashes": int(random.integers(1, 11))}
    if random.integers(3) == 0:
        sizes |= {"classes": 3}
    if random.integers(2):
        return PartitionedTimingSpec(window=9 * block, block=block, **sizes)
    return TimedTimingSpec(span=700 * block, period=block, **sizes)


FAMILIES = {
    **{name: lambda _, name=name: RINGS[name] for name in RINGS},
    "ring in time": ring_in_time,
    "dictionary": dictionary,
    "timing": timing,
    "timing in parts": timing_in_parts,
}


def whole(words):
    """Return a key as one integer."""
    return sum(int(word) << 64 * place for place, word in enumerate(np.atleast_1d(words)))


class Course:
    """Two filters of a family, of either path, and random operations on both."""

    def __init__(self, name, seed):
        self.random = random = np.random.default_rng(seed)
        bits = int(random.choice([64, 17, 41, 100]))
        self.spec = replace(FAMILIES[name](random), seed=int(random.integers(9)), key_bits=bits)
        self.fast, self.slow = on_both(lambda: from_spec(self.spec))
        self.universe = as_keys([int(key) for key in random.integers(0, 1 << 17, 2500)], bits)
        self.now = 0

    def draw(self, size):
        """Return keys, and their times if the filters take them."""
        keys = self.universe[self.random.integers(0, len(self.universe), size)]
        if not isinstance(self.fast, TimedFilter):
            return [keys]
        times = self.now + np.cumsum(self.random.integers(0, 3, size))
        self.now = int(times[-1]) if size else self.now
        return [keys, times]

    def perform(self, size):
        codes = self.random.choice([1, 2, 3, 3, 3], size)
        if Operation.REMOVE in self.fast.supported:
            codes[self.random.random(size) < 0.1] = Operation.REMOVE
        if Operation.SHIFT in self.fast.supported:
            codes[self.random.random(size) < 0.001] = Operation.SHIFT
        codes[self.random.random(size) < 0.0003] = Operation.CLEAR
        operands = self.draw(size)
        windows = {"windows": self.windows(size)} if self.spec.query_field else {}
        found, due = (each.perform(codes, *operands, **windows) for each in (self.fast, self.slow))
        assert all(map(np.array_equal, found, due))

    def windows(self, size):
        classes = getattr(self.spec, "classes", None)
        if classes is not None:
            return self.random.integers(0, classes, size)
        unit = getattr(self.spec, "block_units", 1)
        most = self.spec.guaranteed_window // unit
        return self.random.integers(1, most + 1, size) * unit

    def single_keys(self, size):
        for _ in range(size):
            keys, *times = (values[0] for values in self.draw(1))
            name = str(self.random.choice(SINGLE))
            arguments = [whole(keys), *map(int, times if name != "__contains__" else ())]
            found, due = (getattr(each, name)(*arguments) for each in (self.fast, self.slow))
            assert type(found) is type(due)
            assert found == due

    def batch(self, size):
        for name in ("check_and_insert", "query", "insert", "age"):
            operands = self.draw(size)
            found, due = (getattr(each, name)(*operands) for each in (self.fast, self.slow))
            assert np.array_equal(found, due)

    def change(self):
        """Load a secret or a table, if the filters have any."""
        if getattr(self.spec, "hash", "h3") == "siphash":
            if getattr(self.slow, "rekey_ready", True):
                secret = int(self.random.integers(0, 1 << 62)) << 60
                self.fast.rekey(secret)
                self.slow.rekey(secret)
        elif getattr(self.spec, "classes", None):
            table = self.random.integers(0, self.spec.hashes + 2, self.spec.table_shape)
            self.fast.decide_by(table)
            self.slow.decide_by(table)

    def exchange(self, folder):
        """Load the state of each filter into the other path."""
        states = []
        for number, model in enumerate((self.fast, self.slow)):
            model.save(folder / str(number), secrets=True)
            states.append(dict(np.load(folder / str(number))))
        assert all(np.array_equal(states[0][field], states[1][field]) for field in states[0])
        with taking("compiled"):
            self.fast = load(folder / "1")
        with taking("numpy"):
            self.slow = load(folder / "0")


@pytest.mark.parametrize("seed", daily(1, range(2)))
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.slow] * ("62" in one)) for one in FAMILIES],
)
def test_courses(name, seed, tmp_path):
    """Mixed operations, single keys, batches, secrets, windows and states."""
    print("seed", seed)
    course = Course(name, seed)
    for size in (1, 0, 300, 5, 2000):
        course.perform(size)
        course.single_keys(30)
        assert same(course.fast, course.slow)
        course.batch(size)
        assert same(course.fast, course.slow)
        course.change()
        course.exchange(tmp_path)


@pytest.mark.parametrize("name", daily(8, sorted(set(PRESETS) - {"timed-tiny"})))
def test_presets(name):
    spec = preset(name)
    fast, slow = pair(spec)
    keys = as_keys(range(3000), spec.key_bits if spec.key_bits > 16 else 64)
    keys = keys % (1 << min(spec.key_bits, 63))
    assert np.array_equal(fast.check_and_insert(keys), slow.check_and_insert(keys))
    assert same(fast, slow)


def test_the_insertion_that_turns_the_ring_and_is_the_last_of_a_batch():
    spec = RINGS["word"]
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


@pytest.mark.parametrize("name", ["word", "gebf"])
def test_any_layout_of_keys(name):
    keys = np.arange(4000, dtype=np.uint64)
    fixed = keys.copy()
    fixed.flags.writeable = False
    fast, slow = pair(RINGS[name])
    for some in (keys[::2], fixed, keys[::-1], keys.astype(">u8"), keys.astype(np.uint16), []):
        assert np.array_equal(fast.check_and_insert(some), slow.check_and_insert(some))
        assert same(fast, slow)


@pytest.mark.parametrize("name", ["word", "gebf"])
def test_generation_beyond_what_a_machine_counts(name):
    fast, slow = pair(RINGS[name])
    for model in (fast, slow):
        model.generation = 1 << 80
        model.shift()
        model.insert(np.arange(2000))
        model.insert(2000)
        assert model.shifts == 1
    assert same(fast, slow)


def test_counters_beyond_what_a_machine_counts(tmp_path):
    """2**63 insertions take nothing from a filter; it is loaded with as many as it has made."""
    from lately.golden.state_files import read_state, write_state

    fast, slow = pair(RINGS["gebf"])
    for model in (fast, slow):
        model.save(tmp_path / "state")
        header, arrays = read_state(tmp_path / "state")
        header["numbers"]["counters"] = [1 << 63] * 4
        header["numbers"]["events"] |= dict.fromkeys(("operations", "insertions", "hits"), 1 << 63)
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


# What the extension refuses


def corrupted(name):
    """Return the compiled state of a filter, and arguments that it performs operations with."""
    with taking("compiled"):
        model = from_spec(RINGS[name])
    vector = np.zeros(15, np.int64)
    vector[[2, 3, 10]] = 100, 100, -1
    keys, seen = np.arange(8, dtype=np.uint64), np.empty(8, np.bool_)
    return model._engine, [vector, np.zeros(2, np.uint64), 3, keys, None, seen]


@pytest.mark.parametrize("name", ["word", "gebf"])
@pytest.mark.parametrize(
    ("place", "value"),
    [(0, 99), (0, -1), (1, -5), (2, 0), (3, (1 << 62) + 1), (7, 99), (8, 1), (9, -1), (10, 5)],
)
def test_position_wrong(name, place, value):
    engine, arguments = corrupted(name)
    assert engine.perform(*arguments) == 0
    arguments[0][place] = value
    with pytest.raises(ValueError, match=r"^vector: must be the position of a ring at rest"):
        engine.perform(*arguments)


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, np.zeros(3, np.int64)), (1, np.zeros(0, np.uint64)), (2, np.zeros(7, np.uint8)),
     (3, np.zeros(9, np.uint64)), (3, np.zeros(9, np.int32)), (4, np.zeros(7, np.int64)),
     (5, np.zeros(7, np.bool_))],
)  # fmt: skip
def test_array_wrong(place, value):
    engine, arguments = corrupted("gebf")
    arguments[place] = value
    with pytest.raises(ValueError, match=r"must have -?[0-9]+ items of"):
        engine.perform(*arguments)


@pytest.mark.parametrize("name", ["word", "gebf", "lanes"])
def test_memory_wrong(name):
    with taking("compiled"):
        segments = from_spec(RINGS[name])._segments
    spec, memory = segments._layout.spec, segments._memory
    core, key_hash = segments._layout.hash.compiled()
    strides = segments._strides()
    core.Ring(key_hash, memory, spec.segments, spec.run, name != "gebf", strides)
    short = memory.reshape(-1)[: memory.size // 2].copy()
    for wrong in (
        [key_hash, short, spec.segments, spec.run, name != "gebf", strides],
        [key_hash, memory, spec.segments + 1, spec.run, name != "gebf", strides],
        [key_hash, memory, spec.segments, spec.segments, name != "gebf", strides],
        [key_hash, memory, spec.segments, spec.run, name != "gebf", strides * np.uint64(1 << 40)],
    ):
        with pytest.raises(ValueError, match=r"^memory: must have the bits of all segments"):
            core.Ring(*wrong)


def test_engine_wrong():
    with taking("compiled"):
        model = from_spec(RINGS["gebf"])
    with pytest.raises(TypeError, match=r"^_engine: must be an Engine or None"):
        model._engine = 5


# Which path


def test_longer_rings_take_the_numpy_path():
    spec = FilterSpec(family="apbf", k=20, l=42, slice_bits=50, generation=5)
    assert spec.segments == compilation.MOST_SEGMENTS
    assert from_spec(spec).compiled
    assert not from_spec(replace(spec, l=43)).compiled


@pytest.mark.parametrize(("hashes", "wanted"), [(64, True), (65, False)])
def test_more_bits_of_a_key_take_the_numpy_path(hashes, wanted):
    bits = {"epochs": 2, "hashes": hashes, "bits": 300 * hashes}
    for model in (
        GEBF(window=10, **bits),
        PartitionedTimingFilter(window=10, hashes=hashes, cells=50),
        TimingBloomFilter(window=10, hashes=hashes, cells=1000),
    ):
        assert model.compiled == wanted
        assert model.check_and_insert([1, 2, 1]).tolist() == [False, False, True]


@pytest.mark.parametrize(("spare", "wanted"), [(0, True), (1, False)])
def test_larger_segments_take_the_numpy_path(spare, wanted, monkeypatch):
    """A place in a segment has 32 bits; here the limit moves, as such a segment takes 512 MiB."""
    spec = preset("tiny")
    bits = from_spec(spec)._layout.bits
    monkeypatch.setattr(compilation, "MOST_BITS", bits - spare)
    assert from_spec(spec).compiled == wanted


def test_layouts_of_studies_take_the_numpy_path():
    shared = {"window": 100, "epochs": 4, "hashes": 3, "bits": 1024, "block_bits": 64}
    assert BlockedGEBF(**shared, partitioned=False).compiled
    assert not DoubleHashedGEBF(**shared, partitioned=False).compiled


PROGRAM = """
import sys
{before}
import lately.golden
model = lately.golden.from_spec(lately.golden.preset("tiny"))
print(model.compiled, model.check_and_insert([1, 1]).tolist())
print(model.check_and_insert(1), 1 in model)
"""


@pytest.mark.parametrize(
    ("before", "variable", "compiled"),
    [("", "", True), ("", "0", False),
     ("sys.modules['lately.golden._core'] = None", "", False)],
)  # fmt: skip
def test_use_of_the_extension(before, variable, compiled):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        env=os.environ | {compilation.VARIABLE: variable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == f"{compiled} [False, True]\nTrue True"


def test_secrets_of_a_ring_that_has_one():
    """A clear leaves nothing under an older secret, and both paths keep the same of it."""
    fast, slow = pair(PRESETS["siphash-tiny"], secret=5)
    for model in (fast, slow):
        model.rekey(6)
        codes = [Operation.CHECK_AND_INSERT, Operation.SHIFT, Operation.CLEAR, Operation.SHIFT]
        model.perform(codes, np.arange(4))
    assert same(fast, slow)
    assert set(fast.secrets) == {6}
    assert fast._ring.older_secret == slow._ring.older_secret == 0
