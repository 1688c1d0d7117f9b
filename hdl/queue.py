"""Queue in which results wait to be taken."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .profile import QUEUE_LATENCY


class UnaryCounter(wiring.Component):
    """Counts up and down in unary: bit N says whether the count is above N.

    Every bit depends on its neighbours only, so the counter is as fast at any
    size, and both ends can be told without a comparison. Latency two clocks.

    Parameters
    ----------
    size : int
    apart : bool
        Whether the upper half has registers of its own for what comes, where others crowd it.

    Members
    -------
    up, down : In(1)
        Not up at the highest count, not down at zero.
    above : Out(size)
    """

    def __init__(self, *, size, apart=False):
        self._size = size
        self._apart = apart
        super().__init__({"up": In(1), "down": In(1), "above": Out(size)})

    def elaborate(self, platform):
        m = Module()
        changes = Signal()
        rises = Signal()
        m.d.sync += [changes.eq(self.up ^ self.down), rises.eq(self.up)]
        above = Mux(rises, Cat(1, self.above), self.above[1:])
        middle = self._size - self._size // 2 if self._apart else self._size
        with m.If(changes):
            m.d.sync += self.above[:middle].eq(above[:middle])
        if self._apart:
            # Synthesis keeps registers that are the opposite of others.
            stays = Signal(init=1)
            falls = Signal(init=1)
            m.d.sync += [stays.eq(~(self.up ^ self.down)), falls.eq(~self.up)]
            with m.If(~stays):
                upper = Mux(falls, self.above[middle + 1 :], self.above[middle - 1 : -1])
                m.d.sync += self.above[middle:].eq(upper)
        return m


class OutputRegister(wiring.Component):
    """Output register of a pipeline that stands still while `go` is low, with a spare place.

    The spare place takes what is under way in the clock in which `go` falls,
    so that `go` is a register and no path leads from the taker into the
    pipeline.

    Members
    -------
    valid, payload : In
        Last stage of the pipeline.
    go : Out(1)
        Whether the pipeline moves on in this clock.
    o : Out(stream.Signature(width))
    """

    def __init__(self, *, width):
        self._width = width
        super().__init__(
            {
                "valid": In(1),
                "payload": In(width),
                "go": Out(1, init=1),
                "o": Out(stream.Signature(width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        spare = Signal(self._width, reset_less=True)
        taken = ~self.o.valid | self.o.ready
        m.d.sync += [
            self.go.eq(taken | (self.go & ~self.valid)),
            self.o.valid.eq(~taken | ~self.go | self.valid),
        ]
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

    Latency `LATENCY` clocks from `coming` to `o.valid`, or `LATENCY_APART`, one
    result per clock.

    Parameters
    ----------
    depth : int
        Places. Power of two.
    tag_bits, verdict_bits : int
        Widths.
    page_depth : int
        Places in one memory; the pages are selected in registers of their own.
    apart : bool
        For a wide queue, whose pages lie far from the count of what is stored: the count has a
        register of its own that says when to load, and the pages are read a clock later.

    Members
    -------
    tag_valid, tag : In
    coming, verdict : In
        Each verdict in the clock after `coming`.
    o : Out(stream.Signature({"verdict", "tag"}))
        Verdict in the low bits.
    """

    LATENCY = QUEUE_LATENCY
    LATENCY_APART = 7
    SELECTION = 2
    """Registers through which the page is selected."""

    def __init__(self, *, depth, tag_bits, verdict_bits, page_depth=16, apart=False):
        self._depth = depth
        self._apart = apart
        self._page_depth = min(depth, page_depth)
        self._tag_bits = tag_bits
        self._verdict_bits = verdict_bits
        super().__init__(
            {
                "tag_valid": In(1),
                "tag": In(tag_bits),
                "coming": In(1),
                "verdict": In(verdict_bits),
                "o": Out(stream.Signature(verdict_bits + tag_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.stored = stored = UnaryCounter(size=self._depth, apart=self._apart)
        m.submodules.output = output = OutputRegister(width=self._verdict_bits + self._tag_bits)
        read = Signal(range(self._depth))
        loaded = Signal()
        load = Signal()
        moves = ~self._elaborate_stalls(m, output) if self._apart else output.go
        m.d.comb += [
            stored.up.eq(self.coming),
            stored.down.eq(load),
            # The count does not know yet of the last load.
            load.eq(moves & Mux(loaded, stored.above[1], stored.above[0])),
        ]
        m.d.sync += loaded.eq(load)
        go = output.go
        if self._apart:
            read, reads = self._elaborate_reading(m, load, loaded, go)
        else:
            reads = load
            with m.If(load):
                m.d.sync += read.eq(read + 1)

        tag = Signal.like(self.tag, reset_less=True)
        m.d.sync += tag.eq(self.tag)
        verdicts = self._elaborate_pages(m, "verdicts", self.coming, self.verdict, read, go)
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

    def _elaborate_stalls(self, m, output):
        """Return the opposite of `output.go` from another register, which synthesis keeps."""
        stalls = Signal()
        m.d.sync += stalls.eq(output.o.valid & ~output.o.ready & (stalls | output.valid))
        return stalls

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

    def _elaborate_pages(self, m, name, coming, value, read, go):
        """Store one kind of word; return what every page has where it is read, a clock later.

        The word comes in the clock after `coming`, which leaves that clock to find its place.
        """
        written = Signal(range(self._depth), name=f"{name}_written")
        place = Signal(self._page_bits, name=f"{name}_place", reset_less=True)
        m.d.sync += place.eq(written)
        with m.If(coming):
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
            m.d.sync += writing.eq(coming & (written[self._page_bits :] == number))
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
