"""The compiled form of the golden models is the readable form, bit for bit."""

import io
import os
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from cases import daily
from paths import needs_extension, taking
from small_filters import as_keys

from lately.golden import (
    GEBF,
    BlockedGEBF,
    FilterSpec,
    Operation,
    PartitionedTimingFilter,
    StateFileError,
    TimedFilter,
    TimingBloomFilter,
    attach,
    compilation,
    from_spec,
    load,
    preset,
    share,
)
from lately.golden.spec.dictionary_sizes import WindowDictionarySpec
from lately.golden.spec.timestamp import BlockTimingSpec, PartitionedTimingSpec, TimedTimingSpec
from lately.golden.state_files import read_state, write_state
from papers.gebf import DoubleHashedGEBF

pytestmark = needs_extension


def on_both(build):
    """Build the same filter for either path."""
    models = []
    for path in ("compiled", "readable"):
        with taking(path):
            models.append(build())
        assert getattr(models[-1], "compiled", path == "compiled") == (path == "compiled")
    return models


def same(fast, slow):
    """Compare every bit, every counter and the position of two filters."""
    assert np.array_equal(fast.memory, slow.memory)
    assert fast == slow
    assert fast.counters == slow.counters
    for name in ("secrets", "rekey_ready", "ring_position", "insertions", "guaranteed_window"):
        assert getattr(fast, name, None) == getattr(slow, name, None)
    return True


