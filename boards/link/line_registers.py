"""Registers of a board in addition to its unit's: line, ticks, self-test and description."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ...hdl.latencies import PERIOD_BITS
from ...hdl.registers import REGISTERS, WORD_BITS, Block, counters
from ...hdl.statistics import EventCounter
from .bridge import BusSignature
from .information import ROM_ADDRESS
from .protocol import WORD_BYTES

PERIOD_ADDRESS = 0x110
"""Address of the tick period, if the board generates ticks for its unit."""


def line_addresses(*, ticks, operations):
    """Return the word address and the width of each register, by name.

    Parameters
    ----------
    ticks : bool
        Whether the board generates ticks for its unit.
    operations : bool
        Whether the unit receives operations; then there are registers for reset and self-test.
    """
    held = [one for one in REGISTERS if one.holder is Block.LINE and (operations or one.event)]
    found = {one.name: (one.address // WORD_BYTES, one.width) for one in held}
    return found | ({"period": (PERIOD_ADDRESS // WORD_BYTES, PERIOD_BITS)} if ticks else {})


class LineRegisters(wiring.Component):
    """Registers of the serial line, and the description of the board in a ROM.

    Parameters
    ----------
    addresses : dict
        As from `line_addresses`.
    rom : bytes
        Words of the description.
    period, least_period : int
        Tick period after reset, and the minimum period; shorter settings are rejected.

    Members
    -------
    bus : In(BusSignature())
        An access is answered one cycle later.
    good, bad, ... : In(1)
        Events of the line for the counters.
    reset : Out(1)
        High for one cycle: resets the unit.
    start : Out(1)
        High for one cycle: resets the unit and starts a self-test.
    testing : In(1)
    crc : In(32)
        Signature of the last self-test.
    failed : Out(1)
    period : Out(24)
    """

    def __init__(self, *, addresses, rom, period=0, least_period=0):
        self._addresses = addresses
        self._rom = [int.from_bytes(rom[at : at + WORD_BYTES], "little")
                     for at in range(0, len(rom), WORD_BYTES)]  # fmt: skip
        self._period, self._least_period = period, least_period
        super().__init__(
            {"bus": In(BusSignature())}
            | {register.event: In(1) for register in counters(Block.LINE)}
            | {
                "reset": Out(1),
                "start": Out(1),
                "testing": In(1),
                "crc": In(WORD_BITS),
                "failed": Out(1),
                "period": Out(PERIOD_BITS, init=period),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        m.submodules.rom = rom = memory.Memory(
            shape=WORD_BITS, depth=len(self._rom), init=self._rom
        )
        read = rom.read_port()
        word, from_rom, refused = Signal(WORD_BITS), Signal(), Signal()
        answered = bus.ack | bus.err
        asked = bus.stb & ~answered
        m.d.comb += [read.addr.eq(bus.adr), bus.dat_r.eq(Mux(from_rom, read.data, word))]
        m.d.sync += [
            from_rom.eq(bus.adr >= ROM_ADDRESS),
            word.eq(0),
            self.reset.eq(0),
            self.start.eq(0),
            bus.ack.eq(asked & ~(bus.we & refused)),
            bus.err.eq(asked & bus.we & refused),
        ]
        m.d.comb += refused.eq(1)
        values = self._elaborate_values(m)
        with m.Switch(bus.adr):
            for name, (address, _) in self._addresses.items():
                with m.Case(address):
                    m.d.sync += word.eq(values.get(name, 0))
                    self._elaborate_write(m, name, asked & bus.we, refused)
        with m.If(self.reset):
            m.d.sync += [self.period.eq(self._period), self.failed.eq(0)]
        return m

    def _elaborate_values(self, m):
        """Count the events of the line; return the readable values of the registers, by name."""
        values = {"self_test": self.testing, "signature": self.crc, "failed": self.failed,
                  "period": self.period}  # fmt: skip
        for register in counters(Block.LINE):
            m.submodules[register.name] = counter = EventCounter(width=register.width)
            m.d.comb += counter.event.eq(getattr(self, register.event))
            values[register.name] = counter.count
        return values

    def _elaborate_write(self, m, name, writes, refused):
        """Make a register writable."""
        data = self.bus.dat_w
        taken = {
            "reset": self.reset.eq(1),
            "self_test": self.start.eq(1),
            "failed": self.failed.eq(data[0]),
            "period": self.period.eq(data),
        }
        if name not in taken:
            return
        valid = Const(1)
        if name == "period":
            valid = (data >= self._least_period) & ~data[PERIOD_BITS:].any()
        m.d.comb += refused.eq(~valid)
        with m.If(writes & valid):
            m.d.sync += taken[name]
