"""Two lanes of SipHash in hardware: words in, digests out."""

import random

import numpy as np
import pytest
from amaranth.hdl import Value
from plain_siphash import plain_round
from simulation import simulate

from lately.golden.hash.siphash import siphash
from lately.golden.packets.packet_digest import OTHER_LANE
from lately.hdl.packets.lane_digest import LaneDigest, SipRound

SEED = 15


def test_round():
    print("seed", SEED)
    choose = random.Random(SEED)
    component = SipRound()
    entered = []

    async def bench(ctx):
        for _ in range(200):
            enable = choose.random() < 0.7
            state = [choose.randrange(1 << 64) for _ in range(4)]
            ctx.set(component.enable, enable)
            ctx.set(component.i, state)
            if len(entered) >= component.LATENCY:
                found = ctx.get(component.o)
                assert tuple(found) == plain_round(entered[-component.LATENCY])
            if enable:
                entered.append(state)
            await ctx.tick()

    simulate(component, bench)
    assert len(entered) > 100


def golden(words, closing, secret):
    total = 0
    for lane, key in enumerate((secret, secret ^ OTHER_LANE)):
        keys = np.array([[*words[lane::2], closing]], np.uint64)
        total ^= int(siphash(keys, key, key_bits=64 * keys.shape[1] - 8)[0])
    return total


def scheduled(choose, sizes, idle):
    """Words and ends, one entry a clock, as close as they may be."""
    clocks, expected, end, last_end = [], [], {}, -8
    secret = choose.randrange(1 << 128)
    for size in sizes:
        words = [choose.randrange(1 << 64) for _ in range(size)]
        closing = choose.randrange(1 << 56)
        expected.append(golden(words, closing, secret))
        for number, word in enumerate(words):
            while number != 1 and choose.random() < idle:
                clocks.append(end)
                end = {}
            fields = {"octets": word, "opening": int(number < 2), "lane": number % 2}
            # The end of one message comes with a word of the next.
            clocks.append(end | {"word": fields})
            end = {}
        clocks += [{}] * (last_end + 8 - len(clocks))
        last_end = len(clocks)
        end = {"end": (closing, size)}
    return secret, [*clocks, end], expected


@pytest.mark.parametrize("idle", [0, 0.5])
def test_messages(idle):
    print("seed", SEED)
    choose = random.Random(SEED)
    sizes = [2, 2, 3, 8, 7, 8, 9, 2, *choose.choices(range(2, 12), k=20), 63, 64, 65, 66, 190, 2]
    secret, clocks, expected = scheduled(choose, sizes, idle)
    component = LaneDigest()
    found = []

    async def bench(ctx):
        ctx.set(component.secret, secret)
        told = False
        since = []
        for clock, entry in enumerate([*clocks, *[{}] * (component.LATENCY + 1)]):
            ctx.set(component.valid, "word" in entry)
            ctx.set(component.ends, "end" in entry)
            if "word" in entry:
                ctx.set(component.word, entry["word"])
            if "end" in entry:
                closing, size = entry["end"]
                ctx.set(Value.cast(component.end), closing | size % 64 << 56)
                since.append(clock)
            if told:
                assert clock == since[len(found)] + component.LATENCY
                found.append(ctx.get(component.digest))
            told = ctx.get(component.valid_next)
            await ctx.tick()

    simulate(component, bench)
    assert found == expected
