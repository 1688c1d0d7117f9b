"""The serial line: rates, damage, and both ends together."""

import random

import pytest
from amaranth.hdl import Module
from cases import daily
from simulation import simulate

from lately.boards.link.bridge import BaudRate, Receiver, Transmitter

SEED = 8250
CLOCK = 24_000_000
BAUD = 3_000_000


def received(levels, *, clock_hz=CLOCK, baud=BAUD):
    """Bytes, None for an error, of a line whose level is given for each clock."""
    receiver = Receiver(rate=BaudRate(clock_hz=clock_hz, baud=baud))
    data = []

    async def bench(ctx):
        for level in levels:
            ctx.set(receiver.rx, level)
            await ctx.tick()
            assert not (ctx.get(receiver.valid) and ctx.get(receiver.error))
            if ctx.get(receiver.valid):
                data.append(ctx.get(receiver.data))
            if ctx.get(receiver.error):
                data.append(None)

    simulate(receiver, bench)
    return data


def line(data, *, clocks_per_bit, idle=3.0, stop=1):
    """Levels clock by clock of bytes at any rate."""
    bits = [1] * 3
    for byte in data:
        bits += [0, *(byte >> bit & 1 for bit in range(8)), stop]
    ends = [1] * (int(idle * clocks_per_bit) + 8)
    return [
        bits[int(clock / clocks_per_bit)] for clock in range(int(len(bits) * clocks_per_bit))
    ] + ends


@pytest.mark.parametrize(
    ("clock_hz", "baud"),
    daily(
        1,
        [
            (24_000_000, 3_000_000),
            (25_000_000, 3_000_000),
            (12_000_000, 115_200),
            (29_000_000, 3_000_000),
        ],
    ),
)
@pytest.mark.parametrize("error", [-0.02, 0.0, 0.02])
def test_other_end_may_be_wrong_by_two_percent(clock_hz, baud, error):
    rng = random.Random(SEED)
    data = [0x00, 0xFF, 0x55, 0xAA, 0x80, 0x01, *rng.randbytes(6 if baud < 1e6 else 20)]
    levels = line(data, clocks_per_bit=clock_hz / baud * (1 + error))
    assert received(levels, clock_hz=clock_hz, baud=baud) == data


def test_other_end_far_too_slow_is_noticed():
    data = [0x00] * 10
    assert received(line(data, clocks_per_bit=10)) != data


def test_glitch_is_no_start_bit():
    levels = [1] * 20 + [0] + [1] * 40 + [0, 0, 0] + [1] * 40
    assert received(levels + line([0x42], clocks_per_bit=8)) == [0x42]


def test_glitch_inside_a_bit_does_not_matter():
    levels = line([0x00, 0xFF], clocks_per_bit=8)
    for clock in range(28, len(levels) - 20, 8):
        levels[clock + 3] ^= 1
    assert received(levels) == [0x00, 0xFF]


def test_byte_without_stop_bit():
    levels = line([0x11], clocks_per_bit=8, stop=0) + line([0x22], clocks_per_bit=8)
    assert received(levels) == [None, 0x22]


def test_break_is_one_error():
    assert received([1] * 20 + [0] * 1000 + line([0x33], clocks_per_bit=8)) == [None, 0x33]


@pytest.mark.parametrize("clock_hz", [24_000_000, 25_000_000, 31_000_000])
def test_both_ends_together(clock_hz):
    rate = BaudRate(clock_hz=clock_hz, baud=BAUD)
    m = Module()
    m.submodules.transmitter = transmitter = Transmitter(rate=rate)
    m.submodules.receiver = receiver = Receiver(rate=rate)
    m.d.comb += receiver.rx.eq(transmitter.tx)
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    data = [0x00, 0xFF, *rng.randbytes(30)]
    arrived = []

    async def send(ctx):
        for byte in data:
            ctx.set(transmitter.i.payload, byte)
            ctx.set(transmitter.i.valid, 1)
            await ctx.tick().until(transmitter.i.ready)
            ctx.set(transmitter.i.valid, 0)
            # Sometimes the line rests.
            await ctx.tick().repeat(rng.choice([1, 1, 1, 50]))

    async def take(ctx):
        for _ in range(len(data) * 200):
            await ctx.tick()
            if ctx.get(receiver.valid):
                arrived.append(ctx.get(receiver.data))
            assert not ctx.get(receiver.error)

    simulate(m, send, take)
    assert arrived == data


@pytest.mark.parametrize("clock_hz", [24_000_000, 25_000_000, 48_000_000, 99_999_937, 400_000_000])
@pytest.mark.parametrize("baud", [115_200, 921_600, 1_000_000, 3_000_000])
def test_rate_is_met(clock_hz, baud):
    rate = BaudRate(clock_hz=clock_hz, baud=baud)
    actual = clock_hz * rate.increment / (1 << rate.width)
    assert abs(actual / baud - 1) < 0.001


@pytest.mark.parametrize(
    ("clock_hz", "baud", "message"),
    [
        (
            12_000_000,
            BAUD,
            r"clock: must be at least 24000000 Hz \(8 cycles per bit at 3000000 baud\), "
            "not 12000000 Hz",
        ),
        (100_000_000, 9600, "baud: must be between 115200 and 3000000, not 9600"),
        (100_000_000, 3_000_001, "must be between 115200 and 3000000, not 3000001"),
    ],
)
def test_wrong(clock_hz, baud, message):
    with pytest.raises(ValueError, match=message):
        BaudRate(clock_hz=clock_hz, baud=baud)
