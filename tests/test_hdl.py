"""Parts of the units, each against a plain statement of what it does."""

import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from lately.golden import PRESETS, FilterSpec, SpecificationError, preset
from lately.golden.hashing import KeyHash
from lately.hdl import APBBF, APBF, GEBF, BlockedGEBF, FilterUnit
from lately.hdl.detector import Align, MatchReducer, RunDetector
from lately.hdl.hash import Expand, Fold, Mix
from lately.hdl.issue import GenerationCounter, SpareTimer
from lately.hdl.queue import ResultQueue
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

    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return outputs


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
def test_align_every_rotation(segments):
    align = Align(segments=segments)
    cases = [(flags, base) for flags in range(1 << segments) for base in range(segments)]
    found = pipeline(
        align, [{"i": flags, "base": base} for flags, base in cases], lambda ctx: ctx.get(align.o)
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

    simulator = Simulator(counter)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("length", [*range(1, 36), 47, 48, 49, 255, 256, 257])
def test_generation_is_full_exactly_then(length):
    counter = GenerationCounter(width=10)
    choose = random.Random(SEED + length)

    async def bench(ctx):
        ctx.set(counter.generation, length)
        await ctx.tick().repeat(counter.LEAD)
        ctx.set(counter.enable, 1)
        ctx.set(counter.load, 1)
        await ctx.tick()
        inserted = 0
        for _ in range(8 * length + 100):
            # As the front end does: the insertion that finds it full loads it; some loads are
            # forced, and some clocks pass without effect.
            full = inserted >= length
            assert ctx.get(counter.full) == full, f"after {inserted} of {length}"
            enable, insert = choose.random() < 0.9, choose.random() < 0.9
            load = (insert and full) or choose.random() < 0.5 / length / 4
            ctx.set(counter.enable, enable)
            ctx.set(counter.insert, insert)
            ctx.set(counter.load, load)
            await ctx.tick()
            if enable and load:
                inserted = int(insert)
            elif enable:
                inserted += insert

    simulator = Simulator(counter)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 16, 17])
def test_spare_timer_counts_words(words):
    timer = SpareTimer(words=words)
    found = []

    async def bench(ctx):
        for clock in range(4 * words + 20):
            # Again while it runs, and again after it has run out.
            ctx.set(timer.start, clock in (2, 2 + words // 2 + 1, 3 * words + 10))
            found.append(ctx.get(timer.more))
            await ctx.tick()

    simulator = Simulator(timer)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    starts = (2, 2 + words // 2 + 1, 3 * words + 10)
    for clock, more in enumerate(found):
        # Cleared in the `words` clocks after the last start, and not in the last of them again.
        last = max((start for start in starts if start < clock), default=None)
        assert more == (last is not None and clock - last < words), clock


def test_result_queue_without_tags():
    queue = ResultQueue(depth=4, tag_bits=0, verdict_bits=3)
    taken = []

    async def bench(ctx):
        for number in range(20):
            ctx.set(queue.verdict_valid, number < 4)
            ctx.set(queue.verdict, number + 1)
            ctx.set(queue.o.ready, number >= 8)
            if ctx.get(queue.o.valid) and number >= 8:
                taken.append(ctx.get(queue.o.payload))
            await ctx.tick()

    simulator = Simulator(queue)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert taken == [1, 2, 3, 4]


@pytest.mark.parametrize("name", PRESETS)
def test_latency_is_the_specification_s(name):
    spec = preset(name)
    assert FilterUnit(spec).latency == spec.latency


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
