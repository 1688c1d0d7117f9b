"""Dictionary units against golden, verdict for verdict and cell for cell; memories garble."""

import random
from dataclasses import replace

import pytest
from amaranth.sim import Simulator
from dictionary_bench import Bench
from mutants import broken
from unit_streams import UnitStreams

from lately.golden import (
    Operation,
    SpecificationError,
    WindowDictionary,
    WindowDictionarySpec,
    dictionary_preset,
    preset,
)
from lately.hdl.build import unit_profile
from lately.hdl.dictionary import core, placement, unit
from lately.hdl.dictionary.column import Column
from lately.hdl.dictionary.core import DictionaryCore
from lately.hdl.dictionary.dictionary_figures import (
    ANSWER,
    HAZARDS,
    LATE_ROWS,
    block_rams,
    rows_latency,
    swept_per_row,
)
from lately.hdl.dictionary.placement import Placement
from lately.hdl.dictionary.ring_stash import RingStash
from lately.hdl.dictionary.stash import STASH_HAZARDS, Stash
from lately.hdl.dictionary.unit import DictionaryUnit

NONE, QUERY, INSERT, CHECK, SHIFT, CLEAR, REMOVE = (
    Operation[name]
    for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "SHIFT", "CLEAR", "REMOVE")
)  # fmt: skip
TINY = dictionary_preset("tiny")
CROWDED = WindowDictionarySpec(
    window=20, columns=3, rows=4, digest_bits=6, stash=3, key_bits=8, seed=2
)
"""Few cells, which the digests of 256 keys overfill, and in which operations meet."""


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


def random_spec(choose, seed):
    row_bits = choose.randint(2, 5)
    return WindowDictionarySpec(
        window=choose.choice([16, 17, 40, 100]),
        columns=choose.randint(1, 5),
        rows=1 << row_bits,
        digest_bits=row_bits + choose.choice([2, 3, 5, 9]),
        stash=choose.randint(1, 6),
        key_bits=choose.choice([4, 8, 70]),
        seed=seed,
    )


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
def test_random_operations(seed):
    print("seed", seed)
    choose = random.Random(seed)
    spec = random_spec(choose, seed)
    keys = [choose.randrange(1 << spec.key_bits) for _ in range(choose.choice([2, 5, 20, 100]))]
    operations = stream(
        seed, 600, keys=keys, window=spec.window,
        weights=choose.choice([(1, 2, 4, 6, 2), (0, 0, 0, 1, 0), (0, 1, 1, 1, 1)]),
    )  # fmt: skip
    operations[300], operations[301] = (CLEAR, 0, 1), (SHIFT, 0, 1)
    Bench(spec, seed, idle=(seed % 3) * 0.4, stall=(seed % 2) * 0.5).run(operations)


def test_one_operation_a_clock_whatever_the_mixture():
    operations = stream(5, 1000, keys=range(256), window=40)
    bench = Bench(TINY).run(operations)
    assert bench.clocks - bench.first + 1 == len(operations)
    assert bench.counts == {
        "operations": 1000,
        "insertions": bench.model.insertions,
        "hits": sum(seen for seen, *_ in bench.results),
        "lost": bench.model.lost,
    }
    assert bench.counts["lost"] > 0


def test_undefined_operations_do_nothing():
    """Sums of bits that are performed alone, among them one that has all bits of CLEAR."""
    undefined = [code for code in range(16) if code & SHIFT and code not in (SHIFT, CLEAR)]
    codes = [INSERT, *(each for code in undefined for each in (code, QUERY))]
    streams = UnitStreams(DictionaryUnit(TINY), ("seen",))
    results = streams.run([{"operation": int(code), "key": 5, "window": 40} for code in codes])
    assert results == [(code == QUERY,) for code in codes]


def test_siphash():
    spec = replace(TINY, hash="siphash")
    Bench(spec).run(stream(6, 400, keys=range(40), window=40))


@pytest.mark.parametrize("n", [TINY.window, 33])
def test_ages_at_the_edge_of_the_window(n):
    """Key 0 is seen n - 1 insertions after its own, and no more after n; by windows likewise.

    With a window of 33 the last age has a bit more than all others.
    """
    for between in (n - 1, n):
        operations = [(INSERT, 0, 1), *[(INSERT, 1 + i, 1) for i in range(between)]]
        asked = (n, n - 1)
        operations += [(QUERY, 0, window) for window in asked]
        spec = replace(TINY, window=n, digest_bits=14, rows=64, columns=5)
        bench = Bench(spec).run(operations)
        seen = [seen for seen, *_ in bench.results[-2:]]
        assert seen == [between == n - 1, False]


