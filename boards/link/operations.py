"""Perform blocks of operations from a board's bus, and store their results."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import In, Out

from ...golden.spec.base import require
from ...hdl.registers import WORD_BITS
from . import layout
from .bridge import BusSignature
from .layout import BLOCK_WORDS, CODE_BITS, TRAILER

_CRC = catalog.CRC32_ISO_HDLC


def padded(name, value, width):
    """Zero-extend a value to `width` bits; SpecificationError if it is wider."""
    rule = f"must have at most {width} bits for a serial link"
    require(len(value) <= width, name, rule, len(value))
    return Cat(value, Const(0, width - len(value)))


class OperationPort(wiring.Component):
    """Performs a block of operations once a correct trailer arrives, and stores the results.

    Bus accesses wait until the block is complete.
    """

    def __init__(self, unit):
        super().__init__(
            {
                "bus": In(BusSignature()),
                "i": Out(stream.Signature(unit.signature.request)),
                "o": In(stream.Signature(unit.signature.result)),
                "busy": Out(1),
                "rejected": Out(1),  # high for one cycle for each block with a wrong trailer
            }
        )
        result = self.o.p
        fields = {name: getattr(result, name) for name in result.shape().members}
        mark = fields.get("status", fields.get("oldest", Const(0, 0)))
        age = padded("age", fields.get("age", Const(0, 0)), layout.AGE_BITS)
        time = [padded("time", result.time, WORD_BITS)] if "time" in fields else []
        # Same layout as in `layout.unpack_results`.
        self.record = Cat(age, padded("status", mark, layout.STATUS_BITS), result.seen, time)

    def elaborate(self, platform):
        m = Module()
        m.submodules.block = block = memory.Memory(shape=WORD_BITS, depth=BLOCK_WORDS, init=[])
        write, read = block.write_port(), block.read_port()
        performed, begin = Signal(WORD_BITS), Signal()
        self._elaborate_bus(m, write, performed, begin)
        head, shape, expected = (Signal(WORD_BITS, name=name) for name in ("head", "at", "expect"))
        for number, word in enumerate((head, shape, expected)):
            with m.If(write.en & (write.addr == TRAILER + number)):
                m.d.sync += word.eq(write.data)
        m.submodules.check = check = _CRC(data_width=WORD_BITS).create()
        index, fetched, right = Signal(range(BLOCK_WORDS)), Signal(), Signal()
        m.d.comb += [
            read.addr.eq(index),
            check.start.eq(begin),
            check.data.eq(read.data),
            check.valid.eq(fetched),
        ]
        m.d.sync += [
            self.rejected.eq(0),
            fetched.eq(0),
            right.eq(check.match_detected & (expected == performed)),
        ]
        with m.FSM(name="block") as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.sync += index.eq(shape)
                with m.If(begin):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += [index.eq(index + 1), fetched.eq(1)]
                with m.If(index.all()):
                    m.next = "LAST"
            with m.State("LAST"):
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.d.sync += [self.rejected.eq(~right), index.eq(shape)]
                m.next = "IDLE"
                with m.If(right):
                    m.next = "FETCH"
            self._elaborate_operations(m, read.data, index, head, shape & layout.MIXED != 0)
        return m

    def _elaborate_operations(self, m, word, index, head, mixed):
        """Perform the operations of a block, starting at an index."""
        request = self.i.p
        key = Signal(-(-len(request.key) // WORD_BITS) * WORD_BITS)
        # Words of an operation: code and window if `mixed`, then the key.
        last = len(key) // WORD_BITS
        number, pending = Signal(range(last + 1)), Signal(range(BLOCK_WORDS))
        m.d.sync += pending.eq(pending + (self.i.valid & self.i.ready) - self.o.valid)
        with m.State("FETCH"):
            m.next = "TAKE"
            with m.If(index >= TRAILER):
                m.next = "WAIT"
        with m.State("TAKE"):
            m.d.sync += [index.eq(index + 1), number.eq(number + 1)]
            m.next = "FETCH"
            with m.If(mixed & (number == 0)):
                m.d.sync += head.eq(word)
            with m.Else():
                m.d.sync += key.eq(Cat(key, word) >> WORD_BITS)
            with m.If(number == Mux(mixed, last, last - 1)):
                m.next = "OFFER"
        with m.State("OFFER"):
            m.d.comb += self.i.valid.eq(1)
            m.d.sync += number.eq(0)
            with m.If(self.i.ready):
                m.next = "FETCH"
        with m.State("WAIT"):
            m.d.sync += number.eq(0)
            with m.If(pending == 0):
                m.next = "IDLE"
        code, width = head[:CODE_BITS], len(Value.cast(request.operation))
        m.d.comb += [request.operation.eq(Mux(code >> width, 0, code)), request.key.eq(key)]
        for name in {"window", "query_class"} & request.shape().members.keys():
            padded(name, getattr(request, name), layout.WINDOW_BITS)
            m.d.comb += getattr(request, name).eq(head[CODE_BITS:])

    def _elaborate_bus(self, m, write, performed, begin):
        """Store the words of a block, and read back results; assert `begin` at the last word."""
        bus, size = self.bus, len(self.record)
        words = size // WORD_BITS
        m.submodules.results = results = memory.Memory(
            shape=size, depth=BLOCK_WORDS // words, init=[]
        )
        put, get = results.write_port(), results.read_port()
        m.submodules.signature = crc = _CRC(data_width=size).create()
        begins = bus.stb & ~bus.ack & ~self.busy
        read = Array(get.data.word_select(number, WORD_BITS) for number in range(words))
        m.d.comb += [
            write.en.eq(begins & bus.we & ~bus.adr[9]),
            write.addr.eq(bus.adr),
            write.data.eq(bus.dat_w),
            begin.eq(write.en & write.addr.all()),
            get.addr.eq(bus.adr[words // 2 :]),
            self.o.ready.eq(1),
            put.en.eq(self.o.valid),
            put.data.eq(self.record),
            crc.start.eq(begin),
            crc.valid.eq(self.o.valid),
            crc.data.eq(self.record),
            bus.dat_r.eq(read[bus.adr[0] if words > 1 else 0]),
        ]
        # Results start two words later.
        for index, value in enumerate((performed, crc.crc)):
            with m.If(bus.adr[:8] == index):
                m.d.comb += bus.dat_r.eq(value)
        m.d.sync += [bus.ack.eq(begins), performed.eq(performed + self.o.valid)]
        m.d.sync += put.addr.eq(Mux(begin, 2 // words, put.addr + put.en))
