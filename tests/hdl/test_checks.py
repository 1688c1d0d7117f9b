"""Self-checking units: no alarm without an upset, and an early alarm after an upset."""

import random
import re
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cases import daily
from simulation import simulate
from watched_registers import WATCHED

from lately.boards.link.link import FilterLink
from lately.golden import Operation, any_preset, preset
from lately.hdl import filter_unit
from lately.hdl.frontend.front import FrontEnd, Gate
from lately.hdl.lanes.collector import Credits
from lately.hdl.queue import ResultQueue
from lately.hdl.registers import REGISTERS
from lately.hdl.ring import ring as ring_module
from lately.hdl.ring.ring import Ring, illegal_masks
from lately.sim import compiled_unit
from lately.sim.replay.upset_runs import Upset

SEED = 20
SEGMENTS = 5


class Watched(wiring.Component):
    """Masks of a ring that a test drives."""

    mask: In(SEGMENTS)
    spare: In(SEGMENTS)
    illegal: Out(1)

    def __init__(self, run):
        self._run = run
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.illegal.eq(illegal_masks(m, self.mask, self.spare, run=self._run))
        return m


def turned(mask, shift):
    both = mask << shift
    return (both | both >> SEGMENTS) & (1 << SEGMENTS) - 1


@pytest.mark.parametrize("run", [1, 2, SEGMENTS - 1])
def test_masks(run):
    masks, spares = (1 << run) - 1, 1 << SEGMENTS - 1
    component = Watched(run)

    async def positions(ctx):
        for shift in range(SEGMENTS):
            mask, spare = turned(masks, shift), turned(spares, shift)
            flips = [(0, 0), *((1 << bit, 0) for bit in range(SEGMENTS))]
            flips += [(0, 1 << bit) for bit in range(SEGMENTS)]
            for flipped in flips:
                ctx.set(component.mask, mask ^ flipped[0])
                ctx.set(component.spare, spare ^ flipped[1])
                await ctx.tick()
                assert ctx.get(component.illegal) == (flipped != (0, 0))

    simulate(component, positions)


WORDS = 4


@pytest.mark.parametrize("first", ["shift", "clear"])
@pytest.mark.parametrize("then", ["shift", "insert", "clear"])
@pytest.mark.parametrize("pause", [2, WORDS, WORDS + 1])
def test_ring_that_turns_early(first, then, pause):
    ring = Ring(segments=SEGMENTS, run=2, clear_words=WORDS, check=True)
    early = pause <= WORDS and (then == "shift" or (first, then) == ("clear", "insert"))

    async def operations(ctx):
        # The spare is clean after reset.
        await act(ctx, ring, "shift")
        await ctx.tick().repeat(WORDS)
        await act(ctx, ring, first)
        await ctx.tick().repeat(pause - 1)
        assert not ctx.get(ring.illegal)
        await act(ctx, ring, then)
        assert ctx.get(ring.illegal) == early

    simulate(ring, operations)


async def act(ctx, ring, operation):
    """One clock with an operation."""
    ctx.set(getattr(ring, operation), 1)
    await ctx.tick()
    ctx.set(getattr(ring, operation), 0)


@pytest.mark.parametrize(
    "name",
    daily(3, ["timed-tiny", "dictionary-tiny", "timing-tiny", "tiny", "dictionary-ring-tiny",
              "timing-counted-tiny"]),
)  # fmt: skip
def test_no_alarm(name):
    unit = filter_unit(any_preset(name), self_check=True, tag_bits=3)
    draw = random.Random(SEED)
    shares = {Operation.CHECK_AND_INSERT: 30, Operation.SHIFT: 1, Operation.CLEAR: 1}

    async def operations(ctx):
        results = 0
        for _ in range(300):
            ctx.set(unit.i.valid, draw.random() < 0.8)
            ctx.set(unit.o.ready, draw.random() < 0.7)
            ctx.set(unit.i.p.operation, draw.choices([*shares], [*shares.values()])[0])
            ctx.set(unit.i.p.key, draw.randrange(256))
            results += ctx.get(unit.o.valid) & ctx.get(unit.o.ready)
            await ctx.tick()
            assert ctx.get(unit.fault) == 0
        assert results > 10

    print(f"seed {SEED}")
    simulate(unit, operations)


CLOCKS = 160


async def load(ctx, unit, seed):
    """Give a unit operations; return what it shows in each clock."""
    draw, shown = random.Random(seed), []
    lanes = getattr(unit.i.p, "lanes", [unit.i.p])
    for _ in range(CLOCKS):
        ctx.set(unit.i.valid, draw.random() < 0.8)
        ctx.set(unit.o.ready, draw.random() < 0.7)
        for lane in lanes:
            if len(lanes) > 1:
                ctx.set(lane.valid, draw.random() < 0.8)
            ctx.set(lane.operation, Operation.CHECK_AND_INSERT)
            ctx.set(lane.key, draw.randrange(32))
        valid = ctx.get(unit.o.valid)
        shown.append((ctx.get(unit.i.ready), valid, valid and ctx.get(unit.o.p.as_value())))
        await ctx.tick()
    return shown