# Rings


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
    "lines": FilterSpec(
        family="blocked-gebf", window=900, epochs=4, hashes=8, bits=18_000, block_bits=256
    ),
    "lines of eleven segments": FilterSpec(
        family="blocked-gebf", window=900, epochs=9, hashes=8, bits=16_384, block_bits=256
    ),
    "lines with a secret": FilterSpec(
        family="blocked-gebf", window=600, epochs=6, hashes=8, bits=9_000, block_bits=256,
        hash="siphash", rekey=True,
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
        results, due = (
            each.perform(codes, *operands, **windows) for each in (self.fast, self.slow)
        )
        assert all(map(np.array_equal, results, due))

    def windows(self, size):
        classes = getattr(self.spec, "classes", None)
        if classes is not None:
            return self.random.integers(0, classes, size)
        unit = getattr(self.spec, "block_units", 1)
        maximum = self.spec.guaranteed_window // unit
        return self.random.integers(1, maximum + 1, size) * unit

    def batch(self, size):
        for name in ("check_and_insert", "query", "insert", "age"):
            operands = self.draw(size)
            results, due = (getattr(each, name)(*operands) for each in (self.fast, self.slow))
            assert np.array_equal(results, due)

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


@pytest.mark.parametrize("seed", daily(1, range(2)))
@pytest.mark.parametrize(
    "name",
    [pytest.param(family, marks=[pytest.mark.slow] * ("62" in family)) for family in FAMILIES],
)
def test_courses(name, seed):
    """Long batches, with losses and moves of dictionaries; the state machine has short ones."""
    print("seed", seed)
    course = Course(name, seed)
    for size in (1, 0, 300, 5, 2000):
        course.perform(size)
        course.batch(size)
        assert same(course.fast, course.slow)
        course.change()


def test_any_layout_of_keys():
    keys = np.arange(4000, dtype=np.uint64)
    fixed = keys.copy()
    fixed.flags.writeable = False
    for name in ("word", "gebf"):
        fast, slow = on_both(lambda name=name: from_spec(RINGS[name]))
        for some in (keys[::2], fixed, keys[::-1], keys.astype(">u8"), keys.astype(np.uint16), []):
            assert np.array_equal(fast.check_and_insert(some), slow.check_and_insert(some))
            assert same(fast, slow)


def test_lines_in_files(tmp_path):
    """Files have columns; a filter that is loaded has lines again, unless the file is mapped."""
    keys = np.random.default_rng(7).integers(0, 1 << 64, 3000, np.uint64)
    fast, slow = on_both(lambda: from_spec(RINGS["lines"]))
    for each in (fast, slow):
        each.check_and_insert(keys)
    assert fast.to_bytes() == slow.to_bytes()
    fast.save(path := tmp_path / "state.npz")
    with taking("compiled"):
        models = [load(path), load(path, mmap=True)]
        share(fast, tmp_path / "shared")
    models.append(attach(tmp_path / "shared", write=True))
    has_lines = fast._segments._memory.ndim == 3
    assert [model._segments._memory.ndim == 3 for model in models] == [has_lines, False, False]
    for model in models:
        assert np.array_equal(model.memory, slow.memory)
        assert np.array_equal(model.fill_ratios(), slow.fill_ratios())
        assert np.array_equal(model.check_and_insert(keys), deepcopy(fast).check_and_insert(keys))
        assert 0 < model.fill < 1


def test_counters_beyond_what_a_machine_counts():
    """A filter is loaded with as many insertions as any stream has, and refuses more."""
    maximum = (1 << 62) - 1
    for model in on_both(lambda: from_spec(RINGS["gebf"])):
        header, arrays = read_state(io.BytesIO(model.to_bytes()))
        header["numbers"]["counters"] = [maximum] * 4
        header["numbers"]["events"] |= dict.fromkeys(("operations", "insertions", "hits"), maximum)
        write_state(file := io.BytesIO(), header, arrays)
        with taking("compiled" if model.compiled else "readable"):
            loaded = load(io.BytesIO(file.getvalue()))
        assert loaded.compiled == model.compiled
        loaded.check_and_insert([5, 5])
        loaded.shift()
        assert loaded.counters == {
            "operations": maximum + 3,
            "insertions": maximum + 2,
            "hits": maximum + 1,
            "shifts": maximum + 1,
        }
        header["numbers"]["events"]["hits"] += 1
        write_state(file := io.BytesIO(), header, arrays)
        with pytest.raises(StateFileError, match=r"hits: must be an integer from 0 to 2\*\*62 - 1"):
            load(io.BytesIO(file.getvalue()))


# What the extension refuses


def corrupted(name):
    """Return the compiled state of a filter, and arguments that it performs operations with."""
    with taking("compiled"):
        model = from_spec(RINGS[name])
    keys, seen = np.arange(8, dtype=np.uint64), np.empty(8, np.bool_)
    return model, [3, keys, None, seen]


POSITIONS = [
    (4, 99), (4, -1), (5, -5), (6, 0), (7, (1 << 62) + 1), (10, 99), (11, 2), (18, 99), (19, -1),
    (19, 3), (19, 1 << 20), (20, -8), (20, 3), (20, 1 << 20),
]  # fmt: skip
ARRAYS = [
    (0, np.zeros(7, np.uint8)), (1, np.zeros(9, np.uint64)), (1, np.zeros(9, np.int32)),
    (2, np.zeros(7, np.int64)), (3, np.zeros(7, np.bool_)),
]  # fmt: skip


@pytest.mark.parametrize("name", ["word", "gebf"])
def test_positions_and_arrays_wrong(name):
    for index, value in POSITIONS:
        model, arguments = corrupted(name)
        assert model._engine.perform(*arguments) == 0
        model._numbers[index] = value
        for method, given in (("perform", arguments), ("settle", [])):
            with pytest.raises(ValueError, match=r"^numbers: must be the position of a ring at"):
                getattr(model._engine, method)(*given)
    for index, value in ARRAYS:
        model, arguments = corrupted(name)
        arguments[index] = value
        with pytest.raises(ValueError, match=r"must have (-?[0-9]+ items of|a code for each key)"):
            model._engine.perform(*arguments)


@pytest.mark.parametrize("name", ["word", "gebf", "lines", "lanes"])
def test_memory_wrong(name):
    with taking("compiled"):
        segments = from_spec(RINGS[name])._segments
    memory, numbers, shape = segments._memory, segments._numbers, segments.shape()
    core, key_hash = segments._layout.hash.compiled()
    core.Ring(key_hash, memory, numbers, shape)
    short = memory.reshape(-1)[: memory.size // 2].copy()
    wrong = [(short, shape)]
    for index, value in ((0, shape[0] + 1), (1, shape[0]), *((at, 1 << 41) for at in range(5, 9))):
        wrong.append((memory, shape.copy()))
        wrong[-1][1][index] = value
    for some, changed in wrong:
        with pytest.raises(ValueError, match=r"^memory: must have the bits of all segments"):
            core.Ring(key_hash, some, numbers, changed)
    with pytest.raises(ValueError, match=r"^numbers: must have 21 items of 8 bytes, not 20 of 8"):
        core.Ring(key_hash, memory, numbers[:-1].copy(), shape)


def test_engine_wrong():
    with taking("compiled"):
        model = from_spec(RINGS["gebf"])
    with pytest.raises(TypeError, match=r"^_engine: must be an Engine or None"):
        model._engine = 5


# Which path


def test_sizes_that_take_the_readable_form(monkeypatch):
    long = FilterSpec(family="apbf", k=20, l=42, slice_bits=50, generation=5)
    assert long.segments == compilation.MAX_SEGMENTS
    assert from_spec(long).compiled
    assert not from_spec(replace(long, l=43)).compiled
    for hashes, compiled in ((64, True), (65, False)):
        for model in (
            GEBF(window=10, epochs=2, hashes=hashes, bits=300 * hashes),
            PartitionedTimingFilter(window=10, hashes=hashes, cells=50),
            TimingBloomFilter(window=10, hashes=hashes, cells=1000),
        ):
            assert model.compiled == compiled
            assert model.check_and_insert([1, 2, 1]).tolist() == [False, False, True]
    # Layouts of studies.
    shared = {"window": 100, "epochs": 4, "hashes": 3, "bits": 1024, "block_bits": 64}
    assert BlockedGEBF(**shared, partitioned=False).compiled
    assert not DoubleHashedGEBF(**shared, partitioned=False).compiled
    # A place in a segment has 32 bits; here the limit moves, as such a segment takes 512 MiB.
    bits = from_spec(preset("tiny"))._layout.bits
    for spare, compiled in ((0, True), (1, False)):
        monkeypatch.setattr(compilation, "MAX_BITS", bits - spare)
        assert from_spec(preset("tiny")).compiled == compiled


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
