"""cocotb tests of a deduplicator of frames, at its buses of another project's models."""

import json
import os
import random
from dataclasses import asdict
from pathlib import Path

import cocotb
from axi_pauses import pauses
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from lately.captures.capture_reader import CaptureReader
from lately.golden.packets.comparison import Field
from lately.golden.packets.frame_actions import Action
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.spec.base import Specification
from lately.hdl.packets.inner_step import InnerStep
from lately.hdl.registers import REGISTERS
from lately.sim.bench.encapsulated import inner_frames
from lately.sim.bench.packets import ethernet, ip4, ip6, udp

ADDRESSES = {row.name: row.address for row in REGISTERS}
SETTINGS = json.loads(os.environ.get("LATELY_FRAMES", "{}"))
GOLDEN = {
    name: SETTINGS[name]
    for name in ("longest", "store", "width", "oversize", "inner")
    if name in SETTINGS
}
COUNT = int(os.environ.get("LATELY_COUNT", "0"))
BURSTS = 2 if COUNT > 10 else 1
KEY_CYCLES = 4200
"""Cycles that a wide digest takes to load the keys of a secret."""

QUIET = 150
"""Clocks after which nothing is under way any more."""

SPACING = 40
"""Clocks from a tick to the next, as the filter needs them."""


def frames_of(path):
    with CaptureReader(path) as capture:
        while (packets := capture.read()) is not None:
            yield from (packets.frame(number) for number in range(len(packets)))


class Bench:
    """The buses of a deduplicator, and its golden twin."""

    def __init__(self, dut, seed=0):
        self.dut = dut
        self.choose = random.Random(f"{os.environ['LATELY_SEED']} {seed}")
        spec = Specification.from_toml(os.environ["LATELY_SPEC"])
        self.golden = FrameDeduplicator(spec, **GOLDEN)
        self.now = 0
        cocotb.start_soon(Clock(dut.aclk, 10, unit="ns").start())
        how = {"clock": dut.aclk, "reset": dut.aresetn, "reset_active_level": False}
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), **how)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), **how)
        for side in (self.source, self.sink):
            side.log.setLevel("WARNING")
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), **how)

    async def reset(self):
        self.dut.tick.value = 0
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 4)
        self.dut.aresetn.value = 1
        # Until the filter is clear, and a wide digest has its keys.
        await ClockCycles(self.dut.aclk, QUIET if SETTINGS["width"] <= 64 else KEY_CYCLES)

    async def write(self, name, value):
        for at in range(0, 16 if name == "digest_secret" else 4, 4):
            word = (value >> 8 * at & 0xFFFFFFFF).to_bytes(4, "little")
            assert (await self.master.write(ADDRESSES[name] + at, word)).resp == AxiResp.OKAY

    async def read(self, name):
        answer = await self.master.read(ADDRESSES[name], 8)
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def set(self, action, fields=Field.TOS, secret=None):
        """Set what is done, here and in the golden twin, while nothing is under way."""
        await self.write("frames", action | fields << 8)
        ignored = Field.LAYER2 if self.golden.inner else Field.NONE
        self.golden.action, self.golden.fields = action, fields & ~ignored
        if secret is not None:
            await self.write("digest_secret", secret)
            self.golden.secret = secret
            await ClockCycles(self.dut.aclk, KEY_CYCLES if SETTINGS["width"] > 64 else 0)

    async def ticks(self, count):
        for _ in range(count):
            self.dut.tick.value = 1
            await RisingEdge(self.dut.aclk)
            self.dut.tick.value = 0
            await ClockCycles(self.dut.aclk, SPACING)
        self.now += count

    async def send(self, frames, errored=None):
        """Send frames; return those that leave once all have been there, with their marks."""
        for number, frame in enumerate(frames):
            user = [0] * len(frame)
            user[-1] = int(errored is not None and errored[number])
            await self.source.send(AxiStreamFrame(frame, tuser=user))
        await self.source.wait()
        quiet = 0
        while quiet < QUIET:
            await RisingEdge(self.dut.aclk)
            waits = int(self.dut.m_axis_tvalid.value)
            quiet = 0 if waits else quiet + 1
        left = []
        while not self.sink.empty():
            frame = self.sink.recv_nowait()
            marks = frame.tuser if isinstance(frame.tuser, list) else [frame.tuser]
            assert len(set(marks)) == 1
            left.append((bytes(frame.tdata), bool(marks[0])))
        return left

    async def compare(self, frames, errored=None):
        """Send frames; what leaves is what leaves the golden twin."""
        left = await self.send(frames, errored)
        expected = self.golden.perform(frames, [self.now] * len(frames), errored=errored)
        assert left == [tuple(one) for one in expected]

    async def check_counts(self):
        await self.write("control", 1 | 1 << 3)
        found = {name: await self.read(name) for name in asdict(self.golden.counts)}
        assert found == asdict(self.golden.counts)

    def pause(self, source, sink):
        """Let the streams pause at random, so often."""
        for side, probability in ((self.source, source), (self.sink, sink)):
            side.clear_pause_generator()
            side.pause = False
            if probability:
                side.set_pause_generator(pauses(self.choose, probability))


