"""Dictionary units against golden, verdict for verdict and cell for cell; memories garble."""

import random
from dataclasses import replace

import pytest
from amaranth.sim import Simulator
from dictionary_bench import Bench
from garbage_memory import GarbageMemory
from mutants import broken
from ring_bench import RingBench
from unit_streams import UnitStreams

from lately.golden import (
    Operation,
    SpecificationError,
    WindowDictionary,
    WindowDictionarySpec,
    dictionary_preset,
)
from lately.hdl.build import filter_unit, unit_profile
from lately.hdl.dictionary import column, core
from lately.hdl.dictionary.column import Column
from lately.hdl.dictionary.core import DictionaryCore
from lately.hdl.dictionary.dictionary_figures import (
    ANSWER,
    EARLIEST,
    HAZARDS,
    SWEEP_BACKLOG,
    WATCHED,
    crowded_stash,
    rows_latency,
    swept_per_row,
)
from lately.hdl.dictionary.placement import NEAR_BITS, Placement
from lately.hdl.dictionary.stash import STASH_HAZARDS, Stash
from lately.hdl.dictionary.sweep import Sweep
from lately.hdl.dictionary.verdict import Guarantee

NONE, QUERY, INSERT, CHECK, SHIFT, CLEAR, REMOVE = (
    Operation[name]
    for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "SHIFT", "CLEAR", "REMOVE")
)  # fmt: skip
TINY, MOVING = dictionary_preset("tiny"), dictionary_preset("ring-tiny")
CROWDED = WindowDictionarySpec(
    window=20, columns=3, rows=4, digest_bits=6, stash=3, key_bits=8, seed=2
)
"""Few cells, which the digests of 256 keys overfill, and in which operations meet."""
CROWDED_RING = WindowDictionarySpec(
    window=30, columns=2, rows=16, digest_bits=7, stash=4, moves=64, key_bits=8, seed=3
)
"""As many cells as digests in the window, or fewer, so that entries are always on their way."""


def stream(seed, count, *, keys, window, weights=(1, 2, 4, 6, 2)):
    choose = random.Random(seed)
    return [
        (
            choose.choices((NONE, QUERY, INSERT, CHECK, REMOVE), weights)[0],
            choose.choice(keys),
            choose.randint(1, window),
        )
        for _ in range(count)
    ]


def random_spec(choose, seed, moves):
    row_bits = choose.randint(2, 5)
    columns = choose.randint(2 if moves else 1, 5)
    return WindowDictionarySpec(
        window=choose.choice([16, 17, 40, 100]),
        columns=columns,
        rows=1 << row_bits,
        digest_bits=row_bits + choose.choice([2, 3, 5, 9]),
        stash=choose.randint(1, 6) + (columns if moves else 0),
        moves=moves,
        key_bits=choose.choice([4, 8, 70]),
        seed=seed,
    )


@pytest.mark.parametrize(
    ("moves", "seed"),
    [
        (None, 0),
        (None, 1),
        (64, 1),
        *(pytest.param(moves, seed, marks=pytest.mark.slow)
          for moves in (None, 64) for seed in range(2, 8)),
    ],
)  # fmt: skip
def test_random_operations(moves, seed):
    print("seed", seed)
    choose = random.Random(seed)
    spec = random_spec(choose, seed, moves)
    keys = [choose.randrange(1 << spec.key_bits) for _ in range(choose.choice([2, 5, 20, 100]))]
    operations = stream(
        seed, 600, keys=keys, window=spec.window,
        weights=choose.choice([(1, 2, 4, 6, 2), (0, 0, 0, 1, 0), (0, 1, 1, 1, 1)]),
    )  # fmt: skip
    operations[300], operations[301] = (CLEAR, 0, 1), (SHIFT, 0, 1)
    bench = RingBench if moves else Bench
    bench(spec, seed, idle=(seed % 3) * 0.4, stall=(seed % 2) * 0.5).run(operations)


@pytest.mark.parametrize("protect", ["none", "parity"])
def test_no_entry_stays_in_the_stash(protect):
    """Whatever its place, where a column has room for it."""
    seed = 5
    print("seed", seed)
    choose = random.Random(seed)
    spec = replace(CROWDED_RING, window=16)
    unit = filter_unit(spec, memory=GarbageMemory, protect=protect)
    waiting = unit.core.stash.valid
    used, left = [], []

    async def watch(ctx):
        async for *_, now in ctx.tick().sample(waiting):
            used.append(now.bit_length())

    requests = []
    for _ in range(4):
        keys = choose.sample(range(256), 12)
        operations = [*((INSERT, key) for key in keys), *[(NONE, 0)] * 200]
        requests += [{"operation": int(code), "key": key} for code, key in operations]
    streams = UnitStreams(unit, ("seen",))
    streams.run(requests, watch, finish=lambda ctx: left.append(ctx.get(waiting)))
    assert max(used) > 1
    assert left == [0]


