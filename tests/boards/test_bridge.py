"""The bridge, byte by byte: sessions, registers and operations."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from simulation import simulate

from lately.boards.link.bridge import Bridge
from lately.boards.link.frames import FrameReceiver, FrameSender
from lately.boards.link.line_registers import LineRegisters, line_addresses
from lately.boards.link.protocol import (
    SAME,
    VERSION,
    Decoder,
    Request,
    Status,
    encode,
    encode_request,
)

pytestmark = pytest.mark.rtl

NONCE = b"once"
HELLO = (Request.HELLO, 6, NONCE)
KNOWN = 0x10
"""Words from this one on can be read and written, but 0x1F refuses to be written."""


def answered(*requests, operations=True):
    """Send requests, of each its kind, number and payload, to a bridge.

    An operation of one byte has the same byte as its result. Return the answers, of each its
    number, status and payload, and the words that were written.
    """
    m = Module()
    m.submodules.receiver = receiver = FrameReceiver(slots=2)
    m.submodules.sender = sender = FrameSender(slots=2)
    m.submodules.bridge = bridge = Bridge(slots=2, operations=operations)
    wiring.connect(m, bridge.answer, sender.i)
    wiring.connect(m, receiver.o, bridge.request)
    wiring.connect(m, bridge.operations, bridge.results)
    bus = bridge.bus
    words, answers, refuses = Signal(32, init=0x04030201), Signal(), Signal()
    m.d.comb += [
        bridge.ended.eq(receiver.ended),
        receiver.release.eq(bridge.release),
        sender.write.eq(bridge.write),
        sender.address.eq(bridge.write_address),
        sender.byte.eq(bridge.write_byte),
        sender.o.ready.eq(1),
        bridge.idle.eq(1),
        answers.eq(bus.ack | bus.err),
        refuses.eq((bus.adr < KNOWN) | (bus.we & (bus.adr == 0x1F))),
    ]
    m.d.sync += [
        bus.ack.eq(bus.stb & ~refuses & ~answers),
        bus.err.eq(bus.stb & refuses & ~answers),
        bus.dat_r.eq(words + bus.adr - KNOWN),
    ]
    heard, written = bytearray(), []

    async def bench(ctx):
        for request in requests:
            data = request if isinstance(request, bytes) else encode_request(*request)
            for byte in data:
                ctx.set(receiver.data, byte)
                ctx.set(receiver.valid, 1)
                await ctx.tick()
                ctx.set(receiver.valid, 0)
                await ctx.tick().repeat(3)
            await ctx.tick().repeat(300 + 15 * len(data) if len(data) < 20 else 2500)

    async def listen(ctx):
        sampled = ctx.tick().sample(sender.o.valid, sender.o.payload, bus.ack & bus.we, bus.adr,
                                    bus.dat_w)  # fmt: skip
        async for _, _, valid, byte, writes, address, word in sampled:
            if valid:
                heard.append(byte)
            if writes:
                written.append((address, word))

    simulate(m, bench, background=[listen])
    frames = Decoder().feed(bytes(heard))
    return [(one.sequence, one.body[0], one.body[1:]) for one in frames], written


def test_registers_are_read_and_written_in_bursts():
    found, written = answered(
        HELLO,
        (Request.READ, 7, b"\x10\0\1"),
        (Request.WRITE, 8, b"\x10\0" + b"\xaa\xbb\xcc\xdd" + b"\1\2\3\4"),
        (Request.READ, 9, b"\x0f\0\3"),
        (Request.WRITE, 10, (0x12 | SAME).to_bytes(2, "little") + bytes(range(12))),
        (Request.READ, 11, b"\x10\0\xff"),
        bytes(150),
        (Request.READ, 12, b"\x10\0\0"),
    )
    assert found[:5] == [
        (6, Status.OK, NONCE + b"\2"),
        (7, Status.OK, b"\1\2\3\4"),
        (8, Status.OK, b""),
        # A word that does not exist is read as 0.
        (9, Status.OK, b"\0\0\0\0" + b"\1\2\3\4" + b"\2\2\3\4"),
        (10, Status.OK, b""),
    ]
    # An answer has room for 32 words.
    assert (found[5][:2], len(found[5][2])) == ((11, Status.OK), 128)
    assert found[6] == (12, Status.OK, b"")
    assert written == [
        (0x10, 0xDDCCBBAA), (0x11, 0x04030201),
        (0x12, 0x03020100), (0x12, 0x07060504), (0x12, 0x0B0A0908),
    ]  # fmt: skip


def test_operations_and_results_pass():
    found, _ = answered(
        HELLO,
        (Request.OPERATE, 7, bytes(range(100))),
        (Request.OPERATE, 8, b""),
        (Request.OPERATE, 9, bytes(200)),
    )
    assert found[1:3] == [(7, Status.OK, bytes(range(100))), (8, Status.OK, b"")]
    # Results that an answer has no room for are lost.
    assert found[3] == (9, Status.OK, bytes(128))


def test_repetition_is_answered_again_and_not_performed():
    write = Request.WRITE, 7, b"\x10\0\1\0\0\0"
    operate = Request.OPERATE, 8, b"abc"
    found, written = answered(HELLO, write, write, operate, operate, (Request.OPERATE, 8, b"d"))
    assert found[1:] == [(7, 0, b"")] * 2 + [(8, 0, b"abc")] * 3
    assert len(written) == 1


WRONG = [
    # The words before the one that is refused are written.
    (Request.WRITE, b"\x1e\0" + bytes(12), Status.BAD_ADDRESS),
    (Request.WRITE, b"\x05\0" + bytes(4), Status.BAD_ADDRESS),
    (0, b"", Status.BAD_TYPE),
    (9, b"abc", Status.BAD_TYPE),
    # Requests without an address or a whole word change nothing.
    (Request.WRITE, b"\x10", Status.OK),
    (Request.WRITE, b"\x10\0\1\2\3", Status.OK),
    (Request.READ, b"", Status.OK),
    (Request.READ, b"\x10\0", Status.OK),
]


def test_request_wrong():
    requests = [(one, number, payload) for number, (one, payload, _) in enumerate(WRONG, 7)]
    found, written = answered(HELLO, *requests, (Request.READ, 99, b"\x10\0\1"))
    expected = [(number, status, b"") for number, (_, _, status) in enumerate(WRONG, 7)]
    assert found[1:] == [*expected, (99, Status.OUT_OF_ORDER, b"")]
    assert written == [(0x1E, 0)]


def test_no_session_and_other_versions():
    other = encode((VERSION + 1) << 4 | Request.READ, 3, b"\x10\0\1")
    found, _ = answered((Request.READ, 7, b"\x10\0\1"), other, HELLO, other)
    assert found == [
        (7, Status.NO_SESSION, b""),
        (3, Status.BAD_VERSION, b""),
        (6, Status.OK, NONCE + b"\2"),
        (3, Status.BAD_VERSION, b""),
    ]


def test_board_of_frames_has_no_operations():
    found, _ = answered(HELLO, (Request.OPERATE, 7, b"abc"), operations=False)
    assert found[1:] == [(7, Status.BAD_TYPE, b"")]


def test_line_registers():
    """Counters count, settings are kept, and the ROM is read; what does not exist is refused."""
    addresses = line_addresses(ticks=True, operations=True)
    registers = LineRegisters(addresses=addresses, rom=bytes(range(8)), period=77, least_period=9)
    bus = registers.bus

    async def access(ctx, name, word=None):
        address = addresses[name][0] if isinstance(name, str) else name
        ctx.set(bus.adr, address)
        ctx.set(bus.we, word is not None)
        ctx.set(bus.dat_w, word or 0)
        ctx.set(bus.stb, 1)
        await ctx.tick()
        *_, ack, err, read = await ctx.tick().sample(bus.ack, bus.err, bus.dat_r)
        ctx.set(bus.stb, 0)
        assert ack != err
        return "refused" if err else read

    async def bench(ctx):
        for number, name in enumerate(("good", "bad", "dropped", "repeated"), 1):
            ctx.set(getattr(registers, name), 1)
            await ctx.tick().repeat(number)
            ctx.set(getattr(registers, name), 0)
        await ctx.tick().repeat(8)
        for number, name in enumerate(("good", "bad", "dropped", "repeated"), 1):
            assert await access(ctx, f"frames_{name}") == number
        assert await access(ctx, "frames_good", 5) == "refused"
        assert await access(ctx, "period") == 77
        for period in (8, 1 << 24):
            assert await access(ctx, "period", period) == "refused"
        await access(ctx, "period", 9)
        await access(ctx, "failed", 1)
        assert [await access(ctx, name) for name in ("period", "failed")] == [9, 1]
        await access(ctx, "reset", 1)
        assert [await access(ctx, name) for name in ("period", "failed")] == [77, 0]
        assert [await access(ctx, 0x200), await access(ctx, 0x201)] == [0x03020100, 0x07060504]
        assert await access(ctx, 0x7F, 1) == await access(ctx, 0x200, 1) == "refused"

    simulate(registers, bench)
