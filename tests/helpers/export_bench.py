"""cocotb test of an exported unit: the buses of another project's models at its ports."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from lately.boards.export.bench import vectors
from lately.boards.export.design import Design
from lately.golden.spec.base import Specification
from lately.hdl.verilog import TOP
from lately.sim.bench.frames import pauses

COUNT = 300


def design():
    """Return the unit that is exported for the test."""
    spec = Specification.from_toml(os.environ["LATELY_SPEC"])
    return Design(spec=spec, name=TOP, tlast=True, bus="axi4-lite")


async def word_of(master, address):
    answer = await master.read(address, 4)
    return answer.resp, int.from_bytes(answer.data, "little")


@cocotb.test()
async def streams_and_registers(dut):
    """Results are golden's, registers answer meanwhile, and counters agree at the end."""
    seed = int(os.environ["LATELY_SEED"])
    choose = random.Random(seed)
    asked = design()
    stimuli = vectors(asked, COUNT, seed=seed)
    clock = cocotb.start_soon(Clock(dut.aclk, 10, unit="ns").start())
    reset = {"reset": dut.aresetn, "reset_active_level": False}
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.aclk, **reset)
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.aclk, **reset)
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, **reset)
    source.set_pause_generator(pauses(choose, 0.3))
    sink.set_pause_generator(pauses(choose, 0.5))
    for interface in (master.write_if, master.read_if):
        for channel in vars(interface).values():
            if hasattr(channel, "set_pause_generator"):
                channel.set_pause_generator(pauses(choose, 0.5))
    dut.aresetn.value = 0
    await ClockCycles(dut.aclk, 4)
    dut.aresetn.value = 1
    await RisingEdge(dut.aclk)
    key_bytes = len(dut.s_axis_tdata) // 8
    for request in stimuli.requests:
        data = request["s_axis_tdata"].to_bytes(key_bytes, "little")
        # Frames of one transfer; TLAST comes back, so that results are frames as well.
        frame = AxiStreamFrame(data, tuser=[request["s_axis_tuser"]] * key_bytes)
        source.send_nowait(frame)
    stops = 0
    for number in range(COUNT):
        if number % 25 == 0:
            assert await word_of(master, 0) == (AxiResp.OKAY, 0x4C41544C)
            assert (await word_of(master, 0xFC))[0] == AxiResp.SLVERR
            # Stop and go on.
            for value in (0, 1):
                stops += 1
                answer = await master.write(0x14, bytes([value]))
                assert answer.resp == AxiResp.OKAY
        frame = await sink.recv()
        expected = stimuli.results[number]
        assert int.from_bytes(bytes(frame.tdata), "little") == expected["m_axis_tdata"], number
        user = frame.tuser[0] if isinstance(frame.tuser, list) else frame.tuser
        assert user == expected["m_axis_tuser"], number
    assert source.empty()
    assert sink.empty()
    # What tells that nothing more comes.
    await ClockCycles(dut.aclk, 100)
    assert sink.empty()
    await master.write(0x14, bytes([9]))
    resp, operations = await word_of(master, 0x80)
    assert (resp, operations) == (AxiResp.OKAY, COUNT)
    seen = next(field for field in asked.component.results if field.name == "seen")
    hits = sum(result[seen.port] >> seen.offset & 1 for result in stimuli.results)
    assert (await word_of(master, 0x90))[1] == hits > 20
    assert stops == 24
    clock.cancel()