def sharing(count):
    """Keys of different digests that share their cells in the first column."""
    model = WindowDictionary.from_spec(CROWDED)
    digests, _, places = model._digests(model._hash.check_keys(list(range(256))))
    found = {}
    for key in range(256):
        if places[key][0] == places[0][0]:
            found.setdefault(int(digests[key]), key)
    return [*found.values()][:count]


def removal(distance):
    """Remove a key from the second column and insert it that many cycles later, then again."""
    first, second = sharing(2)
    pause = [(NONE, 0, 1)] * 15
    operations = [(INSERT, first, 1), (INSERT, second, 1), (REMOVE, first, 1), *pause]
    operations += [(REMOVE, second, 1), *pause[1:distance], (CHECK, second, 20), *pause]
    return [*operations, (QUERY, second, 20), (REMOVE, second, 1), *pause, (QUERY, second, 20)]


# Without its cure, every hazard is found

HOMES = {Column: core, Placement: core, Stash: core, Sweep: column}
"""Modules that build a component."""

NEAR = [
    stream(11, 700, keys=range(24), window=20),
    stream(12, 700, keys=range(200), window=20, weights=(0, 1, 2, 4, 0)),
]
"""Keys that come again at once, and digests in each other's cells."""


def wrong(monkeypatch, component, old, new, spec=CROWDED, operations=None):
    """Return whether a stream finds the defect of a component."""
    home = HOMES[component]
    monkeypatch.setattr(home, component.__name__, broken(component, old, new))
    for each in operations or NEAR:
        try:
            Bench(spec).run(each)
        except AssertionError as error:
            print(str(error)[:200])
            return True
    return False


def test_streams_are_right_without_a_defect():
    for operations in NEAR:
        Bench(CROWDED).run(operations)


@pytest.mark.parametrize(
    ("component", "old", "new"),
    [
        # The digest of an operation under way.
        (Placement, "mine = acts & self._same.at(stage).value[distance - 1]", "mine = acts & 0"),
        # The cells that one fills, or empties.
        (Placement, "& ~(fills & rows)),", "),"),
        (Placement, "(state.free | (empties & rows))", "state.free"),
        # An operation that writes in the very cycle in which another reads.
        (Placement, "state = self._informed(m, state, HAZARDS, reports_before)", "pass"),
        # What was read of a cell that was written since.
        (Placement, "(self.free & ~state.written)", "self.free"),
        # An erasure that an operation forestalls.
        (Sweep, "pending & ~self._elaborate_cancelled(m, start)", "pending"),
        # Digests that come to the stash, and leave it, while another is looked for.
        (Stash, "return (match & ~changed) |", "return match |"),
        (Stash, "same.at(1).value[2])", "Const(0))"),
        (Stash, "same.at(2).value[1])", "Const(0))"),
        (Stash, "same.at(2).value[0])", "Const(0))"),
        # A removal that the operation behind it seems to absorb.
        (Placement, "(self._fills & ~absorbed) | self._empties",
                    "(self._fills | self._empties) & ~absorbed"),
    ],
)  # fmt: skip
def test_defect_is_found(monkeypatch, component, old, new):
    assert wrong(monkeypatch, component, old, new, operations=[*NEAR, removal(1)])


def test_garbage_is_found(monkeypatch):
    """Of a cell that is read while it is written, where it often looks like an entry."""
    spec = replace(CROWDED, window=100, digest_bits=3)
    operations = stream(13, 600, keys=range(100), window=100, weights=(0, 2, 2, 2, 4))
    Bench(spec).run(operations)
    old, new = 'cell.used & ~met, "used")', 'cell.used, "used")'
    assert wrong(monkeypatch, Column, old, new, spec, [operations])


# Figures and parameters


def test_figures():
    assert EARLIEST >= WATCHED + HAZARDS
    assert [crowded_stash(replace(MOVING, stash=stash)) for stash in (4, 5, 16)] == [3, 4, 12]
    names = ("1000", "10000", "ring-1000", "ring-10000")
    profiles = [unit_profile(dictionary_preset(name)) for name in names]
    assert [profile.block_rams for profile in profiles] == [10, 30, 6, 24]
    for name, period in (("tiny", 13), ("1000", 14), ("10000", 10)):
        spec = dictionary_preset(name)
        assert swept_per_row(spec) == period
        # The window, a sweep, and rows and operations by which it may be late.
        late = 2 * SWEEP_BACKLOG * period + 32
        assert late <= 256
        assert spec.window + period * spec.rows + late <= 1 << spec.timestamp_bits