@pytest.mark.parametrize("first", [INSERT, REMOVE])
@pytest.mark.parametrize("distance", range(1, HAZARDS + 3))
def test_every_distance(distance, first):
    """An operation sees what one that many clocks before does to its digest and to its cells."""
    _, other = sharing(2)
    filler = [(NONE, 7, 1)] * (distance - 1)
    operations = []
    for key in (0, other, other, 0):
        operations += [(INSERT, 0, 1)] * (first == REMOVE) + [(NONE, 0, 1)] * 12
        operations += [(first, 0, 1), *filler, (CHECK, key, 20), *filler, (CHECK, key, 20)]
        operations += [*filler, (REMOVE, key, 1), *filler, (CHECK, 0, 20), (CHECK, other, 20)]
    Bench(CROWDED).run(operations)


def sharing(count):
    """Keys of different digests that share their cells in the first column."""
    model = WindowDictionary.from_spec(CROWDED)
    digests, _, places = model._digests(model._hash.check_keys(list(range(256))))
    found = {}
    for key in range(256):
        if places[key][0] == places[0][0]:
            found.setdefault(int(digests[key]), key)
    return [*found.values()][:count]


@pytest.mark.parametrize("distance", range(1, HAZARDS + 3))
def test_removed_and_inserted_elsewhere(distance):
    """Nothing is left of what was removed, though an insertion follows that takes another cell."""
    operations = removal(distance)
    bench = Bench(CROWDED).run(operations)
    assert [bench.results[at][0] for at in (-1, -18)] == [False, True]


def removal(distance):
    """Remove a key from the second column and insert it so many clocks later, then again."""
    first, second = sharing(2)
    pause = [(NONE, 0, 1)] * 15
    operations = [(INSERT, first, 1), (INSERT, second, 1), (REMOVE, first, 1), *pause]
    operations += [(REMOVE, second, 1), *pause[1:distance], (CHECK, second, 20), *pause]
    return [*operations, (QUERY, second, 20), (REMOVE, second, 1), *pause, (QUERY, second, 20)]


def test_full_stash_tells_what_is_lost():
    operations = [(CHECK, key, 20) for key in range(60)]
    bench = Bench(CROWDED).run(operations)
    assert bench.counts["lost"] == bench.model.lost > 5
    assert any(status for *_, status in bench.results)
    # Once the lost would have expired, the whole window is guaranteed again.
    again = [*operations, *[(CHECK, key % 2, 20) for key in range(40)]]
    bench = Bench(CROWDED).run(again)
    assert bench.model.guaranteed_window == 20
    assert not bench.results[-1][2]


ROOMY = replace(CROWDED, rows=8, digest_bits=9)


def quiet_times():
    """Insertions of many keys, then of four for most of the timestamps that there are."""
    choose = random.Random(3)
    operations = []
    for _ in range(4):
        operations += [(INSERT, choose.randrange(256), 1) for _ in range(20)]
        operations += [(CHECK, choose.randrange(4), 20) for _ in range(486)]
        operations += [(QUERY, key, 20) for key in range(0, 256, 5)]
    return operations


def test_timestamps_repeat():
    """Entries that nobody touches are erased before they seem young."""
    assert ROOMY.timestamp_bits == 9
    Bench(ROOMY).run(quiet_times())


def in_one_column(spec, count):
    """Keys whose digests all have cells of their own in the first column."""
    model = WindowDictionary.from_spec(spec)
    _, _, places = model._digests(model._hash.check_keys(list(range(1 << spec.key_bits))))
    chosen = {}
    for key, cells in enumerate(places.tolist()):
        chosen.setdefault(cells[0], key)
    return [*chosen.values()][:count]


def test_hits_in_one_column_leave_clocks_to_its_sweep():
    """The input rests one clock a row that is due, and no timestamp seems young."""
    spec = replace(TINY, rows=32, digest_bits=12)
    keys = in_one_column(spec, 25)
    operations = [(CHECK, keys[i % 25], 40) for i in range(1500)]
    bench = Bench(spec).run(operations)
    clocks = bench.clocks - bench.first + 1
    most = len(operations) * (1 + 1.2 / swept_per_row(spec)) + 100
    print(f"{len(operations)} operations in {clocks} clocks, {swept_per_row(spec)} to a row")
    assert len(operations) < clocks <= most
    assert all(seen for seen, *_ in bench.results[25:])


