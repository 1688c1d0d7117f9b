"""Components of multi-lane units, and whole units against the golden model."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import data
from amaranth.lib.memory import Memory
from cases import daily
from simulation import simulate

from campaigns.speed import drawn_streams, lane_points, run_lanes
from lately.golden import Operation, preset
from lately.golden.hash.functions import KeyHash
from lately.hdl.build import family_of, unit_profile
from lately.hdl.lanes.beats import (
    BeatRecord,
    Entry,
    OrderedEntry,
    RingCommand,
    SameBeatKeys,
    ShiftFinder,
    ordered_steps,
    steps_layout,
)
from lately.hdl.lanes.collector import Collector, Credits
from lately.hdl.lanes.dispatcher import ShardSelect
from lately.hdl.lanes.shard import Sequencer
from lately.hdl.lanes.unit import LaneUnit
from lately.hdl.latencies import MINIMUM_BEATS, VOTES
from lately.hdl.memory import paged
from lately.hdl.memory.paged import PagedMemory, address_maps
from lately.hdl.pipeline import registered
from lately.sim import CompiledUnit
from lately.sim.replay import driven
from lately.sim.replay.beats import Beats

SEED = 20261121
NONE, CLEAR = Operation.NONE.value, Operation.CLEAR.value


# Components


@pytest.mark.parametrize(
    ("depth", "latency"), daily(4, [(8, 2), (16, 2), (32, 2), (64, 3), (128, 3), (256, 4)])
)
@pytest.mark.parametrize(("width", "number"), [(9, 0), (70, 1)])
def test_paged_memory(depth, latency, width, number):
    check_paged_memory(depth, latency, width=width, number=number)


@pytest.mark.parametrize(("width", "pages"), [(9, [2, 2, 2, 2, 1]), (12, [2] * 6)])
def test_pages_have_bits(width, pages, monkeypatch):
    built = []

    class KnownMemory(Memory):
        def __init__(self, *, shape, **options):
            super().__init__(shape=shape, **options)
            built.append(shape)

    monkeypatch.setattr(paged.memory, "Memory", KnownMemory)
    rtlil.convert(PagedMemory(depth=16, width=width, share=1))
    assert built == pages


@pytest.mark.parametrize(
    ("depth", "latency"), daily(4, [(8, 4), (16, 4), (32, 4), (64, 5), (128, 5), (256, 6)])
)
def test_paged_memory_from_afar(depth, latency):
    check_paged_memory(depth, latency, width=9, number=3, far=True)


def check_paged_memory(depth, latency, *, width, number, far=False):
    """Read in each cycle, and compare with a model of the latency."""
    memory = PagedMemory(depth=depth, width=width, number=number, memories=number + 1, far=far)
    assert memory.latency == latency
    draw = random.Random(SEED)
    held = [0] * depth
    writes, asked = [], []

    async def bench(ctx):
        for _ in range(600):
            write, address, value = (
                draw.random() < 0.5,
                draw.randrange(depth),
                draw.getrandbits(width),
            )
            reading = draw.randrange(depth)
            ctx.set(memory.write, write)
            ctx.set(memory.write_address, address)
            ctx.set(memory.value, value)
            ctx.set(memory.read_address, reading)
            writes.append((address, value) if write else None)
            # A read sees writes from two cycles earlier; with `far`, also from the same cycle.
            before = 1 if far else 3
            if len(writes) >= before and (done := writes[-before]):
                held[done[0]] = done[1]
            asked.append(held[reading])
            if len(asked) > latency:
                assert ctx.get(memory.word) == asked[-1 - latency]
            await ctx.tick()

    simulate(memory, bench)


@pytest.mark.parametrize("struck", range(VOTES))
def test_paged_memory_outvotes_an_upset(struck, monkeypatch):
    built = []

    class KnownMemory(Memory):
        def __init__(self, **options):
            super().__init__(**options)
            built.append(self)

    monkeypatch.setattr(paged.memory, "Memory", KnownMemory)
    memory = PagedMemory(depth=32, width=9, copies=VOTES)
    latency = memory.latency

    async def bench(ctx):
        ctx.set(memory.write, 1)
        for address in range(32):
            ctx.set(memory.write_address, address)
            ctx.set(memory.value, address * 7)
            await ctx.tick()
        ctx.set(memory.write, 0)
        await ctx.tick().repeat(3)
        for page in built[struck::VOTES]:
            for row in page.data:
                ctx.set(row, ctx.get(row) ^ 0b100000001)
        for address in range(32):
            ctx.set(memory.read_address, address)
            await ctx.tick().repeat(latency)
            assert ctx.get(memory.word) == address * 7

    simulate(memory, bench)
    assert len(built) == VOTES * 32 // paged.PAGE_WORDS


@pytest.mark.parametrize(("width", "count"), [(1, 2), (3, 4), (5, 12), (6, 20), (7, 34)])
def test_address_maps(width, count):
    bits = set()
    maps = address_maps(width)
    for rows, inverted in maps:
        addresses = range(1 << width)
        mapped = [
            sum(((address & mask).bit_count() & 1) << bit for bit, mask in enumerate(rows))
            for address in addresses
        ]
        assert len(set(mapped)) == 1 << width
        bits |= {(mask, inverted) for mask in rows}
    assert len(maps) == count
    assert len(bits) == width * count


def test_memories_are_as_many_as_maps():
    assert PagedMemory(depth=8, width=1000, number=3, memories=4).latency == 2


@pytest.mark.parametrize("lanes", [2, 4])
def test_shard_select(lanes):
    spec = preset({2: "two-lanes", 4: "four-lanes"}[lanes])
    golden = KeyHash(
        key_bits=64, sizes=spec.index_sizes, functions=spec.hash_functions, seed=spec.seed,
        shards=spec.shards,
    )  # fmt: skip
    states = np.random.default_rng(SEED).integers(0, 1 << 64, 200, np.uint64)
    select = ShardSelect(spec=spec)
    numbers, one_hots = [], []

    async def bench(ctx):
        for state in [*states.tolist(), 0, 0, 0]:
            ctx.set(select.state, state)
            await ctx.tick()
            numbers.append(ctx.get(select.number))
            one_hots.append(ctx.get(select.one_hot))

    simulate(select, bench)
    expected = golden.shard(states).tolist()
    assert set(expected) == set(range(spec.shards))
    assert numbers[select.LATENCY - 1 :][: len(expected)] == expected
    assert one_hots[select.LATENCY :][: len(expected)] == [1 << shard for shard in expected]


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("share", daily(1, [0.1, 0.6, 1.0]))
@pytest.mark.parametrize("more", [(0,), (3,), (0, 7, 30, -5, 1)])
def test_shift_finder(lanes, share, more):
    """The first insertion after a full generation carries the shift.

    The generation length is sampled at the start of the generation, and is at least the minimum.
    """
    minimum = lanes * MINIMUM_BEATS
    lengths = [max(minimum + extra, minimum) for extra in more]
    finder = ShiftFinder(lanes=lanes, generation_bits=8, minimum=minimum)
    draw = random.Random(SEED)
    expected, results = [], []
    count = 0

    async def bench(ctx):
        nonlocal count
        ctx.set(finder.generation, lengths[0])
        generation = lengths[0]
        await ctx.tick().repeat(3)
        for clock in range(1500):
            # The length of a generation that begins with an insertion is sampled later.
            asked, soon = (at // 97 % len(more) for at in (clock, clock + finder.LOOK))
            ctx.set(finder.generation, minimum + more[asked])
            turn = draw.random() < 0.02
            inserts = [draw.random() < share for _ in range(lanes)]
            if turn:
                count, generation = 0, lengths[asked]
            shifts = 0
            for lane, inserted in enumerate(inserts):
                if inserted and count == generation:
                    shifts |= 1 << lane
                    count, generation = 0, lengths[soon]
                count += inserted
            ctx.set(finder.turn, turn)
            ctx.set(finder.inserts, sum(bit << lane for lane, bit in enumerate(inserts)))
            expected.append(shifts)
            await ctx.tick()
            results.append(ctx.get(finder.shifts))

    simulate(finder, bench)
    late = finder.LATENCY - 1
    assert sum(map(bool, expected)) > (0 if share < 0.5 else 20)
    assert results[late:] == expected[: len(results) - late]


def test_repeats():
    lanes = 4
    repeats = SameBeatKeys(lanes=lanes)
    draw = random.Random(SEED)
    beats, results = [], []

    async def bench(ctx):
        for number in range(400):
            base = draw.getrandbits(64)
            states = [base ^ (draw.random() < 0.5) << draw.randrange(64) for _ in range(lanes)]
            inserts = [draw.random() < 0.6 for _ in range(lanes)]
            beats.append((states, inserts))
            ctx.set(repeats.states, sum(state << 64 * n for n, state in enumerate(states)))
            if number >= repeats.LATENCY - 2:
                given = beats[number - (repeats.LATENCY - 2)][1]
                ctx.set(repeats.inserts, sum(bit << n for n, bit in enumerate(given)))
            await ctx.tick()
            results.append(ctx.get(repeats.repeats))

    simulate(repeats, bench)
    expected = [
        sum(
            any(states[i] == states[lane] and inserts[i] for i in range(lane)) << lane
            for lane in range(lanes)
        )
        for states, inserts in beats
    ]
    assert len(set(expected)) > 6
    late = repeats.LATENCY - 1
    assert results[late:] == expected[: len(results) - late]


@pytest.mark.parametrize("lanes", [2, 4])
def test_ordered_steps(lanes):
    from amaranth.hdl import Module, Signal

    wanted = Signal(lanes + 1)
    steps = Signal(steps_layout(lanes))
    m = Module()
    m.d.comb += steps.eq(ordered_steps(m, wanted))

    async def bench(ctx):
        for flags in range(1 << lanes + 1):
            ctx.set(wanted, flags)
            await ctx.tick()
            codes = [lanes] * (flags >> lanes) + [n for n in range(lanes) if flags >> n & 1]
            assert [ctx.get(steps.codes[n]) for n in range(len(codes))] == codes
            assert ctx.get(steps.more) == (1 << max(0, len(codes) - 1)) - 1

    simulate(m, bench)


@pytest.mark.parametrize("words", [4, 16])
def test_shifts_that_follow_each_other_wait_for_the_spare(words):
    lanes, shifts = 2, []
    entry = OrderedEntry(Entry(lanes=lanes, slots=8))
    sequencer = Sequencer(entry=entry, clear_words=words)

    async def bench(ctx):
        ctx.set(sequencer.i.p.turn, RingCommand.SHIFT)
        ctx.set(sequencer.i.p.waits, 1)
        ctx.set(sequencer.i.p.steps.codes[0], lanes)
        ctx.set(sequencer.i.valid, 1)
        for clock in range(20 * words):
            if ctx.get(sequencer.control.shift):
                shifts.append(clock)
            await ctx.tick()

    simulate(sequencer, bench)
    assert len(shifts) > 5
    assert min(np.diff(shifts)) > words


def test_an_entry_is_taken_a_cycle_after_it_arrives():
    lanes, draw = 2, random.Random(SEED)
    sequencer = Sequencer(entry=OrderedEntry(Entry(lanes=lanes, slots=8)), clear_words=4)
    arrived, taken = [], []

    async def bench(ctx):
        for _ in range(200):
            ctx.set(sequencer.i.p.steps.more, draw.choice([0, 1]))
            ctx.set(sequencer.i.valid, draw.random() < 0.7)
            arrived.append(ctx.get(sequencer.i.valid & sequencer.i.ready))
            await ctx.tick()
            taken.append(ctx.get(sequencer.takes))

    simulate(sequencer, bench)
    assert taken == arrived
    assert 50 < sum(taken) < 150


@pytest.mark.parametrize("limit", [0, 3])
def test_credits_at_the_edge(limit):
    credits = Credits(limit=limit)
    available = []

    async def bench(ctx):
        for spend, refund in [(1, 0)] * (limit + 1) + [(0, 0)] * 4 + [(0, 1)] + [(0, 0)] * 4:
            ctx.set(credits.spend, spend)
            ctx.set(credits.refund, refund)
            await ctx.tick()
            available.append(ctx.get(credits.available))

    simulate(credits, bench)
    # Up to the limit there are credits; one operation more removes them three cycles later.
    assert available == [1] * (limit + 3) + [0] * 5 + [1] * 2


@pytest.mark.parametrize("taken_from", [0, 150])
def test_collector_loses_no_answer(taken_from):
    slots = 64
    answer = data.StructLayout({"valid": 1, "tag": 8, "seen": 1, "age": 1})
    collector = Collector(
        record=BeatRecord(lanes=1, shards=2, slots=slots, tag_bits=8),
        shards=2,
        slots=slots,
        answer=data.StructLayout({"lanes": data.ArrayLayout(answer, 1)}),
        verdict_bits=2,
        results_latency=2,
    )
    tags = []

    async def bench(ctx):
        for clock in range(500):
            ctx.set(collector.recorded, clock < slots)
            ctx.set(collector.slot, clock % slots)
            ctx.set(collector.record.lanes[0].tag, clock % slots)
            ctx.set(collector.o.ready, clock >= taken_from)
            taken = ctx.get(collector.o.valid) and ctx.get(collector.o.ready)
            tags.extend([ctx.get(collector.o.p.lanes[0].tag)] * taken)
            await ctx.tick()

    simulate(collector, bench)
    assert tags == [*range(slots)]


# Beats


def test_beats_fill_lanes_in_order():
    operations = np.array([3, 3, 4, 1, 2, 3, 5, 4, 3], np.uint8)
    beats = Beats(operations, 2)
    assert beats.alone.tolist() == [0, 4, 0, 5, 4]
    assert beats.slots.tolist() == [0, 1, -1, 2, 3, 4, -1, -1, 8]


def test_beats_skip():
    operations = np.full(4, 3, np.uint8)
    beats = Beats(operations, 4, np.array([False, True, False, False]))
    assert beats.alone.tolist() == [0, 0]
    assert beats.slots.tolist() == [0, 4, 5, 6]


# The unit


def test_clear_with_a_secret_keeps_its_distance_from_the_last_beat():
    class WithoutLanes(LaneUnit):
        """Accepts beats as its secrets allow, and performs only clears."""

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.i.ready.eq(registered(m, self._elaborate_secrets(m), "ready"))
            clears = self.i.valid & self.i.ready & (self.i.p.alone.as_value() == CLEAR)
            m.d.comb += self._dispatcher.cleared.eq(registered(m, clears, "clears"))
            return m

    spec = replace(preset("two-lanes-tiny"), hash="siphash")
    unit = WithoutLanes(unit_profile(spec), family_of(spec))
    pace, distances = unit.SECRET_PACE, []
    clock = last = 0

    async def offer(ctx, operation):
        """Offer a beat for a cycle; return its distance from the beat before, if it is taken."""
        nonlocal clock, last
        ctx.set(unit.i.valid, operation is not None)
        ctx.set(unit.i.p.alone.as_value(), operation or NONE)
        distance = ctx.get(unit.i.valid & unit.i.ready) and clock - last
        last += distance
        clock += 1
        await ctx.tick()
        return distance

    async def bench(ctx):
        for phase, distance in itertools.product(range(pace), repeat=2):
            while await offer(ctx, NONE) != 1 or clock % pace != phase:
                pass
            for valid in (1, 0):
                ctx.set(unit.secret.valid, valid)
                await offer(ctx, NONE)
            for _ in range(unit.SECRET_LEAD - 2 + distance):
                await offer(ctx, None)
            while not (accepted := await offer(ctx, CLEAR)):
                pass
            distances.append(accepted)

    simulate(unit, bench)
    assert min(distances) >= pace


@pytest.mark.slow
def test_parts_of_a_sequence(monkeypatch):
    keys = np.random.default_rng(SEED).integers(0, 250, 4001)
    results = []
    with CompiledUnit(preset("two-lanes-tiny"), optimisation=0) as unit:
        for chunk in (1 << 16, 75):
            monkeypatch.setattr(driven, "_CHUNK", chunk)
            unit.reset()
            before = unit.cycles
            seen = unit.check_and_insert(keys)
            results.append((unit.cycles - before, seen.tolist()))
    assert results[0] == results[1]


@pytest.mark.slow
def test_rates_of_streams(monkeypatch):
    streams = drawn_streams(500)
    assert len(np.unique(streams["random"])) == 500
    assert len(np.unique(streams["one key"])) == 1
    assert 0.4 < np.mean(streams["hot key"] == streams["random"][0]) < 0.6
    spec = replace(preset("tiny"), key_bits=64)
    monkeypatch.setattr("campaigns.speed.preset", lambda name: spec)
    for point in lane_points(preset=("tiny",), trace=(), operations=500):
        run = run_lanes(point)
        assert run["mismatches"] == 0
        assert 0 < run["operations_per_cycle"] == run["operations"] / run["cycles"] <= 1