def made(choose, longest):
    """Return a frame of one of many kinds, whole or not, that is at most `longest` bytes long."""
    if SETTINGS.get("inner") and choose.random() < 0.6:
        return inner_frames(choose, 1)[0][:longest]
    payload = udp(choose.randbytes(choose.choice([0, 1, 18, choose.randrange(120)])))
    kind = choose.randrange(8)
    tags = [choose.randrange(1 << 16) for _ in range(choose.choice([0, 0, 1, 2, 3, 4]))]
    if kind < 3:
        octets = choose.choice([b"", b"", b"\1" * 4, b"\1" * 40])
        frame = ethernet(0x0800, ip4(payload, options=octets, ttl=choose.randrange(256)), tags=tags)
    elif kind < 5:
        frame = ethernet(0x86DD, ip6(payload), tags=tags)
    else:
        frame = ethernet(choose.choice([0x0806, 0x0800, 0x86DD]), choose.randbytes(46), tags=tags)
    if choose.random() < 0.2:
        frame = frame[: choose.randint(1, len(frame))]
    if choose.random() < 0.3:
        frame = frame.ljust(60, b"\0")
    return frame[:longest]


def stream(choose, count, longest):
    """Return frames of which many come again, some through a router, and some are too long."""
    frames = []
    for _ in range(count):
        if frames and choose.random() < 0.4:
            frame = bytearray(choose.choice(frames[-20:]))
            if len(frame) > 34 and frame[12:14] == b"\x08\0":
                frame[22] = frame[22] + 255 & 255
            frames.append(bytes(frame))
        elif choose.random() < 0.03:
            frames.append(choose.randbytes(longest + choose.choice([1, 2, 8, 100])))
        else:
            frames.append(made(choose, longest))
    return frames


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def random_frames(dut):
    """Frames of all kinds, damaged ones and such that are too long, under all settings."""
    bench = Bench(dut)
    await bench.reset()
    settings = [
        (Action.DROP, Field.TOS, None, (0, 0)),
        (Action.MARK, Field.NONE, 0x0F0E0D0C0B0A09080706050403020100, (0.3, 0.5)),
        (Action.COUNT, Field.TTL | Field.VLAN, None, (0, 0.6)),
        (Action.MARK, Field.LAYER2, (1 << 128) - 1, (0.6, 0)),
        (Action.DROP, Field.FRAME, 1, (0.2, 0.2)),
    ]
    for action, fields, secret, (source, sink) in settings:
        await bench.set(action, fields, secret)
        bench.pause(source, sink)
        for _ in range(BURSTS):
            frames = stream(bench.choose, COUNT, SETTINGS["longest"])
            errored = [bench.choose.random() < 0.1 for _ in frames]
            await bench.compare(frames, errored)
            await bench.ticks(bench.choose.randrange(1 + 3 * BURSTS))
    bench.pause(0, 0)
    await bench.check_counts()
    assert bench.golden.counts.hits > COUNT
    await bench.write("control", 1 | 1 << 2)
    await ClockCycles(dut.aclk, QUIET)
    # All is forgotten.
    left = await bench.send(frames, [len(one) > SETTINGS["longest"] for one in frames])
    fresh = dict.fromkeys(one for one in frames if len(one) <= SETTINGS["longest"])
    assert [frame for frame, _ in left] == list(fresh)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def line_rate(dut):
    """Frames of the shortest lengths of a line come and go in every clock, and long ones."""
    bench = Bench(dut)
    for size in (60, 64, SETTINGS["longest"]):
        await bench.reset()
        bench.golden = FrameDeduplicator(bench.golden.spec, **GOLDEN)
        await bench.set(Action.COUNT)
        count = COUNT if size <= 64 else 1 + COUNT // 8
        payloads = [bench.choose.randbytes(size - 42) for _ in range(2 * count)]
        frames = [
            ethernet(0x0800, ip4(udp(bench.choose.choice(payloads)))) for _ in range(4 * count)
        ]
        assert {len(frame) for frame in frames} == {size}
        ready, valid = [], []

        async def watch(ready=ready, valid=valid):
            while True:
                await FallingEdge(dut.aclk)
                ready.append(int(dut.s_axis_tready.value))
                valid.append(int(dut.m_axis_tvalid.value))

        watching = cocotb.start_soon(watch())
        await bench.compare(frames)
        watching.cancel()
        assert all(ready)
        clocks = len(frames) * -(-8 * size // SETTINGS["width"])
        assert bench.golden.counts.hits > count
        # The first frames in a ring of steps wait for a free cycle, up to a turn altogether.
        waits = InnerStep.LATENCY + 1 if SETTINGS.get("inner") and SETTINGS["width"] <= 64 else 0
        first = valid.index(1)
        assert sum(valid[first : first + clocks + waits]) == sum(valid) == clocks


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def captures(dut):
    """Every frame of the captures that there are."""
    bench = Bench(dut)
    await bench.reset()
    await bench.set(Action.MARK)
    bench.pause(0, 0)
    for path in sorted(Path(os.environ["LATELY_CAPTURES"]).iterdir()):
        frames = [*frames_of(path)]
        dut._log.info("%s: %d frames", path.name, len(frames))
        for at in range(0, len(frames), 50):
            await bench.compare(frames[at : at + 50])
        hits = bench.golden.counts.hits
        dut._log.info("%d of all frames so far are duplicates", hits)
        await bench.ticks(2 * bench.golden.spec.span)
    await bench.check_counts()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def full_store(dut):
    """While nothing leaves, frames wait, or those without room are discarded whole."""
    bench = Bench(dut)
    await bench.reset()
    await bench.set(Action.MARK)
    bench.pause(0, 0.995)
    # Shorter ones may wait for their digests.
    frames = [bytes([number]) * bench.choose.randint(60, 198) for number in range(80)]
    stopped = []

    async def watch():
        while True:
            await FallingEdge(dut.aclk)
            stopped.append(not int(dut.s_axis_tready.value))

    watching = cocotb.start_soon(watch())

    async def hurry():
        await ClockCycles(dut.aclk, 3000)
        bench.pause(0, 0)

    cocotb.start_soon(hurry())
    left = await bench.send(frames)
    watching.cancel()
    whole = [frame for frame, _ in left]
    lost = [frame not in whole for frame in frames]
    drops = SETTINGS["when_full"] == "drop"
    assert any(lost) == drops
    assert any(stopped) != drops
    expected = bench.golden.perform(frames, [0] * len(frames), lost=lost)
    assert left == [tuple(one) for one in expected]
    await bench.check_counts()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def jumbo_frames(dut):
    """Frames of 64 to 9,600 bytes come back to back, and twice; the longest are not recorded."""
    bench = Bench(dut)
    await bench.reset()
    await bench.set(Action.MARK)
    bench.pause(0, 0)
    sizes = [64, 65, 127, 128, 1500, 1518, 1519, 4096, 9600, 64, 9599, 60]
    frames = [bench.choose.randbytes(size) for size in sizes]
    await bench.compare([*frames, *frames])
    bench.pause(0.3, 0.3)
    await bench.compare(frames)
    await bench.check_counts()
    counts = bench.golden.counts
    assert counts.frames_oversize == 3 * 4
    assert counts.hits == 2 * 8
    assert counts.frames_in == counts.frames_out + counts.discarded("pass")


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def no_waiting(dut):
    """Frames come without TREADY while the secret changes and the output stops: whole or lost."""
    bench = Bench(dut)
    await bench.reset()
    await bench.set(Action.MARK)
    bench.pause(0.1, 0.6)
    # The first bytes are the number of a frame.
    frames = [
        number.to_bytes(2, "big") + bench.choose.randbytes(bench.choose.randint(58, 198))
        for number in range(4 * COUNT)
    ]

    async def change():
        while True:
            await ClockCycles(dut.aclk, bench.choose.randrange(200, 2000))
            await bench.write("digest_secret", bench.choose.getrandbits(128))

    changing = cocotb.start_soon(change())
    left = await bench.send(frames)
    changing.cancel()
    # The last secret may still be loaded.
    await ClockCycles(dut.aclk, KEY_CYCLES)
    left = [frame for frame, _ in left + await bench.send([])]
    assert all(len(frame) <= SETTINGS["longest"] for frame in left)
    at = [int.from_bytes(frame[:2], "big") for frame in left]
    assert at == sorted(set(at))
    assert left == [frames[number] for number in at]
    await bench.write("control", 1 | 1 << 3)
    counts = {name: await bench.read(name) for name in asdict(bench.golden.counts)}
    assert counts["frames_in"] == len(frames)
    assert counts["bytes_in"] == sum(map(len, frames))
    assert counts["frames_out"] == len(left) < len(frames)
    assert counts["bytes_out"] == sum(map(len, left))
    lost = counts["frames_oversize"] + counts["frames_no_room"] + counts["frames_errored"]
    assert counts["frames_in"] == counts["frames_out"] + lost
