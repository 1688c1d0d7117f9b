"""Dictionary units with moves against an exact list of digests; memories garble."""

import random
from dataclasses import replace

import pytest
from garbage_memory import GarbageMemory
from ring_bench import RingBench
from unit_streams import UnitStreams

from lately.golden import (
    Operation,
    SpecificationError,
    WindowDictionary,
    WindowDictionarySpec,
    dictionary_preset,
)
from lately.hdl.build import unit_profile
from lately.hdl.dictionary.dictionary_figures import (
    HAZARDS,
    PATIENCE,
    RECOVERY,
    block_rams,
    crowded_stash,
)
from lately.hdl.dictionary.ring_column import EARLIEST, WATCHED
from lately.hdl.dictionary.unit import DictionaryUnit

NONE, QUERY, INSERT, CHECK, CLEAR, REMOVE = (
    Operation[name]
    for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "CLEAR", "REMOVE")
)  # fmt: skip
TINY = dictionary_preset("ring-tiny")
CROWDED = WindowDictionarySpec(
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


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, *range(2, 24)))]
)
def test_random_operations(seed):
    print("seed", seed)
    choose = random.Random(seed)
    row_bits, columns = choose.randint(2, 6), choose.randint(2, 4)
    spec = WindowDictionarySpec(
        window=choose.choice([16, 17, 40, 100]),
        columns=columns,
        rows=1 << row_bits,
        digest_bits=row_bits + choose.choice([2, 3, 5, 9]),
        stash=columns + choose.randint(1, 6),
        moves=64,
        key_bits=choose.choice([4, 8, 70]),
        seed=seed,
    )
    keys = [choose.randrange(1 << spec.key_bits) for _ in range(choose.choice([5, 20, 200]))]
    operations = stream(
        seed, 400, keys=keys, window=spec.window,
        weights=choose.choice([(1, 2, 4, 6, 2), (0, 0, 0, 1, 0), (0, 1, 1, 1, 1)]),
    )  # fmt: skip
    operations[300], operations[301] = (CLEAR, 0, 1), (Operation.SHIFT, 0, 1)
    bench = RingBench(spec, seed, idle=(seed % 3) * 0.4, stall=(seed % 2) * 0.5).run(operations)
    print(spec, bench.counts, bench.clocks)


def test_one_operation_a_clock_and_nothing_lost():
    """With as many distinct keys as the window has, which find no cell without moves."""
    keys = random.Random(4).sample(range(512), 300)
    operations = [(CHECK, key, 40) for key in keys]
    bench = RingBench(TINY).run(operations)
    assert bench.clocks - bench.first + 1 == len(operations)
    assert bench.counts["lost"] == 0
    still = WindowDictionary.from_spec(replace(TINY, moves=None))
    still.insert(keys)
    assert still.stash_peak > 0


OVERFULL = replace(CROWDED, window=60, stash=3, digest_bits=8, key_bits=9)
"""Twice as many digests as cells: in every clock something is pushed, displaced or exchanged."""


def recent(seed, count, *, keys, window):
    """Insertions, and queries of what has just been inserted, by windows that just hold it."""
    choose = random.Random(seed)
    operations, inserted = [], []
    for _ in range(count):
        if choose.random() < 0.6:
            inserted.append(choose.choice(keys))
            operations.append((INSERT, inserted[-1], 1))
        elif inserted:
            age = choose.randrange(min(8, len(inserted)))
            operations.append((QUERY, inserted[-1 - age], min(window, age + 1)))
    return operations


WIDE = replace(CROWDED, window=90, columns=4, stash=5, digest_bits=8, key_bits=9)
STREAMS = {
    "repeats": (CROWDED, stream(11, 600, keys=range(24), window=30), 0),
    "removals": (CROWDED, stream(13, 600, keys=range(40), window=30, weights=(0, 1, 2, 1, 1)), 0),
    "many": (CROWDED, stream(24, 1500, keys=range(60), window=30, weights=(0, 1, 2, 3, 1)), 0),
    "overfull": (
        OVERFULL,
        stream(21, 1500, keys=range(300), window=60, weights=(0, 1, 2, 3, 0)),
        0,
    ),
    "pauses": (CROWDED, stream(40, 1500, keys=range(40), window=30, weights=(0, 1, 2, 3, 0)), 0.3),
    "steady": (CROWDED, stream(46, 1500, keys=range(40), window=30, weights=(0, 1, 2, 3, 0)), 0),
    "recent": (WIDE, recent(33, 3000, keys=range(400), window=90), 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_streams(name):
    spec, operations, idle = STREAMS[name]
    RingBench(spec, idle=idle).run(operations)


@pytest.mark.parametrize("clears", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_clear_while_entries_move(clears):
    operations = []
    for seed in range(clears):
        operations += stream(seed, 50 + seed, keys=range(200), window=30, weights=(0, 0, 1, 3, 0))
        operations += [(CLEAR, 0, 1)]
    asked = range(0, 200, 1 if clears > 1 else 3)
    operations += [(QUERY, key, 30) for key in asked]
    bench = RingBench(CROWDED).run(operations)
    assert not any(seen for seen, *_ in bench.results[-len(asked) :])


def test_input_rests_for_some_clocks_while_little_room_is_left():
    """Overfull for good, the unit goes on, gives entries up and says so."""
    keys = random.Random(8).sample(range(512), 200)
    bench = RingBench(OVERFULL).run([(CHECK, key, 60) for key in keys])
    rested = bench.clocks - bench.first + 1 - len(keys)
    assert bench.clocks < RECOVERY
    print(f"rested {rested} clocks, lost {bench.counts['lost']}")
    assert PATIENCE // 2 <= rested <= PATIENCE
    assert bench.counts["lost"] > 0
    assert any(status for *_, status in bench.results)


@pytest.mark.parametrize("protect", ["none", "parity"])
def test_no_entry_stays_in_the_stash(protect):
    """Whatever its place, where a column has room for it."""
    seed = 5
    print("seed", seed)
    choose = random.Random(seed)
    unit = DictionaryUnit(replace(CROWDED, window=16), memory=GarbageMemory, protect=protect)
    waiting = unit._core.stash._valid
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


# Figures and parameters


def test_figures():
    assert EARLIEST >= WATCHED + HAZARDS
    assert [block_rams(dictionary_preset(f"ring-{name}")) for name in (1000, 10000)] == [6, 24]
    assert unit_profile(TINY).latency == DictionaryUnit(TINY).latency
    assert [crowded_stash(replace(TINY, stash=stash)) for stash in (4, 5, 16)] == [3, 4, 12]


def test_stash_wrong():
    message = (
        "stash: must be at least 4 in hardware with moves, as each of 3 columns may hold a place, "
        "not 3"
    )
    with pytest.raises(SpecificationError, match=f"^{message}$"):
        DictionaryUnit(replace(TINY, stash=3))
    DictionaryUnit(replace(TINY, stash=4))
