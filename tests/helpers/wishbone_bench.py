"""cocotb test of an exported unit: every register over Wishbone, beside the table of registers."""

import json
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

from lately.boards.export.bench import vectors
from lately.boards.export.design import Design
from lately.golden.spec.base import Specification
from lately.hdl.bus.register_map import ADDRESS_BITS, WORD_BYTES
from lately.hdl.registers import WORD_BITS, Access
from lately.hdl.verilog import TOP

COUNT = 60
MAX_CLOCKS = 40
"""Clocks in which an access is answered."""

KNOWN = {"id": 0x4C41544C, "control": 1}
"""Values after reset that are told in documents."""


def design():
    """Return the unit that is exported for the test."""
    spec = Specification.from_toml(os.environ["LATELY_SPEC"])
    return Design(spec=spec, name=TOP, bus="wishbone", **json.loads(os.environ["LATELY_DESIGN"]))


def clock_of(dut):
    return dut.aclk if hasattr(dut, "aclk") else dut.clk


class Master:
    """Accesses one after another, with pauses, as a classic master or as a pipelined one."""

    def __init__(self, dut, choose, *, pipelined):
        self._dut, self._choose, self._pipelined = dut, choose, pipelined
        self._clock = clock_of(dut)
        self._set(cyc=0, stb=0, we=0, adr=0, sel=0, dat=0)

    def _set(self, **values):
        for name, value in values.items():
            getattr(self._dut, f"wb_{name}_i").value = value

    async def access(self, address, data=None, strobe=15):
        """Return whether it failed, and what was read."""
        index = address // WORD_BYTES
        self._set(cyc=1, stb=1, we=data is not None, adr=index, sel=strobe, dat=data or 0)
        for _ in range(MAX_CLOCKS):
            await FallingEdge(self._clock)
            done, failed, stalled = (
                int(getattr(self._dut, f"wb_{name}_o").value) for name in ("ack", "err", "stall")
            )
            word = int(self._dut.wb_dat_o.value) if done and data is None else None
            await RisingEdge(self._clock)
            if self._pipelined and not stalled:
                self._set(stb=0)
            if done or failed:
                assert done + failed == 1
                self._set(cyc=0, stb=0)
                if pause := self._choose.randrange(3):
                    await ClockCycles(self._clock, pause)
                return bool(failed), word
        raise AssertionError(f"no answer at {address:#x}")

    async def read(self, address):
        failed, word = await self.access(address)
        assert not failed, hex(address)
        return word

    async def write(self, address, data, strobe=15):
        failed, _ = await self.access(address, data, strobe)
        assert not failed, hex(address)


async def started(dut, *, pipelined):
    """Return the unit that was exported, and a master of its bus after reset."""
    choose = random.Random(f"{os.environ['LATELY_SEED']} {pipelined}")
    master = Master(dut, choose, pipelined=pipelined)
    for name in ("s_axis_tvalid", "m_axis_tready", "in_valid"):
        if hasattr(dut, name):
            getattr(dut, name).value = 0
    clock = clock_of(dut)
    # The streams' reset is low, that of ports without ready is high.
    reset, active = (dut.aresetn, 0) if hasattr(dut, "aresetn") else (dut.rst, 1)
    cocotb.start_soon(Clock(clock, 10, unit="ns").start())
    reset.value = active
    await ClockCycles(clock, 4)
    reset.value = 1 - active
    await RisingEdge(clock)
    return design(), master, choose


def held_after_reset(word):
    """Return what a word holds after reset; None if the unit determines it."""
    if any(field.reset is None for field in word.fields):
        return None
    return sum(field.reset << field.low for field in word.fields)


def mask(word, *kinds):
    return sum(field.mask for field in word.fields if field.access in kinds)


@cocotb.test()
@cocotb.parametrize(pipelined=[False, True])
async def every_address(dut, pipelined):
    """What can be read holds its value after reset; the rest is refused, and changes nothing."""
    asked, master, _ = await started(dut, pipelined=pipelined)
    words = {word.address: word for word in asked.registers.words}
    for _ in range(2):
        for address in range(0, 1 << ADDRESS_BITS, WORD_BYTES):
            word = words.get(address)
            failed, value = await master.access(address)
            assert failed == (word is None or not word.readable), hex(address)
            if not failed and (held := held_after_reset(word)) is not None:
                assert value == held == KNOWN.get(word.name, held), word.name
            if word is None or not word.writable:
                failed, _ = await master.access(address, (1 << WORD_BITS) - 1)
                assert failed, hex(address)


