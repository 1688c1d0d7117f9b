"""Compiled units against golden: results, counters and memory, one operation per cycle."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from cases import daily

from lately.golden import (
    FilterSpec,
    Operation,
    SpecificationError,
    WindowDictionarySpec,
    any_preset,
    from_spec,
    preset,
)
from lately.golden.spec.dictionary_sizes import MAX_MOVING_COLUMNS, MOVING, min_columns
from lately.hdl.build import filter_unit
from lately.hdl.dictionary.dictionary_figures import MAX_STALL, STALL_PERIOD, swept_per_row
from lately.hdl.latencies import GENERATION_LEAD, PAUSE
from lately.hdl.memory.map import memory_map
from lately.sim import CompiledUnit, ToolError, compiled_unit, replay
from lately.sim.replay import model
from lately.sim.replay.compiled import compiled_model, unit_counters, unit_header
from lately.sim.replay.model import cache_directory

pytestmark = pytest.mark.rtl

SEED = 411
NONE, QUERY, INSERT, CHECK, SHIFT, CLEAR, REMOVE = (
    Operation[name]
    for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "SHIFT", "CLEAR", "REMOVE")
)  # fmt: skip

CROWDED = WindowDictionarySpec(
    window=30, columns=2, rows=16, digest_bits=7, stash=4, moves=64, key_bits=8, seed=3
)
"""As many cells as digests in the window, or fewer, so that entries always move."""
OVERFULL = replace(CROWDED, window=60, stash=3, digest_bits=8, key_bits=9)
"""Twice as many digests as cells: each cycle pushes, displaces or exchanges something."""
SPECS = {
    "crowded": CROWDED,
    "loaded": replace(CROWDED, window=60, columns=3, rows=32, digest_bits=9, stash=9, key_bits=9,
                      seed=5),
    "overfull": OVERFULL,
    "wide": replace(CROWDED, window=90, columns=4, stash=5, digest_bits=8, key_bits=9),
    "siphash dictionary": replace(any_preset("dictionary-tiny"), hash="siphash"),
    "wide keys": FilterSpec.from_dict(preset("tiny").to_dict() | {"key_bits": 104, "seed": 3}),
    "wider keys": FilterSpec.from_dict(preset("tiny").to_dict() | {"key_bits": 300, "seed": 3}),
    "five parts": FilterSpec(family="apbbf", k=2, l=2, block_bits=5 * 64, hashes_per_block=5,
                             blocks=1),
    # The driver copies wide words in pieces of 64 bits.
    "wide words": FilterSpec(family="apbf", k=2, l=2, slice_bits=512, key_bits=16, clear=128),
    # Clears come within blocks of several insertions.
    "long blocks": replace(any_preset("timing-counted-tiny"), window=21, block=3),
    "overfilled": replace(preset("blocked-gebf-tiny"), window=64, generation=None, bits=384,
                          span=40, when_full="overfill"),
}  # fmt: skip
"""Specifications that are no presets."""
TABLES = replace(any_preset("timing-counted-tiny"), classes=2)

DAILY = [
    ("tiny", "portable"), ("apbf-tiny", "ecp5-inverted"), ("two-lanes-tiny", "portable"),
    ("overfilled", "portable"), ("dictionary-tiny", "ecp5"), ("timing-tiny", "ecp5"),
    ("timing-counted-tiny", "ecp5"),
]  # fmt: skip
LONG = [
    ("gebf-tiny", "portable"), ("siphash-tiny", "portable"), ("timed-tiny", "portable"),
    # The queue has as many places as results are in flight.
    ("apbf-default", "portable"),
    ("blocked-gebf-tiny", "portable"), ("gebf-default", "portable"), ("default", "ecp5"),
    ("default", "gowin-inverted"), ("small", "ice40"), ("small", "ice40-inverted"),
    ("dictionary-1000", "ecp5"), ("dictionary-10000", "ecp5"), ("dictionary-ring-1000", "portable"),
    ("dictionary-ring-10000", "portable"), ("timing-small", "ecp5"),
    *((name, "ecp5") for name in SPECS if name != "overfilled"),
]  # fmt: skip


def opened(name, memory="portable", **options):
    """Compile the unit of a name; models of explicit block RAMs answer with garbage."""
    memory, _, inverted = memory.partition("-")
    spec = SPECS.get(name) or any_preset(name)
    options = {"memory": memory, "inverted": bool(inverted), "optimisation": 0} | options
    return compiled_unit(spec, **options)


def golden_of(spec):
    """The golden model; an exact list of digests where a dictionary with moves may miss a key."""
    return from_spec(replace(spec, stash=256) if getattr(spec, "moves", None) else spec)


def random_keys(spec, count, random, few):
    """Keys of any width, of which only `few` differ."""
    words = -(-spec.key_bits // 64)
    keys = random.integers(0, 1 << 64, (few, words), np.uint64)
    if spec.key_bits % 64:
        keys[:, -1] &= np.uint64((1 << spec.key_bits % 64) - 1)
    keys = keys[random.integers(0, few, count)]
    return keys[:, 0] if words == 1 else keys


def streams(spec, count, *, exclusive=False):
    """Operations, keys and windows by name, with a few exclusive operations: SHIFT and CLEAR."""
    random = np.random.default_rng(SEED)
    codes = [NONE, QUERY, INSERT, *[CHECK] * 3, *[REMOVE] * (spec.kind == "dictionary")]
    codes = random.choice(codes, count).astype(np.uint8)
    positions = np.flatnonzero(random.random(count) < 0.002 * exclusive)
    codes[positions] = random.choice([CLEAR, *[SHIFT] * 4 * (spec.kind == "ring")], len(positions))
    windows = None
    if spec.query_field:
        windows = random.integers(1, spec.window_blocks + 1, count) * spec.block_units
    checks, some = np.full(count, CHECK, np.uint8), 3 * (getattr(spec, "window", None) or 20)
    return {
        "mixed": (codes, random_keys(spec, count, random, some), windows),
        "near": (codes, random_keys(spec, count, random, 12), windows),
        "distinct": (checks, random_keys(spec, count, random, count), windows),
        "two keys": (checks, random_keys(spec, count, random, 2), windows),
    }


def times_of(spec, count):
    """Bursts, equal times, and silences: of the span, one tick more, and over 32 bits."""
    random = np.random.default_rng(SEED)
    steps = random.choice([1, 1, 2, spec.span // 4, spec.span, spec.span + 1, 1 << 40], count)
    rates = np.repeat(random.choice([0.0005, 0.01, 0.1, 0.5], count // 50 + 1), 50)[:count]
    return np.cumsum(steps * (random.random(count) < rates))


def performed(unit, golden, codes, keys, windows, times=None, **pauses):
    """Return the results of a unit and the due ones; ticks come if there are no times."""
    if unit.spec.kind == "timing" and unit.spec.timed and times is None:
        results = unit.perform_freely(codes, keys, windows, **pauses)
        return results, golden.perform(codes, keys, results.time, windows)
    results = unit.perform(codes, keys, times, windows, **pauses)
    return results, golden.perform(codes, keys, times, windows)


def assert_like_golden(unit, golden, codes, keys, windows, times=None, **pauses):
    """Perform operations on both, compare all that they report; return the results and cycles."""
    start = unit.cycles
    spec, ticking = unit.spec, unit.spec.kind == "timing" and unit.spec.timed
    results, due = performed(unit, golden, codes, keys, windows, times, **pauses)
    cycles = unit.cycles - start
    # A unit reports nothing of the cells for a CLEAR.
    compared = codes != CLEAR
    names = ("seen", "age", "status", "oldest")
    if getattr(spec, "moves", None):
        # A status excuses a result that misses its key.
        names, compared = ("seen", "age"), compared & ~((results.status > 0) & ~results.seen)
        assert golden.lost == 0
    else:
        counters = golden.counters
        assert unit.statistics == {name: counters[name] for name in unit.statistics}
        now = unit.ticks if times is None else int(times[-1])
        assert np.array_equal(unit.memory, golden.memory_at(now) if ticking else golden.memory)
    for name in names:
        wrong = (getattr(results, name) != getattr(due, name)) & compared
        assert not wrong.any(), f"{name} at {np.flatnonzero(wrong)[:5]} of {wrong.sum()}"
    assert not results.seen[codes == CLEAR].any()
    return results, cycles


def max_cycles(unit, stream, count):
    """Cycles that `count` operations take at one per cycle."""
    spec, profile = unit.spec, unit.profile
    overhead = getattr(profile, "clear_cycles", 0) + GENERATION_LEAD + PAUSE + profile.latency + 30
    if interval := getattr(profile, "rest_interval", 0):
        return count * interval / (interval - 1) + overhead
    if getattr(spec, "moves", None):
        return count * (1 + MAX_STALL / STALL_PERIOD) * 1.01 + overhead
    if spec.kind == "dictionary":
        # Two keys write the first column alone, whose sweep then takes a cycle for each row. In
        # empty columns the input rests until insertions leave the sweep enough cycles.
        empty = 4 * spec.rows // swept_per_row(spec) ** 2
        return count * (1.15 if stream == "two keys" else 1) + empty + overhead
    return count + overhead


def differs(unit, count):
    """Compare all streams at the full rate; return what differs first, or None."""
    # A ring in time needs more than a cycle for an operation of a later time.
    times = np.zeros(count, np.int64) if unit.spec.timed and unit.spec.kind == "ring" else None
    for stream, operations in streams(unit.spec, count).items():
        unit.reset()
        try:
            _, cycles = assert_like_golden(unit, golden_of(unit.spec), *operations, times)
        except AssertionError as error:
            return f"{stream}: {error}"
        print(f"{stream}: {cycles / count:.4f} cycles an operation")
        if unit.spec.lanes == 1 and cycles > max_cycles(unit, stream, count):
            return f"{stream}: {cycles} cycles"
    return None


@pytest.mark.parametrize(
    ("name", "memory", "count"),
    [*((*case, 5_000) for case in DAILY),
     *(pytest.param(*case, 40_000 if case[0] in SPECS else 300_000, marks=pytest.mark.slow)
       for case in LONG)],
)  # fmt: skip
def test_like_golden(name, memory, count):
    """At one operation per cycle from a reset, and with pauses; stamps of timing filters repeat."""
    with opened(name, memory, optimisation=2 if count > 100_000 else 0) as unit:
        assert list(unit.statistics) == unit_counters(filter_unit(unit.spec, tag_bits=8))
        assert differs(unit, count) is None
        unit.reset()
        operations = streams(unit.spec, count // 5, exclusive=True)["mixed"]
        times = times_of(unit.spec, count // 5) if unit.spec.timed else None
        pauses = {"pause_before": 0.3, "pause_after": 0.5}
        results, _ = assert_like_golden(unit, golden_of(unit.spec), *operations, times, **pauses)
        assert results.seen.any()


@pytest.mark.parametrize(
    ("name", "memory", "protect"),
    [("dictionary-tiny", "ecp5", "parity"),
     *(pytest.param(name, memory, protect, marks=pytest.mark.slow)
       for name, memory in [("tiny", "ecp5"), ("apbf-tiny", "ice40-strict"),
                            ("siphash-tiny", "gowin"), ("two-lanes-tiny", "ecp5"),
                            ("timing-tiny", "ecp5"), ("timing-counted-tiny", "ecp5"),
                            ("dictionary-tiny", "ecp5"), ("crowded", "ecp5")]
       for protect in ("parity", "tmr"))],
)  # fmt: skip
def test_nothing_undefined_counts_as_an_upset(name, memory, protect):
    """Block RAMs answer with garbage where vendors promise nothing, and each copy with its own."""
    spec = SPECS.get(name) or any_preset(name)
    with compiled_unit(spec, memory=memory, protect=protect, optimisation=0) as unit:
        for operations in streams(spec, 2_000, exclusive=True).values():
            unit.reset()
            results, due = performed(unit, golden_of(spec), *operations)
            assert np.array_equal(results.seen[results.status == 0], due.seen[results.status == 0])
            assert unit.statistics["upsets"] == 0


@pytest.mark.parametrize(
    ("name", "memory"),
    daily(2, [("tiny", "portable"), ("timing-tiny", "ecp5"), ("timed-tiny", "portable")]),
)
def test_times_and_progress(name, memory):
    """Silences of any length; progress counts each operation."""
    done = []
    with opened(name, memory, progress=done.append) as unit:
        spec, golden = unit.spec, golden_of(unit.spec)
        if not spec.timed:
            with pytest.raises(SpecificationError, match=r"^span: operations with times need "):
                unit.perform([3], [5], [7])
            assert unit.check_and_insert(np.arange(150_000) % 100).any()
            assert (sum(done), len(done)) == (150_000, 3)
            return
        codes, keys, windows = streams(spec, 3_000, exclusive=True)["near"]
        times = times_of(spec, 3_000)
        for part in (slice(999), slice(999, None)):
            asked = None if windows is None else windows[part]
            before = unit.ticks
            results, _ = assert_like_golden(
                unit, golden, codes[part], keys[part], asked, times[part]
            )
        if spec.kind == "timing":
            # As many ticks as the stream has, less those after which all keys have expired.
            gaps = np.minimum(np.diff(times[part], prepend=times[998]), spec.span + 1)
            assert np.array_equal(results.time, before + np.cumsum(gaps))
        last = int(times[-1])
        with pytest.raises(ValueError, match=r"^times: must not decrease, but 7 follows"):
            unit.perform([3], [5], [7])
        assert unit.perform([3, 1], [5, 5], [last, last]).seen[1]


def test_longest_span():
    """Silences of the span and one tick more, where times of 32 bits only just differ."""
    span = (1 << 31) - 2
    spec = replace(preset("tiny"), span=span, generation=16, window=None, clear=None)
    times = np.cumsum([0, span, span + 1, 1 << 40, span, 1])
    golden = from_spec(spec)
    with compiled_unit(spec, optimisation=0) as unit:
        expected, actual = (player.perform([3] * 6, [5] * 6, times) for player in (golden, unit))
    assert actual.seen.tolist() == expected.seen.tolist() == [False, True, False, False, True, True]
    message = r"^span: must be below 2\*\*31 - 1 ticks for simulated units, not 2147483647$"
    with pytest.raises(SpecificationError, match=message):
        compiled_unit(replace(spec, span=span + 1, generation_span=None))


@pytest.mark.parametrize(
    ("name", "secrets"),
    [("siphash-tiny", (0, 1 << 100)),
     *(pytest.param(name, (1, *(1 << bit for bit in (31, 32, 63, 64, 95, 96, 127))),
                    marks=pytest.mark.slow) for name in ("siphash-tiny", "siphash dictionary"))],
)  # fmt: skip
def test_secrets(name, secrets):
    with opened(name) as unit:
        golden = golden_of(unit.spec)
        for secret in secrets:
            for player in (unit, golden):
                player.rekey(secret)
                player.perform([CLEAR], [0])
            assert_like_golden(unit, golden, *streams(unit.spec, 500)["near"])


@pytest.mark.parametrize("name", daily(1, ["siphash-tiny", "siphash dictionary", "tables"]))
def test_loads_beside_operations(name):
    """A secret or a table comes at the full rate, and applies from one operation on."""
    spec = TABLES if name == "tables" else SPECS.get(name) or any_preset(name)
    with compiled_unit(spec, optimisation=0) as unit:
        random, tables = np.random.default_rng(SEED), spec.query_field == "query_class"
        for number, after in enumerate([0, 1, 2, 3, 4, 5, 6, 7, 100, 200]):
            if number % 2 == 0:
                # The second load of a table fills the bank that answers after the next reset.
                unit.reset()
                unit.idle(2 * unit.profile.longest_pause)
                golden = golden_of(spec)
            codes, keys, windows = streams(spec, 600)["near"]
            codes[random.integers(0, 600, 6)] = CLEAR
            load = {"secret": int(random.integers(1, 1 << 60))}
            if tables:
                windows = random.integers(0, spec.classes, 600)
                load = {"thresholds": random.integers(0, spec.hashes + 2, spec.table_shape)}
            results, applied = unit.perform_beside(codes, keys, windows, after=after, **load)
            assert applied is not None
            assert after <= applied < after + 100
            due = []
            for part in (slice(applied), slice(applied, None)):
                if part.start is not None:
                    (golden.decide_by if tables else golden.rekey)(*load.values())
                asked = None if windows is None else windows[part]
                due += golden.perform(codes[part], keys[part], None, asked).seen.tolist()
            assert np.array_equal(results.seen, due), f"after {after}, from {applied}"
        # If the operations are refused, nothing is loaded later.
        with pytest.raises(TypeError, match="key"):
            unit.perform_beside([CHECK], [1.5], after=0, **{k: 0 * v for k, v in load.items()})
        results, due = (player.perform(codes, keys, None, windows) for player in (unit, golden))
        assert np.array_equal(results.seen, due.seen)


def test_generation_counts_from_the_next_shift():
    keys = np.random.default_rng(SEED).integers(0, 256, 3000)
    with opened("tiny") as unit:
        golden = golden_of(unit.spec)
        for generation in (unit.spec.generation, 7, unit.profile.minimum_generation, 1):
            golden.generation = generation
            unit.set_generation(generation)
            assert_like_golden(unit, golden, np.full(len(keys), CHECK), keys, None)
        for length, rule in ((-1, "at least 0"), (16, "at most 15")):
            with pytest.raises(ValueError, match=f"^generation must be {rule}, not {length}$"):
                unit.set_generation(length)


def test_refusals():
    with opened("dictionary-tiny", "ecp5") as unit:
        with pytest.raises(SpecificationError, match=r"^secret: hash 'h3' has no secret$"):
            unit.rekey(1)
        with pytest.raises(SpecificationError, match=r"^span: operations with times need "):
            unit.perform([3], [5], [7])
        with pytest.raises(ValueError, match=r"^keys: must be below 2\*\*8, not 0x100"):
            unit.check_and_insert([1 << 8])
        with pytest.raises(ValueError, match=r"^windows: must be at most 40, not 41"):
            unit.perform([1], [1], windows=[41])


# Dictionaries with moves


@pytest.mark.slow
@pytest.mark.parametrize("columns", [2, 3, 5, MAX_MOVING_COLUMNS])
def test_columns_as_full_as_they_are_planned_lose_nothing(columns):
    """As many digests as `min_columns` gives so many columns, and hardly a cycle more."""
    rows, count = 256, 400_000
    window = max(
        window
        for window in range(40, rows * columns)
        if min_columns(window, rows, moves=True) == columns
    )
    spec = WindowDictionarySpec(window=window, columns=columns, rows=rows, digest_bits=24, **MOVING)
    unit = compiled_unit(spec, optimisation=1)
    keys = np.random.default_rng(4).integers(0, 1 << 63, count, np.uint64)
    start = unit.cycles
    unit.perform(np.full(count, CHECK), keys)
    print(f"window {window}: {(unit.cycles - start) / count:.5f} cycles, {unit.statistics}")
    assert unit.statistics["lost"] == 0
    assert unit.cycles - start < 1.002 * count


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dictionary-ring-1000", "dictionary-ring-10000"])
def test_random_keys_are_never_lost(name):
    count = 1_000_000
    unit, golden = opened(name, optimisation=2), from_spec(any_preset(name))
    keys = np.random.default_rng(4).integers(0, 1 << 63, count, np.uint64)
    start = unit.cycles
    results, expected = (player.perform(np.full(count, CHECK), keys) for player in (unit, golden))
    assert unit.cycles - start < 1.0002 * count
    assert np.array_equal(results.age, expected.age)
    assert not results.status.any()
    assert unit.statistics["lost"] == golden.lost == 0
    unit.idle(300)
    entries = golden.entries_of(unit.memory)
    assert {*map(tuple, entries.tolist())} == {*map(tuple, golden.entries.tolist())}


@pytest.mark.slow
def test_overfull_cells_cost_few_cycles():
    """240 digests in turn, for which there are 192 cells."""
    count = 200_000
    spec = replace(CROWDED, window=240, columns=3, rows=64, digest_bits=20, stash=16, key_bits=32)
    unit = compiled_unit(spec, optimisation=2)
    start = unit.cycles
    unit.perform(np.full(count, CHECK), np.arange(count) % 240)
    cycles = (unit.cycles - start) / count
    print(f"{cycles:.4f} cycles an operation, {unit.statistics['lost']} given up")
    assert 1 < cycles < (1 + MAX_STALL / STALL_PERIOD) * 1.01
    assert unit.statistics["lost"] > 0


# The compiler and its cache


def unit_and_map(name):
    spec = preset(name)
    return filter_unit(spec, tag_bits=8), memory_map(spec)


def test_header_names_what_a_unit_has():
    header = unit_header(*unit_and_map("siphash-tiny"))
    assert "#define LANES 1\n" in header
    assert "COUNTER(3, shifts)" in header
    assert "#define KEYED\n" in header
    assert (
        "MEMORY(9, lately_unit__DOT__core__DOT__store__DOT__segment4_part1__DOT__words)\n" in header
    )
    several = unit_header(*unit_and_map("two-lanes-tiny"))
    assert "#define LANES 2\n" in several
    assert "COUNTER(3, shifts)" in several
    assert "KEYED" not in several
    assert "MEMORY(29, lately_unit__DOT__shard2__DOT__core" in several


def test_model_is_built_once(monkeypatch, tmp_path):
    """Whether several threads want it at the same time, or a process wants it again."""
    built = []

    def build(arguments, *, directory, optimisation):
        built.append(directory)
        time.sleep(0.2)
        (directory / "obj_dir" / "model.so").write_bytes(b"model")

    monkeypatch.setenv("LATELY_CACHE", str(tmp_path))
    monkeypatch.setattr(model, "verilate", build)
    wanted = [unit_and_map("tiny") for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        libraries = set(pool.map(compiled_model, *zip(*wanted[:3], strict=True)))
    assert libraries == {compiled_model(*wanted[3])}
    assert len(built) == 1
    assert [path.read_bytes() for path in libraries] == [b"model"]
    assert set((tmp_path / "models").glob("*.*")) == libraries
    assert {path.parent for path in libraries} == {cache_directory()}


def test_missing_compiler_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("LATELY_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"^perl not found on PATH; it is needed to run Verilator"):
        compiled_model(*unit_and_map("tiny"))
    assert not list(tmp_path.rglob("*.so"))


def test_replay(monkeypatch):
    monkeypatch.setattr(sys.modules[compiled_model.__module__], "CompiledUnit", fast)
    keys = np.arange(300) % 100
    seen, cycles = replay(preset("tiny"), keys)
    assert seen.tolist() == from_spec(preset("tiny")).check_and_insert(keys).tolist()
    assert cycles > 300


def fast(spec, **options):
    """Compile a unit without optimisation."""
    return CompiledUnit(spec, optimisation=0, **options)


def test_golden_does_not_need_the_simulator():
    code = "import sys, lately.golden; print(sorted({'amaranth', 'cocotb'} & set(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout == "[]\n"
