"""The ring of segments: what turns at a shift, and the spare that is cleared meanwhile."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer
from ..profile import FAN_IN, RING_LATENCY


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
    adopt : In(1)
        Whether the segment that comes in, or all of them at a clear, has the other hash pipeline
        from now on, as have those that come after it.
    pipelines : Out(segments)
        Segments of the second hash pipeline, one clock after the operation.
    clear_segments : Out(segments)
        Segments that are being cleared in this clock.
    clear_address : Out(range(clear_words))

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    LATENCY = RING_LATENCY

    PIPELINES_LATENCY = 1
    """Clocks from operation to `pipelines`."""

    def __init__(self, *, segments, run, clear_words):
        require_integer("Segments", segments, least=2)
        require_integer("Run", run, least=1, most=segments - 1)
        require_integer("Words to clear", clear_words, least=1)
        self._segments = segments
        self._run = run
        self._clear_words = clear_words
        super().__init__(
            {
                "insert": In(1),
                "shift": In(1),
                "clear": In(1),
                "adopt": In(1),
                "pipelines": Out(segments),
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
        spare = Signal(segments, init=1 << (segments - 1))
        insert = Signal()
        m.d.sync += [
            insert.eq(self.insert),
            self.set.eq(write & insert.replicate(segments)),
            self.base.eq(self._elaborate_position(m, spare)),
        ]
        with m.If(self.shift):
            m.d.sync += [
                write.eq(write.rotate_right(1)),
                spare.eq(spare.rotate_right(1)),
            ]
        with m.If(self.clear):
            m.d.sync += [write.eq(write.init), spare.eq(spare.init)]

        current = Signal()
        entering = current ^ self.adopt
        with m.If(self.shift | self.clear):
            m.d.sync += current.eq(entering)
        for segment in range(segments):
            with m.If(self.clear | (self.shift & spare[segment])):
                m.d.sync += self.pipelines[segment].eq(entering)

        self._elaborate_clear(m, spare)
        return m

    def _elaborate_position(self, m, spare):
        """Return the position of the youngest segment, which follows the spare, a clock later."""
        bits = []
        for bit in range(len(self.base)):
            after = [
                spare[segment]
                for segment in range(self._segments)
                if (segment + 1) % self._segments >> bit & 1
            ]
            groups = [Cat(after[at : at + FAN_IN]) for at in range(0, len(after), FAN_IN)]
            found = Signal(len(groups), name=f"position{bit}")
            m.d.sync += found.eq(Cat(group.any() for group in groups))
            bits.append(found.any())
        return Cat(bits)

    def _elaborate_clear(self, m, spare):
        start = Signal()
        clearing = Signal()
        running = Signal()
        everything = Signal()
        address = Signal(range(self._clear_words))
        m.d.sync += [
            self.clear_segments.eq(
                (spare | everything.replicate(self._segments)) & running.replicate(self._segments)
            ),
            self.clear_address.eq(address),
        ]
        last = self._elaborate_last(m, address, start)
        m.d.sync += [
            start.eq(self.shift | self.clear),
            clearing.eq(self.clear),
        ]
        self._elaborate_address(m, address, start)
        with m.If(last):
            m.d.sync += running.eq(0)
        with m.If(start):
            m.d.sync += [running.eq(1), everything.eq(clearing)]

    def _elaborate_address(self, m, address, start):
        """Count in digits of three bits after the first; their carries are told a clock ahead."""
        lowest = address[:FAN_IN]
        near = Signal()
        m.d.sync += [lowest.eq(lowest + 1), near.eq(lowest == (1 << FAN_IN) - 3)]
        below_full = Const(1)
        flags = [near]
        for at in range(FAN_IN, len(address), FAN_IN - 1):
            digit = address[at : at + FAN_IN - 1]
            carry = Signal(name=f"carry{at}")
            full = Signal(name=f"full{at}")
            m.d.sync += [
                carry.eq(near & below_full),
                full.eq(digit.all()),
                digit.eq(digit + carry),
            ]
            below_full = below_full & full
            flags += [carry, full]
        with m.If(start):
            m.d.sync += [address.eq(0), *(flag.eq(0) for flag in flags)]

    def _elaborate_last(self, m, address, start):
        """Return whether the address is the last; it is compared ahead where there is time."""
        final = self._clear_words - 1
        if final < FAN_IN:
            return address == final
        ahead = final - 2
        groups = [
            address[at : at + FAN_IN] == (ahead >> at & ((1 << FAN_IN) - 1))
            for at in range(0, len(address), FAN_IN)
        ]
        same = Signal(len(groups))
        last = Signal()
        m.d.sync += [same.eq(Cat(groups)), last.eq(same.all())]
        with m.If(start):
            m.d.sync += [same.eq(0), last.eq(0)]
        return last