@pytest.mark.parametrize(
    "name",
    daily(2, ["timed-tiny", "dictionary-tiny", "tiny", "siphash-tiny", "two-lanes-tiny",
              "dictionary-ring-tiny", "timing-tiny", "timing-counted-tiny"]),
)  # fmt: skip
def test_reset_under_load(name):
    unit = filter_unit(any_preset(name), self_check=True, tag_bits=3)
    whole = Module()
    whole.domains.sync = domain = ClockDomain("sync")
    whole.submodules.unit = unit

    async def stream(ctx):
        fresh = await load(ctx, unit, SEED)
        assert sum(valid for _, valid, _ in fresh) > 10
        for reset, alarms in ((unit.fault, 1), (unit.fault, 2), (domain.rst, 0)):
            await load(ctx, unit, SEED + 1)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(domain.rst, 0)
            assert await load(ctx, unit, SEED) == fresh
            assert ctx.get(unit.alarms) == alarms

    print(f"seed {SEED}")
    simulate(whole, stream)


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    "spec",
    [preset("four-lanes-tiny"), replace(preset("two-lanes-tiny"), hash="siphash")],
    ids=["four lanes", "siphash"],
)
def test_no_alarm_of_lanes(spec):
    with compiled_unit(spec, upsets=True, check=True, optimisation=0) as unit:
        draw = np.random.default_rng(SEED)
        codes = draw.choice([Operation.CHECK_AND_INSERT] * 40 + [*Operation], 20_000)
        keys = draw.integers(256, size=len(codes))
        for pauses in (0, 0.5):
            unit.perform(codes, keys, pause_before=pauses / 2, pause_after=pauses)
        assert unit.cycles > 4000
        assert not unit.upsets.reported


AT_ONCE = rf"{WATCHED}|core\.valid_next|accepted|(front\.)?gate\.(accepted|valid|closed)"
"""Registers of which every upset is told within a few clocks, while operations come."""

ON_THE_WAY = (
    r"(dispatcher|shard\d)\.arrived_\d+|distributor\.pops_\d+|shard\d\.last_\d+|"
    r"collector\.(passes_\d+|queue\.o__valid)"
)
"""Those of which every upset is told once the beat should have arrived."""

MOMENTS = 16
"""Cycles in which each bit is flipped."""


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("tiny", 52),
        # Multi-lane models take long to compile; the others have a few more registers.
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("dictionary-tiny", 42),
                ("two-lanes-tiny", 398),
                ("timing-tiny", 47),
                ("timed-tiny", 58),
                ("dictionary-ring-tiny", 42),
                ("timing-counted-tiny", 41),
            )
        ),
    ],
)
def test_alarm_at_once(name, bits):
    with compiled_unit(any_preset(name), upsets=True, check=True, optimisation=0) as unit:
        draw = np.random.default_rng(SEED)
        others = [Operation.SHIFT, Operation.CLEAR, Operation.NONE, Operation.QUERY]
        unit.perform(
            draw.choice([Operation.INSERT] * 40 + others, 3000), draw.integers(256, size=3000)
        )
        unit.perform(np.full(600, Operation.CHECK_AND_INSERT, np.uint8), np.arange(600) % 256)
        assert not unit.upsets.reported
        kinds = {element.name: element.kind for element in unit.upsets.elements}
        assert (kinds["alarms"], kinds["fault"]) == ("counter", "register")
        _, (first, last) = unit.upsets.reference(3000, 60, 200)
        for beats, names in ((6, AT_ONCE), (60, f"{AT_ONCE}|{ON_THE_WAY}")):
            positions = [
                (number, 0, bit)
                for number, element in enumerate(unit.upsets.elements)
                if re.fullmatch(names, element.name)
                for bit in range(element.width)
            ]
            cycles = range(first, last + 1, (last - first) // MOMENTS)
            struck = [Upset(cycle, *position) for cycle, position in product(cycles, positions)]
            outcome = unit.upsets.inject(struck, beats=beats, patience=200)
            assert outcome.reported.all()
        assert len(positions) == bits


def _unit(spec, *, check=False):
    return filter_unit(spec, self_check=check)


SMALL = {
    "ring": partial(Ring, segments=SEGMENTS, run=2, clear_words=WORDS),
    "gate": partial(Gate, start=8),
    "front end": partial(FrontEnd, generation_bits=4, minimum_generation=4, clear_words=WORDS),
    "queue of results": partial(ResultQueue, depth=4, tag_bits=1, verdict_bits=1),
    "credits": partial(Credits, limit=4),
    **{
        name: partial(_unit, any_preset(name))
        for name in (
            "dictionary-tiny",
            "timing-tiny",
            "timing-counted-tiny",
            "tiny",
            "two-lanes-tiny",
        )
    },
}


@pytest.mark.parametrize("kind", SMALL)
def test_only_self_checking_units_have_monitors(kind):
    build = SMALL[kind]
    watched = {"illegal", "left", "fault"}
    for component, there in ((build(), False), (build(check=True), True)):
        assert bool(watched & component.signature.members.keys()) == there


@pytest.mark.parametrize("name", ["tiny", "two-lanes-tiny", "timing-tiny", "dictionary-tiny"])
def test_alarms_are_as_wide_as_their_register(name):
    (register,) = (row for row in REGISTERS if row.name == "alarms")
    unit = filter_unit(any_preset(name), self_check=True)
    assert len(unit.alarms) == register.width


@pytest.mark.slow
def test_an_alarm_lights_the_led_of_a_board_until_it_is_reset(monkeypatch):
    alarm = Signal()
    monkeypatch.setattr(ring_module, "illegal_masks", lambda *_masks, **_run: alarm)
    link = FilterLink(preset("tiny"), clock_hz=8_000_000, baud=1_000_000, self_check=True)
    lit = []

    async def stream(ctx):
        for cycle in range(3000):
            ctx.set(alarm, cycle == 1000)
            lit.append(ctx.get(link.fault))
            await ctx.tick()
        assert ctx.get(link.unit.unit.alarms) == 1

    simulate(link, stream)
    assert not any(lit[:1000])
    assert all(lit[1020:])
