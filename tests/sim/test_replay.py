"""The compiled replay against golden: verdicts, ages, counters and memory bits."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from lately.golden import PRESETS, FilterSpec, SpecificationError, from_spec, preset
from lately.hdl.build import filter_unit
from lately.hdl.latencies import GENERATION_LEAD, PAUSE
from lately.hdl.memory.map import memory_map
from lately.hdl.ring.profile import RingProfile
from lately.sim import CompiledUnit, ToolError, replay
from lately.sim.replay import model
from lately.sim.replay.compiled import compiled_model, unit_header
from lately.sim.replay.model import cache_directory

pytestmark = pytest.mark.rtl

SEED = 411


def random_keys(spec, count, *, seed=SEED, few=None):
    random = np.random.default_rng(seed)
    words = -(-spec.key_bits // 64)
    keys = random.integers(0, 1 << 64, (count, words), np.uint64)
    if few is not None:
        keys = keys[random.integers(0, few, count)]
    if spec.key_bits % 64:
        keys[:, -1] &= np.uint64((1 << spec.key_bits % 64) - 1)
    return keys[:, 0] if words == 1 else keys


def unit_and_map(name):
    spec = preset(name)
    return filter_unit(spec, tag_bits=8), memory_map(spec)


def assert_same_state(unit, golden):
    assert unit.statistics == {
        name: getattr(golden, name) for name in ("operations", "insertions", "hits", "shifts")
    }
    np.testing.assert_array_equal(unit.memory, golden.memory)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param("default", 400_000, marks=pytest.mark.slow),
        ("tiny", 100_000),
        pytest.param("apbf-tiny", 50_000, marks=pytest.mark.slow),
        pytest.param("gebf-tiny", 50_000, marks=pytest.mark.slow),
        pytest.param("blocked-gebf-tiny", 50_000, marks=pytest.mark.slow),
        pytest.param("gebf-default", 200_000, marks=pytest.mark.slow),
        # As many results under way as the queue has places for.
        ("apbf-default", 150_000),
    ],
)
def test_check_and_insert_equals_golden(name, count):
    spec = preset(name)
    keys = random_keys(spec, count, few=count // 2)
    golden = from_spec(spec)
    expected = golden.check_and_insert(keys)
    with CompiledUnit(spec) as unit:
        np.testing.assert_array_equal(unit.check_and_insert(keys), expected)
        # One operation per clock but for the clear after reset and the pipeline, filled once.
        overhead = unit.profile.clear_cycles + GENERATION_LEAD + PAUSE
        overhead += unit.profile.latency + 1
        assert count < unit.cycles <= count + overhead
        assert_same_state(unit, golden)


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("apbbf-tiny", "ecp5"),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (("default", "ecp5"), ("small", "ice40"), ("default", "gowin"))
        ),
    ],
)
@pytest.mark.parametrize("inverted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_block_rams_equal_golden(name, memory, inverted):
    """With models that answer with garbage what vendors leave undefined, at random or not."""
    spec = preset(name)
    keys = random_keys(spec, 40_000, few=4 * spec.generation)
    golden = from_spec(spec)
    with CompiledUnit(spec, memory=memory, inverted=inverted) as unit:
        np.testing.assert_array_equal(unit.check_and_insert(keys), golden.check_and_insert(keys))
        assert_same_state(unit, golden)


@pytest.mark.parametrize(
    "key_bits", [104, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (13, 300))]
)
def test_any_key_width(key_bits):
    spec = FilterSpec.from_dict(preset("tiny").to_dict() | {"key_bits": key_bits, "seed": 3})
    keys = random_keys(spec, 20_000, few=500)
    verdicts, _ = replay(spec, keys)
    np.testing.assert_array_equal(verdicts, from_spec(spec).check_and_insert(keys))


@pytest.mark.slow
def test_five_parts_of_a_power_of_two_bits():
    parts = {"block_bits": 5 * 64, "hashes_per_block": 5, "blocks": 1}
    spec = FilterSpec(family="apbbf", k=2, l=2, **parts)
    keys = random_keys(spec, 20_000, few=500)
    verdicts, _ = replay(spec, keys)
    np.testing.assert_array_equal(verdicts, from_spec(spec).check_and_insert(keys))


def test_generation_counts_from_the_next_shift():
    spec = preset("tiny")
    keys = random_keys(spec, 3000)
    golden = from_spec(spec)
    with CompiledUnit(spec) as unit:
        for generation in (spec.generation, 7, unit.profile.minimum_generation, 1):
            golden.generation = generation
            unit.set_generation(generation)
            np.testing.assert_array_equal(
                unit.check_and_insert(keys), golden.check_and_insert(keys)
            )
        assert_same_state(unit, golden)


def test_progress_counts_operations():
    spec = preset("tiny")
    done = []
    replay(spec, random_keys(spec, 150_000), progress=done.append)
    assert sum(done) == 150_000
    assert len(done) == 3


@pytest.mark.slow
def test_words_of_more_than_64_bits():
    """The driver copies wide words in pieces of 64 bits."""
    spec = FilterSpec(family="apbf", k=2, l=2, slice_bits=512, key_bits=16, clear=128)
    keys = random_keys(spec, 5000)
    golden = from_spec(spec)
    golden.check_and_insert(keys)
    with CompiledUnit(spec) as unit:
        unit.check_and_insert(keys)
        assert_same_state(unit, golden)


def test_header_tells_what_a_unit_has():
    one = unit_header(*unit_and_map("siphash-tiny"))
    assert "#define LANES 1\n" in one
    assert "COUNTER(3, shifts)" in one
    assert "#define KEYED\n" in one
    assert "MEMORY(9, lately_unit__DOT__core__DOT__store__DOT__segment4_part1__DOT__words)\n" in one
    several = unit_header(*unit_and_map("two-lanes-tiny"))
    assert "#define LANES 2\n" in several
    assert "COUNTER(3, shifts)" in several
    assert "KEYED" not in several
    assert "MEMORY(29, lately_unit__DOT__shard2__DOT__core" in several


def test_models_are_cached():
    first = compiled_model(*unit_and_map("tiny"))
    written = first.stat().st_mtime_ns
    assert compiled_model(*unit_and_map("tiny")) == first
    assert first.stat().st_mtime_ns == written
    assert first.parent == cache_directory()


def test_model_is_built_once(monkeypatch, tmp_path):
    built = []

    def build(arguments, *, directory, optimisation):
        built.append(directory)
        time.sleep(0.2)
        (directory / "obj_dir" / "model.so").write_bytes(b"model")

    monkeypatch.setenv("LATELY_CACHE", str(tmp_path))
    monkeypatch.setattr(model, "verilate", build)
    with ThreadPoolExecutor() as pool:
        found = set(
            pool.map(compiled_model, *zip(*[unit_and_map("tiny") for _ in range(3)], strict=True))
        )
    assert len(built) == 1
    assert [path.read_bytes() for path in found] == [b"model"]
    assert set((tmp_path / "models").glob("*.*")) == found


def test_missing_compiler_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("LATELY_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"^perl: expected it on PATH to run Verilator, found none"):
        compiled_model(*unit_and_map("tiny"))
    assert not list(tmp_path.rglob("*.so"))


def test_wrong_keys_are_refused():
    with (
        CompiledUnit(preset("tiny")) as unit,
        pytest.raises(ValueError, match=r"keys: must be below 2\*\*8, not 0x100"),
    ):
        unit.check_and_insert([256])


def test_every_preset_is_buildable_or_says_why():
    for spec in PRESETS.values():
        RingProfile.of(spec).check_buildable()


def test_golden_does_not_need_the_simulator():
    code = "import sys, lately.golden; print(sorted({'amaranth', 'cocotb'} & set(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout == "[]\n"


@pytest.mark.slow
def test_all_bits_of_a_secret_count():
    spec = preset("siphash-tiny")
    random = np.random.default_rng(SEED)
    secrets = [1 << bit for bit in (0, 31, 32, 63, 64, 95, 96, 127)]
    secrets += [int.from_bytes(random.bytes(16), "little") for _ in range(4)]
    print(f"seed {SEED}")
    golden = from_spec(spec)
    with CompiledUnit(spec) as unit:
        for secret in secrets:
            golden.rekey(secret)
            unit.rekey(secret)
            keys = random_keys(spec, 500, seed=secret % 1000)
            np.testing.assert_array_equal(
                unit.check_and_insert(keys), golden.check_and_insert(keys)
            )
        assert_same_state(unit, golden)


TIMED = {
    "tiny": {"generation": 16, "window": None, "clear": None},
    "apbf-tiny": {"generation": 16, "window": None, "clear": None},
    "gebf-tiny": {"window": 64, "generation": None, "bits": 384},
    "blocked-gebf-tiny": {"window": 64, "generation": None, "bits": 384},
}

SHORT = {("tiny", "shorten"), ("blocked-gebf-tiny", "overfill")}
"""Those of the default run."""


def timed_stream(spec, count):
    """Operations, keys and times: bursts, equal times, silences up to far more than 32 bits."""
    random = np.random.default_rng(SEED)
    span = spec.span
    steps = random.choice([1, 1, 2, span // 4, span, span + 1, 3 * span, 1 << 40], count)
    chances = np.repeat(random.choice([0.0005, 0.01, 0.1, 0.5], count // 500), 500)
    times = np.cumsum(steps * (random.random(count) < chances))
    operations = random.choice(6, count, p=[0.04, 0.2, 0.2, 0.55, 0.007, 0.003])
    return operations, random_keys(spec, count), times


@pytest.mark.parametrize(
    ("name", "when_full"),
    [
        pytest.param(name, when_full, marks=() if (name, when_full) in SHORT else pytest.mark.slow)
        for name in TIMED
        for when_full in ("shorten", "overfill")
    ],
)
def test_operations_with_times_equal_golden(name, when_full):
    spec = replace(preset(name), span=40, when_full=when_full, **TIMED[name])
    operations, keys, times = timed_stream(spec, 30_000)
    golden = from_spec(spec)
    with CompiledUnit(spec) as unit:
        for part in (slice(0, 9_999), slice(9_999, None)):
            expected = golden.perform(operations[part], keys[part], times[part])
            told = unit.perform(operations[part], keys[part], times[part], pause_after=0.1)
            for name in ("seen", "age", "status"):
                np.testing.assert_array_equal(getattr(told, name), getattr(expected, name))
        assert set(np.unique(expected.status)) >= {0, 1 if when_full == "shorten" else 2}
        assert unit.statistics == {name: getattr(golden, name) for name in unit.statistics}
        assert {"shortened", "overfilled"} <= set(unit.statistics)
        np.testing.assert_array_equal(unit.memory, golden.memory)


def test_longest_span():
    """Silences of the span and one tick more, where times of 32 bits only just tell them apart."""
    span = (1 << 31) - 2
    spec = replace(preset("tiny"), span=span, **TIMED["tiny"])
    times = np.cumsum([0, span, span + 1, 1 << 40, span, 1])
    golden = from_spec(spec)
    with CompiledUnit(spec) as unit:
        expected, told = (one.perform([3] * 6, [5] * 6, times) for one in (golden, unit))
    assert told.seen.tolist() == expected.seen.tolist() == [False, True, False, False, True, True]
    message = r"^span: must be below 2\*\*31 - 1 ticks for simulated units, not 2147483647$"
    with pytest.raises(SpecificationError, match=message):
        CompiledUnit(replace(spec, span=span + 1, generation_span=None))


def test_times_wrong():
    spec = replace(preset("tiny"), span=40, **TIMED["tiny"])
    with CompiledUnit(spec) as unit:
        unit.perform([3], [5], [7])
        with pytest.raises(ValueError, match="timestamps: must never decrease, not 6 after 7"):
            unit.perform([3], [5], [6])
    with (
        CompiledUnit(preset("tiny")) as unit,
        pytest.raises(SpecificationError, match="span: must be given for operations with times"),
    ):
        unit.perform([3], [5], [7])


@pytest.mark.parametrize(
    ("length", "message"),
    [(-1, "generation must be at least 0, not -1"), (32, "generation must be at most 31, not 32")],
)
def test_generation_that_the_port_cannot_hold(length, message):
    unit = CompiledUnit.__new__(CompiledUnit)
    unit.spec = replace(preset("tiny"), generation=8, window=None)
    with pytest.raises(ValueError, match=f"^{message}$"):
        unit.set_generation(length)
