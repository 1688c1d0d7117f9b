"""FIFOs without an overflow check: the writer must count the free words."""

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .latencies import QUEUE_LATENCY
from .memory.protection import copy_names, vote
from .parameters import require_integer, require_power_of_two
from .pipeline import registered, successor


class _Fifo(wiring.Component):
    """FIFO that consists of memories with a common read address; words leave on `o`."""

    LATENCY = QUEUE_LATENCY

    def __init__(self, members, widths, *, depth, distributed, copies=1):
        require_power_of_two("Depth", depth, minimum=2)
        self._depth = depth
        # Otherwise synthesis would put wide words into a block RAM, whose output is slow.
        attributes = {"ram_style": "distributed"} if distributed else {}
        # memories for each kind of word, one for each replica
        self.words = {
            name: [
                memory.Memory(shape=width, depth=depth, init=[], attrs=attributes)
                for _ in range(copies)
            ]
            for name, width in widths.items()
            if width
        }
        super().__init__(members)

    def _elaborate_reading(self, m, *, twice=False):
        """Drive the output, and return the signals that control the memories.

        In order, the signals are `came` (a word arrives), `taken` (the output is enabled), `load`
        (the output loads a word), `written` and `read` (numbers of words), and `after` (the value
        of `read` after the next load).

        If `twice` is true, a second register holds the enable. It is inverted, so that synthesis
        does not merge the two registers.
        """
        taken = Signal()
        load = Signal()
        # Counts modulo twice the depth distinguish a full queue from an empty one.
        read = Signal(range(2 * self._depth))
        after = Signal(range(2 * self._depth), init=1)
        # Whether a word was stored in the last cycle, and whether another remains after a load.
        stored = Signal()
        another = Signal()
        loaded = Signal()
        came = Signal()
        empty = Signal(name="empty", init=1) if twice else ~self.o.valid
        m.d.sync += came.eq(self.valid_next)
        written = self._elaborate_count(m, "written", self.valid_next)
        m.d.comb += [
            taken.eq(empty | self.o.ready),
            load.eq(taken & Mux(loaded, another, stored)),
        ]
        m.d.sync += [
            loaded.eq(load),
            stored.eq(written != read),
            another.eq(written != after),
        ]
        with m.If(taken):
            m.d.sync += self.o.valid.eq(load)
            if twice:
                m.d.sync += empty.eq(~load)
        with m.If(load):
            m.d.sync += [read.eq(after), after.eq(after + 1)]
        return came, taken, load, written, read, after

    def _elaborate_count(self, m, name, event, *, down=False):
        """Return a counter of events.

        If `down` is true, it counts down, so that synthesis does not merge it with another counter.
        """
        count = Signal(range(2 * self._depth), name=name, init=2 * self._depth - 1 if down else 0)
        with m.If(event):
            m.d.sync += count.eq(~successor(~count) if down else count + 1)
        return count

    def _elaborate_words(self, m, name, came, value, read, taken, addresses, *, down=False):
        """Store words of one kind at consecutive addresses; return the last word read."""
        if not len(value):
            return Signal(0)
        address = addresses[name] = self._elaborate_count(m, f"{name}_written", came, down=down)
        outputs = []
        for words, number in zip(self.words[name], copy_names(self.words[name]), strict=True):
            m.submodules[f"{name}{number}"] = words
            write_port = words.write_port()
            read_port = words.read_port()
            m.d.comb += [
                write_port.en.eq(came),
                write_port.addr.eq(address),
                write_port.data.eq(value),
                read_port.en.eq(taken),
                read_port.addr.eq(read),
            ]
            outputs.append(read_port.data)
        return vote(outputs)


class Queue(_Fifo):
    """FIFO for words of one shape."""

    def __init__(self, shape, *, depth, distributed=False):
        super().__init__(
            {
                "valid_next": In(1),  # `word` arrives in the next cycle
                "word": In(shape),
                "o": Out(stream.Signature(shape)),
            },
            {"entries": Shape.cast(shape).width},
            depth=depth,
            distributed=distributed,
        )

    def elaborate(self, platform):
        m = Module()
        came, taken, _, _, read, _ = self._elaborate_reading(m)
        word = Value.cast(self.word)
        word = self._elaborate_words(m, "entries", came, word, read, taken, {})
        m.d.comb += Value.cast(self.o.p).eq(word)
        return m


