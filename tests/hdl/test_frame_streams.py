"""Frames of AXI4-Streams as beats and back: every byte, every width, at full rate."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from frame_streams import beats, random_frame, receive, seeded, send, simulate, transfers, whole

from lately.golden.packets.frame_actions import LONGEST_FRAME, WIDTHS, beat_bytes, longest_stored
from lately.hdl.packets.axis_beats import AxisBeat, FrameNarrower, FrameWidener, MarkedBeat
from lately.hdl.packets.frame_options import ONLY_BAD, FrameOptions, Sideband
from lately.hdl.packets.frames import FrameBeat

pytestmark = pytest.mark.rtl

LENGTHS = [*range(1, 18), 63, 64, 65, 128]


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
    full = beat_bytes(width) - 1
    assert all(one.size == full for one in taken if not one.last)
    assert not any(one.error for one in taken if not one.last)
    octets, found = b"", []
    for one in taken:
        octets += one.data.to_bytes(full + 1, "little")[: one.size + 1]
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
                for one in beats(frame, width=8 * beat_bytes(width))
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

    def __init__(self, width, side=ONLY_BAD):
        self.how = width, side
        leaving = AxisBeat(width, side, leaves=True)
        super().__init__(
            {
                "i": In(stream.Signature(AxisBeat(width, side))),
                "o": Out(stream.Signature(leaving)),
                "mark": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.widener = widener = FrameWidener(*self.how)
        m.submodules.narrower = narrower = FrameNarrower(*self.how)
        wiring.connect(m, wiring.flipped(self.i), widener.i)
        wiring.connect(m, narrower.o, wiring.flipped(self.o))
        beat = narrower.i.p
        m.d.comb += [
            narrower.i.valid.eq(widener.o.valid),
            widener.o.ready.eq(narrower.i.ready),
            *(getattr(beat, name).eq(getattr(widener.o.p, name))
              for name in ("data", "size", "last")),
            beat.mark.eq(self.mark),
        ]  # fmt: skip
        if self.how[1].bits:
            m.d.comb += beat.side.eq(widener.beside)
        return m


@pytest.mark.parametrize("width", WIDTHS)
def test_no_clock_is_lost(width):
    """A transfer of whole beats is taken in every clock, and leaves in every clock."""
    through = Through(width)
    step = max(1, width // 64)
    sizes = [step * size for size in (64, 8, 64, 16)]
    sent = [one for size in sizes for one in transfers(bytes(size), width)]
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


@pytest.mark.parametrize("width", [8, 64, 512])
@pytest.mark.parametrize(("bad", "mark", "user_out"), [(0, 5, 5), (2, 2, 5), (4, 1, 5), (1, 4, 5)])
def test_signals_beside_frames_leave_with_them(width, bad, mark, user_out):
    """All of TUSER except two bits, TID and TDEST; the mark bit may be one more."""
    side = Sideband(user=5, id=3, dest=7, bad=bad, mark=mark)
    through, taken, choose = Through(width, side), [], seeded(5)
    values = [
        {"user": choose.randrange(32) & ~(1 << bad), "id": number % 8, "dest": number}
        for number in range(6)
    ]
    sent = [
        one
        for size, beside in zip((64, 1, 9, 100, 64, 2), values, strict=True)
        for one in transfers(bytes(size), width, **beside)
    ]

    async def source(ctx):
        ctx.set(through.mark, 1)
        await send(ctx, through.i, sent, 0.2, choose)
        for _ in range(20):
            await ctx.tick()

    async def sink(ctx):
        await receive(ctx, through.o, taken, 0.3, random.Random(5))

    simulate(through, source, background=[sink])
    assert len(taken) == len(sent)
    for one, was in zip(taken, sent, strict=True):
        assert (one.id, one.dest) == (was["id"], was["dest"])
        assert one.user == (was["user"] & ~(1 << mark)) | 1 << mark
    assert AxisBeat(width, side, leaves=True)["user"].width == max(user_out, mark + 1)


@pytest.mark.parametrize(
    ("side", "errors"),
    [(Sideband(user=3, bad=2, mark=0), [0, 1, 1]), (Sideband(user=0), [0, 0, 0])],
)
def test_a_selected_bit_damages_a_frame(side, errors):
    choose, taken = seeded(6), []
    widener = FrameWidener(64, side)
    users = [user % (1 << side.user) for user in (3, 4, 7)]
    sent = [one for user in users for one in transfers(b"x", 64, user=user)]

    async def source(ctx):
        await send(ctx, widener.i, sent, 0, choose)
        for _ in range(4):
            await ctx.tick()

    async def sink(ctx):
        await receive(ctx, widener.o, taken, 0, choose)

    simulate(widener, source, background=[sink])
    assert [one.error for one in taken] == errors


def test_longest_frame_that_is_forwarded():
    """Two of them fit into 512 beats, unless the maximum is higher."""
    assert FrameOptions(width=512).most == LONGEST_FRAME
    assert FrameOptions(width=512, oversize="pass").most == longest_stored(512 * 64, 512)
    assert FrameOptions(oversize="pass", longest=9000).most == 9000


def test_layouts():
    assert FrameBeat().size == MarkedBeat().size == 64 + 3 + 2
    assert MarkedBeat(512, 9).size == 512 + 6 + 2 + 9
