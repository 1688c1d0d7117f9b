"""Digests of Ethernet frames in hardware against golden, whatever pauses there are."""

import random
from itertools import pairwise
from pathlib import Path

import pytest
from amaranth.hdl import Value
from capture_files import CAPTURES
from cases import daily
from ethernet_frames import beats, packet_frame, random_frames, sized_frame
from simulation import simulate

from lately.captures.capture_reader import CaptureReader
from lately.golden.packets.comparison import Comparison, Field
from lately.golden.packets.inner_layers import inner_layers
from lately.golden.packets.packet_digest import message, message_digest
from lately.golden.packets.packet_layers import ETHERNET, Fault, Reach, layers
from lately.hdl.packets.frame_digest import FrameDigest
from lately.sim.bench.encapsulated import inner_frames
from lately.sim.bench.packets import ethernet, ip4, ip6

SEED = 15
SECRET = 0x0F0E0D0C0B0A09080706050403020100


def expected(frame, fields, width, inner):
    size = len(frame)
    place = inner_layers(frame) if inner else layers(frame, size, ETHERNET, Reach.HARDWARE)
    found = message(frame, size, place, Comparison(fields))
    return {
        "digest": message_digest(found, SECRET, width),
        "version": int(place.version),
        "malformed": int(bool(place.faults & Fault.MALFORMED)),
    }


class Bench:
    """Sends frames to a digest, and takes what comes, with pauses on both sides."""

    def __init__(self, frames, fields, *, idle=0.0, stall=0.0, errors=(), width=64, inner=False):
        self.fields, self.width, self.inner = fields, width, inner
        self.beats = [
            beat
            for number, frame in enumerate(frames)
            for beat in beats(
                frame, error=number in errors, random=random.Random(SEED), width=width
            )
        ]
        self.pending = [
            expected(frame, fields, width, inner) | {"error": int(number in errors)}
            for number, frame in enumerate(frames)
        ]
        self.frames = list(frames)
        self.idle, self.stall = idle, stall
        self.waits = 0
        self.clocks = []

    def run(self):
        self.digest = FrameDigest(self.width, inner=self.inner)
        simulate(self.digest, self._take, processes=[self._send])
        assert not self.pending
        return self

    async def _send(self, ctx):
        choose = random.Random(SEED)
        stream = self.digest.i
        ctx.set(self.digest.secret, SECRET)
        ctx.set(Value.cast(self.digest.fields), int(self.fields))
        await ctx.tick().repeat(4)
        for beat in self.beats:
            while choose.random() < self.idle:
                await ctx.tick()
            ctx.set(stream.p, beat)
            ctx.set(stream.valid, 1)
            *_, ready = await ctx.tick().sample(stream.ready)
            while not ready:
                self.waits += 1
                *_, ready = await ctx.tick().sample(stream.ready)
            ctx.set(stream.valid, 0)

    async def _take(self, ctx):
        choose = random.Random(SEED)
        stream = self.digest.o
        clock = 0
        while self.pending:
            ctx.set(stream.ready, choose.random() >= self.stall)
            if ctx.get(stream.valid) and ctx.get(stream.ready):
                found = ctx.get(stream.p)
                for name, value in self.pending.pop(0).items():
                    got = getattr(found, name)
                    number = len(self.frames) - len(self.pending) - 1
                    assert got == value, (SEED, number, name, self.frames[number].hex())
                self.clocks.append(clock)
            await ctx.tick()
            clock += 1
            assert clock - max(self.clocks, default=0) < 20_000


@pytest.mark.parametrize("fields", [Field.TOS | Field.VLAN, Field.FRAME])
def test_random_frames(fields):
    print("seed", SEED)
    frames = random_frames(random.Random(SEED), 16)
    Bench(frames, fields, idle=0.5, stall=0.5, errors={3, 4, 15}).run()


def test_inner_packets():
    print("seed", SEED)
    frames = inner_frames(random.Random(SEED), 12)
    Bench(frames, Field.TOS | Field.VLAN, errors={3}, inner=True).run()


