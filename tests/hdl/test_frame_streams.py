"""Frames of AXI4-Streams as beats and back: every byte, every width, at full rate."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from frame_streams import beats, random_frame, receive, seeded, send, simulate, transfers, whole

from lately.hdl.packets.axis_beats import (
    WIDTHS,
    AxisBeat,
    FrameNarrower,
    FrameWidener,
    MarkedBeat,
)
from lately.hdl.packets.frames import FrameBeat

pytestmark = pytest.mark.rtl

LENGTHS = [*range(1, 18)]


def there(widener, sent, stall=(0, 0), seed=1):
    """Return the frames of the beats of some transfers, each with whether it is damaged."""
    choose, taken = seeded(seed), []

    async def source(ctx):
        await send(ctx, widener.i, sent, stall[0], choose)
        for _ in range(10):
            await ctx.tick()

    async def sink(ctx):
        await receive(ctx, widener.o, taken, stall[1], random.Random(seed))

    simulate(widener, source, background=[sink])
    return taken


@pytest.mark.parametrize("stall", [pytest.param((0, 0), marks=pytest.mark.slow), (0.4, 0.4)])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_byte_comes_in(width, stall):
    choose = seeded(3)
    frames = [(random_frame(choose, size, size), choose.random() < 0.3) for size in LENGTHS]
    sent = [one for frame in frames for one in transfers(frame[0], width, frame[1])]
    taken = there(FrameWidener(width), sent, stall)
    assert all(one.size == 7 for one in taken if not one.last)
    assert not any(one.error for one in taken if not one.last)
    octets, found = b"", []
    for one in taken:
        octets += one.data.to_bytes(8, "little")[: one.size + 1]
        if one.last:
            found.append((octets, bool(one.error)))
            octets = b""
    assert found == frames


@pytest.mark.parametrize(
    ("keeps", "errors"),
    [
        ([0b11111111, 0b1], [False]),
        ([0b01111111, 0b1], [True]),
        ([0b11111111, 0b101], [True]),
        ([0b11111111, 0], [True]),
        ([0b10], [True]),
    ],
)
def test_irregular_transfers_damage_their_frame(keeps, errors):
    """And no other."""
    damaged = [
        {"data": 1, "keep": keep, "last": at == len(keeps) - 1} for at, keep in enumerate(keeps)
    ]
    taken = there(FrameWidener(64), [*damaged, *transfers(b"whole", 64)])
    assert [bool(one.error) for one in taken if one.last] == [*errors, False]


def test_a_transfer_without_its_byte_damages_its_frame():
    sent = [{"data": 1, "keep": 0}, {"data": 2, "keep": 1, "last": 1}, *transfers(b"whole", 8)]
    taken = there(FrameWidener(8), sent)
    assert [bool(one.error) for one in taken if one.last] == [True, False]


@pytest.mark.parametrize("stall", [pytest.param((0, 0), marks=pytest.mark.slow), (0.4, 0.4)])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_byte_goes_out(width, stall):
    choose, taken = seeded(4), []
    narrower = FrameNarrower(width)
    frames = [(random_frame(choose, size, size), choose.random() < 0.5) for size in LENGTHS]

    async def source(ctx):
        for frame, mark in frames:
            sent = [
                {"data": one["data"], "size": one["size"], "last": one["last"], "mark": mark}
                for one in beats(frame)
            ]
            await send(ctx, narrower.i, sent, stall[0], choose)
        for _ in range(20):
            await ctx.tick()

    async def sink(ctx):
        await receive(ctx, narrower.o, taken, stall[1], random.Random(4))

    simulate(narrower, source, background=[sink])
    for one in taken:
        assert one.keep & (one.keep + 1) == 0
        assert one.last or one.keep + 1 == 1 << width // 8
    assert whole(taken, "user", kept=lambda one: one.keep.bit_count()) == frames


class Through(wiring.Component):
    """A widener and a narrower."""

    def __init__(self, width):
        self.width = width
        side = stream.Signature(AxisBeat(width))
        super().__init__({"i": In(side), "o": Out(side)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.widener = widener = FrameWidener(self.width)
        m.submodules.narrower = narrower = FrameNarrower(self.width)
        wiring.connect(m, wiring.flipped(self.i), widener.i)
        wiring.connect(m, narrower.o, wiring.flipped(self.o))
        beat = narrower.i.p
        m.d.comb += [
            narrower.i.valid.eq(widener.o.valid),
            widener.o.ready.eq(narrower.i.ready),
            *(getattr(beat, name).eq(getattr(widener.o.p, name))
              for name in ("data", "size", "last")),
        ]  # fmt: skip
        return m


@pytest.mark.parametrize("width", WIDTHS)
def test_no_clock_is_lost(width):
    """A transfer of whole beats is taken in every clock, and leaves in every clock."""
    through = Through(width)
    sent = [one for size in (64, 8, 64, 16) for one in transfers(bytes(size), width)]
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


@pytest.mark.parametrize("width", [0, 16, 65, "8"])
def test_width_wrong(width):
    with pytest.raises(ValueError, match=f"^Width must be 8 or 64, not {width!r}$"):
        FrameWidener(width)


def test_layouts():
    assert FrameBeat().size == MarkedBeat().size == 64 + 3 + 2