# Without its cure, every hazard is found

NEAR = [
    stream(11, 700, keys=range(24), window=20),
    stream(12, 700, keys=range(200), window=20, weights=(0, 1, 2, 4, 0)),
]
"""Keys that come again at once, and digests in each other's cells."""


def wrong(monkeypatch, component, old, new, spec=CROWDED, operations=None):
    """Whether a stream tells the defective component from golden."""
    home = unit if component is DictionaryCore else core
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
        (Placement, "mine = acts & self.same[distance - 1]", "mine = acts & 0"),
        # The cells that one fills, or empties.
        (Placement, "& ~(fills & rows)),", "),"),
        (Placement, "(state.free | (empties & rows))", "state.free"),
        # The one that writes in the very clock in which another reads.
        (Placement, "state = self._told(m, layout.const({}), HAZARDS, told_before)",
                    "state = layout.const({})"),
        # What was read of a cell that was written since.
        (Placement, "(self.free & ~state.written)", "self.free"),
        # An erasure that an operation forestalls.
        (Column, "erase.eq(flight[-1] & expired & ~touched)", "erase.eq(flight[-1] & expired)"),
        # Digests that come to the stash, and leave it, while another is looked for.
        (Stash, "return (match & ~changed) |", "return match |"),
        (Stash, "found.eq(self._told(equal,", "found.eq((lambda match, *_: match)(equal,"),
        (Stash, "found = self._told(found,", "found = (lambda match, *_: match)(found,"),
        (Stash, "_match.eq(self._told(found,", "_match.eq((lambda match, *_: match)(found,"),
    ],
)  # fmt: skip
def test_defect_is_found(monkeypatch, component, old, new):
    assert wrong(monkeypatch, component, old, new)


def test_sweep_left_out_is_found(monkeypatch):
    old = "erase.eq(flight[-1] & expired & ~touched)"
    assert wrong(monkeypatch, Column, old, "erase.eq(0)", ROOMY, [quiet_times()])


def test_removal_that_is_absorbed_is_found(monkeypatch):
    old = "(placement.fills & ~absorbed) | placement.empties"
    new = "(placement.fills | placement.empties) & ~absorbed"
    assert wrong(monkeypatch, DictionaryCore, old, new, operations=[removal(1)])


def test_garbage_is_found(monkeypatch):
    """Of a cell that is read while it is written, where it often looks like an entry."""
    spec = replace(CROWDED, window=100, digest_bits=3)
    operations = stream(13, 600, keys=range(100), window=100, weights=(0, 2, 2, 2, 4))
    Bench(spec).run(operations)
    old, new = "used.eq(cell.used & ~met)", "used.eq(cell.used)"
    assert wrong(monkeypatch, Column, old, new, spec, [operations])


def test_expired_entry_that_counts_as_lost_is_found(monkeypatch):
    """It is displaced by the very insertion with which it expires."""
    spec = replace(CROWDED, columns=1, stash=1)
    kept, first, second = sharing(3)
    operations = [(INSERT, key, 1) for key in (kept, first, *[kept] * 19, second)]
    assert Bench(spec).run(operations).model.lost == 0
    assert Bench(spec).run([*operations[:-2], operations[-1]]).model.lost == 1
    old, new = "self.lost.eq(later & (gone < self._spec.window))", "self.lost.eq(later)"
    assert wrong(monkeypatch, Stash, old, new, spec, [operations])


def test_stash_that_keeps_expired_entries_is_found(monkeypatch):
    """They seem young when timestamps repeat."""
    spec = replace(CROWDED, columns=1, rows=2, digest_bits=7, stash=4)
    once = [(INSERT, key, 20) for key in range(40, 48)]
    quiet = [(CHECK, key % 2, 20) for key in range(510)]
    operations = (once + quiet + [(QUERY, key, 20) for key in range(40, 48)]) * 4
    Bench(spec).run(operations)
    old = "((self._valid & ~self._taken & ~expired) | self._written)"
    new = "((self._valid & ~self._taken) | self._written)"
    assert wrong(monkeypatch, Stash, old, new, spec, [operations])


# Figures and parameters


