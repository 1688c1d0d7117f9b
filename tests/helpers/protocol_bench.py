"""cocotb test of a deduplicator of frames with the frames that scapy makes."""

import cocotb
from protocol_frames import PROTOCOLS

from lately.golden.packets.frame_actions import Action
from lately.sim.bench.frames import FrameBench


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def protocols(dut):
    bench = FrameBench(dut)
    await bench.reset()
    await bench.set(Action.MARK)
    await bench.compare([*PROTOCOLS, *PROTOCOLS])
    assert bench.golden.counts.hits >= len(PROTOCOLS)
    await bench.check_counts()