@cocotb.test()
@cocotb.parametrize(pipelined=[False, True])
async def settings(dut, pipelined):
    """What is written is read, byte by byte and no bit more than there is."""
    asked, master, choose = await started(dut, pipelined=pipelined)
    words = [word for word in asked.registers.words if mask(word, Access.READ_WRITE)]
    # The orders beside `enable` are another test's.
    bits = {
        word.address: 1 if word.name == "control" else mask(word, Access.READ_WRITE)
        for word in words
    }
    expected = {address: await master.read(address) & bits[address] for address in bits}
    reset = dict(expected)
    for _ in range(30):
        address, strobe = choose.choice(list(bits)), choose.randrange(16)
        data = choose.choice([choose.getrandbits(WORD_BITS), (1 << WORD_BITS) - 1, 0])
        # No order is given.
        data &= bits[address] | ~0x1F
        lanes = sum(0xFF << 8 * byte for byte in range(WORD_BYTES) if strobe >> byte & 1)
        taken = lanes & bits[address]
        await master.write(address, data & ((1 << WORD_BITS) - 1), strobe)
        expected[address] = (expected[address] & ~taken) | (data & taken)
        for other, value in expected.items():
            assert await master.read(other) == value, hex(other)
    for address, value in reset.items():
        await master.write(address, value)
        assert await master.read(address) == value


@cocotb.test()
@cocotb.parametrize(pipelined=[False, True])
async def orders(dut, pipelined):
    """Orders are performed; what can only be written is taken, and faults are cleared."""
    asked, master, choose = await started(dut, pipelined=pipelined)
    words = {word.name: word for word in asked.registers.words}
    control, status = words["control"], words["status"].address
    for word in words.values():
        if not word.readable:
            await master.write(word.address, choose.getrandbits(WORD_BITS))
            assert (await master.access(word.address))[0]
    for field in control.fields:
        if field.access is Access.PULSE:
            await master.write(control.address, 1 | field.mask)
            assert await master.read(control.address) == 1, field.name
            # A secret or an entry waits until it can be taken, after a clear at the latest.
            await until(master, status, 1)
    await until(master, status, (1 << WORD_BITS) - 1)
    for word in words.values():
        if kept := mask(word, Access.STICKY):
            await master.write(word.address, kept)
            assert await master.read(word.address) == 0


async def until(master, address, bits):
    """Wait until some bits of a word are 0."""
    for _ in range(200):
        if not await master.read(address) & bits:
            return
    raise AssertionError(f"{bits:#x} of {address:#x} stays")


@cocotb.test()
async def counters(dut):
    """They tell what golden says of a stream, as of the last snapshot."""
    asked, master, _ = await started(dut, pipelined=False)
    stimuli = vectors(asked, COUNT, seed=int(os.environ["LATELY_SEED"]))
    reset = {"reset": dut.aresetn, "reset_active_level": False}
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.aclk, **reset)
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.aclk, **reset)
    key_bytes = len(dut.s_axis_tdata) // 8
    for request in stimuli.requests:
        data = request["s_axis_tdata"].to_bytes(key_bytes, "little")
        await source.send(AxiStreamFrame(data, tuser=[request["s_axis_tuser"]] * key_bytes))
    await ClockCycles(dut.aclk, 400)
    words = {word.name: word.address for word in asked.registers.words}
    before = await master.read(words["operations_0"])
    await master.write(words["control"], 9)
    assert (before, await master.read(words["operations_0"])) == (0, COUNT)
    assert await master.read(words["operations_1"]) == 0
    seen = next(field for field in asked.component.results if field.name == "seen")
    hits = sum(result[seen.port] >> seen.offset & 1 for result in stimuli.results)
    assert await master.read(words["hits_0"]) == hits > COUNT // 8
    assert sink.count() > 0
