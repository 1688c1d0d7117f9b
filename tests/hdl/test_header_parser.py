"""Layers of Ethernet frames in hardware against golden, from the first beats on."""

import random

import pytest
from ethernet_frames import beats, random_frames
from simulation import simulate

from lately.golden.packets.packet_layers import ETHERNET, Fault, Reach, layers
from lately.hdl.packets.header_parser import HeaderParser
from lately.sim.bench.packets import ethernet, ip4, ip6

SEED = 15


def expected(frame):
    """What golden finds of a frame, but for the length that the frame has not."""
    place = layers(frame, len(frame), ETHERNET, Reach.HARDWARE)
    if not place.version:
        return 0, None, bool(place.faults & Fault.MALFORMED)
    octets = frame[place.begin :]
    at = 2 if place.version == 4 else 4
    size = int.from_bytes(octets[at : at + 2], "big")
    is_open = size == 0 and (place.version == 4 or octets[6] != 59)
    last = place.begin + size + (40 if place.version == 6 else 0) - 1
    return place.version // 2, (place.tags, None if is_open else last), False


def parse(frames, idle=0.0, width=64):
    """Return what the parser finds of each frame, and in which clock."""
    parser = HeaderParser(width)
    found, sent = [], []
    choose = random.Random(SEED)

    async def bench(ctx):
        waiting = [beat for frame in frames for beat in beats(frame, random=choose, width=width)]
        clock = index = 0
        while len(found) < len(frames):
            valid = bool(waiting) and choose.random() >= idle
            ctx.set(parser.valid, valid)
            if valid:
                beat = waiting.pop(0)
                ctx.set(parser.beat, beat)
                if index == parser.decisive or (beat["last"] and index < parser.decisive):
                    sent.append(clock)
                index = 0 if beat["last"] else index + 1
            if ctx.get(parser.found_valid):
                assert clock == sent[len(found)] + parser.LATENCY
                value = ctx.get(parser.found)
                tags = tuple(value.tags[n] for n in range(value.count))
                assert all(value.tags[n] == 0 for n in range(value.count, 3))
                end = None if value.open else value.end
                found.append((value.half, (tags, end) if value.half else None, value.malformed))
            await ctx.tick()
            clock += 1

    simulate(parser, bench)
    return found


def check(frames, **options):
    for frame, found in zip(frames, parse(frames, **options), strict=True):
        assert found == expected(frame), frame.hex()


@pytest.mark.parametrize(
    ("count", "idle"),
    [(60, 0.3), *(pytest.param(400, idle, marks=pytest.mark.slow) for idle in (0, 0.5, 0.9))],
)
@pytest.mark.parametrize(
    "width", [64, *(pytest.param(width, marks=pytest.mark.slow) for width in (128, 256, 512))]
)
def test_random_frames(count, idle, width):
    print("seed", SEED)
    check(random_frames(random.Random(SEED), count), idle=idle, width=width)


def edges():
    """Frames about each edge of what is read of a header."""
    for tags in range(5):
        for kind, layer3 in ((0x0800, ip4(bytes(60))), (0x86DD, ip6(bytes(60)))):
            whole = ethernet(kind, layer3, tags=range(tags))
            yield from (whole[:size] for size in {13, 14, 15, 17, 18, 21, 22, 25, 26, len(whole)})
            begin = 14 + 4 * tags
            header = 20 if kind == 0x0800 else 40
            yield from (whole[: begin + header + more] for more in (-1, 0, 1))
    for words in (0, 4, 5, 6, 15):
        for size in (0, 1, 19, 20, 4 * words - 1, 4 * words, 65535):
            packet = bytearray(ip4(bytes(60), size=max(0, size)))
            packet[0] = 0x40 | words
            yield ethernet(0x0800, bytes(packet))
    for size in (0, 1, 65535):
        for protocol in (58, 59, 60, 59 << 1 & 255):
            for tags in range(4):
                layer3 = ip6(bytes(60), size=size, protocol=protocol)
                yield ethernet(0x86DD, layer3, tags=range(tags))
    for tag in (0x8100, 0x88A8, 0x9100, 0x9200):
        yield bytes(12) + tag.to_bytes(2, "big") + ethernet(0x0800, ip4(bytes(30)))[10:]
    for version in range(16):
        yield ethernet(0x0800, bytes([version << 4 | 5]) + ip4(b"")[1:])
        yield ethernet(0x86DD, bytes([version << 4]) + ip6(b"")[1:])


@pytest.mark.parametrize(
    "width", [64, 512, *(pytest.param(width, marks=pytest.mark.slow) for width in (128, 256))]
)
def test_edges(width):
    check(list(edges()), width=width)
