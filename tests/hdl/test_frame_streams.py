"""Frames of AXI4-Streams, converted to beats and back: every byte, every width, full rate."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from frame_streams import random_frame, receive, seeded, send, simulate, transfers

from lately.golden.packets.frame_actions import LONGEST_FRAME, WIDTHS, longest_buffered
from lately.hdl.packets.frames import (
    ONLY_BAD,
    AxisBeat,
    FrameBeat,
    FrameNarrower,
    FrameOptions,
    FrameWidener,
    MarkedBeat,
    Sideband,
)

pytestmark = pytest.mark.rtl

LENGTHS = [*range(1, 18), 63, 64, 65, 128]


SIDES = dict(
    zip(
        WIDTHS,
        (ONLY_BAD, *(Sideband(user=5, id=3, dest=7, bad=bad, mark=mark)
                     for bad, mark in ((0, 5), (2, 2), (4, 1), (1, 4)))),
        strict=True,
    )
)  # fmt: skip
"""Each width has other signals beside its frames; the mark bit may be one more."""


class Through(wiring.Component):
    """A widener and a narrower; the first sideband bit marks a frame."""

    def __init__(self, width, side):
        self.side = side
        self.widener, self.narrower = FrameWidener(width, side), FrameNarrower(width, side)
        super().__init__(
            {
                "i": In(stream.Signature(AxisBeat(width, side))),
                "o": Out(stream.Signature(AxisBeat(width, side, leaves=True))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.widener, m.submodules.narrower = widener, narrower = (
            self.widener, self.narrower
        )  # fmt: skip
        wiring.connect(m, wiring.flipped(self.i), widener.i)
        wiring.connect(m, narrower.o, wiring.flipped(self.o))
        beat = narrower.i.p
        m.d.comb += [
            narrower.i.valid.eq(widener.o.valid),
            widener.o.ready.eq(narrower.i.ready),
            *(getattr(beat, name).eq(getattr(widener.o.p, name))
              for name in ("data", "size", "last")),
            beat.mark.eq(widener.beside[0] if self.side.bits else 1),
        ]  # fmt: skip
        if self.side.bits:
            m.d.comb += beat.side.eq(widener.beside)
        return m


@pytest.mark.parametrize("stall", [pytest.param(0, marks=pytest.mark.slow), 0.4])
@pytest.mark.parametrize("width", WIDTHS)
def test_frames_pass(width, stall):
    side, choose, taken, ends = SIDES[width], seeded(3), [], []
    through, sent, expected, damaged = Through(width, side), [], [], []
    for number, size in enumerate(LENGTHS):
        user = choose.getrandbits(side.user) & ~(1 << side.bad)
        marked = user >> side.carried[0] & 1 if side.bits else 1
        beside = {"id": number % 8, "dest": number} if side.id else {}
        moves = transfers(random_frame(choose, size, size), width, user=user, **beside)
        left = user & ~(1 << side.mark) | marked << side.mark
        expected += [move | {"user": left} for move in moves]
        damaged.append(choose.random() < 0.3)
        moves[-1]["user"] |= damaged[-1] << side.bad
        sent += moves

    async def source(ctx):
        await send(ctx, through.i, sent, stall, choose)
        for _ in range(20):
            await ctx.tick()

    async def watch(ctx):
        beat = through.widener.o
        async for *_, ended, error in ctx.tick().sample(
            beat.valid & beat.ready & beat.p.last, beat.p.error
        ):
            ends.extend([bool(error)] * ended)

    async def sink(ctx):
        await receive(ctx, through.o, taken, stall, random.Random(3))

    simulate(through, source, background=[watch, sink])
    assert ends == damaged
    for move, was in zip(taken, expected, strict=True):
        kept = 1 << 8 * move.keep.bit_count()
        assert move.data % kept == was["data"] % kept
        for name in was.keys() - {"data"}:
            assert getattr(move, name) == was[name], name


@pytest.mark.parametrize("width", WIDTHS)
def test_no_clock_is_lost(width):
    through = Through(width, ONLY_BAD)
    step = max(1, width // 64)
    sizes = [step * size for size in (64, 8, 64, 16)]
    sent = [move for size in sizes for move in transfers(bytes(size), width)]
    flows = []

    async def source(ctx):
        ctx.set(through.o.ready, 1)
        ctx.set(through.i.valid, 1)
        for transfer in sent:
            ctx.set(through.i.payload, transfer)
            assert ctx.get(through.i.ready)
            flows.append(ctx.get(through.o.valid))
            await ctx.tick()
        ctx.set(through.i.valid, 0)
        for _ in range(12):
            flows.append(ctx.get(through.o.valid))
            await ctx.tick()

    simulate(through, source)
    first, clocks = flows.index(1), len(sent)
    assert flows[first : first + clocks] == [1] * clocks


def test_longest_frame_that_is_forwarded():
    assert FrameOptions(width=512).longest_forwarded == LONGEST_FRAME
    assert FrameOptions(width=512, on_oversize="pass").longest_forwarded == longest_buffered(
        512 * 64, 512
    )
    assert FrameOptions(on_oversize="pass", max_frame=9000).longest_forwarded == 9000


def test_layouts():
    assert FrameBeat().size == MarkedBeat().size == 64 + 3 + 2
    for width, side in SIDES.items():
        assert AxisBeat(width, side, leaves=True)["user"].width == max(side.user, side.mark + 1)
    assert MarkedBeat(512, 9).size == 512 + 6 + 2 + 9
