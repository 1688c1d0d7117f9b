"""cocotb test of a deduplicator of frames with the frames of a capture."""

import cocotb
from capture_files import MADE

from lately.captures.capture_reader import CaptureReader
from lately.golden.packets.frame_actions import Action
from lately.sim.bench.frames import FrameBench

COPIES = MADE / "encapsulated-copies.pcap"
"""Frames of many encapsulations, most of them twice."""


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def captured_copies(dut):
    with CaptureReader(COPIES) as capture:
        packets = capture.read()
    bench = FrameBench(dut)
    await bench.reset()
    await bench.set(Action.MARK)
    await bench.compare([packets.frame(number) for number in range(len(packets))])
    assert bench.golden.counts.hits > 5
    await bench.check_counts()
