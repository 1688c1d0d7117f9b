"""Media access: frames to bytes of GMII and back."""

import zlib

import numpy as np
import pytest
from amaranth.hdl import Module
from simulation import simulate

from lately.hdl.packets.gmii import (
    GAP_BYTES,
    PREAMBLE,
    PREAMBLE_BYTES,
    SHORTEST_FRAME,
    START,
    GmiiReceiver,
    GmiiTransmitter,
)

SEED = 8023


def sequence(frame):
    return zlib.crc32(frame).to_bytes(4, "little")


def on_the_line(frame, preamble=PREAMBLE_BYTES):
    return bytes([PREAMBLE] * preamble + [START]) + frame + sequence(frame)


def random_frames(sizes):
    rng = np.random.default_rng(SEED)
    return [rng.integers(0, 256, size, np.uint8).tobytes() for size in sizes]


def received(line):
    """Frames, and whether each is damaged, of (data, valid, error) clock by clock."""
    m = Module()
    m.submodules.dut = dut = GmiiReceiver()
    frames, current = [], bytearray()

    async def bench(ctx):
        for data, valid, error in [*line, *[(0, 0, 0)] * 8]:
            ctx.set(dut.data, data)
            ctx.set(dut.valid, valid)
            ctx.set(dut.error, error)
            await ctx.tick()
            if ctx.get(dut.o.valid):
                current.append(ctx.get(dut.o.p.data))
                if ctx.get(dut.o.p.last):
                    frames.append((bytes(current), bool(ctx.get(dut.o.p.user))))
                    current.clear()
                else:
                    assert not ctx.get(dut.o.p.user)

    simulate(m, bench)
    assert not current
    return frames


def clocks(octets, gap=1, errors=()):
    return [(octet, 1, at in errors) for at, octet in enumerate(octets)] + [(0, 0, 0)] * gap


def test_frames_are_received():
    """One clock between frames is enough, and a byte of the preamble, or none."""
    frames = random_frames([60, 61, 64, 100, 300])
    line = [one for at, frame in enumerate(frames) for one in clocks(on_the_line(frame, at))]
    assert received(line) == [(frame, False) for frame in frames]


def test_latency():
    """A byte is there in the sixth clock after its own."""
    dut = GmiiReceiver()

    async def bench(ctx):
        line = on_the_line(random_frames([60])[0])
        for at, octet in enumerate(line):
            assert ctx.get(dut.o.valid) == (at >= PREAMBLE_BYTES + 1 + 6)
            ctx.set(dut.data, octet)
            ctx.set(dut.valid, 1)
            await ctx.tick()

    m = Module()
    m.submodules.dut = dut
    simulate(m, bench)


@pytest.mark.parametrize("size", [1, 5, SHORTEST_FRAME - 1, SHORTEST_FRAME])
def test_shortest_frame_received(size):
    (frame,) = random_frames([size])
    assert received(clocks(on_the_line(frame))) == [(frame, size < SHORTEST_FRAME)]


def test_damaged_frames():
    """A bit that flips anywhere, an error that the PHY tells, and a frame that is cut."""
    (frame,) = random_frames([70])
    good = on_the_line(frame)
    begin = PREAMBLE_BYTES + 1
    for at in (begin, begin + 30, len(good) - 1):
        flipped = good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :]
        assert received(clocks(flipped)) == [(flipped[begin:-4], True)]
        assert received(clocks(good, errors=[at])) == [(frame, True)]
    assert received(clocks(good[:-1])) == [(frame[:-1], True)]


def test_no_frames():
    """What has no preamble, and what ends before a byte and a check sequence, is no frame."""
    (frame,) = random_frames([60])
    good = on_the_line(frame)
    line = clocks(b"\x00" + good) + clocks(good[:PREAMBLE_BYTES]) + clocks(good[:12])
    line += clocks(good, errors=[1]) + clocks(good)
    assert received(line) == [(frame, False)]


def sent(frames, *, missing=None, **options):
    """Bytes of each burst on the line with its errors, and the idle clocks before each.

    `frames` have (bytes, user); `missing` is the number of a frame and of the byte before which a
    clock is without one.
    """
    m = Module()
    m.submodules.dut = dut = GmiiTransmitter(**options)
    bursts, idle, done = [], [], []

    async def drive(ctx):
        for number, (frame, user) in enumerate(frames):
            for at, octet in enumerate(frame):
                if (number, at) == missing:
                    ctx.set(dut.i.valid, 0)
                    await ctx.tick()
                last = at == len(frame) - 1
                value = {"data": octet, "keep": 1, "last": last, "user": last and user}
                ctx.set(dut.i.p, value)
                ctx.set(dut.i.valid, 1)
                await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(100)
        done.append(True)

    async def watch(ctx):
        quiet = 1
        while not done:
            await ctx.tick()
            if not ctx.get(dut.valid):
                quiet += 1
                continue
            if quiet:
                idle.append(quiet)
                bursts.append([])
                quiet = 0
            bursts[-1].append((ctx.get(dut.data), ctx.get(dut.error)))

    simulate(m, drive, watch)
    told = [(bytes(octet for octet, _ in burst), any(e for _, e in burst)) for burst in bursts]
    return told, idle


def test_frames_are_sent():
    """One after another, at the full rate of the line."""
    frames = random_frames([60, 61, 200, 64, 60])
    told, idle = sent([(frame, False) for frame in frames])
    assert told == [(on_the_line(frame), False) for frame in frames]
    assert idle[1:] == [GAP_BYTES] * 4


@pytest.mark.parametrize("size", [1, SHORTEST_FRAME - 1, SHORTEST_FRAME, SHORTEST_FRAME + 1])
def test_shortest_frame_sent(size):
    (frame,) = random_frames([size])
    assert sent([(frame, False)])[0] == [(on_the_line(frame.ljust(SHORTEST_FRAME, b"\0")), False)]


@pytest.mark.parametrize(("options", "damaged"), [({}, True), ({"marks": True}, False)])
def test_user(options, damaged):
    """A damaged frame is sent with an error; a mark is not sent."""
    frames = random_frames([60, 60])
    told, idle = sent([(frames[0], True), (frames[1], False)], **options)
    assert told == [(on_the_line(frames[0]), damaged), (on_the_line(frames[1]), False)]
    assert idle[1] == GAP_BYTES


def test_byte_that_comes_late():
    """The frame is ended with an error, and the next one is whole."""
    frames = random_frames([80, 70])
    told, _ = sent([(frame, False) for frame in frames], missing=(0, 50))
    begin = PREAMBLE_BYTES + 1
    assert told[0][1]
    assert told[0][0][: begin + 50] == on_the_line(frames[0])[: begin + 50]
    assert len(told[0][0]) == begin + 51
    assert told[1:] == [(on_the_line(frames[1]), False)]


def test_what_is_sent_is_received():
    frames = random_frames([1, 60, 61, 63, 64, 65, 700])
    told, idle = sent([(frame, False) for frame in frames])
    line = []
    for (octets, error), quiet in zip(told, idle, strict=True):
        line += [(0, 0, 0)] * quiet + [(octet, 1, error) for octet in octets]
    padded = [(frame.ljust(SHORTEST_FRAME, b"\0"), False) for frame in frames]
    assert received(line) == padded
