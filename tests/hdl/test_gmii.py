"""Gigabit Ethernet: media access, a clock crossing, and a deduplicator between two lines."""

import random
import zlib
from dataclasses import replace

import numpy as np
import pytest
from amaranth.back import verilog
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator
from bus_masters import WishboneMaster
from cases import daily
from simulation import simulate

from lately.golden import preset
from lately.hdl.packets import gmii
from lately.hdl.packets.deduplicator import ControlledDeduplicator, Deduplicator
from lately.hdl.packets.gmii import (
    GAP_BYTES,
    PREAMBLE,
    PREAMBLE_BYTES,
    SHORTEST_FRAME,
    START,
    FrameCrossing,
    GmiiReceiver,
    GmiiTransmitter,
    LineDeduplicator,
)
from lately.hdl.verilog import TOP
from lately.sim.bench.runner import SIMULATORS, run_bench

SEED = 8023


def sequence(frame):
    return zlib.crc32(frame).to_bytes(4, "little")


def on_the_line(frame, preamble=PREAMBLE_BYTES):
    return bytes([PREAMBLE] * preamble + [START]) + frame + sequence(frame)


def random_frames(sizes):
    rng = np.random.default_rng(SEED)
    return [rng.integers(0, 256, size, np.uint8).tobytes() for size in sizes]


def received(line):
    """Return the received frames, and whether each is damaged."""
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
    frames = random_frames([60, 61, 64, 100, 300])
    line = [clock for at, frame in enumerate(frames) for clock in clocks(on_the_line(frame, at))]
    assert received(line) == [(frame, False) for frame in frames]


def test_latency():
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
    (frame,) = random_frames([70])
    good = on_the_line(frame)
    begin = PREAMBLE_BYTES + 1
    for at in (begin, begin + 30, len(good) - 1):
        flipped = good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :]
        assert received(clocks(flipped)) == [(flipped[begin:-4], True)]
        assert received(clocks(good, errors=[at])) == [(frame, True)]
    assert received(clocks(good[:-1])) == [(frame[:-1], True)]


def test_no_frames():
    (frame,) = random_frames([60])
    good = on_the_line(frame)
    line = clocks(b"\x00" + good) + clocks(good[:PREAMBLE_BYTES]) + clocks(good[:12])
    line += clocks(good, errors=[1]) + clocks(good)
    assert received(line) == [(frame, False)]


