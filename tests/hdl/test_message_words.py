"""Words of messages in hardware against golden, and the slots that they come from."""

import random

import pytest
from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from ethernet_frames import beats, random_frames
from simulation import simulate

from lately.golden.packets.comparison import Comparison, Field
from lately.golden.packets.packet_digest import message
from lately.golden.packets.packet_layers import ETHERNET, Fault, Reach, layers
from lately.hdl.packets.frame_reader import LEAST_SLOTS, FrameReader
from lately.hdl.packets.message_words import MessageWords
from lately.sim.bench.packets import ethernet, ip4, ip6

SEED = 15


class Reading(wiring.Component):
    """A reader and what takes the messages out of its frames."""

    def __init__(self):
        self.reader = FrameReader()
        self.words = MessageWords()
        super().__init__({"go": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader = self.reader
        m.submodules.words = self.words
        m.d.comb += [
            self.words.slot.eq(self.reader.slot),
            self.words.layers.eq(self.reader.layers),
            self.reader.go.eq(self.go),
        ]
        return m


def read(frames, fields, idle=0.0, waits=0.0):
    """Return the messages of frames: their words, closings, numbers of words, and facts."""
    top = Reading()
    choose = random.Random(SEED)
    found, facts, words = [], [], []
    ends = [-LEAST_SLOTS]

    async def send(ctx):
        for frame in frames:
            for beat in beats(frame, random=choose):
                while choose.random() < idle:
                    await ctx.tick()
                ctx.set(top.reader.i.p, beat)
                ctx.set(top.reader.i.valid, 1)
                *_, ready = await ctx.tick().sample(top.reader.i.ready)
                while not ready:
                    *_, ready = await ctx.tick().sample(top.reader.i.ready)
                ctx.set(top.reader.i.valid, 0)

    async def take(ctx):
        ctx.set(Value.cast(top.words.fields), int(fields))
        opened = clock = 0
        while len(found) < len(frames):
            ctx.set(top.go, choose.random() >= waits)
            if ctx.get(top.words.told):
                fact = ctx.get(top.words.facts)
                facts.append((fact.half, fact.malformed))
            if ctx.get(top.words.ends):
                assert clock - ends[-1] >= LEAST_SLOTS
                ends.append(clock)
                end = ctx.get(Value.cast(top.words.end))
                found.append((words[:], end & (1 << 56) - 1, end >> 56, facts[len(found)]))
                words.clear()
            if ctx.get(top.words.valid):
                word = ctx.get(top.words.word)
                assert word.opening == (len(words) < 2)
                assert word.lane == len(words) % 2
                assert len(words) != 1 or clock == opened + 1
                opened = clock
                words.append(word.octets.to_bytes(8, "little"))
            await ctx.tick()
            clock += 1

    simulate(top, take, processes=[send])
    return found


def check(frames, fields, **options):
    for frame, found in zip(frames, read(frames, fields, **options), strict=True):
        place = layers(frame, len(frame), ETHERNET, Reach.HARDWARE)
        golden = message(frame, len(frame), place, Comparison(fields))
        fact = place.version // 2, int(bool(place.faults & Fault.MALFORMED))
        expected = golden.words, golden.closing, len(golden.words) % 64, fact
        assert found == expected, (SEED, frame.hex())


def test_random_frames():
    print("seed", SEED)
    check(random_frames(random.Random(SEED), 20), Field.TOS | Field.VLAN, idle=0.3, waits=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("fields", [Field(bits) for bits in range(32)])
def test_all_fields(fields):
    check(random_frames(random.Random(SEED + fields), 60), fields)


def test_shortest_frames():
    """Of one byte, which have a second word of zeros, and of one word and two."""
    check([bytes([size]) * size for size in (1, 1, 8, 9, 16, 1, 60, 1, 1, 17)], Field.NONE)


def test_header_without_a_length():
    """The message goes on to the end of the frame."""
    packets = {0x0800: ip4(bytes(range(60)), size=0), 0x86DD: ip6(bytes(range(60)), size=0)}
    check([ethernet(kind, packet) for kind, packet in packets.items()], Field.NONE)
