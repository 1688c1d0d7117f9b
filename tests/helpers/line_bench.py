"""cocotb test of a deduplicator between two lines: the PHYs are another project's models."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotbext.eth import GmiiFrame, GmiiSink, GmiiSource

from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.spec.base import Specification
from lately.hdl.packets.gmii import GAP_BYTES, PREAMBLE_BYTES, SHORTEST_FRAME

COUNT = int(os.environ.get("LATELY_COUNT", "12"))
DISTINCT = COUNT // 2
LONGEST = 100


def made(choose):
    """Frames of any payload."""
    return [choose.randbytes(choose.randint(SHORTEST_FRAME, LONGEST)) for _ in range(DISTINCT)]


def on_the_line(payload, damaged):
    frame = GmiiFrame.from_payload(payload)
    frame.error = [0] * len(frame.data)
    if damaged:
        frame.error[choose_index(payload)] = 1
    return frame


def choose_index(payload):
    return PREAMBLE_BYTES + 1 + payload[0] % SHORTEST_FRAME


@cocotb.test()
async def frames_pass_once(dut):
    """At the full rate of the line, and what is sent has a right check sequence and gap."""
    seed = int(os.environ["LATELY_SEED"])
    choose = random.Random(seed)
    golden = FrameDeduplicator(Specification.from_toml(os.environ["LATELY_SPEC"]))
    # Clocks that differ as much as they may.
    clocks = [(dut.clk, 8000, dut.rst), (dut.rx_clk, choose.choice([7999, 8001]), dut.rx_rst)]
    for clock, period, reset in clocks:
        reset.value = 0
        cocotb.start_soon(Clock(clock, period, unit="ps", period_high=4000).start())
    source = GmiiSource(dut.rx_data, dut.rx_error, dut.rx_valid, dut.rx_clk)
    sink = GmiiSink(dut.tx_data, dut.tx_error, dut.tx_valid, dut.clk)
    source.ifg = GAP_BYTES
    frames = made(choose)
    sent = [choose.choice(frames) for _ in range(COUNT)]
    damaged = [choose.random() < 0.2 for _ in sent]
    expected = golden.perform(sent, [0] * COUNT, errored=damaged)
    # The filter clears itself after reset.
    await ClockCycles(dut.clk, 100)
    for frame, bad in zip(sent, damaged, strict=True):
        await source.send(on_the_line(frame, bad))
    await source.wait()
    await ClockCycles(dut.clk, 400)
    received = [sink.recv_nowait() for _ in range(sink.count())]
    assert [frame.get_payload() for frame in received] == [entry.frame for entry in expected]
    assert all(frame.check_fcs() for frame in received)
    assert not any(any(frame.error or []) for frame in received)
    assert 1 < len(received) < COUNT - sum(damaged)
