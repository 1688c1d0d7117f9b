"""Queue in which results wait to be taken."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out


class ResultQueue(wiring.Component):
    """Joins each verdict with the tag of its operation, and keeps both until they are taken.

    Tags and verdicts come in the same order, each tag at least a clock before
    its verdict. There is no check for room: whoever writes counts the places,
    and a queue that need not look whether it is full is a fast one.

    Latency `LATENCY` clocks from `verdict_valid` to `o.valid`, one result per
    clock.

    Parameters
    ----------
    depth : int
        Places. Power of two.
    tag_bits, verdict_bits : int
        Widths.

    Members
    -------
    tag_valid, tag : In
    verdict_valid, verdict : In
    o : Out(stream.Signature({"verdict", "tag"}))
        Verdict in the low bits.
    """

    LATENCY = 2

    def __init__(self, *, depth, tag_bits, verdict_bits):
        self._depth = depth
        self._tag_bits = tag_bits
        self._verdict_bits = verdict_bits
        super().__init__(
            {
                "tag_valid": In(1),
                "tag": In(tag_bits),
                "verdict_valid": In(1),
                "verdict": In(verdict_bits),
                "o": Out(stream.Signature(verdict_bits + tag_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        read = Signal(range(self._depth))
        load = Signal()
        self._elaborate_memory(m, "verdicts", self.verdict_valid, self.verdict, read, load, 0)
        self._elaborate_memory(m, "tags", self.tag_valid, self.tag, read, load, self._verdict_bits)
        # Verdicts stored, less one: below zero there is none.
        stored = Signal(signed(self._depth.bit_length() + 1), init=-1)
        m.d.comb += load.eq((stored >= 0) & (self.o.ready | ~self.o.valid))
        m.d.sync += stored.eq(stored + self.verdict_valid - load)
        with m.If(load):
            m.d.sync += [read.eq(read + 1), self.o.valid.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m

    def _elaborate_memory(self, m, name, valid, value, read, load, position):
        """Store one kind of word, and read it where the other kind is read."""
        if not len(value):
            return
        written = Signal(range(self._depth), name=f"{name}_written")
        m.submodules[name] = words = memory.Memory(shape=len(value), depth=self._depth, init=[])
        write_port = words.write_port()
        read_port = words.read_port()
        m.d.comb += [
            write_port.en.eq(valid),
            write_port.addr.eq(written),
            write_port.data.eq(value),
            read_port.en.eq(load),
            read_port.addr.eq(read),
            self.o.payload[position : position + len(value)].eq(read_port.data),
        ]
        with m.If(valid):
            m.d.sync += written.eq(written + 1)