@pytest.mark.parametrize("levels", [1, 2])
def test_latency(levels):
    built = filter_unit(TINY, levels=levels)
    # The window counts insertions, and so there are no ticks.
    assert unit_profile(TINY, levels=levels).least_period == 0
    assert built.latency == rows_latency(TINY, levels=levels) + ANSWER + 2
    assert DictionaryCore(spec=TINY, levels=levels).latency == built.latency - 2
    for spec in (TINY, MOVING):
        unit = filter_unit(spec, levels=levels)
        assert unit_profile(spec, levels=levels).latency == unit.latency


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: filter_unit(replace(TINY, window=15)), SpecificationError,
         "window: must be at least 16 in hardware, where 8 operations are under way, not 15"),
        (lambda: filter_unit(replace(TINY, rows=1 << 15, digest_bits=20), memory="ecp5"),
         SpecificationError,
         "rows: must be at most 16384 for ecp5, the bits of a block RAM, not 32768"),
        (lambda: unit_profile(replace(TINY, rows=1 << 15, digest_bits=20)).block_rams,
         SpecificationError,
         "rows: must be at most 16384 for ecp5, the bits of a block RAM, not 32768"),
        (lambda: filter_unit(TINY, memory="sram"), SpecificationError,
         "memory: must be portable or ecp5 for family window-dictionary, not 'sram'"),
        (lambda: filter_unit(replace(MOVING, stash=3)), SpecificationError,
         "stash: must be at least 4 in hardware with moves, as each of 3 columns may hold a place, "
         "not 3"),
    ],
)  # fmt: skip
def test_parameters_wrong(build, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        build()


def test_numbers_under_way_differ():
    assert HAZARDS < 1 << NEAR_BITS


# Components by themselves, at the exact insertion


def beside(component, bench):
    """Return the result of a `bench`, which gets the context and the component."""
    seen = []

    async def run(ctx):
        await ctx.tick().repeat(40)
        seen.append(await bench(ctx, component))

    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(run)
    simulator.run()
    return seen[0]


async def push(ctx, stash, digest, number, *, pause=3):
    """Push a digest; return whether that gave up an entry, if the pause is 3 cycles."""
    ctx.set(stash.digest, digest)
    ctx.set(stash.number, number)
    await ctx.tick().repeat(STASH_HAZARDS)
    ctx.set(stash.push, 1)
    await ctx.tick()
    ctx.set(stash.push, 0)
    await ctx.tick().repeat(pause - 1)
    return ctx.get(stash.lost)


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("name", ["tiny", "ring-tiny"])
def test_an_entry_of_the_stash_lives_for_exactly_the_window(name, beyond):
    """However long no insertion comes."""
    spec = dictionary_preset(name)

    async def bench(ctx, stash):
        await push(ctx, stash, 5, 9)
        ctx.set(stash.number, 9 + spec.window + beyond)
        await ctx.tick().repeat(40 * spec.stash)
        return ctx.get(stash.hit)

    assert beside(Stash(spec=spec), bench) == (beyond == 0)


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("name", ["tiny", "ring-tiny"])
def test_a_displaced_entry_is_lost_if_the_next_operation_could_report_it(name, before):
    """Not one whose window ends with the insertion that displaces it."""
    spec = dictionary_preset(name)

    async def bench(ctx, stash):
        for digest in range(spec.stash):
            assert not await push(ctx, stash, digest, 9)
            await ctx.tick().repeat(40)
        return await push(ctx, stash, spec.stash, 9 + spec.window - before)

    assert beside(Stash(spec=spec), bench) == before


@pytest.mark.parametrize("name", ["tiny", "ring-tiny"])
def test_pushes_in_a_row_take_free_places(name):
    """At any distances: nothing is lost before all places are used."""
    choose = random.Random(1)
    spec = dictionary_preset(name)

    async def bench(ctx, stash):
        async def cycle(*, push=0, clear=0):
            # No digest comes twice.
            ctx.set(stash.digest, ctx.get(stash.digest) + 1)
            ctx.set(stash.push, push)
            ctx.set(stash.clear, clear)
            await ctx.tick()
            return ctx.get(stash.lost)

        for _ in range(8):
            lost = 0
            for place in range(spec.stash + 1):
                pause = 4 if place >= spec.stash - 1 else choose.choice([0, 0, 1, 2, 3])
                lost += await cycle(push=1)
                for _ in range(pause):
                    lost += await cycle()
                assert lost == (place == spec.stash)
            await cycle(clear=1)
            for _ in range(choose.randrange(6, 16)):
                await cycle()

    beside(Stash(spec=spec), bench)


def test_a_clear_makes_the_window_whole():
    async def bench(ctx, guarantee):
        ctx.set(guarantee.asked, 20)
        ctx.set(guarantee.lost_distance, 3)
        short = []
        for name in ("lost", "clear"):
            ctx.set(getattr(guarantee, name), 1)
            await ctx.tick()
            ctx.set(getattr(guarantee, name), 0)
            await ctx.tick().repeat(3)
            short.append((ctx.get(guarantee.short), ctx.get(guarantee.guaranteed)))
        return short

    assert beside(Guarantee(window=20, bits=9), bench) == [(1, 3), (0, 20)]
