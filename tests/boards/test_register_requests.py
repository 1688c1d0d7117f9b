"""Requests of a board whose registers are at addresses, byte by byte."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.sim import Simulator

from lately.boards.link.frames import FrameReceiver, FrameSender
from lately.boards.link.information import Information
from lately.boards.link.protocol import Decoder, Request, Status, encode_request
from lately.boards.link.register_requests import RegisterRequests

pytestmark = pytest.mark.rtl

INFORMATION = Information(
    slots=2, key_bits=64, window_generations=0, generation=0, digest=bytes(range(8)),
    clock_hz=125_000_000, keyed=False, time_bits=0, self_test_cycles=0, registers=5,
)  # fmt: skip
NONCE = b"once"


def answered(*requests):
    """Send requests, of each its kind, number and payload, to a board of two registers.

    One at 0x10 can be read and written; all others are errors. Return the answers, each of its
    number, status and payload, and the number of writes.
    """
    m = Module()
    m.submodules.receiver = receiver = FrameReceiver(slots=2)
    m.submodules.sender = sender = FrameSender(slots=2)
    m.submodules.requests = requested = RegisterRequests(information=INFORMATION)
    wiring.connect(m, requested.answer, sender.i)
    word, writes, known = Signal(32, init=0x04030201), Signal(8), Signal()
    asks, answers = Signal(), Signal()
    m.d.comb += [
        receiver.address.eq(requested.address),
        receiver.release.eq(requested.release),
        requested.pending.eq(receiver.pending),
        requested.length.eq(receiver.length),
        requested.byte.eq(receiver.byte),
        sender.write.eq(requested.write),
        sender.address.eq(requested.write_address),
        sender.byte.eq(requested.write_byte),
        sender.o.ready.eq(1),
        asks.eq(requested.wb_cyc_o & requested.wb_stb_o),
        known.eq(requested.wb_adr_o == 0x10 // 4),
        answers.eq(requested.wb_ack_i | requested.wb_err_i),
    ]
    m.d.sync += [
        requested.wb_ack_i.eq(asks & known & ~answers),
        requested.wb_err_i.eq(asks & ~known & ~answers),
        requested.wb_dat_i.eq(word),
    ]
    with m.If(requested.wb_ack_i & requested.wb_we_o):
        m.d.sync += [word.eq(requested.wb_dat_o), writes.eq(writes + 1)]
    heard = bytearray()

    async def bench(ctx):
        for request in requests:
            for byte in encode_request(*request):
                ctx.set(receiver.data, byte)
                ctx.set(receiver.valid, 1)
                await ctx.tick()
                ctx.set(receiver.valid, 0)
                await ctx.tick().repeat(3)
            await ctx.tick().repeat(300)
        heard.append(ctx.get(writes))

    async def listen(ctx):
        async for _, _, valid, byte in ctx.tick().sample(sender.o.valid, sender.o.payload):
            if valid:
                heard.append(byte)

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.add_testbench(listen, background=True)
    simulator.run()
    frames = Decoder().feed(bytes(heard[:-1]))
    return [(one.sequence, one.body[0], one.body[1:]) for one in frames], heard[-1]


HELLO = (Request.HELLO, 6, NONCE)


def test_registers_are_read_and_written():
    found, writes = answered(
        HELLO,
        (Request.READ, 7, b"\x10"),
        (Request.WRITE, 8, b"\x10\xaa\xbb\xcc\xdd"),
        (Request.READ, 9, b"\x10"),
    )
    assert found == [
        (6, Status.OK, NONCE + INFORMATION.pack()),
        (7, Status.OK, b"\1\2\3\4"),
        (8, Status.OK, b""),
        (9, Status.OK, b"\xaa\xbb\xcc\xdd"),
    ]
    assert writes == 1


def test_repetition_is_answered_again_and_not_performed():
    write = Request.WRITE, 7, b"\x10\1\0\0\0"
    found, writes = answered(
        HELLO, write, write, (Request.READ, 8, b"\x10"), (Request.READ, 8, b"")
    )
    assert found[1:] == [(7, 0, b""), (7, 0, b""), (8, 0, b"\1\0\0\0"), (8, 0, b"\1\0\0\0")]
    assert writes == 1


WRONG = [
    (Request.READ, b"\x14", Status.BAD_VALUE),
    (Request.WRITE, b"\x14\0\0\0\0", Status.BAD_VALUE),
    # Addresses are those of words.
    (Request.READ, b"\x11", Status.BAD_VALUE),
    (Request.WRITE, b"\x12\0\0\0\0", Status.BAD_VALUE),
    (Request.READ, b"", Status.BAD_LENGTH),
    (Request.READ, b"\x10\0", Status.BAD_LENGTH),
    (Request.WRITE, b"\x10\0\0\0", Status.BAD_LENGTH),
    (Request.WRITE, b"\x10\0\0\0\0\0", Status.BAD_LENGTH),
    (Request.OPERATIONS, b"", Status.BAD_TYPE),
]


def test_request_wrong():
    requests = [(one, number, payload) for number, (one, payload, _) in enumerate(WRONG, 7)]
    found, writes = answered(HELLO, *requests, (Request.READ, 99, b"\x10"))
    expected = [(number, status, b"") for number, (_, _, status) in enumerate(WRONG, 7)]
    assert found[1:] == [*expected, (99, Status.OUT_OF_ORDER, b"")]
    assert writes == 0


def test_no_session():
    assert answered((Request.READ, 7, b"\x10")) == ([(7, Status.NO_SESSION, b"")], 0)
