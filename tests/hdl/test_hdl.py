"""Components of units against simple models."""

import random

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cases import daily
from simulation import simulate
from unit_streams import UnitStreams

from lately.golden import FilterSpec, from_spec
from lately.golden.hash.functions import KeyHash as GoldenHash
from lately.golden.spec import APBBFSpec
from lately.hdl.build import filter_unit
from lately.hdl.frontend.front import GenerationCounter, GenerationLength
from lately.hdl.hash.functions import KeyHash, StateHash
from lately.hdl.interface import Operation
from lately.hdl.queue import ResultQueue
from lately.hdl.ring.ring import Ring, RingDetector
from lately.hdl.statistics import EventCounter

SEED = 8128


def pipeline(component, inputs, read, latency=None):
    """Feed a dict of inputs per cycle; return the result of `read` `latency` cycles later."""
    outputs = []
    if latency is None:
        latency = component.latency

    async def bench(ctx):
        for number in range(len(inputs) + latency):
            for name, value in (inputs[number] if number < len(inputs) else {}).items():
                ctx.set(getattr(component, name), value)
            if number >= latency:
                outputs.append(read(ctx))
            await ctx.tick()

    simulate(component, bench)
    return outputs


@pytest.mark.parametrize(("key_bits", "levels"), [(1, 1), (8, 2), (64, 3), (104, 5), (64, 1)])
def test_hash_equals_golden(key_bits, levels):
    spec = APBBFSpec(
        k=2, l=3, block_bits=16, hashes_per_block=2, blocks=8, key_bits=key_bits, clear=8, seed=5
    )
    golden = GoldenHash(
        key_bits=key_bits, sizes=spec.index_sizes, functions=spec.hash_functions, seed=5
    )
    choose = random.Random(SEED)
    keys = [choose.randrange(1 << key_bits) for _ in range(50)]
    words = [[key >> 64 * w & (1 << 64) - 1 for w in range(-(-key_bits // 64))] for key in keys]
    states = golden.state(np.array(words, np.uint64))
    inputs = [{"key": key} for key in keys]
    state_hash = StateHash(key_bits=key_bits, seed=5, levels=levels)
    results = pipeline(state_hash, inputs, lambda ctx: ctx.get(state_hash.state))
    assert results == [int(state) for state in states]
    key_hash = KeyHash(spec=spec, levels=levels)
    results = pipeline(
        key_hash, inputs, lambda ctx: [list(parts) for parts in ctx.get(key_hash.addresses)]
    )
    for function in range(spec.hash_functions):
        shared, *further = golden.indices(states, function)
        expected = np.stack([index + (shared << 3) for index in further], axis=1).tolist()
        assert [addresses[function] for addresses in results] == expected


@pytest.mark.parametrize(
    ("run", "starts", "parts", "levels"),
    [(1, 1, 1, 1), (1, 2, 4, 2), (1, 5, 1, 3), (1, 7, 5, 1), (2, 2, 1, 5), (2, 6, 2, 2),
     (3, 4, 1, 1), (4, 3, 3, 3), (5, 3, 1, 2), (9, 2, 1, 5)],
)  # fmt: skip
def test_detector_every_pattern(run, starts, parts, levels):
    segments, full, choose = starts + run, (1 << parts) - 1, random.Random(SEED)
    detector = RingDetector(segments=segments, parts=parts, run=run, starts=starts, levels=levels)
    cases = [(matches, number % segments, number % 7 > 0)
             for number, matches in enumerate(range(1 << segments - 1))]  # fmt: skip
    spare = 1 << segments - 1

    def physical(matches, base):
        ring = matches | spare
        turned = (ring << base | ring >> segments - base) & (1 << segments) - 1
        bits = 0
        for segment in range(segments):
            value = full if turned >> segment & 1 else choose.randrange(full)
            bits |= value << parts * segment
        return bits

    results = pipeline(
        detector,
        [{"bits": physical(matches, base), "base": base, "query": query}
         for matches, base, query in cases],
        lambda ctx: (ctx.get(detector.verdict.seen), ctx.get(detector.verdict.age)),
    )  # fmt: skip
    whole = (1 << run) - 1
    for (matches, _, query), answer in zip(cases, results, strict=True):
        ages = [start for start in range(starts) if matches >> start & whole == whole]
        assert answer == ((1, ages[0]) if ages and query else (0, 0))


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


def test_event_counter_adds_numbers():
    counter = EventCounter(width=20, events=7, amount=True)
    numbers = [random.Random(SEED + at).randrange(128) for at in range(1200)]

    async def bench(ctx):
        for number in [*numbers, 0]:
            ctx.set(counter.event, number)
            await ctx.tick()
        await ctx.tick().repeat(counter.latency)
        assert ctx.get(counter.count) == sum(numbers)

    simulate(counter, bench)


class Counter(wiring.Component):
    """Generation counter and generation length, connected like in the front end."""

    def __init__(self, *, width, minimum=2):
        self.length = GenerationLength(width=width, minimum=minimum)
        self.counter = GenerationCounter(width=width)
        super().__init__({"generation": In(width), "event": In(1), "fill": In(1), "full": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.length = length = self.length
        m.submodules.counter = counter = self.counter
        m.d.comb += [
            length.generation.eq(self.generation),
            counter.length.eq(length.length),
            counter.event.eq(self.event),
            counter.fill.eq(self.fill),
            self.full.eq(counter.full),
        ]
        return m


SETTLE = 2 * GenerationLength.PERIOD + 1
"""Cycles from a change of the length until every generation that begins has it."""


async def begin_generation(ctx, counter):
    """Begin a generation without an insertion, as a SHIFT does."""
    ctx.set(counter.fill, 1)
    await ctx.tick()
    ctx.set(counter.fill, 0)
    ctx.set(counter.event, 1)
    await ctx.tick()
    ctx.set(counter.event, 0)


@pytest.mark.parametrize("pauses", daily(1, [0.3, 0.0]))
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9, 17, 255, 256, 257, 1022, 1023])
def test_generation_is_full_exactly_then(length, pauses):
    counter = Counter(width=10)
    choose = random.Random(SEED + length)

    async def bench(ctx):
        ctx.set(counter.generation, length)
        await ctx.tick().repeat(SETTLE)
        await begin_generation(ctx, counter)
        inserted = 0
        for _ in range(4 * length + 100):
            full = inserted == length
            assert ctx.get(counter.full) == full, f"after {inserted} of {length}"
            event = choose.random() >= pauses
            ctx.set(counter.event, event)
            await ctx.tick()
            # The insertion after a full generation is the first of the next generation.
            inserted = (1 if full else inserted + 1) if event else inserted
            if choose.random() < 0.5 / length / 4:
                ctx.set(counter.event, 0)
                await begin_generation(ctx, counter)
                inserted = 0

    simulate(counter, bench)


@pytest.mark.parametrize("before", daily(2, [1, 8, 2, 7, 40]))
@pytest.mark.parametrize("after", daily(2, [1, 2, 9, 40]))
def test_generation_changes_as_a_whole(before, after):
    async def bench(ctx):
        for clock in range(2, 2 * before + 2 * SETTLE):
            ctx.set(counter.generation, before)
            await ctx.tick().repeat(SETTLE)
            await begin_generation(ctx, counter)
            lengths = []
            inserted = 0
            for event in range(4 * before + 4 * after + 3 * SETTLE):
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


@pytest.mark.parametrize(
    ("verdict", "status", "tag", "apart"),
    [(3, 0, 0, 0), (0, 0, 3, 0), (3, 5, 4, 0), (0, 5, 4, 0), (3, 5, 4, 1), (3, 0, 4, 3)],
)
def test_result_queue_of_some_words(verdict, status, tag, apart):
    queue = ResultQueue(
        depth=4, tag_bits=tag, verdict_bits=verdict, status_bits=status, apart=apart
    )
    taken = []

    async def bench(ctx):
        for number in range(30):
            for name, value in (("tag", 9 - number), ("status", 20 + number)):
                if hasattr(queue, name):
                    ctx.set(getattr(queue, f"{name}_valid"), number < 4)
                    ctx.set(getattr(queue, name), value % (1 << len(getattr(queue, name))))
            ctx.set(queue.valid_next, number < 4)
            ctx.set(queue.verdict, number % (1 << verdict))
            ctx.set(queue.o.ready, number >= 12)
            if ctx.get(queue.o.valid) and number >= 12:
                taken.append(ctx.get(queue.o.payload))
            await ctx.tick()

    simulate(queue, bench)
    bits = (verdict, status, tag)
    expected = []
    for words in ((number + 1, 20 + number, 9 - number) for number in range(4)):
        low, high = (word % (1 << width) for word, width in zip(words[:2], bits[:2], strict=True))
        expected.append(low | high << verdict | words[2] % (1 << tag) << verdict + status)
    assert taken == expected


@pytest.mark.parametrize(
    "spec",
    [
        FilterSpec(family="apbf", k=2, l=2, slice_bits=2, window=8, key_bits=8),
        FilterSpec(family="gebf", window=8, epochs=2, hashes=2, bits=12, key_bits=8),
    ],
    ids=lambda spec: spec.family,
)
def test_parts_of_two_bits(spec):
    choose = random.Random(SEED)
    kinds = (Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT)
    codes = choose.choices([kind.value for kind in kinds], k=400)
    keys = [choose.randrange(256) for _ in codes]
    requests = [{"operation": code, "key": key} for code, key in zip(codes, keys, strict=True)]
    verdicts = from_spec(spec).perform(codes, keys)
    results = UnitStreams(filter_unit(spec), ("seen", "age"), SEED).run(requests)
    print(f"seed {SEED}")
    assert results == list(zip(verdicts.seen, np.maximum(verdicts.age, 0), strict=True))
    assert len(set(verdicts.age)) > 2


@pytest.mark.parametrize("again", ["shift", "clear"])
@pytest.mark.parametrize("words", daily(2, [8, 16, 64]))
def test_clearing_that_starts_again_reaches_every_word(words, again):
    ring, cleared = Ring(segments=4, run=1, clear_words=words), []

    async def bench(ctx):
        await ctx.tick().repeat(2 * words)
        for distance in range(1, words + 2):
            ctx.set(ring.shift, 1)
            await ctx.tick()
            ctx.set(ring.shift, 0)
            for _ in range(distance - 1):
                await ctx.tick()
            ctx.set(getattr(ring, again), 1)
            await ctx.tick()
            ctx.set(getattr(ring, again), 0)
            addresses = []
            for _ in range(2 * words):
                if ctx.get(ring.clear_segments):
                    addresses.append(ctx.get(ring.clear_address))
                await ctx.tick()
            cleared.append(addresses)

    simulate(ring, bench)
    assert cleared == [list(range(words))] * (words + 1)
