"""Components of dictionaries, their latencies and parameters."""

import random
from dataclasses import replace

import pytest
from cases import daily
from garbage_memory import GarbageMemory
from simulation import simulate
from unit_streams import UnitStreams

from lately.golden import (
    Operation,
    SpecificationError,
    WindowDictionarySpec,
    dictionary_preset,
)
from lately.hdl.build import filter_unit, unit_profile
from lately.hdl.dictionary.core import DictionaryCore
from lately.hdl.dictionary.dictionary_figures import (
    ANSWER,
    EARLIEST,
    HAZARDS,
    SWEEP_BACKLOG,
    WATCHED,
    crowded_stash,
    swept_per_row,
)
from lately.hdl.dictionary.placement import NEAR_BITS, Guarantee
from lately.hdl.dictionary.profile import rows_latency
from lately.hdl.dictionary.stash import STASH_HAZARDS, SpareSlot, Stash

NONE, QUERY, INSERT, CHECK, SHIFT, CLEAR, REMOVE = (
    Operation[name]
    for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "SHIFT", "CLEAR", "REMOVE")
)  # fmt: skip
TINY, MOVING = dictionary_preset("tiny"), dictionary_preset("ring-tiny")


def test_second_push_into_a_full_stash_spares_the_entry_of_the_first():
    entries = 9
    part = SpareSlot(entries=entries)
    same, clock = 0, 0

    async def push(ctx, valid):
        nonlocal clock
        cell = ctx.get(part.slot)
        ctx.set(part.push, valid)
        ctx.set(part.turn, 1 << clock % entries)
        clock += 1
        await ctx.tick()
        return cell

    async def bench(ctx):
        nonlocal same
        ctx.set(part.valid, (1 << entries) - 1)
        for pause in range(2 * entries, 6 * entries):
            for _ in range(pause):
                await push(ctx, 0)
            same += await push(ctx, 1) == await push(ctx, 1)

    simulate(part, bench)
    assert same <= 4


@pytest.mark.parametrize("protect", daily(1, ["parity", "none"]))
def test_no_entry_stays_in_the_stash(protect):
    seed = 5
    print("seed", seed)
    choose = random.Random(seed)
    spec = WindowDictionarySpec(
        window=16, columns=2, rows=16, digest_bits=7, stash=4, moves=64, key_bits=8, seed=3
    )
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


# Latencies and parameters


def test_figures():
    assert EARLIEST >= WATCHED + HAZARDS
    assert [crowded_stash(replace(MOVING, stash=stash)) for stash in (4, 5, 16)] == [3, 4, 12]
    names = ("1000", "10000", "ring-1000", "ring-10000")
    profiles = [unit_profile(dictionary_preset(name)) for name in names]
    assert [profile.block_rams for profile in profiles] == [10, 30, 6, 24]
    with pytest.raises(SpecificationError, match=r"^rows: must be at most 16384 for ecp5"):
        print(unit_profile(replace(TINY, rows=1 << 15, digest_bits=20)).block_rams)
    for name, period in (("tiny", 13), ("1000", 14), ("10000", 10)):
        spec = dictionary_preset(name)
        assert swept_per_row(spec) == period
        # The window, a sweep, and the rows and operations by which the sweep may be late.
        late = 2 * SWEEP_BACKLOG * period + 32
        assert late <= 256
        assert spec.window + period * spec.rows + late <= 1 << spec.timestamp_bits


@pytest.mark.parametrize("levels", [1, 2])
def test_latency(levels):
    built = filter_unit(TINY, levels=levels)
    # The window counts insertions, so there are no ticks.
    assert unit_profile(TINY, levels=levels).min_period == 0
    assert built.latency == rows_latency(TINY, levels=levels) + ANSWER + 2
    assert DictionaryCore(spec=TINY, levels=levels).latency == built.latency - 2
    for spec in (TINY, MOVING):
        unit = filter_unit(spec, levels=levels)
        assert unit_profile(spec, levels=levels).latency == unit.latency


def test_numbers_under_way_differ():
    assert HAZARDS < 1 << NEAR_BITS


# Separate components, at the exact insertion


def beside(component, bench):
    """Return the result of `bench`, which gets the context and the component."""
    seen = []

    async def run(ctx):
        await ctx.tick().repeat(40)
        seen.append(await bench(ctx, component))

    simulate(component, run)
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
    spec = dictionary_preset(name)

    async def bench(ctx, stash):
        for digest in range(spec.stash):
            assert not await push(ctx, stash, digest, 9)
            await ctx.tick().repeat(40)
        return await push(ctx, stash, spec.stash, 9 + spec.window - before)

    assert beside(Stash(spec=spec), bench) == before


def test_an_older_lost_entry_leaves_the_guarantee():
    async def bench(ctx, guarantee):
        ctx.set(guarantee.lost, 1)
        for distance in (3, 7):
            ctx.set(guarantee.lost_distance, distance)
            await ctx.tick()
        ctx.set(guarantee.lost, 0)
        await ctx.tick().repeat(3)
        return ctx.get(guarantee.guaranteed)

    assert beside(Guarantee(window=20, bits=9, ordered=False), bench) == 3


@pytest.mark.parametrize("ordered", [False, True])
def test_a_clear_makes_the_window_whole(ordered):
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

    assert beside(Guarantee(window=20, bits=9, ordered=ordered), bench) == [(1, 3), (0, 20)]