PAUSES = [(0, 0), (0.5, 0), (0, 0.9), (0.9, 0.5)]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_all_fields_and_pauses(number):
    print("seed", SEED)
    fields, (idle, stall) = Field(number % 32), PAUSES[number // 3 % len(PAUSES)]
    frames = random_frames(random.Random(SEED + number), 60)
    Bench(frames, fields, idle=idle, stall=stall, errors={0, 20}).run()


LENGTHS = (1, 13, 14, 16, 33, 34, 54, 60, 64, 65, 66, 67, 128, 1514, 2000, 9600)
"""Lengths of which each is at an edge of beats or headers."""


@pytest.mark.parametrize(("width", "most"), daily(1, [(128, 1514), (128, 9600), (512, 9600)]))
def test_lengths_of_wide_frames(width, most):
    print("seed", SEED)
    choose = random.Random(SEED)
    frames = [sized_frame(choose, size) for size in LENGTHS if size <= most]
    Bench(frames, Field.TOS | Field.VLAN, errors={4, 13}, width=width).run()


def test_frames_of_60_bytes_lose_no_clock():
    choose = random.Random(SEED)
    frames = [packet_frame(choose).ljust(60, b"\0")[:60] for _ in range(25)]
    bench = Bench(frames, Field.TOS).run()
    assert bench.waits == 0
    assert {after - before for before, after in pairwise(bench.clocks)} == {8}


@pytest.mark.slow
def test_frames_of_60_bytes_and_more_lose_no_clock():
    choose = random.Random(SEED)
    frames = [packet_frame(choose, shortest=60) for _ in range(400)]
    bench = Bench(frames, Field.TOS).run()
    assert bench.waits == 0


def test_results_that_nobody_takes():
    """The input stops, and nothing is lost."""
    frames = [bytes([number]) * 60 for number in range(14)]
    bench = Bench(frames, Field.TOS, stall=0.97).run()
    assert bench.waits > 50


@pytest.mark.slow
def test_every_length():
    """Each frame cut after each of its bytes, and frames of few bytes without a pause."""
    choose = random.Random(SEED)
    whole = [packet_frame(choose, tags=range(tags), shortest=80) for tags in range(5)]
    frames = [frame[:size] for frame in whole for size in range(1, 81)]
    for fields in (Field.TOS, Field.VLAN | Field.LAYER2, Field.FRAME):
        Bench(frames, fields).run()


@pytest.mark.slow
def test_long_frames():
    """Longer than a header can say, and than 16 bits can."""
    packet = packet_frame(random.Random(SEED), tags=[])
    whole = ethernet(0x0800, ip4(bytes(1000), size=0))
    long = bytearray(ethernet(0x86DD, ip6(bytes(65535), size=65535), tags=[1, 2, 3]) + bytes(100))
    frames = [packet, whole, bytes(long), bytes((1 << 16) + 9), packet]
    Bench(frames, Field.TOS).run()


CAPTURED = [
    "vlan-pcp-dei.pcapng",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "ipv6.pcap",
            "ipv6-bad-version.pcap",
            "m57-long-49583-80.pcap",
            "mpls-in-vlan.pcap",
            "ospf.pcap",
            "twovlan.pcap",
            "vlan-qinqinq.pcap",
            "vnd.ms-cab-compressed-multi-conn.pcap",
        )
    ),
]


@pytest.mark.parametrize("name", CAPTURED)
def test_captures(name):
    path = Path(__file__).parents[3] / CAPTURES / name
    if not path.exists():
        pytest.skip(f"{CAPTURES}/{name} is absent")
    with CaptureReader(path) as reader:
        packets = reader.read()
    at, captured, _, link = packets.places
    assert set(link.tolist()) == {ETHERNET}
    octets = packets.buffer.tobytes()
    frames = [octets[begin : begin + size] for begin, size in zip(at, captured, strict=True)]
    Bench(frames, Field.TOS | Field.VLAN).run()
