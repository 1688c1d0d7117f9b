"""The bridge of a board, byte by byte, and the words of blocks and results."""

import random
import zlib
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from cases import daily
from simulation import simulate

from lately.boards.link import layout
from lately.boards.link.bridge import Bridge
from lately.boards.link.link import FilterLink, OperationPort
from lately.golden import SpecificationError, any_preset, from_spec
from lately.golden.results import Results
from lately.golden.spec.presets import ALL_PRESETS
from lately.host import differing

SEED = 16550
TIMEOUT = 50
WORDS = 64
"""Words from address 0 on; the upper half refuses every access."""


def answered(*parts):
    """Send bytes, or wait for cycles, to a bridge; return its bytes, and the words at the end."""
    m = Module()
    m.submodules.bridge = bridge = Bridge(timeout=TIMEOUT)
    m.submodules.memory = memory = Memory(shape=32, depth=WORDS, init=range(WORDS))
    read, write = memory.read_port(), memory.write_port()
    bus, there = bridge.bus, Signal()
    asked = bus.stb & ~bus.ack & ~bus.err
    m.d.comb += [
        there.eq(bus.adr < WORDS // 2),
        read.addr.eq(bus.adr),
        write.addr.eq(bus.adr),
        write.data.eq(bus.dat_w),
        write.en.eq(asked & bus.we & there),
        bus.dat_r.eq(read.data),
    ]
    m.d.sync += [bus.ack.eq(asked & there), bus.err.eq(asked & ~there)]
    choose, sent, words = random.Random(SEED), bytearray(), []

    async def send(ctx):
        for part in parts:
            if isinstance(part, int):
                await ctx.tick().repeat(part)
                continue
            for byte in part:
                ctx.set(bridge.i.payload, byte)
                ctx.set(bridge.i.valid, 1)
                await ctx.tick().until(bridge.i.ready)
                ctx.set(bridge.i.valid, 0)
                await ctx.tick().repeat(choose.choice([1, 1, 5]))
        await ctx.tick().repeat(20)
        await ctx.tick().until(~bridge.busy)
        words.extend(ctx.get(memory.data[at]) for at in range(WORDS))

    async def take(ctx):
        while True:
            ctx.set(bridge.o.ready, choose.random() < 0.5)
            valid, byte, ready = (ctx.get(signal) for signal in
                                  (bridge.o.valid, bridge.o.payload, bridge.o.ready))  # fmt: skip
            await ctx.tick()
            if valid and ready:
                sent.append(byte)

    simulate(m, send, background=[take])
    return bytes(sent), words


def command(kind, count, address, *words):
    return bytes([kind, count]) + address.to_bytes(4, "big") + np.array(words, ">u4").tobytes()


def test_bursts_read_and_write():
    """At random; the words that exist are as written, and all others read as ones."""
    choose, held = random.Random(SEED), dict(enumerate(range(WORDS // 2)))
    parts, expected = [], []
    for _ in range(40):
        kind, count, at = choose.randint(1, 4), choose.randint(1, 9), choose.randrange(WORDS - 9)
        addresses = [at + number * (kind < layout.WRITE_SAME) for number in range(count)]
        if kind in (layout.WRITE, layout.WRITE_SAME):
            words = [choose.getrandbits(32) for _ in addresses]
            held |= {address: word for address, word in zip(addresses, words, strict=True)
                     if address in held}  # fmt: skip
            parts.append(command(kind, count, at, *words))
        else:
            expected += [held.get(address, layout.MISSING) for address in addresses]
            parts.append(command(kind, count, at))
    sent, words = answered(*parts)
    assert sent == np.array(expected, ">u4").tobytes()
    assert words[: WORDS // 2] == list(held.values())
    assert words[WORDS // 2 :] == list(range(WORDS // 2, WORDS))


@pytest.mark.parametrize("cut", [1, 5, 7, 13])
def test_command_that_stops_is_dropped(cut):
    whole, read = command(layout.WRITE, 2, 3, 77, 78), command(layout.READ, 2, 3)
    sent, _ = answered(whole[:cut], TIMEOUT // 2, whole[cut:], read)
    assert sent == np.array([77, 78], ">u4").tobytes()
    sent, _ = answered(whole[:cut], TIMEOUT + 10, read)
    assert sent == np.array([77 if cut > 9 else 3, 4], ">u4").tobytes()


def test_bytes_that_are_no_command_do_nothing():
    sent, words = answered(bytes([0, 5, 255, 0, 0]), command(layout.READ, 1, 2))
    assert (sent, words) == ((2).to_bytes(4, "big"), list(range(WORDS)))


# Words


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("key_bits", [8, 32, 65])
def test_blocks_have_all_operations_in_order(key_bits, mixed):
    spec = replace(any_preset("dictionary-tiny"), key_bits=key_bits)
    rng = np.random.default_rng(SEED)
    codes = rng.choice([1, 3], 600) if mixed else np.full(600, 3)
    keys = rng.integers(0, 1 << 63, (600, -(-key_bits // 64)), np.uint64)
    windows = np.full(600, 9)
    actual = []
    for block in layout.pack_blocks(spec, codes, keys, windows):
        head, shape, performed, check = block.trailer(5)
        words = -(-key_bits // 32) + mixed
        assert shape & 255 == layout.TRAILER - len(block.words)
        assert (shape & layout.MIXED > 0, performed) == (mixed, 5)
        rows = block.words.reshape(block.operations, words)
        heads = rows[:, 0] if mixed else np.full(len(rows), head)
        actual += [(int(word) & 15, int(word) >> 4, *key) for word, key in
                  zip(heads, rows[:, mixed:].tolist(), strict=True)]  # fmt: skip
        assert check == zlib.crc32(np.array([*block.words, head, shape, 5], "<u4"))
    expected = [
        (code, 9, *key)
        for code, key in zip(codes, keys.view("<u4")[:, : -(-key_bits // 32)].tolist(), strict=True)
    ]
    assert actual == expected


def test_results_are_unpacked():
    for name in ("tiny", "timed-tiny", "dictionary-tiny", "timing-tiny", "timing-counted-tiny"):
        spec = any_preset(name)
        rng = np.random.default_rng(SEED)
        seen = rng.random(100) < 0.5
        status = {"oldest" if spec.kind == "timing" else "status": rng.integers(0, 4, 100)}
        age = rng.integers(0, 1 << 26, 100)
        results = Results.of(
            seen,
            age if spec.kind == "timing" else np.where(seen, age, -1),
            time=rng.integers(0, 1 << 30, 100) * spec.timed,
            **status,
        )
        words = np.concatenate([
            (np.maximum(results.age, 0) | next(iter(status.values())) << 26 | seen << 31)[:, None],
            results.time[:, None],
        ], axis=1)  # fmt: skip
        actual = layout.unpack_results(spec, words[:, : layout.result_words(spec)].astype("<u4"))
        for values, other in zip(actual, results, strict=True):
            assert (values == other).all(), name


@pytest.mark.parametrize("name", ALL_PRESETS)
def test_host_and_board_know_the_same_of_a_filter(name):
    """What the host derives from the specification is what the unit has."""
    spec = ALL_PRESETS[name]
    if spec.lanes > 1:
        with pytest.raises(SpecificationError, match="lanes: must be at most 1 for a serial link"):
            FilterLink(spec, clock_hz=8_000_000, baud=1_000_000)
        return
    link = FilterLink(spec, clock_hz=8_000_000, baud=1_000_000)
    signature, registers = link.unit.signature, link.unit.registers.registers
    request, result = signature.request.members, signature.result.members
    assert len(OperationPort(link.unit).record) == 32 * layout.result_words(spec)
    assert spec.timed == ("period" in registers) == ("time" in result)
    assert (spec.kind == "ring") == ("generation" in registers)
    assert (spec.kind == "timing") == ("oldest" in result)
    assert spec.keyed == ("secret" in registers)
    assert spec.query_field in ("", *request)
    assert ("window" in request or "query_class" in request) == bool(spec.query_field)


PORTS = {
    "ring": replace(any_preset("tiny"), key_bits=20),
    "dictionary": replace(any_preset("dictionary-tiny"), key_bits=40),
    "counted": any_preset("timing-counted-tiny"),
    "timed": any_preset("timed-tiny"),
}


@pytest.mark.parametrize("name", daily(2, PORTS))
def test_blocks_are_performed_once_or_not_at_all(name):
    """With random operations; a block with a wrong word, place, number or CRC does nothing."""
    spec = PORTS[name]
    link = FilterLink(spec, clock_hz=8_000_000, baud=1_000_000)
    m = Module()
    m.submodules.unit = unit = link.unit
    m.submodules.port = port = OperationPort(unit)
    wiring.connect(m, port.i, unit.i)
    wiring.connect(m, unit.o, port.o)
    rng, golden, rejected = np.random.default_rng(SEED), from_spec(spec), []

    async def access(ctx, address, word=None):
        bus = port.bus
        ctx.set(bus.adr, address // 4 & 1023)
        ctx.set(bus.we, word is not None)
        ctx.set(bus.dat_w, word or 0)
        ctx.set(bus.stb, 1)
        await ctx.tick().until(bus.ack)
        ctx.set(bus.stb, 0)
        return ctx.get(bus.dat_r)

    async def send(ctx, block, performed, damage):
        words = [*block.words.tolist(), *block.trailer(performed)]
        if damage:
            words[rng.integers(len(words))] ^= 1 << int(rng.integers(8))
        for number, word in enumerate(words, layout.TRAILER - len(block.words)):
            await access(ctx, layout.BLOCK + 4 * number, word)

    async def bench(ctx):
        performed = 0
        for number in range(12):
            count = int(rng.integers(1, 20))
            codes = rng.choice([1, 3], count) if number % 2 else np.full(count, 3)
            keys = rng.integers(0, 12, (count, 1), np.uint64)
            longest = layout.longest_query(spec)
            shortest = 1 if number % 2 and longest else longest
            windows = rng.integers(shortest, longest + 1, count)
            (block,) = layout.pack_blocks(spec, codes, keys, windows)
            for before, damage in ((performed, True), (performed + 1, False), (performed, False)):
                assert await access(ctx, layout.RESULTS) == performed
                await send(ctx, block, before, damage)
            performed += count
            assert await access(ctx, layout.RESULTS) == performed
            size = count * layout.result_words(spec)
            signature, *words = [
                await access(ctx, layout.RESULTS + 4 + 4 * at) for at in range(1 + size)
            ]
            answer = np.array(words, "<u4")
            assert zlib.crc32(answer.tobytes()) == signature
            results = layout.unpack_results(spec, answer.reshape(count, -1))
            asked = windows if spec.query_field else None
            assert len(differing(spec, golden, codes, keys[:, 0], asked, results)) == 0

    async def count(ctx):
        async for _, _, wrong in ctx.tick().sample(port.rejected):
            rejected.append(wrong)

    simulate(m, bench, background=[count])
    assert sum(rejected) == 2 * 12
