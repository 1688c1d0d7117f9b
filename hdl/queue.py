"""Queue for results under back-pressure."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .latencies import QUEUE_LATENCY
from .memory.protection import copy_names, vote
from .parameters import require_integer, require_power_of_two
from .pipeline import registered, successor


class ResultQueue(wiring.Component):
    """Queue that joins each verdict with the tag of its operation.

    Tags and verdicts arrive in the same order, each tag before its verdict. The queue does not
    check for room, which keeps it fast: the component that writes counts the free places.

    Latency `LATENCY` cycles from `valid_next` to `o.valid`, one result per cycle.

    Parameters
    ----------
    depth : int
        Places. Power of two.
    tag_bits, verdict_bits, status_bits : int
        Widths.
    apart : int
        Number of high bits of the verdict that have their own address registers, so that a wide
        verdict may be placed in two parts of the chip.
    distributed : bool
        Whether LUTs must hold the results. Synthesis would otherwise put wide results into a block
        RAM, whose output is slow.
    copies : int
        Copies of each word; three copies vote.
    check : bool
        Whether the queue checks the addresses of its words.

    Members
    -------
    tag_valid, tag : In
    status_valid, status : In
        In the order of the tags, each status before its verdict; only if ``status_bits`` is not 0.
    valid_next, verdict : In
        Each verdict in the cycle after `valid_next`.
    o : Out(stream.Signature({"verdict", "status", "tag"}))
        Verdict in the low bits.
    illegal : Out(1)
        With `check` only: in the previous cycle the distance of two addresses was illegal.
    tagged, given : Out(range(2 * depth))
        With `check` only: the number of tags received, and of results taken, modulo twice the
        depth.

    Errors: as `require_integer`.
    """

    LATENCY = QUEUE_LATENCY

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
        require_power_of_two("Depth", depth, minimum=2)
        require_integer("Tag width", tag_bits)
        require_integer("Verdict width", verdict_bits)
        require_integer("Status width", status_bits)
        require_integer("Bits apart", apart, maximum=verdict_bits)
        self._depth = depth
        self._apart = apart
        self._checks = check
        attributes = {"ram_style": "distributed"} if distributed else {}
        widths = {
            "verdicts": verdict_bits - apart,
            "apart": apart,
            "tags": tag_bits,
            "statuses": status_bits,
        }
        self.words = {
            name: [
                memory.Memory(shape=width, depth=depth, init=[], attrs=attributes)
                for _ in range(copies)
            ]
            for name, width in widths.items()
            if width
        }
        """Memories of the words of each kind."""
        super().__init__(
            {
                "tag_valid": In(1),
                "tag": In(tag_bits),
                "valid_next": In(1),
                "verdict": In(verdict_bits),
                "o": Out(stream.Signature(verdict_bits + status_bits + tag_bits)),
            }
            | ({"status_valid": In(1), "status": In(status_bits)} if status_bits else {})
            | ({"illegal": Out(1)} if check else {})
            | (dict.fromkeys(("tagged", "given"), Out(range(2 * depth))) if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        taken = Signal()
        load = Signal()
        # Counts modulo twice the depth distinguish a full queue from an empty one.
        read = Signal(range(2 * self._depth))
        after = Signal(range(2 * self._depth), init=1)
        # Whether a result is stored, as of the last cycle; after a load, whether another one is.
        stored = Signal()
        another = Signal()
        loaded = Signal()
        came = Signal()
        # The enables of two parts use separate registers. The second one is inverted, so that
        # synthesis does not merge them.
        empty = Signal(name="empty", init=1) if self._apart else ~self.o.valid
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
            if self._apart:
                m.d.sync += empty.eq(~load)
        with m.If(load):
            m.d.sync += [read.eq(after), after.eq(after + 1)]
        places = {}
        low = len(self.verdict) - self._apart
        words = [
            self._elaborate_words(m, "verdicts", came, self.verdict[:low], read, taken, places),
            self._elaborate_words(m, "tags", self.tag_valid, self.tag, read, taken, places),
        ]
        if "status" in self.signature.members:
            status = self.status_valid, self.status
            words.insert(1, self._elaborate_words(m, "statuses", *status, read, taken, places))
        if self._apart:
            down = places["read"] = self._elaborate_count(m, "read_down", load, down=True)
            words.insert(1, self._elaborate_words(
                m, "apart", came, self.verdict[low:], down, taken, places, down=True
            ))  # fmt: skip
        m.d.comb += self.o.p.eq(Cat(words))
        if self._checks:
            self._elaborate_check(m, came, places, written, read, after)
        return m

    def _elaborate_count(self, m, name, event, *, down=False):
        """Count events up, or down from the highest value so that synthesis merges no registers."""
        count = Signal(range(2 * self._depth), name=name, init=2 * self._depth - 1 if down else 0)
        with m.If(event):
            m.d.sync += count.eq(~successor(~count) if down else count + 1)
        return count

    def _elaborate_check(self, m, came, places, written, read, after):
        """Check addresses that follow from each other."""
        before = registered(m, written, "written_before")
        apart = [after != (read + 1)[: len(read)]]
        apart += [places["verdicts"] != before] if "verdicts" in places else []
        if "apart" in places:
            # These count down from the highest value.
            apart += [~places["apart"] != before, ~places["read"] != read]
        if "statuses" in places:
            # A verdict follows its status; the difference is the number in flight.
            under_way = Signal(range(self._depth))
            m.d.sync += under_way.eq(under_way + self.status_valid - came)
            # The sum takes one cycle, and the comparison another.
            due = registered(m, (places["verdicts"] + under_way)[: len(read)], "statuses_due")
            apart.append(registered(m, places["statuses"], "statuses_before") != due)
        tagged = places.get("tags")
        if tagged is None:
            tagged = self._elaborate_count(m, "tagged_count", self.tag_valid)
        m.d.comb += [
            self.illegal.eq(registered(m, Cat(apart), "apart").any()),
            self.tagged.eq(tagged),
            self.given.eq(read - self.o.valid),
        ]

    def _elaborate_words(self, m, name, came, value, read, taken, places, *, down=False):
        """Store words of one kind at consecutive addresses; return the word read last."""
        if not len(value):
            return Signal(0)
        place = places[name] = self._elaborate_count(m, f"{name}_written", came, down=down)
        found = []
        for words, number in zip(self.words[name], copy_names(self.words[name]), strict=True):
            m.submodules[f"{name}{number}"] = words
            write_port = words.write_port()
            read_port = words.read_port()
            m.d.comb += [
                write_port.en.eq(came),
                write_port.addr.eq(place),
                write_port.data.eq(value),
                read_port.en.eq(taken),
                read_port.addr.eq(read),
            ]
            found.append(read_port.data)
        return vote(found)