class ResultQueue(_Fifo):
    """FIFO that joins each verdict with the tag of the operation.

    Tags and verdicts arrive in the same order, each tag before its verdict. The highest `apart`
    bits of the verdicts have their own address registers, so that wide verdicts can be placed in
    two regions of the chip.
    """

    def __init__(
        self,
        *,
        depth,
        tag_bits,
        verdict_bits,
        status_bits=0,
        apart=0,
        distributed=False,
        copies=1,
        check=False,
    ):
        require_integer("Tag width", tag_bits)
        require_integer("Verdict width", verdict_bits)
        require_integer("Status width", status_bits)
        require_integer("Separate verdict bits", apart, maximum=verdict_bits)
        self._apart = apart
        self._checks = check
        members = {
            "tag_valid": In(1),
            "tag": In(tag_bits),
            "valid_next": In(1),  # the verdict arrives in the next cycle
            "verdict": In(verdict_bits),
            # Verdict in the low bits, then status, then tag.
            "o": Out(stream.Signature(verdict_bits + status_bits + tag_bits)),
        }
        if status_bits:
            # Statuses arrive in the order of the tags, each before its verdict.
            members |= {"status_valid": In(1), "status": In(status_bits)}
        if check:
            members |= {
                "illegal": Out(1),  # two addresses disagreed in the previous cycle
                # Number of tags received, and of results taken, modulo twice the depth.
                "tagged": Out(range(2 * depth)),
                "given": Out(range(2 * depth)),
            }
        widths = {
            "verdicts": verdict_bits - apart,
            "apart": apart,
            "tags": tag_bits,
            "statuses": status_bits,
        }
        super().__init__(members, widths, depth=depth, distributed=distributed, copies=copies)

    def elaborate(self, platform):
        m = Module()
        # The enables of two parts use separate registers.
        came, taken, load, written, read, after = self._elaborate_reading(m, twice=self._apart)
        addresses = {}
        low = len(self.verdict) - self._apart
        words = [
            self._elaborate_words(m, "verdicts", came, self.verdict[:low], read, taken, addresses),
            self._elaborate_words(m, "tags", self.tag_valid, self.tag, read, taken, addresses),
        ]
        if "status" in self.signature.members:
            status = self.status_valid, self.status
            words.insert(1, self._elaborate_words(m, "statuses", *status, read, taken, addresses))
        if self._apart:
            down = addresses["read"] = self._elaborate_count(m, "read_down", load, down=True)
            words.insert(1, self._elaborate_words(
                m, "apart", came, self.verdict[low:], down, taken, addresses, down=True
            ))  # fmt: skip
        m.d.comb += self.o.p.eq(Cat(words))
        if self._checks:
            self._elaborate_check(m, came, addresses, written, read, after)
        return m

    def _elaborate_check(self, m, came, addresses, written, read, after):
        before = registered(m, written, "written_before")
        apart = [after != (read + 1)[: len(read)]]
        apart += [addresses["verdicts"] != before] if "verdicts" in addresses else []
        if "apart" in addresses:
            # These count down from the highest value.
            apart += [~addresses["apart"] != before, ~addresses["read"] != read]
        if "statuses" in addresses:
            # A verdict follows its status; the difference is the number in flight.
            under_way = Signal(range(self._depth))
            m.d.sync += under_way.eq(under_way + self.status_valid - came)
            # The sum takes one cycle, and the comparison another.
            due = registered(m, (addresses["verdicts"] + under_way)[: len(read)], "statuses_due")
            apart.append(registered(m, addresses["statuses"], "statuses_before") != due)
        tagged = addresses.get("tags")
        if tagged is None:
            tagged = self._elaborate_count(m, "tagged_count", self.tag_valid)
        m.d.comb += [
            self.illegal.eq(registered(m, Cat(apart), "apart").any()),
            self.tagged.eq(tagged),
            self.given.eq(read - self.o.valid),
        ]


class StreamRegister(wiring.Component):
    """Register for a stream whose payload arrives late in the cycle, as from a block RAM."""

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        payload = registered(m, self.i.p, "payload", reset_less=True, enable=self.i.ready)
        m.d.comb += [self.i.ready.eq(~self.o.valid | self.o.ready), self.o.p.eq(payload)]
        with m.If(self.i.ready):
            m.d.sync += self.o.valid.eq(self.i.valid)
        return m