def sent(frames, *, missing=None, **options):
    """Return the bytes and errors of each burst, and the idle cycles before each burst.

    `frames` have (bytes, user). `missing` is the number of a frame, and of the byte before which a
    cycle has no byte.
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
    sent_frames = [
        (bytes(octet for octet, _ in burst), any(e for _, e in burst)) for burst in bursts
    ]
    return sent_frames, idle


def test_frames_are_sent():
    frames = random_frames([60, 61, 200, 64, 60])
    sent_frames, idle = sent([(frame, False) for frame in frames])
    assert sent_frames == [(on_the_line(frame), False) for frame in frames]
    assert idle[1:] == [GAP_BYTES] * 4


@pytest.mark.parametrize("size", [1, SHORTEST_FRAME - 1, SHORTEST_FRAME, SHORTEST_FRAME + 1])
def test_shortest_frame_sent(size):
    (frame,) = random_frames([size])
    assert sent([(frame, False)])[0] == [(on_the_line(frame.ljust(SHORTEST_FRAME, b"\0")), False)]


@pytest.mark.parametrize(("options", "damaged"), [({}, True), ({"marks": True}, False)])
def test_user(options, damaged):
    frames = random_frames([60, 60])
    sent_frames, idle = sent([(frames[0], True), (frames[1], False)], **options)
    assert sent_frames == [(on_the_line(frames[0]), damaged), (on_the_line(frames[1]), False)]
    assert idle[1] == GAP_BYTES


def test_byte_that_comes_late():
    frames = random_frames([80, 70])
    sent_frames, _ = sent([(frame, False) for frame in frames], missing=(0, 50))
    begin = PREAMBLE_BYTES + 1
    assert sent_frames[0][1]
    assert sent_frames[0][0][: begin + 50] == on_the_line(frames[0])[: begin + 50]
    assert len(sent_frames[0][0]) == begin + 51
    assert sent_frames[1:] == [(on_the_line(frames[1]), False)]


def test_sent_frames_are_received():
    frames = random_frames([1, 60, 61, 63, 64, 65, 700])
    sent_frames, idle = sent([(frame, False) for frame in frames])
    line = []
    for (octets, error), quiet in zip(sent_frames, idle, strict=True):
        line += [(0, 0, 0)] * quiet + [(octet, 1, error) for octet in octets]
    padded = [(frame.ljust(SHORTEST_FRAME, b"\0"), False) for frame in frames]
    assert received(line) == padded


PERIOD = 8e-9


def crossed(frames, *, faster=1.0, stall=0.0, gap=20):
    """Return the frames that leave, and whether they are damaged; `gap` cycles separate them."""
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
        for octet in line:
            ctx.set(dut.i.valid, octet is not None)
            if octet is not None:
                ctx.set(dut.i.p, {"data": octet[0], "keep": 1, "last": octet[1], "user": 0})
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


def growing_frames(count, size):
    choose = random.Random(SEED)
    return [choose.randbytes(size + number) for number in range(count)]


# Ethernet clocks differ by at most 0.02 %.
@pytest.mark.parametrize("faster", daily(2, [1.003, 0.9998, 1.0, 1.0002]))
def test_frames_cross(faster):
    frames = growing_frames(6, 200)
    assert crossed(frames, faster=faster) == [(frame, False) for frame in frames]


@pytest.mark.parametrize("stall", [0.5, 0.9])
def test_frames_wait(stall):
    frames = growing_frames(7, 10)
    assert crossed(frames, stall=stall, gap=400) == [(frame, False) for frame in frames]


def test_frames_without_room():
    frames = growing_frames(30, 40)
    taken = crossed(frames, faster=1.3, stall=0.1, gap=40)
    whole = [frame for frame, damaged in taken if not damaged]
    assert 1 < len(whole) < len(frames)
    assert [frame for frame in frames if frame in whole] == whole
    assert all(any(frame.startswith(part[:-1]) for frame in frames) for part, bad in taken if bad)


SPEC = replace(preset("timed-tiny"), key_bits=64, blocks=256, window=None, generation=None)


@pytest.mark.rtl
def test_registers_and_led(monkeypatch):
    monkeypatch.setattr(gmii, "GMII_HZ", 16)
    inner = ControlledDeduplicator(
        Deduplicator(SPEC, width=8, on_overflow="drop"), bus="wishbone", version=(1, 2, 3)
    )
    line = LineDeduplicator(inner)
    shone = []

    async def watch(ctx):
        async for *_, lit in ctx.tick().sample(line.alive):
            shone.append(lit)

    async def read(ctx):
        assert await WishboneMaster(ctx, line).access(0) == (False, 0x4C41544C)
        await ctx.tick().repeat(64)

    simulator = Simulator(line)
    simulator.add_clock(1e-6)
    simulator.add_clock(1e-6, domain=gmii.RECEIVING)
    simulator.add_testbench(watch, background=True)
    simulator.add_testbench(read)
    simulator.run()
    assert "".join(map(str, shone[-32:])) in "".join("0" * 8 + "1" * 8 for _ in range(4))


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("simulator", "count"),
    [("icarus", 12), *(pytest.param(name, 200, marks=pytest.mark.slow) for name in SIMULATORS)],
)
def test_frames_pass_once(simulator, count, tmp_path):
    deduplicator = Deduplicator(SPEC, width=8, on_overflow="drop")
    SPEC.to_toml(tmp_path / "spec.toml")
    environment = {"LATELY_SPEC": str(tmp_path / "spec.toml"), "LATELY_COUNT": str(count)}
    passed = run_bench(
        verilog.convert(LineDeduplicator(deduplicator), name=TOP, emit_src=False),
        ["line_bench"],
        simulator,
        tmp_path,
        environment=environment | {"LATELY_SEED": "3"},
        models=[],
    )
    assert passed == {"frames_pass_once": True}
