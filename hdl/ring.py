"""The ring of segments: what turns at a shift, and the spare that is cleared meanwhile."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Ring(wiring.Component):
    """Selects the segments that an operation writes and clears the spare.

    One operation per clock; `LATENCY` clocks from operation to `set` and
    `base`. A shift takes effect between the query and the insertion of its
    operation: `base` is the position before it, `set` the segments after it.
    From the clock after `set` on, the retired segment is cleared for
    `clear_words` clocks; the next shift may come one clock after that.
    A clear returns the ring to its first position and clears all segments in
    the same way; nothing but idle clocks may follow it for `clear_words` clocks.

    Parameters
    ----------
    segments : int
        Physical segments, the spare included.
    run : int
        Segments that an insertion writes.
    clear_words : int
        Clocks that clearing takes.

    Members
    -------
    insert, shift, clear : In(1)
        The operation. `clear` excludes the others.
    set : Out(segments)
        Segments that the operation writes.
    base : Out(range(segments))
        Physical segment that was the youngest when the operation came.
    clear_segments : Out(segments)
        Segments that are being cleared in this clock.
    clear_address : Out(range(clear_words))
    """

    LATENCY = 1

    def __init__(self, *, segments, run, clear_words):
        self._segments = segments
        self._run = run
        self._clear_words = clear_words
        super().__init__(
            {
                "insert": In(1),
                "shift": In(1),
                "clear": In(1),
                "set": Out(segments),
                "base": Out(range(segments)),
                "clear_segments": Out(segments),
                "clear_address": Out(range(clear_words)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        segments = self._segments
        # The base counts down: what was s_0 becomes s_1.
        write = Signal(segments, init=(1 << self._run) - 1)
        write_next = Mux(self.shift, write.rotate_right(1), write)
        spare = Signal(segments, init=1 << (segments - 1))
        spare_next = Mux(self.shift, spare.rotate_right(1), spare)
        position = Signal(range(segments))
        m.d.sync += [
            self.set.eq(write_next & self.insert.replicate(segments)),
            self.base.eq(position),
            write.eq(write_next),
            spare.eq(spare_next),
        ]
        with m.If(self.shift):
            m.d.sync += position.eq(Mux(position == 0, segments - 1, position - 1))
        with m.If(self.clear):
            m.d.sync += [write.eq(write.init), spare.eq(spare.init), position.eq(0)]

        self._elaborate_clear(m, spare)
        return m

    def _elaborate_clear(self, m, spare):
        running = Signal()
        everything = Signal()
        address = Signal(range(self._clear_words))
        m.d.sync += [
            self.clear_segments.eq(
                (spare | everything.replicate(self._segments)) & running.replicate(self._segments)
            ),
            self.clear_address.eq(address),
        ]
        with m.If(self.shift | self.clear):
            m.d.sync += [running.eq(1), everything.eq(self.clear), address.eq(0)]
        with m.Elif(running):
            m.d.sync += address.eq(address + 1)
            with m.If(address == self._clear_words - 1):
                m.d.sync += running.eq(0)
