"""Full-duplex gigabit Ethernet: a GMII MAC, and a deduplicator between two lines.

The MAC follows IEEE 802.3, clauses 3 and 35, for the preamble, the start of a frame, the check
sequence, padding and gaps.
"""

from amaranth.hdl import Cat, DomainRenamer, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.crc.catalog import CRC32_ETHERNET
from amaranth.lib.fifo import AsyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from ..statistics import EventCounter
from ..target_clocks import GMII_HZ
from .frames import AxisBeat

PREAMBLE, START = 0x55, 0xD5  # preamble byte, and start-of-frame delimiter
PREAMBLE_BYTES = 7  # number of bytes in a transmitted preamble
CHECK_BYTES = 4  # number of bytes in the check sequence
SHORTEST_FRAME = 60  # minimum frame length in bytes, without the check sequence
GAP_BYTES = 12  # minimum number of cycles between two transmitted frames
RECEIVING = "rx"  # clock domain of the received data


class GmiiReceiver(wiring.Component):
    """Receives frames from a PHY.

    A byte leaves six cycles after its arrival; the preamble and the check sequence are removed. The
    preamble may be shorter than `PREAMBLE_BYTES`. `user` is high with the last byte of a damaged
    frame: the PHY reported an error, the check sequence is wrong, or the frame is shorter than
    `SHORTEST_FRAME`. A frame that is too short to hold one byte and a check sequence is dropped.
    """

    def __init__(self):
        super().__init__(
            {
                "data": In(8),  # RXD
                "valid": In(1),  # RX_DV
                "error": In(1),  # RX_ER
                "o": Out(stream.Signature(AxisBeat(8), always_ready=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = CRC32_ETHERNET(data_width=8).create()
        begun, taken, ended = Signal(), Signal(), Signal()
        # The check sequence can be identified only after the end of the frame.
        waiting = Signal(8 * (CHECK_BYTES + 1))
        count, size = Signal(range(CHECK_BYTES + 2)), Signal(range(SHORTEST_FRAME + 1))
        broken = Signal()
        m.d.comb += [
            taken.eq(begun & self.valid),
            ended.eq(begun & ~self.valid),
            crc.start.eq(~begun),
            crc.valid.eq(taken),
            crc.data.eq(self.data),
        ]
        self._elaborate_begin(m, begun)
        full = count == CHECK_BYTES + 1
        m.d.sync += self.o.valid.eq(full & (taken | ended))
        with m.If(taken):
            m.d.sync += [waiting.eq(Cat(waiting[8:], self.data)), broken.eq(broken | self.error)]
            with m.If(~full):
                m.d.sync += count.eq(count + 1)
            with m.If(full & (size != SHORTEST_FRAME)):
                m.d.sync += size.eq(size + 1)
        with m.Elif(~begun):
            m.d.sync += [count.eq(0), size.eq(0), broken.eq(0)]
        short = size < SHORTEST_FRAME - 1
        m.d.sync += [
            self.o.p.data.eq(waiting[:8]),
            self.o.p.keep.eq(1),
            self.o.p.last.eq(ended),
            self.o.p.user.eq(ended & (broken | short | ~crc.match_detected)),
        ]
        return m

    def _elaborate_begin(self, m, begun):
        """Begin a frame at the start byte if only preamble bytes precede the start byte."""
        refused = Signal()
        with m.If(~self.valid):
            m.d.sync += [begun.eq(0), refused.eq(0)]
        with m.Elif(~begun & ~refused):
            m.d.sync += [
                begun.eq((self.data == START) & ~self.error),
                refused.eq(((self.data != START) & (self.data != PREAMBLE)) | self.error),
            ]


class GmiiTransmitter(wiring.Component):
    """Sends frames through a PHY, with preamble, padding, check sequence and gap.

    Frames shorter than `SHORTEST_FRAME` are padded with zeros. If a byte arrives too late, `error`
    marks the frame as damaged, and its remaining bytes are dropped. A frame with `user` set is also
    marked as damaged, unless `marks` is set; then `user` only states that the frame is a duplicate.
    """

    def __init__(self, *, marks=False):
        self._marks = marks
        super().__init__(
            {
                "i": In(stream.Signature(AxisBeat(8))),
                "data": Out(8),  # TXD
                "valid": Out(1),  # TX_EN
                "error": Out(1),  # TX_ER
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = CRC32_ETHERNET(data_width=8).create()
        left, size = Signal(range(GAP_BYTES)), Signal(range(SHORTEST_FRAME + 1))
        # Output of the next cycle, without the check sequence, which is known later.
        data, valid, error = Signal(8), Signal(), Signal()
        number, checks = Signal(range(CHECK_BYTES)), Signal()
        m.d.comb += crc.data.eq(data)
        with m.If(size != SHORTEST_FRAME):
            m.d.sync += size.eq(size + 1)
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        m.d.sync += [self.data.eq(data), self.valid.eq(valid), self.error.eq(error)]
        with m.If(checks):
            m.d.sync += [self.data.eq(crc.crc.word_select(number, 8)), number.eq(number + 1)]
        with m.FSM():
            self._elaborate_start(m, left, size, data, valid, crc)
            self._elaborate_frame(m, left, size, data, valid, error, crc)
            with m.State("check"):
                m.d.comb += [checks.eq(1), valid.eq(1)]
                with m.If(left == 0):
                    m.d.sync += left.eq(GAP_BYTES - 1)
                    m.next = "gap"
            with m.State("gap"), m.If(left == 0):
                m.next = "preamble"
        return m

    def _elaborate_start(self, m, left, size, data, valid, crc):
        with m.State("preamble"):
            m.d.comb += [
                data.eq(PREAMBLE),
                valid.eq(self.i.valid | (left != 0)),
                crc.start.eq(1),
            ]
            with m.If((left == 0) & self.i.valid):
                m.d.sync += left.eq(PREAMBLE_BYTES - 1)
            with m.If(left == 1):
                m.next = "start"
        with m.State("start"):
            m.d.comb += [data.eq(START), valid.eq(1), crc.start.eq(1)]
            m.d.sync += size.eq(0)
            m.next = "frame"

    def _elaborate_frame(self, m, left, size, data, valid, error, crc):
        enough = size >= SHORTEST_FRAME - 1
        damaged = 0 if self._marks else self.i.p.last & self.i.p.user
        with m.State("frame"):
            m.d.comb += [
                self.i.ready.eq(1),
                data.eq(self.i.p.data),
                valid.eq(1),
                error.eq(~self.i.valid | damaged),
                crc.valid.eq(1),
            ]
            m.d.sync += left.eq(CHECK_BYTES - 1)
            with m.If(~self.i.valid):
                m.next = "rest"
            with m.Elif(self.i.p.last & enough):
                m.next = "check"
            with m.Elif(self.i.p.last):
                m.next = "padding"
        with m.State("padding"):
            m.d.comb += [valid.eq(1), crc.valid.eq(1)]
            m.d.sync += left.eq(CHECK_BYTES - 1)
            with m.If(enough):
                m.next = "check"
        with m.State("rest"):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += left.eq(GAP_BYTES - 1)
            with m.If(self.i.valid & self.i.p.last):
                m.next = "gap"


class FrameCrossing(wiring.Component):
    """Transfers frames from clock domain `domain` to ``sync``.

    If there is no room for a transfer, the rest of the frame is lost. Once there is room again, the
    frame is ended and marked as damaged; a frame that begins earlier is lost as well. There is
    always room if the clocks differ by no more than Ethernet permits, and the receiver accepts a
    transfer in every cycle.
    """

    def __init__(self, *, domain, depth=16, width=8):
        beat = AxisBeat(width)
        self._domain = domain
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(beat, always_ready=True)),
                "o": Out(stream.Signature(beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = len(self.i.p.as_value())
        fifo = AsyncFIFOBuffered(
            width=width,
            depth=self._depth + 1,
            r_domain="sync",
            w_domain=self._domain,
            exact_depth=True,
        )
        m.submodules.fifo = fifo
        given = self.i.p.shape()(fifo.w_data)
        # `cut`: the rest of the frame is not accepted. `owed`: the accepted part has no end yet.
        cut, owed = Signal(), Signal()
        m.d.comb += [
            given.eq(self.i.p),
            fifo.w_en.eq((self.i.valid & ~cut) | owed),
        ]
        self._elaborate_leaving(m, fifo)
        with m.If(owed):
            m.d.comb += [given.last.eq(1), given.user.eq(1)]
        with m.If(self.i.valid & (cut | owed | ~fifo.w_rdy)):
            m.d[self._domain] += cut.eq(~self.i.p.last)
        with m.If(owed | (self.i.valid & ~cut)):
            m.d[self._domain] += owed.eq(~fifo.w_rdy)
        return m

    def _elaborate_leaving(self, m, fifo):
        """Drive the output from a register.

        A second register holds a word that arrives while the output stalls.
        """
        spare, waits = Signal(len(fifo.r_data)), Signal()
        out = Signal(len(fifo.r_data))
        m.d.comb += [fifo.r_en.eq(~waits), self.o.p.eq(out)]
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [
                self.o.valid.eq(waits | fifo.r_rdy),
                waits.eq(0),
                out.eq(fifo.r_data),
            ]
            with m.If(waits):
                m.d.sync += out.eq(spare)
        with m.Elif(fifo.r_rdy & ~waits):
            m.d.sync += waits.eq(1)
        with m.If(~waits):
            m.d.sync += spare.eq(fifo.r_data)


class LineDeduplicator(wiring.Component):
    """Forwards frames from one line to another and drops duplicates and damaged frames.

    Received data has a separate clock, in domain `RECEIVING`; everything else is in ``sync``, at
    `GMII_HZ`. Without a bus, the settings of the deduplicator keep their reset values. The
    deduplicator must have 8-bit streams and drop frames that do not fit, because lines cannot wait.
    """

    def __init__(self, deduplicator):
        self._deduplicator = deduplicator
        members = deduplicator.signature.members
        self._bus = {name: members[name] for name in getattr(deduplicator, "bus_ports", ())}
        super().__init__(
            {
                # RXD, RX_DV and RX_ER of the first line.
                "rx_data": In(8),
                "rx_valid": In(1),
                "rx_error": In(1),
                # TXD, TX_EN and TX_ER of the other line.
                "tx_data": Out(8),
                "tx_valid": Out(1),
                "tx_error": Out(1),
                "alive": Out(1),  # toggles about once per second, for an LED
            }
            | self._bus
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = DomainRenamer(RECEIVING)(GmiiReceiver())
        m.submodules.crossing = crossing = FrameCrossing(domain=RECEIVING)
        m.submodules.deduplicator = deduplicator = self._deduplicator
        m.submodules.transmitter = transmitter = GmiiTransmitter(marks=True)
        m.submodules.time = time = EventCounter(width=(GMII_HZ - 1).bit_length())
        wiring.connect(m, receiver.o, crossing.i)
        wiring.connect(m, crossing.o, deduplicator.i)
        wiring.connect(m, deduplicator.o, transmitter.i)
        m.d.comb += [
            receiver.data.eq(self.rx_data),
            receiver.valid.eq(self.rx_valid),
            receiver.error.eq(self.rx_error),
            self.tx_data.eq(transmitter.data),
            self.tx_valid.eq(transmitter.valid),
            self.tx_error.eq(transmitter.error),
            time.event.eq(1),
            self.alive.eq(time.count[-1]),
        ]
        if not self._bus:
            for name in ("action", "fields", "enable", "period"):
                port = getattr(deduplicator, name)
                m.d.comb += port.eq(port.init)
        for name, member in self._bus.items():
            inner, outer = getattr(deduplicator, name), getattr(self, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m
