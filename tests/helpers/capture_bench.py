"""cocotb test of a deduplicator of frames with the captures that there are."""

from pathlib import Path

import cocotb
from capture_files import CAPTURES

from lately.captures.capture_reader import CaptureReader
from lately.golden.packets.frame_actions import Action
from lately.sim.bench.frames import FrameBench

DATA = Path(__file__).parents[3] / CAPTURES


def frames_of(path):
    with CaptureReader(path) as capture:
        while (packets := capture.read()) is not None:
            yield from (packets.frame(number) for number in range(len(packets)))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def captures(dut):
    """Every frame of the captures."""
    bench = FrameBench(dut)
    await bench.reset()
    await bench.set(Action.MARK)
    for path in sorted(DATA.iterdir()):
        frames = [*frames_of(path)]
        dut._log.info("%s: %d frames", path.name, len(frames))
        for at in range(0, len(frames), 50):
            await bench.compare(frames[at : at + 50])
        hits = bench.golden.counts.hits
        dut._log.info("%d of all frames so far are duplicates", hits)
        await bench.ticks(2 * bench.golden.spec.span)
    await bench.check_counts()
