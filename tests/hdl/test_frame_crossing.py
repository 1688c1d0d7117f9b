"""Frames from one clock to another."""

import random

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator
from cases import daily

from lately.hdl.packets.frame_crossing import FrameCrossing

SEED = 1588
PERIOD = 8e-9


def crossed(frames, *, faster=1.0, stall=0.0, gap=20):
    """Frames that come out, and whether they are damaged; `gap` clocks are between those sent."""
    print("seed", SEED)
    choose = random.Random(SEED)
    m = Module()
    m.domains += [ClockDomain("rx"), ClockDomain("sync")]
    m.submodules.dut = dut = FrameCrossing(domain="rx")
    taken, current = [], bytearray()
    line = []
    for frame in frames:
        line += [(octet, at == len(frame) - 1) for at, octet in enumerate(frame)] + [None] * gap

    async def drive(ctx):
        for one in line:
            ctx.set(dut.i.valid, one is not None)
            if one is not None:
                ctx.set(dut.i.p, {"data": one[0], "keep": 1, "last": one[1], "user": 0})
            await ctx.tick("rx")
        ctx.set(dut.i.valid, 0)
        await ctx.tick("rx").repeat(600)

    async def take(ctx):
        while True:
            ctx.set(dut.o.ready, choose.random() >= stall)
            _, _, valid, ready, beat = await ctx.tick().sample(dut.o.valid, dut.o.ready, dut.o.p)
            if valid and ready:
                current.append(beat.data)
                if beat.last:
                    taken.append((bytes(current), bool(beat.user)))
                    current.clear()

    simulator = Simulator(m)
    simulator.add_clock(PERIOD)
    simulator.add_clock(PERIOD / faster, phase=1.3e-9, domain="rx")
    simulator.add_testbench(drive)
    simulator.add_testbench(take, background=True)
    simulator.run()
    assert not current
    return taken


def random_frames(count, size):
    choose = random.Random(SEED)
    return [choose.randbytes(size + number) for number in range(count)]


# Clocks of Ethernet differ by 0.02 % at most.
@pytest.mark.parametrize("faster", daily(2, [1.003, 0.9998, 1.0, 1.0002]))
def test_frames_cross(faster):
    frames = random_frames(6, 200)
    assert crossed(frames, faster=faster) == [(frame, False) for frame in frames]


@pytest.mark.parametrize("stall", [0.5, 0.9])
def test_frames_wait(stall):
    """Frames that find room are whole, however long who takes them pauses."""
    frames = random_frames(7, 10)
    assert crossed(frames, stall=stall, gap=400) == [(frame, False) for frame in frames]


def test_frames_without_room():
    """What leaves is a frame as it came, or the beginning of one, told as damaged."""
    frames = random_frames(30, 40)
    taken = crossed(frames, faster=1.3, stall=0.1, gap=40)
    whole = [frame for frame, damaged in taken if not damaged]
    assert 1 < len(whole) < len(frames)
    assert [frame for frame in frames if frame in whole] == whole
    assert all(any(one.startswith(part[:-1]) for one in frames) for part, bad in taken if bad)
