"""Innermost layers of Ethernet frames in hardware against golden."""

import random

import pytest
from ethernet_frames import beats
from simulation import simulate

from lately.golden.packets.inner_layers import MOST_HEADERS, MOST_READ, inner_layers
from lately.golden.packets.packet_layers import Fault
from lately.hdl.packets import inner_parser
from lately.hdl.packets.inner_parser import InnerParser
from lately.sim.bench.encapsulated import (
    INNER,
    LAYER2,
    LIKE_ETHERNET,
    TUNNELS,
    around,
    gre,
    inner_frames,
    mpls,
)
from lately.sim.bench.packets import ethernet, ip4

SEED = 49


def expected(frame):
    """Facts that the parser finds of a frame, except the length that the frame does not have."""
    place = inner_layers(frame)
    malformed = Fault.MALFORMED in place.faults
    return (place.version // 2, *((place.begin, place.end, place.tags) if place.version else ()),
            malformed)  # fmt: skip


def seen(found, frame):
    """Facts that the parser found, with the end of the frame."""
    if not found.half:
        return 0, bool(found.malformed)
    end = len(frame) if found.open else min(found.end + 1, len(frame))
    short = not (found.open or found.lenient) and found.end >= len(frame)
    tags = tuple(found.tags[n] for n in range(found.count))
    return found.half, found.begin, end, tags, bool(found.malformed or short)


def parse(frames, *, width=64, idle=0.0):
    """Return facts of each frame as `expected`, and the cycle of each."""
    parser = InnerParser(width, beats=128, frames=128)
    found, cycles = [], []
    choose = random.Random(SEED)

    async def send(ctx):
        for frame in frames:
            pause = 8 - len(frame) // 8 if width == 64 else 0
            for beat in beats(frame, random=choose, width=width):
                while choose.random() < idle:
                    await ctx.tick()
                ctx.set(parser.beat, beat)
                ctx.set(parser.valid, 1)
                await ctx.tick()
                ctx.set(parser.valid, 0)
            for _ in range(pause):
                await ctx.tick()

    async def take(ctx):
        cycle = 0
        while len(found) < len(frames):
            if ctx.get(parser.found_valid):
                found.append(seen(ctx.get(parser.found), frames[len(found)]))
                cycles.append(cycle)
            await ctx.tick()
            cycle += 1
            assert cycle < 100_000

    simulate(parser, take, processes=[send])
    return found, cycles


def check(frames, **how):
    for frame, found in zip(frames, parse(frames, **how)[0], strict=True):
        assert found == expected(frame), frame.hex()


def deep_and_shallow(count):
    """Frames of one wide beat, of which half have as many headers as are passed."""
    choose = random.Random(SEED)
    deep = mpls(INNER, *range(MOST_HEADERS - 2))
    return [
        ethernet(0x8847, deep if choose.random() < 0.5 else mpls(choose.randbytes(46), 1))[:64]
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("width", "cycles"), [(64, 68), pytest.param(512, 61, marks=pytest.mark.slow)]
)
def test_latency(width, cycles):
    """The page of the deduplicator states the cycles from the end of a short frame."""
    frame = ethernet(0x0800, ip4(bytes(26)))
    _, (found,) = parse([frame], width=width)
    assert found == cycles + -(-8 * len(frame) // width)


@pytest.mark.slow
def test_beats_wait_for_the_last_step(monkeypatch):
    """A frame in every cycle; with a latency that is stated too low, beats are overwritten."""
    print("seed", SEED)
    check(deep_and_shallow(100), width=512)
    monkeypatch.setattr(inner_parser, "QUEUE_LATENCY", -32)
    with pytest.raises(AssertionError):
        check(deep_and_shallow(100), width=512)


@pytest.mark.parametrize(
    ("width", "count"),
    [(64, 30), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((64, 1500), (512, 60)))],
)
def test_random_frames(width, count):
    print("seed", SEED)
    check(inner_frames(random.Random(SEED), count), width=width, idle=0.1)


@pytest.mark.slow
def test_every_cut():
    """Each byte of a header is the last of a frame."""
    frames = {**TUNNELS, **LAYER2}.values()
    check([frame[:size] for frame in frames for size in range(1, len(frame) + 1)])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(14))
def test_every_value_of_a_byte(number):
    """Each byte behind the addresses of a frame has other values."""
    choose = random.Random(SEED + number)
    frames = []
    for frame in (around(choose, choose.randrange(1, 4)) for _ in range(4)):
        for at in range(12, min(len(frame), MOST_READ)):
            for value in (0, 1, frame[at] ^ 4, choose.randrange(256)):
                frames.append(frame[:at] + bytes([value]) + frame[at + 1 :])
    check(frames)


def test_encapsulations():
    behind_labels = [ethernet(0x8847, mpls(packet, 20)) for packet in LIKE_ETHERNET]
    check([*LAYER2.values(), *TUNNELS.values(), *behind_labels])


def test_most_bytes_and_headers():
    """Packets that begin with the last bytes that are read, and one header too many."""
    packets = [INNER]
    while len(packets) <= MOST_HEADERS:
        packets.append(ip4(packets[-1], protocol=4))
    frames = [ethernet(0x0800, packet) for packet in packets[-3:]]
    packet = ip4(INNER, protocol=4, options=bytes(40))
    for size in range(0, 44, 4):
        inside = ip4(packet, protocol=4, options=bytes(size))
        frames.append(ethernet(0x0800, ip4(ip4(inside, protocol=4), protocol=4)))
        frames.append(ethernet(0x0800, ip4(gre(ethernet(0x0800, inside), 0x6558), protocol=47)))
    check(frames + [frame[: MOST_READ + more] for frame in frames for more in (-1, 0, 1)])