def test_figures():
    assert [block_rams(dictionary_preset(name)) for name in ("1000", "10000")] == [10, 30]
    for name, period in (("tiny", 13), ("1000", 14), ("10000", 10)):
        spec = dictionary_preset(name)
        assert swept_per_row(spec) == period
        # The window, a sweep, and rows and operations by which it may be late.
        late = 2 * LATE_ROWS * period + 32
        assert late <= 256
        assert spec.window + period * spec.rows + late <= 1 << spec.timestamp_bits


@pytest.mark.parametrize("levels", [1, 2])
def test_latency(levels):
    built = DictionaryUnit(TINY, levels=levels)
    # The window counts insertions, and so there are no ticks.
    assert unit_profile(TINY, levels=levels).least_period == 0
    assert built.latency == rows_latency(TINY, levels=levels) + ANSWER + 2
    assert DictionaryCore(spec=TINY, levels=levels).latency == built.latency - 2


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: DictionaryUnit(replace(TINY, window=15)), SpecificationError,
         "window: must be at least 16 in hardware, where 8 operations are under way, not 15"),
        (lambda: DictionaryUnit(replace(TINY, rows=1 << 15, digest_bits=20), memory="ecp5"),
         SpecificationError,
         "rows: must be at most 16384 for ecp5, the bits of a block RAM, not 32768"),
        (lambda: block_rams(replace(TINY, rows=1 << 15, digest_bits=20)), SpecificationError,
         "rows: must be at most 16384 for ecp5, the bits of a block RAM, not 32768"),
        (lambda: DictionaryUnit(preset("apbf-tiny")), SpecificationError,
         "family: must be window-dictionary for a DictionaryUnit, not 'apbf'"),
        (lambda: DictionaryUnit(TINY, memory="sram"), ValueError,
         "Memory must be one of portable, ecp5, not 'sram'"),
        (lambda: DictionaryUnit(TINY, statistics_bits=0), ValueError,
         "Statistics bits must be at least 1, not 0"),
    ],
)  # fmt: skip
def test_parameters_wrong(build, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        build()


def test_numbers_under_way_differ():
    assert HAZARDS < 1 << placement.NEAR_BITS


# The stash by itself, at the exact insertion


def in_stash(part, spec, bench):
    """Return what a `bench` sees of a stash: it gets the context and the stash."""
    stash, seen = part(spec=spec), []

    async def run(ctx):
        seen.append(await bench(ctx, stash))

    simulator = Simulator(stash)
    simulator.add_clock(1e-6)
    simulator.add_testbench(run)
    simulator.run()
    return seen[0]


async def push(ctx, stash, digest, number):
    """Push a digest; return whether that gave up an entry."""
    ctx.set(stash.asked, digest)
    await ctx.tick().repeat(STASH_HAZARDS)
    ctx.set(stash.digest, digest)
    ctx.set(stash.number, number)
    ctx.set(stash.push, 1)
    await ctx.tick()
    ctx.set(stash.push, 0)
    await ctx.tick().repeat(2)
    return ctx.get(stash.lost)


STASHES = [(Stash, "tiny"), (RingStash, "ring-tiny")]


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize(("part", "name"), STASHES)
def test_an_entry_of_the_stash_lives_for_exactly_the_window(part, name, beyond):
    """However long no insertion comes."""
    spec = dictionary_preset(name)

    async def bench(ctx, stash):
        await ctx.tick().repeat(40)
        await push(ctx, stash, 5, 9)
        ctx.set(stash.number, 9 + spec.window + beyond)
        ctx.set(stash.asked, 5)
        await ctx.tick().repeat(40 * spec.stash)
        return ctx.get(stash.hit)

    assert in_stash(part, spec, bench) == (beyond == 0)


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize(("part", "name"), STASHES)
def test_a_displaced_entry_is_lost_if_the_next_operation_could_report_it(part, name, before):
    """Not one whose window ends with the insertion that displaces it."""
    spec = dictionary_preset(name)

    async def bench(ctx, stash):
        await ctx.tick().repeat(40)
        for digest in range(spec.stash):
            assert not await push(ctx, stash, digest, 9)
            await ctx.tick().repeat(40)
        return await push(ctx, stash, spec.stash, 9 + spec.window - before)

    assert in_stash(part, spec, bench) == before


def test_a_clear_makes_the_window_whole():
    fill = [(INSERT, key, 1) for key in range(60)]
    asked = [(QUERY, key, CROWDED.window) for key in range(6)]
    bench = Bench(CROWDED).run([*fill, *asked, (CLEAR, 0, 1), *asked])
    assert [short for *_, short in bench.results[-13:]] == [1] * 6 + [0] * 7
