"""Parts of the units, each against a plain statement of what it does."""

import random
from collections import deque

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from lately.golden import FilterSpec, SpecificationError, preset
from lately.golden.hash.functions import KeyHash
from lately.hdl import APBBF, APBF, GEBF, BlockedGEBF, FilterUnit
from lately.hdl.frontend.front import FrontEnd
from lately.hdl.frontend.schedule import (
    GenerationCounter,
    GenerationLength,
    SpareTimer,
)
from lately.hdl.hash.functions import Expand, Fold, Mix
from lately.hdl.interface import Operation
from lately.hdl.queue import ResultQueue, UnaryCounter
from lately.hdl.ring.detector import MatchReducer, Rotator, RunDetector
from lately.hdl.statistics import EventCounter

SEED = 8128


def pipeline(component, inputs, read):
    """Feed one dict of inputs per clock; return what `read` gives `latency` clocks later."""
    outputs = []

    async def bench(ctx):
        for number in range(len(inputs) + component.latency):
            for name, value in (inputs[number] if number < len(inputs) else {}).items():
                ctx.set(getattr(component, name), value)
            if number >= component.latency:
                outputs.append(read(ctx))
            await ctx.tick()

    simulate(component, bench)
    return outputs


def simulate(component, bench):
    """Run a test bench."""
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("key_bits", [1, 8, 64, 104])
def test_hash_equals_golden(key_bits):
    sizes = (8, 16, 4)
    golden = KeyHash(key_bits=key_bits, sizes=sizes, functions=3, seed=5)
    choose = random.Random(SEED)
    keys = [choose.randrange(1 << key_bits) for _ in range(50)]
    words = [[key >> 64 * w & (1 << 64) - 1 for w in range(-(-key_bits // 64))] for key in keys]
    states = golden.state(np.array(words, np.uint64))
    fold = Fold(key_bits=key_bits, seed=5)
    folded = pipeline(fold, [{"key": key} for key in keys], lambda ctx: ctx.get(fold.state))
    mix = Mix(seed=5)
    mixed = pipeline(mix, [{"i": state} for state in folded], lambda ctx: ctx.get(mix.o))
    assert mixed == [int(state) for state in states]
    expand = Expand(sizes=sizes, functions=3, seed=5)
    indices = pipeline(
        expand,
        [{"state": state} for state in mixed],
        lambda ctx: [[ctx.get(i) for i in expand.indices(f)] for f in range(3)],
    )
    for function in range(3):
        expected = np.stack(golden.indices(states, function), axis=1).tolist()
        assert [index[function] for index in indices] == expected


def test_expand_sizes_wrong():
    with pytest.raises(ValueError, match=r"^Sizes must be powers of two, not 12$"):
        Expand(sizes=(4, 12), functions=1, seed=0)


@pytest.mark.parametrize(("segments", "parts"), [(3, 1), (2, 4), (3, 5)])
def test_match_reducer(segments, parts):
    reducer = MatchReducer(segments=segments, parts=parts)
    values = [random.Random(SEED + n).getrandbits(segments * parts) | n for n in range(200)]
    full = (1 << parts) - 1
    values += [full << parts * segment for segment in range(segments)]
    found = pipeline(
        reducer, [{"bits": value} for value in values], lambda ctx: ctx.get(reducer.matches)
    )
    for value, matches in zip(values, found, strict=True):
        whole = [value >> parts * segment & full == full for segment in range(segments)]
        assert matches == sum(flag << segment for segment, flag in enumerate(whole))


@pytest.mark.parametrize("segments", [3, 4, 5, 8])
def test_rotator_every_rotation(segments):
    rotator = Rotator(segments=segments)
    cases = [(flags, base) for flags in range(1 << segments) for base in range(segments)]
    found = pipeline(
        rotator,
        [{"i": flags, "base": base} for flags, base in cases],
        lambda ctx: ctx.get(rotator.o),
    )
    for (flags, base), aligned in zip(cases, found, strict=True):
        logical = [flags >> (base + index) % segments & 1 for index in range(segments)]
        assert aligned == sum(flag << index for index, flag in enumerate(logical))


@pytest.mark.parametrize(
    ("run", "starts"), [(1, 2), (1, 5), (2, 2), (2, 6), (3, 4), (4, 3), (5, 3), (6, 4), (9, 2)]
)
def test_run_detector_every_pattern(run, starts):
    detector = RunDetector(run=run, starts=starts)
    patterns = range(1 << (starts + run - 1))
    found = pipeline(
        detector,
        [{"matches": pattern} for pattern in patterns],
        lambda ctx: (ctx.get(detector.seen), ctx.get(detector.age)),
    )
    whole = (1 << run) - 1
    for pattern, (seen, age) in zip(patterns, found, strict=True):
        ages = [start for start in range(starts) if pattern >> start & whole == whole]
        assert (seen, age) == ((1, ages[0]) if ages else (0, 0))


@pytest.mark.parametrize("width", [3, 8, 10])
def test_event_counter_wraps(width):
    counter = EventCounter(width=width)
    events = [random.Random(SEED).random() < 0.9] * 3 + [True] * (1 << width) + [False, True]

    async def bench(ctx):
        for event in events:
            ctx.set(counter.event, event)
            await ctx.tick()
        ctx.set(counter.event, 0)
        await ctx.tick().repeat(counter.latency)
        assert ctx.get(counter.count) == sum(events) % (1 << width)

    simulate(counter, bench)


class Counter(wiring.Component):
    """Generation counter with its prepared length, as the front end connects them."""

    def __init__(self, *, width, minimum=2):
        self.length = GenerationLength(width=width, minimum=minimum)
        self.counter = GenerationCounter(high_bits=len(self.length.high))
        super().__init__({"generation": In(width), "event": In(1), "fill": In(1), "full": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.length = length = self.length
        m.submodules.counter = counter = self.counter
        m.d.comb += [
            length.generation.eq(self.generation),
            length.whole.eq(self.fill),
            counter.low.eq(length.low),
            counter.high.eq(length.high),
            counter.high_zero.eq(length.high_zero),
            counter.zero.eq(length.zero),
            counter.one.eq(length.one),
            counter.event.eq(self.event),
            counter.fill.eq(self.fill),
            self.full.eq(counter.full),
        ]
        return m


async def begin_generation(ctx, counter):
    """Begin a generation without an insertion, as a SHIFT does."""
    await ctx.tick().repeat(8)
    ctx.set(counter.fill, 1)
    await ctx.tick().repeat(counter.length.latency)
    ctx.set(counter.fill, 0)
    ctx.set(counter.event, 1)
    await ctx.tick()
    ctx.set(counter.event, 0)
    await ctx.tick().repeat(8)


@pytest.mark.parametrize("pauses", [0.0, 0.3])
@pytest.mark.parametrize("length", [*range(1, 36), 47, 48, 49, 255, 256, 257, 511, 512, 513])
def test_generation_is_full_exactly_then(length, pauses):
    counter = Counter(width=10)
    choose = random.Random(SEED + length)

    async def bench(ctx):
        ctx.set(counter.generation, length)
        await ctx.tick().repeat(counter.length.latency)
        await begin_generation(ctx, counter)
        inserted = 0
        for _ in range(8 * length + 100):
            full = inserted == length
            assert ctx.get(counter.full) == full, f"after {inserted} of {length}"
            event = choose.random() >= pauses
            ctx.set(counter.event, event)
            await ctx.tick()
            # The insertion that finds it full is the first of the next generation.
            inserted = (1 if full else inserted + 1) if event else inserted
            if choose.random() < 0.5 / length / 4:
                ctx.set(counter.event, 0)
                await begin_generation(ctx, counter)
                inserted = 0

    simulate(counter, bench)


@pytest.mark.parametrize("before", [1, 2, 7, 8, 9, 17, 40])
@pytest.mark.parametrize("after", [1, 2, 7, 8, 9, 17, 40])
def test_generation_changes_as_a_whole(before, after):
    """A length that changes in any clock counts as the old one or the new one, never a mix."""

    async def bench(ctx):
        for clock in range(2, 2 * before + 14):
            ctx.set(counter.generation, before)
            await ctx.tick().repeat(counter.length.latency)
            await begin_generation(ctx, counter)
            lengths = []
            inserted = 0
            for event in range(4 * before + 4 * after + 40):
                if event == clock:
                    ctx.set(counter.generation, after)
                full = ctx.get(counter.full)
                if full:
                    lengths.append(inserted)
                ctx.set(counter.event, 1)
                await ctx.tick()
                inserted = 1 if full else inserted + 1
            ctx.set(counter.event, 0)
            assert set(lengths) <= {before, after}, (clock, lengths)
            assert lengths == sorted(lengths, key=(before, after).index), (clock, lengths)
            assert lengths[-1] == after, (clock, lengths)

    counter = Counter(width=7)
    simulate(counter, bench)


@pytest.mark.parametrize("width", [4, 6, 11])
@pytest.mark.parametrize("minimum", [2, 3, 9, 15])
def test_short_lengths_are_told_ahead(width, minimum):
    length = GenerationLength(width=width, minimum=minimum)
    values = [*range(1, min(1 << width, 40)), (1 << width) - 1, minimum, minimum - 1]

    async def bench(ctx):
        for value in values:
            ctx.set(length.generation, value)
            await ctx.tick().repeat(length.latency - 4)
            assert ctx.get(length.below_early) == (value < minimum), value
            await ctx.tick().repeat(4)
            assert ctx.get(length.below) == (value < minimum), value

    simulate(length, bench)


def test_short_lengths_come_later_than_the_warning():
    """The length cannot be loaded until operations have come one at a time for two clocks."""
    length = GenerationLength(width=5, minimum=9)

    async def bench(ctx):
        ctx.set(length.generation, 20)
        await ctx.tick().repeat(20)
        ctx.set(length.generation, 3)
        warned = loaded = None
        for clock in range(20):
            await ctx.tick()
            if warned is None and ctx.get(length.below_early):
                warned = clock
            if loaded is None and ctx.get(length.low) != 1 << (19 & 7):
                loaded = clock
        # One clock to register the warning, two from the gate to the event.
        assert loaded - warned >= 3

    simulate(length, bench)


@pytest.mark.parametrize("width", [4, 6, 11])
def test_short_length_of_one_clock_is_told_until_it_is_loaded(width):
    length = GenerationLength(width=width, minimum=3)

    async def bench(ctx):
        ctx.set(length.generation, 7)
        await ctx.tick().repeat(2 * length.latency)
        ctx.set(length.generation, 2)
        await ctx.tick()
        ctx.set(length.generation, 7)
        told = []
        for _ in range(2 * length.latency):
            told.append(ctx.get(length.below_early) | ctx.get(length.below_since))
            below = ctx.get(length.below)
            await ctx.tick()
            if below:
                break
        first = told.index(1)
        assert all(told[first:])
        assert len(told) - first == 7

    simulate(length, bench)


@pytest.mark.parametrize("first", [None, Operation.INSERT])
@pytest.mark.parametrize("second", [Operation.SHIFT, Operation.CLEAR])
def test_held_operation_where_short_generations_begin(first, second):
    """It takes effect whichever clock it comes in, also right behind another operation."""
    for moment in range(24):
        front = FrontEnd(generation_bits=5, minimum_generation=5, clear_words=4)
        effects = []

        async def bench(ctx, front=front, effects=effects, moment=moment):
            ctx.set(front.credit, 1)
            ctx.set(front.generation, 20)
            await ctx.tick().repeat(60)
            ctx.set(front.generation, 2)
            accepted = 0
            for clock in range(100):
                operation = {moment - 1: first, moment: second}.get(clock)
                ctx.set(front.i.valid, operation is not None)
                ctx.set(front.i.payload, operation or Operation.NONE)
                accepted += ctx.get(front.i.ready) and operation is not None
                if ctx.get(front.control.valid):
                    effects.append(clock)
                await ctx.tick()
            assert len(effects) == accepted, f"operation in clock {moment}"

        simulate(front, bench)


@pytest.mark.parametrize("words", [1, 2, 4, 8, 16, 64, 512])
def test_spare_timer_waits_for_the_words(words):
    timer = SpareTimer(words=words)

    async def bench(ctx):
        starts = [2, 2 + words // 2 + 1, 4 * words + 40]
        last = None
        for clock in range(6 * words + 80):
            ctx.set(timer.start, clock in starts)
            clean = ctx.get(timer.clean)
            if last is not None:
                since = clock - last - 1
                assert not (clean and since < words), f"clean {since} clocks after the start"
                assert clean or since <= words + timer.lag, f"not clean after {since} clocks"
            if clock in starts:
                last = clock
            await ctx.tick()

    simulate(timer, bench)


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_unary_counter(size, duplicates):
    counter = UnaryCounter(size=size, duplicates=duplicates)
    choose = random.Random(SEED + size)

    async def bench(ctx):
        history = [0, 0]
        for _ in range(500):
            count = history[-1]
            up = count < size and choose.random() < 0.6
            down = count > 0 and choose.random() < 0.5
            ctx.set(counter.up, up)
            ctx.set(counter.down, down)
            assert ctx.get(counter.above) == (1 << history[-2]) - 1
            await ctx.tick()
            history.append(count + up - down)

    simulate(counter, bench)


def test_result_queue_without_tags():
    queue = ResultQueue(depth=4, tag_bits=0, verdict_bits=3)
    taken = []

    async def bench(ctx):
        for number in range(30):
            ctx.set(queue.valid_next, number < 4)
            ctx.set(queue.verdict, number)
            ctx.set(queue.o.ready, number >= 12)
            if ctx.get(queue.o.valid) and number >= 12:
                taken.append(ctx.get(queue.o.payload))
            await ctx.tick()

    simulate(queue, bench)
    assert taken == [1, 2, 3, 4]


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("page_depth", [8, 16, 32])
@pytest.mark.parametrize("stall", [0.0, 0.3, 0.9])
def test_result_queue_keeps_order_when_full(page_depth, stall, duplicates):
    """At its last place, through every page, with tags long before their verdicts."""
    depth, lead = 32, 5
    queue = ResultQueue(
        depth=depth, tag_bits=8, verdict_bits=4, page_depth=page_depth, duplicates=duplicates
    )
    choose = random.Random(SEED)
    sent, taken = [], []
    fullest = 0

    async def bench(ctx):
        nonlocal fullest
        coming = deque([None] * lead)
        previous = None
        for clock in range(1500):
            # Let it run full now and then.
            stalled = choose.random() < stall or clock % 300 < 50
            word = None
            if len(sent) - len(taken) < depth:
                word = len(sent)
                sent.append((word % 13, word % 251))
            fullest = max(fullest, len(sent) - len(taken))
            ctx.set(queue.tag_valid, word is not None)
            ctx.set(queue.tag, word % 251 if word is not None else 0xFF)
            coming.append(word)
            arriving = coming.popleft()
            ctx.set(queue.valid_next, arriving is not None)
            ctx.set(queue.verdict, previous % 13 if previous is not None else 15)
            previous = arriving
            ctx.set(queue.o.ready, not stalled)
            if ctx.get(queue.o.valid) and not stalled:
                payload = ctx.get(queue.o.payload)
                taken.append((payload & 15, payload >> 4))
            await ctx.tick()

    simulate(queue, bench)
    assert fullest == depth
    assert len(taken) > 100
    assert taken == sent[: len(taken)]


@pytest.mark.parametrize("unit", [APBF, APBBF, GEBF, BlockedGEBF])
def test_family_wrong(unit):
    wrong = preset("gebf-tiny" if unit is not GEBF else "tiny")
    with pytest.raises(
        SpecificationError, match=rf"^family: must be [a-z-]+ for {unit.__name__}, not '[a-z]+'$"
    ):
        unit(wrong)


def test_unbuildable_is_refused():
    spec = FilterSpec(family="apbf", k=2, l=2, slice_bits=48, clear=8)
    with pytest.raises(SpecificationError, match="power of two"):
        FilterUnit(spec)
