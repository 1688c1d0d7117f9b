"""Memory of words that hold one cell of every segment: read, changed and written back.

Every variant has the signature of `WordBank` and the same behaviour at its
ports, clock for clock.
"""

from abc import ABC, abstractmethod

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import FAN_IN, WORD_LATENCY
from ..parameters import require_integer
from ..pipeline import Pipeline


class WordBank(wiring.Component, ABC):
    """Words that are read and written back in one pass, and swept in the clocks between.

    A pass goes through the pipeline in every clock: that of an operation if
    there is an `access`, otherwise one of the sweep as long as it runs,
    otherwise one that writes nothing. Passes take effect in order, whatever
    rows they meet in: the word of each is the memory's unless one of the four
    before it, which have read or will read too early for that, had the same
    row. As the sweep's passes are like any other, nothing that it has zeroed
    comes back.

    `start` begins a sweep over all rows. It takes `rows` clocks without an
    access; `clean` is high when it is over.

    Parameters
    ----------
    rows : int
        Number of words. Power of two.
    columns : int
        Bits of a word.

    Members
    -------
    access : In(1)
        An operation comes, at `row`.
    insert : In(1)
        It sets the bits of `set`. Only with `access`.
    row : In(range(rows))
    start : In(1)
        A sweep begins in the next clock.
    set : In(columns)
        Of the pass that came `MASK_LAG` clocks ago, if it inserts.
    wipe : In(columns)
        Bits that the pass that came `MASK_LAG` clocks ago zeroes if it writes;
        none that it sets.
    word : Out(columns)
        As the passes before left it, `LATENCY` clocks after `row`. Bits that
        are wiped may read as zero before they are.
    clean : Out(1)

    Errors: as `require_integer`.
    """

    LATENCY = WORD_LATENCY
    MASK_LAG = 4
    READ = 2
    """Cycles from `row` until the memory reads."""
    DIGIT = 3
    DISTANCES = 4
    """Passes that have not written yet, or just write, when another reads."""

    def __init__(self, *, rows, columns):
        if not isinstance(rows, int) or rows < 2 or rows & (rows - 1):
            raise ValueError(f"Rows must be a power of two greater than 1, not {rows!r}")
        require_integer("Columns", columns, least=1)
        self._rows = rows
        self._columns = columns
        super().__init__(
            {
                "access": In(1),
                "insert": In(1),
                "row": In(range(rows)),
                "start": In(1),
                "set": In(columns),
                "wipe": In(columns),
                "word": Out(columns),
                "clean": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        swept = self._elaborate_sweep(m)
        pipe = Pipeline(m)
        access, insert = pipe.enter(self.access, "access"), pipe.enter(self.insert, "insert")
        row = pipe.register(
            "row",
            lambda access, row, swept: Mux(access, row, swept),
            access,
            pipe.enter(self.row, "row"),
            pipe.enter(swept, "swept"),
            reset_less=True,
        )
        writes = insert | ~(access | pipe.enter(self.clean, "clean"))
        same = self._elaborate_comparison(pipe, row)
        again = same[0].at(self.READ + 3)

        width = self._columns
        same = same.value
        nearer = same[1].replicate(width)
        word = Signal(width)
        merged = Signal(width, reset_less=True)
        older = Signal(width, reset_less=True)
        unchanged = Signal()
        second = Signal()
        set = Signal(width, reset_less=True)
        keep = Signal(width, reset_less=True)
        old = Signal(width)
        written = Signal(width, reset_less=True)
        before = Signal(width, reset_less=True)
        m.d.comb += old.eq(Mux(again.value, written, merged))
        m.d.sync += [
            older.eq(Mux(same[2], written, before & same[3].replicate(width)) & ~nearer),
            unchanged.eq(~same[1:].any()),
            second.eq(same[1]),
            # One table after the block RAM, whose output has the longest way.
            merged.eq(
                (word & unchanged.replicate(width)) | (older | written & second.replicate(width))
            ),
            set.eq(self.set & insert.at(self.MASK_LAG).value.replicate(width)),
            keep.eq(~self.wipe),
            written.eq((old | set) & keep),
            before.eq(written),
            self.word.eq(old),
        ]
        self._elaborate_memory(
            m,
            read_row=row.at(self.READ).value,
            word=word,
            write_row=row.at(self.LATENCY).value,
            write=writes.at(self.LATENCY).value,
            written=written,
        )
        return m

    def _elaborate_sweep(self, m):
        """Return the row that is swept in the first clock without an access."""
        # Overflows when the last row has been swept. The carry is told a clock ahead, as the
        # digits above the first have been still for long then.
        swept = Signal(len(self.row) + 1, init=self._rows)
        lower = swept[:FAN_IN]
        full = Const(1)
        m.d.comb += self.clean.eq(swept[-1])
        with m.If(~self.access & ~self.clean):
            m.d.sync += lower.eq(lower + 1)
        for low in range(FAN_IN, len(swept), self.DIGIT):
            digit = swept[low : low + self.DIGIT]
            carry = Signal(name=f"carry{low}")
            with m.If(~self.access & ~self.clean):
                m.d.sync += [
                    carry.eq((lower == (1 << FAN_IN) - 2) & full),
                    digit.eq(digit + carry),
                ]
            with m.If(self.start):
                m.d.sync += carry.eq(0)
            full_up_to = Signal(name=f"full{low}")
            m.d.sync += full_up_to.eq(full & digit.all())
            full = full_up_to
        with m.If(self.start):
            m.d.sync += swept.eq(0)
        return swept[:-1]

    def _elaborate_comparison(self, pipe, row):
        """Return, a cycle after the read, whether each pass before had the same row."""
        same = []
        for distance in range(self.DISTANCES):
            # So many cycles ago the pass before was where this one is now.
            before = row.at(self.READ + distance).value
            pairs = pipe.register(
                f"pairs{distance}",
                lambda here, there=before: Cat(
                    here[at : at + 2] == there[at : at + 2] for at in range(0, len(here), 2)
                ),
                row,
            )
            same.append(pipe.register(f"same{distance}", lambda pairs: pairs.all(), pairs))
        return pipe.combine("same", lambda *flags: Cat(flags), *same)

    @abstractmethod
    def _elaborate_memory(self, m, *, read_row, word, write_row, write, written):
        """Read in one clock and register the word in the next; write in one clock.

        Whatever a read of the row that is being written gives will do.
        """


class PortableWordBank(WordBank):
    """Variant for simulation, proofs and any device: one plain memory, `words`."""

    def __init__(self, *, rows, columns):
        super().__init__(rows=rows, columns=columns)
        self.words = memory.Memory(shape=columns, depth=rows, init=[])

    def _elaborate_memory(self, m, *, read_row, word, write_row, write, written):
        m.submodules.words = words = self.words
        read_port = words.read_port()
        write_port = words.write_port()
        m.d.comb += [
            read_port.addr.eq(read_row),
            write_port.addr.eq(write_row),
            write_port.en.eq(write),
            write_port.data.eq(written),
        ]
        m.d.sync += word.eq(read_port.data)
