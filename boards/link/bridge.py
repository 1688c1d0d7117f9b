"""Bridge from serial bytes to a bus; compatible with LiteX's UARTBone and its software."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...hdl.registers import WORD_BITS
from .layout import COMMANDS, READ, WRITE, WRITE_SAME


class BusSignature(wiring.Signature):
    """Wishbone master, one access at a time; `err` or `ack` ends an access."""

    def __init__(self):
        super().__init__(
            {
                "stb": Out(1),
                "we": Out(1),
                "adr": Out(32),
                "dat_w": Out(WORD_BITS),
                "dat_r": In(WORD_BITS),
                "ack": In(1),
                "err": In(1),
            }
        )


class Bridge(wiring.Component):
    """Performs bursts of reads and writes. A failed read returns all ones.

    A command that pauses for `timeout` cycles is dropped, so the next byte starts a new command.
    """

    def __init__(self, *, timeout):
        self._timeout = timeout
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o": Out(stream.Signature(8)),
                "bus": Out(BusSignature()),
                "busy": Out(1),  # a command is in progress
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        command, left, word = Signal(8), Signal(8), Signal(WORD_BITS)
        number = Signal(3)  # index of the byte
        idle = Signal(range(self._timeout + 1))
        done, late, step = Signal(), Signal(), Signal()
        last, accepted = left == 1, self.i.valid & self.i.ready
        m.d.comb += [
            done.eq(bus.ack | bus.err),
            bus.dat_w.eq(word),
            self.o.payload.eq(word[-8:]),
        ]
        m.d.sync += [
            late.eq(idle == self._timeout),
            idle.eq(Mux(accepted | done | self.o.valid | ~self.busy, 0, idle + 1)),
        ]
        with m.FSM(name="bridge") as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("HEADER") | (number != 0))
            with m.State("HEADER"):
                self._receive(m, Cat(bus.adr, left, command), number, 6, "DECODE")
                # Resynchronise after a missing or extra byte.
                with m.If((number == 0) & ~self.i.payload.matches(*COMMANDS)):
                    m.d.sync += number.eq(0)
            with m.State("DECODE"):
                m.d.sync += number.eq(0)
                m.next = "READ"
                with m.If(command.matches(WRITE, WRITE_SAME)):
                    m.next = "DATA"
            with m.State("DATA"):
                self._receive(m, word, number, 4, "WRITE")
                with m.If(late):
                    m.next = "HEADER"
            with m.State("WRITE"):
                m.d.comb += [bus.stb.eq(1), bus.we.eq(1), step.eq(done)]
                with m.If(done):
                    m.next = "DATA"
                with m.If((done & last) | late):
                    m.next = "HEADER"
            with m.State("READ"):
                m.d.comb += bus.stb.eq(1)
                with m.If(done):
                    m.d.sync += word.eq(Mux(bus.err, -1, bus.dat_r))
                    m.next = "SEND"
                with m.If(late):
                    m.next = "HEADER"
            with m.State("SEND"):
                m.d.comb += [self.o.valid.eq(1), step.eq(self.o.ready & (number == 3))]
                with m.If(self.o.ready):
                    m.d.sync += [word.eq(word << 8), number.eq(number + 1)]
                with m.If(step):
                    m.next = "READ"
                with m.If(step & last):
                    m.next = "HEADER"
        with m.If(step):
            ascends = command.matches(WRITE, READ)
            m.d.sync += [left.eq(left - 1), number.eq(0), bus.adr.eq(bus.adr + ascends)]
        with m.If(late):
            m.d.sync += number.eq(0)
        return m

    def _receive(self, m, word, number, count, state):
        """Shift bytes into a word, and enter `state` after `count` bytes."""
        m.d.comb += self.i.ready.eq(1)
        with m.If(self.i.valid):
            m.d.sync += [word.eq(Cat(self.i.payload, word)), number.eq(number + 1)]
            with m.If(number == count - 1):
                m.next = state
