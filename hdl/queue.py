"""Queue in which results wait to be taken."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .parameters import require_integer, require_power_of_two
from .pipeline import duplicate_registers
from .profile import QUEUE_LATENCY


class UnaryCounter(wiring.Component):
    """Counts up and down in unary: bit N says whether the count is above N.

    Every bit depends on its neighbours only, so the counter is as fast at any
    size, and both ends can be told without a comparison. Latency two clocks.

    Parameters
    ----------
    size : int
        Highest count.
    duplicates : bool
        Whether the upper half has copies of the input registers of its own, where others crowd it.

    Members
    -------
    up, down : In(1)
        Not up at the highest count, not down at zero.
    above : Out(size)

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, size, duplicates=False):
        require_integer("Size", size, least=1)
        self._size = size
        self._duplicates = duplicates
        super().__init__({"up": In(1), "down": In(1), "above": Out(size)})

    def elaborate(self, platform):
        m = Module()
        changes, rises = (
            duplicate_registers(m, value, name, copies=2 if self._duplicates else 1)
            for value, name in ((self.up ^ self.down, "changes"), (self.up, "rises"))
        )
        # Each copy moves its share of the places.
        bounds = [0, self._size - self._size // 2, self._size] if self._duplicates else [0, None]
        for copy, (low, high) in enumerate(pairwise(bounds)):
            part = slice(low, high)
            above = Mux(rises[copy], Cat(1, self.above)[part], Cat(self.above[1:], 0)[part])
            with m.If(changes[copy]):
                m.d.sync += self.above[part].eq(above)
        return m


class SkidBuffer(wiring.Component):
    """Output register of a pipeline that stands still while `go` is low, with a spare place.

    The spare place takes what is under way in the clock in which `go` falls,
    so that `go` is a register and no path leads from the taker into the
    pipeline.

    Parameters
    ----------
    width : int
        Bits of the payload.
    duplicates : bool
        Whether `moves` is a register of its own.

    Members
    -------
    valid, payload : In
        Last stage of the pipeline.
    go : Out(1)
        Whether the pipeline moves on in this cycle.
    moves : Out(1)
        The same.
    o : Out(stream.Signature(width))

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, width, duplicates=False):
        require_integer("Width", width)
        self._width = width
        self._duplicates = duplicates
        super().__init__(
            {
                "valid": In(1),
                "payload": In(width),
                "go": Out(1, init=1),
                "moves": Out(1, init=1),
                "o": Out(stream.Signature(width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        spare = Signal(self._width, reset_less=True)
        taken = ~self.o.valid | self.o.ready
        copies = duplicate_registers(
            m,
            taken | (self.go & ~self.valid),
            "going",
            copies=2 if self._duplicates else 1,
            init=1,
        )
        m.d.comb += [self.go.eq(copies[0]), self.moves.eq(copies[-1])]
        m.d.sync += self.o.valid.eq(~taken | ~self.go | self.valid)
        with m.If(self.go):
            m.d.sync += spare.eq(self.payload)
        with m.If(taken):
            m.d.sync += self.o.payload.eq(Mux(self.go, self.payload, spare))
        return m


class ResultQueue(wiring.Component):
    """Joins each verdict with the tag of its operation, and keeps both until they are taken.

    Tags and verdicts come in the same order, each tag before its verdict.
    There is no check for room: whoever writes counts the places, and a queue
    that need not look whether it is full is a fast one.

    Latency `LATENCY` clocks from `valid_next` to `o.valid`, or `LATENCY_DUPLICATED`, one
    result per clock.

    Parameters
    ----------
    depth : int
        Places. Power of two.
    tag_bits, verdict_bits : int
        Widths.
    page_depth : int
        Places in one memory; the pages are selected in registers of their own.
    duplicates : bool
        For a wide queue, whose pages lie far from the count of what is stored: the count has a
        register of its own that says when to load, and the pages are read a clock later.

    Members
    -------
    tag_valid, tag : In
    valid_next, verdict : In
        Each verdict in the clock after `valid_next`.
    o : Out(stream.Signature({"verdict", "tag"}))
        Verdict in the low bits.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    LATENCY = QUEUE_LATENCY
    LATENCY_DUPLICATED = 7
    SELECTION = 2
    """Registers through which the page is selected."""

    def __init__(self, *, depth, tag_bits, verdict_bits, page_depth=16, duplicates=False):
        require_power_of_two("Depth", depth, least=2)
        require_power_of_two("Page depth", page_depth, least=2)
        require_integer("Tag width", tag_bits)
        require_integer("Verdict width", verdict_bits)
        self._depth = depth
        self._duplicates = duplicates
        self._page_depth = min(depth, page_depth)
        self._tag_bits = tag_bits
        self._verdict_bits = verdict_bits
        super().__init__(
            {
                "tag_valid": In(1),
                "tag": In(tag_bits),
                "valid_next": In(1),
                "verdict": In(verdict_bits),
                "o": Out(stream.Signature(verdict_bits + tag_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.stored = stored = UnaryCounter(size=self._depth, duplicates=self._duplicates)
        m.submodules.output = output = SkidBuffer(
            width=self._verdict_bits + self._tag_bits, duplicates=self._duplicates
        )
        read = Signal(range(self._depth))
        loaded = Signal()
        load = Signal()
        m.d.comb += [
            stored.up.eq(self.valid_next),
            stored.down.eq(load),
            # The count does not know yet of the last load.
            load.eq(output.moves & Mux(loaded, stored.above[1], stored.above[0])),
        ]
        m.d.sync += loaded.eq(load)
        go = output.go
        if self._duplicates:
            read, reads = self._elaborate_reading(m, load, loaded, go)
        else:
            reads = load
            with m.If(load):
                m.d.sync += read.eq(read + 1)

        tag = Signal.like(self.tag, reset_less=True)
        m.d.sync += tag.eq(self.tag)
        verdicts = self._elaborate_pages(m, "verdicts", self.valid_next, self.verdict, read, go)
        tags = self._elaborate_pages(m, "tags", self.tag_valid, tag, read, go)
        words = [Cat(pair) for pair in zip(verdicts, tags, strict=True)]
        valid = Signal()
        page = Signal(len(read[self._page_bits :]), reset_less=True)
        with m.If(go):
            m.d.sync += [valid.eq(reads), page.eq(read[self._page_bits :])]
        for stage in range(self.SELECTION):
            words, page, valid = self._elaborate_selection(m, words, page, valid, go, stage)
        m.d.comb += [
            output.valid.eq(valid),
            output.payload.eq(words[0]),
            self.o.valid.eq(output.o.valid),
            self.o.p.eq(output.o.p),
            output.o.ready.eq(self.o.ready),
        ]
        return m

    def _elaborate_reading(self, m, load, loaded, go):
        """Return the place to be read, and whether there is one, a clock after `load`.

        No gate lies between a register and the pointers, which are one load late.
        """
        place = Signal(range(self._depth))
        after = Signal(range(self._depth), init=1)
        with m.If(loaded):
            m.d.sync += [place.eq(after), after.eq(after + 1)]
        read = Signal(range(self._depth), name="reading", reset_less=True)
        reads = Signal()
        with m.If(go):
            m.d.sync += [read.eq(Mux(loaded, after, place)), reads.eq(load)]
        return read, reads

    @property
    def _page_bits(self):
        return (self._page_depth - 1).bit_length()

    def _elaborate_pages(self, m, name, valid_next, value, read, go):
        """Store one kind of word; return what every page has where it is read, a clock later.

        The word comes in the clock after `valid_next`, which leaves that clock to find its place.
        """
        written = Signal(range(self._depth), name=f"{name}_written")
        place = Signal(self._page_bits, name=f"{name}_place", reset_less=True)
        m.d.sync += place.eq(written)
        with m.If(valid_next):
            m.d.sync += written.eq(written + 1)
        outputs = []
        for number in range(self._depth // self._page_depth):
            if not len(value):
                outputs.append(Signal(0))
                continue
            words = memory.Memory(shape=len(value), depth=self._page_depth, init=[])
            m.submodules[f"{name}{number}"] = words
            write_port = words.write_port()
            read_port = words.read_port()
            writing = Signal(name=f"{name}_writing{number}")
            m.d.sync += writing.eq(valid_next & (written[self._page_bits :] == number))
            m.d.comb += [
                write_port.en.eq(writing),
                write_port.addr.eq(place),
                write_port.data.eq(value),
                read_port.en.eq(go),
                read_port.addr.eq(read),
            ]
            outputs.append(read_port.data)
        return outputs

    def _elaborate_selection(self, m, words, page, valid, go, stage):
        """Select by one bit of the page; by all that are left in the last stage."""
        bits = len(page) if stage == self.SELECTION - 1 else min(1, len(page))
        groups = [words[at : at + (1 << bits)] for at in range(0, len(words), 1 << bits)]
        selected = []
        for number, group in enumerate(groups):
            word = Signal(len(group[0]), name=f"word{stage}_{number}", reset_less=True)
            with m.If(go):
                m.d.sync += word.eq(Array(group)[page[:bits]] if bits else group[0])
            selected.append(word)
        rest = Signal(len(page) - bits, name=f"page{stage}", reset_less=True)
        moved = Signal(name=f"valid{stage}")
        with m.If(go):
            m.d.sync += [rest.eq(page[bits:]), moved.eq(valid)]
        return selected, rest, moved
