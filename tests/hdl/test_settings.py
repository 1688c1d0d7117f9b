"""Settings that no specification has: each has a defined effect."""

import random
from itertools import pairwise

import pytest
from cases import daily
from simulation import simulate
from unit_streams import UnitStreams

from lately.golden import Operation, any_preset, from_spec, preset
from lately.hdl.build import filter_unit
from lately.hdl.frontend.ticks import Prescaler

SEED = 45


def mixed(choose, count):
    """Return operations on few keys."""
    codes, fresh = [], True
    for _ in range(count):
        code = choose.choices(
            [Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT, Operation.SHIFT,
             Operation.CLEAR], [4, 3, 3, 1, 0.3],
        )[0]  # fmt: skip
        if fresh and code == Operation.CHECK_AND_INSERT:
            code = Operation.INSERT
        fresh = code in (Operation.SHIFT, Operation.CLEAR) or (fresh and code == Operation.QUERY)
        codes.append((code, choose.randrange(16)))
    return codes


@pytest.mark.parametrize(("name", "length"), daily(1, [("tiny", 0), ("tiny", 1), ("gebf-tiny", 0)]))
def test_generation_of_no_insertion(name, length):
    spec = preset(name)
    unit, model = filter_unit(spec), from_spec(spec)
    operations = mixed(random.Random(SEED), 120)
    counts = []

    async def configure(ctx):
        ctx.set(unit.generation, length)

    results = UnitStreams(unit, ("seen", "age")).run(
        [{"operation": code.value, "key": key} for code, key in operations],
        configure,
        finish=lambda ctx: counts.append(ctx.get(unit.shifts)),
    )
    model.generation = 1
    model.clear()
    due, fresh = [], True
    for code, key in operations:
        inserts = code in (Operation.INSERT, Operation.CHECK_AND_INSERT)
        if inserts and fresh and length == 0:
            model.shift()
        seen, age, *_ = model.perform([code], [key])
        due.append((int(seen[0]), max(0, int(age[0]))))
        fresh = code in (Operation.SHIFT, Operation.CLEAR) or (fresh and not inserts)
    assert [(seen, age if seen else 0) for seen, age in results] == due
    assert counts == [model.shifts]


@pytest.mark.parametrize(
    "name", daily(1, ["timing-tiny", "timing-counted-tiny", "dictionary-tiny"])
)
def test_longer_windows_act_as_the_longest(name):
    spec, choose = any_preset(name), random.Random(SEED)
    codes = [choose.choice([Operation.QUERY, Operation.INSERT]) for _ in range(100)]
    keys = [choose.randrange(64) for _ in codes]
    answers = []
    for window in (spec.window_blocks, (1 << spec.window_blocks.bit_length()) - 1):
        unit = filter_unit(spec)

        async def tick(ctx, unit=unit):
            while "tick" in unit.signature.members:
                for _ in range(unit.profile.min_period - 1):
                    await ctx.tick()
                ctx.set(unit.tick, 1)
                await ctx.tick()
                ctx.set(unit.tick, 0)

        requests = [{"operation": code.value, "key": key, "window": window}
                    for code, key in zip(codes, keys, strict=True)]  # fmt: skip
        answers.append(UnitStreams(unit, ("seen", "age")).run(requests, tick))
    assert spec.window_blocks < (1 << spec.window_blocks.bit_length()) - 1
    assert answers[0] == answers[1]
    assert {seen for seen, _ in answers[0]} == {0, 1}


@pytest.mark.parametrize("period", [0, 1, 6])
def test_shorter_periods_act_like_the_minimum(period):
    source = Prescaler(width=8, min_period=6)
    ticks = []

    async def bench(ctx):
        ctx.set(source.period, period)
        for clock in range(30):
            if ctx.get(source.tick):
                ticks.append(clock)
            await ctx.tick()

    simulate(source, bench)
    assert {after - before for before, after in pairwise(ticks)} == {6}
