"""Messages of frames in wide beats against golden, at every place where they begin and end."""

import random

import pytest
from amaranth.hdl import Module, Value
from ethernet_frames import beats, random_frames
from simulation import simulate

from lately.golden.packets.comparison import Comparison, Field
from lately.golden.packets.frame_actions import MOST_BYTES
from lately.golden.packets.packet_digest import message
from lately.golden.packets.packet_layers import ETHERNET, Fault, Reach, layers
from lately.hdl.packets.aligned_beats import AlignedBeats
from lately.hdl.packets.frame_reader import FrameReader
from lately.sim.bench.packets import ethernet, ip4, ip6

SEED = 15
WIDTHS = (128, 256, 512)


def expected(frame, fields, size):
    place = layers(frame, len(frame), ETHERNET, Reach.HARDWARE)
    found = message(frame, len(frame), place, Comparison(fields, Reach.HARDWARE))
    octets = found.octets.ljust(-(-len(found.octets) // size) * size, b"\0")
    return octets, found.closing, place.version // 2, int(Fault.MALFORMED in place.faults)


def messages(width, frames, fields, *, idle=0.0, component=AlignedBeats):
    """Return what becomes of frames, as `expected`, and the cycle of the end of each."""
    m = Module()
    m.submodules.reader = reader = FrameReader(width)
    m.submodules.aligned = aligned = component(width)
    m.d.comb += [
        reader.go.eq(1),
        aligned.slot.eq(reader.slot),
        aligned.layers.eq(reader.layers),
    ]
    found, facts, cycles = [], [], []
    choose = random.Random(SEED)

    async def send(ctx):
        ctx.set(Value.cast(aligned.fields), int(fields))
        for frame in frames:
            for beat in beats(frame, random=choose, width=width):
                while choose.random() < idle:
                    await ctx.tick()
                ctx.set(reader.i.p, beat)
                ctx.set(reader.i.valid, 1)
                await ctx.tick().until(reader.i.ready)
                ctx.set(reader.i.valid, 0)

    async def take(ctx):
        octets, cycle = b"", 0
        while len(found) < len(frames):
            if ctx.get(aligned.told):
                fact = ctx.get(aligned.facts)
                facts.append((fact.half, fact.malformed))
            beat = ctx.get(aligned.octets).to_bytes(width // 8, "little")
            if ctx.get(aligned.counts):
                octets += beat
            else:
                assert not any(beat)
            if ctx.get(aligned.last):
                found.append((octets, ctx.get(aligned.closing.as_value())))
                cycles.append(cycle)
                octets = b""
            await ctx.tick()
            cycle += 1
            assert cycle < 100_000

    simulate(m, take, processes=[send])
    return [(*one, *fact) for one, fact in zip(found, facts, strict=True)], cycles


def check(width, count, fields, *, seed=SEED, **options):
    print("seed", seed)
    choose = random.Random(seed)
    frames = random_frames(choose, count)
    frames += [frame + choose.randbytes(choose.randrange(300)) for frame in frames]
    found, _ = messages(width, frames, fields, **options)
    for frame, got in zip(frames, found, strict=True):
        assert got == expected(frame, fields, width // 8), frame.hex()


@pytest.mark.parametrize("fields", [Field.TOS | Field.VLAN, Field.LAYER2])
@pytest.mark.parametrize("width", [128, pytest.param(512, marks=pytest.mark.slow)])
def test_random_frames(width, fields):
    check(width, 20, fields, idle=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(32))
def test_all_fields(number):
    check(WIDTHS[number % 3], 60, Field(number), seed=number, idle=(0, 0.5, 0.9)[number // 3 % 3])


def test_frames_of_one_beat_lose_no_cycle():
    choose = random.Random(SEED)
    frames = [choose.randbytes(choose.randrange(60, 65)) for _ in range(30)]
    found, cycles = messages(512, frames, Field.TOS)
    assert found == [expected(frame, Field.TOS, 64) for frame in frames]
    assert cycles == [*range(cycles[0], cycles[0] + 30)]


def test_header_without_a_length():
    """The message goes on to the end of the frame."""
    packets = {0x0800: ip4(bytes(range(60)), size=0), 0x86DD: ip6(bytes(range(60)), size=0)}
    frames = [ethernet(kind, packet) for kind, packet in packets.items()]
    found, _ = messages(128, frames, Field.TOS)
    assert found == [expected(frame, Field.TOS, 16) for frame in frames]


@pytest.mark.slow
def test_longest_frame():
    """The header has no length."""
    head = bytes(12) + bytes.fromhex("8100 0005 0800 4500 0000 1234 0000 4011")
    frame = head + random.Random(SEED).randbytes(MOST_BYTES - len(head))
    found, _ = messages(256, [frame, frame[:100]], Field.TOS)
    assert found == [expected(one, Field.TOS, 32) for one in (frame, frame[:100])]
