"""Frame intake and store: frames leave whole, in order and without lost cycles."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from ethernet_frames import beats
from frame_streams import (
    random_frame,
    receive,
    seeded,
    send,
    simulate,
    whole,
)
from garbage_memory import GarbageMemory

from lately.golden.packets.frame_actions import ROOM_LAG, Action
from lately.hdl.packets.frame_store import FATES, FrameIntake, FrameStore
from lately.hdl.packets.frames import ON_OVERFLOW, FrameBeat, MarkedBeat

pytestmark = pytest.mark.rtl

LONGEST = 100


class Kept(wiring.Component):
    """An intake in front of a store; a test supplies the verdicts."""

    def __init__(self, on_overflow="wait", *, size=512, frames=16, longest=LONGEST, memory,
                 max_kept=None, ready=True, width=64):  # fmt: skip
        self.intake = FrameIntake(
            max_frame=longest,
            max_kept=max_kept,
            on_overflow=on_overflow,
            ready=ready,
            width=width,
        )
        self.store = FrameStore(
            size=size, frames=frames, longest=max_kept or longest, memory=memory, width=width
        )
        incoming = stream.Signature(FrameBeat(width), always_ready=not ready)
        super().__init__(
            {
                "i": In(incoming),
                "through": Out(stream.Signature(FrameBeat(width))),
                "o": Out(stream.Signature(MarkedBeat(width))),
                "enable": In(1, init=1),
                "verdict": In(data.StructLayout({"valid": 1, "seen": 1})),
                "action": In(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.intake, m.submodules.store = intake, store = self.intake, self.store
        wiring.connect(m, wiring.flipped(self.i), intake.i)
        wiring.connect(m, intake.o, wiring.flipped(self.through))
        wiring.connect(m, store.o, wiring.flipped(self.o))
        m.d.comb += [
            intake.enable.eq(self.enable),
            intake.room.eq(store.room),
            store.write.eq(intake.write),
            store.word.eq(intake.i.p.data),
            store.keep.eq(intake.keep),
            store.discard.eq(intake.discard),
            store.record.eq(intake.record),
            store.verdict.eq(self.verdict),
            store.action.eq(self.action),
        ]
        return m


class Run:
    """Runs frames through an intake and a store.

    `through` holds the errors sent to the digest, `fates` the reasons for discarding frames, and
    `frames` the frames that left, each with its mark.
    """

    def __init__(self, frames, *, errors=(), seen=(), action=Action.MARK, stall=(0, 0, 0), seed=1,
                 on_overflow="wait", drained=60, width=64, **sizes):  # fmt: skip
        self.kept = kept = Kept(on_overflow, memory=GarbageMemory, width=width, **sizes)
        choose, taken = random.Random(seed), []
        self.through, self.fates, self.waited, self.flows, self.passed = [], [], 0, [], []
        waiting = 0

        async def source(ctx):
            ctx.set(kept.action, action)
            for number, frame in enumerate(frames):
                parts = beats(frame, error=number < len(errors) and errors[number], width=width)
                await send(ctx, kept.i, parts, stall[0], choose)
            for _ in range(drained):
                await ctx.tick()

        async def watch(ctx):
            nonlocal waiting
            ctx.set(kept.through.ready, 1)
            intake = kept.intake
            passes = intake.passes if "passes" in intake.signature.members else intake.keep
            while True:
                _, _, keep, discard, fates, valid, ready, beat, leaves, above = (
                    await ctx.tick().sample(
                        intake.keep, intake.discard, intake.fates, kept.i.valid, kept.i.ready,
                        kept.through.payload, kept.o.valid, passes,
                    )
                )  # fmt: skip
                waiting += keep
                self.passed += [above] * keep
                self.flows.append(leaves)
                self.waited += bool(valid and not ready)
                if valid and ready and beat.last:
                    self.through.append(bool(beat.error))
                    (fate,) = [name for at, name in enumerate(FATES) if fates >> at & 1] or [None]
                    self.fates.append(fate)
                    assert (keep, discard) == (fate is None, fate is not None)

        async def judge(ctx):
            nonlocal waiting
            verdicts, slow = iter(seen), random.Random(seed + 1)
            while True:
                comes = waiting > 0 and slow.random() >= stall[2]
                waiting -= comes
                ctx.set(kept.verdict, {"valid": comes, "seen": comes and next(verdicts, 0)})
                await ctx.tick()

        async def sink(ctx):
            await receive(ctx, kept.o, taken, stall[1], random.Random(seed + 2))

        simulate(kept, source, background=[watch, judge, sink])
        self.frames = whole(taken, "mark", kept=lambda beat: beat.size + 1)


@pytest.mark.parametrize(
    ("stall", "action"),
    [
        pytest.param((0, 0, 0), Action.DROP, marks=pytest.mark.slow),
        ((0.5, 0, 0.5), Action.MARK),
        pytest.param((0.5, 0.5, 0), Action.COUNT, marks=pytest.mark.slow),
        ((0, 0.7, 0), Action.DROP),
        pytest.param((0, 0, 0.95), Action.MARK, marks=pytest.mark.slow),
    ],
)
def test_frames_leave_whole_and_in_order(stall, action):
    choose = seeded(6)
    frames = [random_frame(choose, 1, LONGEST + 10) for _ in range(25)]
    errors = [choose.random() < 0.2 for _ in frames]
    fine = [f for f, bad in zip(frames, errors, strict=True) if not bad and len(f) <= LONGEST]
    seen = [choose.random() < 0.4 for _ in fine]
    run = Run(frames, errors=errors, seen=seen, action=action, stall=stall, drained=400)
    pairs = zip(fine, seen, strict=True)
    assert run.frames == [
        (frame, was and action == Action.MARK)
        for frame, was in pairs
        if not (was and action == Action.DROP)
    ]
    fates = [
        "errored" if bad else "oversize" if len(frame) > LONGEST else None
        for frame, bad in zip(frames, errors, strict=True)
    ]
    assert run.fates == fates
    assert run.through == [fate is not None for fate in fates]


@pytest.mark.parametrize(("longest", "width"), [(16, 64), (17, 64), (23, 64), (63, 512), (64, 512)])
def test_longest_frame(longest, width):
    sizes = [longest - 1, longest, longest + 1, 3 * longest, longest, 8]
    run = Run(
        [bytes([size]) * size for size in sizes], longest=longest, size=2 * width, width=width
    )
    assert run.fates == [None if size <= longest else "oversize" for size in sizes]
    assert [len(frame) for frame, _ in run.frames] == [size for size in sizes if size <= longest]


@pytest.mark.parametrize("width", [64, 512])
def test_frames_above_the_maximum_pass(width):
    max_kept = 128
    run = Run(
        [bytes([number]) * size for number, size in enumerate([40, 41, max_kept, max_kept + 1, 9])],
        longest=40, max_kept=max_kept, size=512, width=width,
    )  # fmt: skip
    assert run.fates == [None, None, None, "no_room", None]
    assert [len(frame) for frame, _ in run.frames] == [40, 41, max_kept, 9]
    assert run.passed == [0, 1, 1, 0]


def test_frame_above_a_maximum_that_fills_the_store_has_no_room():
    run = Run([bytes(128), bytes(129)], longest=128, max_kept=128, size=512)
    assert run.fates == [None, "no_room"]


@pytest.mark.parametrize(("size", "width"), [(60, 64), (64, 64), (64, 512), (65, 512), (96, 256)])
def test_no_cycle_is_lost(size, width):
    count = 30
    frames = [bytes([number]) * size for number in range(count)]
    run = Run(frames, width=width, size=8 * width)
    assert (run.waited, [frame for frame, _ in run.frames]) == (0, frames)
    first, clocks = run.flows.index(1), count * -(-8 * size // width)
    assert run.flows[first : first + clocks] == [1] * clocks


def test_dropped_short_frames_delay_no_frame():
    frames, seen = [bytes([number]) * 64 for number in range(80)], [1, 0] * 40
    run = Run(frames, seen=seen, action=Action.DROP, width=512, size=1024)
    assert (run.waited, [frame for frame, _ in run.frames]) == (0, frames[1::2])


def test_full_store_waits():
    frames = [bytes([number]) * LONGEST for number in range(12)]
    run = Run(frames, stall=(0, 0.8, 0), drained=600)
    assert [frame for frame, _ in run.frames] == frames
    assert run.waited > 30


def test_full_store_of_short_frames_waits():
    frames = [bytes([number]) * (1 + number % 7) for number in range(60)]
    run = Run(frames, stall=(0, 0, 0.96), drained=1500, size=2048)
    assert [frame for frame, _ in run.frames] == frames
    assert run.waited > 30


def stuck(sizes, **options):
    """Return the fates and the cycles waited while no frame leaves."""
    frames = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    run = Run(frames, stall=(0, 1, 0), on_overflow="drop", **options)
    assert run.frames == []
    assert run.waited == 0
    return run.fates


def test_full_store_drops():
    capacity = 64 + FrameStore.OUTPUT_DEPTH
    fates = stuck([96] * 12)
    count = fates.index("no_room")
    assert fates[count:] == ["no_room"] * (12 - count)
    assert (capacity - 4 - ROOM_LAG) // 12 - 1 <= count <= capacity // 12
    # A shorter frame still fits, because discarded frames take no room.
    assert stuck([96] * 12 + [8])[-1] is None


def test_maximum_number_of_frames():
    fates = stuck([1] * 40, size=2048)
    count = fates.index("no_room")
    assert set(fates[count:]) == {"no_room"}
    under_way = FrameStore.OUTPUT_DEPTH + 4
    assert 16 - ROOM_LAG <= count <= 16 + under_way


def test_discarded_frames_take_no_room():
    sizes = [300, 96] * 9
    assert set(stuck(sizes, errors=[True] * len(sizes))) == {"errored"}
    fates = stuck([*sizes, 96, 96], errors=[False, True] * 9)
    assert fates == ["oversize", "errored"] * 9 + [None] * 2


def test_a_frame_that_is_discarded_for_two_reasons_counts_once():
    fates = stuck([96] * 12 + [300, 300, 96], errors=[*[False] * 13, True, True])
    assert fates[11:] == ["no_room", "oversize", "errored", "errored"]


@pytest.mark.parametrize("on_overflow", ON_OVERFLOW)
def test_enable(on_overflow):
    """A frame that has begun continues; no other frame begins."""
    kept = Kept(on_overflow, memory=GarbageMemory)
    first, second, third = (bytes([number]) * 20 for number in range(3))
    taken, fates = [], []

    async def source(ctx):
        ctx.set(kept.through.ready, 1)
        opening, *rest = beats(first)
        await send(ctx, kept.i, [opening], 0, random)
        ctx.set(kept.enable, 0)
        await send(ctx, kept.i, rest, 0, random)
        ctx.set(kept.i.valid, 1)
        ctx.set(kept.i.payload, beats(second)[0])
        assert ctx.get(kept.i.ready) == (on_overflow == "drop")
        ctx.set(kept.i.valid, 0)
        if on_overflow == "drop":
            await send(ctx, kept.i, beats(second), 0, random)
        ctx.set(kept.enable, 1)
        await send(ctx, kept.i, beats(third), 0, random)
        for _ in range(30):
            await ctx.tick()

    async def judge(ctx):
        while True:
            _, _, keep, fate = await ctx.tick().sample(kept.intake.keep, kept.intake.fates)
            fates.append(fate if not keep else 0)
            ctx.set(kept.verdict, {"valid": keep, "seen": 0})

    async def sink(ctx):
        await receive(ctx, kept.o, taken, 0, random)

    simulate(kept, source, background=[judge, sink])
    assert [frame for frame, _ in whole(taken, "mark", kept=lambda beat: beat.size + 1)] == [
        first, third
    ]  # fmt: skip
