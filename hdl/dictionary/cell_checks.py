"""What a column of a dictionary makes of a cell that an upset may have changed."""

from types import MappingProxyType

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Out

from ..latencies import VOTES, check_bits
from ..memory.copies import Mending
from ..memory.parity import sums
from ..pipeline import registered


class Cell(data.StructLayout):
    """A cell: whether it is in use, the number of the insertion that wrote it, and the rest.

    One with a parity has two fields more: whether its digest is unknown, as an upset has hit it
    before, so that it may be any; and the parity, see `lately.hdl.memory.parity`.

    Parameters
    ----------
    spec : WindowDictionarySpec
    checked : bool
        Whether it has a parity.
    """

    def __init__(self, *, spec, checked=False):
        checks = {"unknown": 1, "check": check_bits(spec.cell_bits + 1)} if checked else {}
        super().__init__({"used": 1, "time": spec.timestamp_bits, "rest": spec.rest_bits} | checks)


class Unchecked:
    """Of a cell without protection nothing is doubted.

    Parameters
    ----------
    column : Column
        Has the memory, and gets what the checks tell.
    spec : WindowDictionarySpec
    """

    PORTS = MappingProxyType({})
    """Further ports of the column."""

    CHECKED = False
    """Whether cells have a parity."""

    def __init__(self, column, spec):
        self._column = column
        self.cell = Cell(spec=spec, checked=self.CHECKED)
        """Layout of a cell."""

    def elaborate_read(self, m, met, swept):
        """Look at what operations read.

        Parameters
        ----------
        m : Module
        met : Value
            What is read is undefined, as it is written in the same clock.
        swept : Value
            It was the sweep that wrote, the clock before.
        """

    def vouched(self, flag):
        """Return whether a cell that was read is what a flag says, `Column.LATENCY` clocks after.

        Parameters
        ----------
        flag : Value
        """
        return flag

    def elaborate_sweep(self, m, read):
        """Look at what the sweep reads.

        Parameters
        ----------
        m : Module
        read : Value
            The word of a cell in hand is there.
        """

    def judge(self, m, writes, used, young):
        """Say whether the sweep writes a cell, two clocks after it was read.

        Parameters
        ----------
        m : Module
        writes : Signal
            Becomes that.
        used, young : Value
            What the cell tells of itself: it is in use, of the window.
        """
        m.d.sync += writes.eq(used & ~young)

    def elaborate_erasure(self, m, writes):
        """Return whether the sweep erases a cell if no operation writes.

        Parameters
        ----------
        m : Module
        writes : Value
            Whether it writes one.
        """
        return writes

    def from_operation(self, write, swept):
        """Return whether what is written is of an operation that passes, or of a newcomer.

        Parameters
        ----------
        write, swept : Value
            An operation writes; the sweep does if none does.
        """
        return write

    def value(self, used, others, swept):
        """Return what a cell becomes.

        Parameters
        ----------
        used : Value
            Whether an entry is written.
        others : Value
            All other fields, with the parity of an empty cell.
        swept : Value
            Whether the sweep writes.
        """
        return Cat(used, others)

    def elaborate_newcomer(self, m, cell):
        """Give a cell that is to be written the parity that it has while it is empty.

        Parameters
        ----------
        m : Module
        cell : View
        """

    def refused(self, m, fails, asks, found):
        """Return whether a newcomer is refused.

        Parameters
        ----------
        m : Module
        fails : Value
            Whether it is for another reason.
        asks : Value
            It asks for the cell, two clocks after that was read, or later.
        found : View
            What the cell was.
        """
        return fails


class Voted(Unchecked):
    """Of a cell whose copies differ it is told: most of them have decided already.

    The sweep writes one anew that differs from the other two.

    Parameters
    ----------
    column, spec
        As for `Unchecked`.
    """

    PORTS = MappingProxyType({"upset": Out(1), "swept_upset": Out(1)})

    def __init__(self, column, spec):
        super().__init__(column, spec)
        # The sweep writes a copy that differs.
        self._mends = Signal(name="mends")
        self._mending = None

    def elaborate_read(self, m, met, swept):
        """Do as `Unchecked.elaborate_read`."""
        wrong = registered(m, Cat(self._column.memory.unlike("a_word")), "read_unlike").any()
        m.d.sync += self._column.upset.eq(wrong & ~registered(m, met, "met_before"))

    def elaborate_sweep(self, m, read):
        """Do as `Unchecked.elaborate_sweep`."""
        self._mending = Mending(m, self._column.memory, read)

    def judge(self, m, writes, used, young):
        """Do as `Unchecked.judge`."""
        expired, wrong = used & ~young, self._mending.copies.any()
        m.d.sync += [writes.eq(expired | wrong), self._mends.eq(wrong & ~expired)]
        m.d.comb += self._column.swept_upset.eq(wrong)

    def elaborate_erasure(self, m, writes):
        """Do as `Unchecked.elaborate_erasure`."""
        mends = writes & self._mends & ~self._column.write
        m.d.comb += self._column.memory.mend.eq(self._mending.copies & mends.replicate(VOTES))
        return writes & ~self._mends

    def value(self, used, others, swept):
        """Return as `Unchecked.value`."""
        # Of `swept` it need not be told, which comes late: where neither an operation writes nor an
        # entry is written, nothing else is.
        mends = self._mends & ~self._column.write & ~used
        return Mux(mends, self._mending.word, super().value(used, others, swept))


class Parity(Unchecked):
    """A cell whose parity is wrong holds what was asked for, and is not free.

    Nobody writes it but the sweep, which makes it one of an unknown digest with the present number.
    That holds what is asked for, too, until it expires.

    Parameters
    ----------
    column, spec
        As for `Unchecked`.
    """

    PORTS = MappingProxyType({**Voted.PORTS, "doubted": Out(1)})
    CHECKED = True

    def __init__(self, column, spec):
        super().__init__(column, spec)
        # The sweep has found a cell wrong, and writes it.
        self._swept, self._renews = None, Signal(name="renews")

    def elaborate_read(self, m, met, swept):
        """Do as `Unchecked.elaborate_read`."""
        column = self._column
        cell = data.View(self.cell, column.memory.a_word)
        renewed = registered(m, swept & self._renews, "met_renewed")
        unknown = (cell.used & cell.unknown & ~met) | renewed
        wrong = self._wrong(m, column.memory.a_word, "read")
        wrong = wrong & ~registered(m, met, "met_before")
        m.d.sync += [
            column.upset.eq(wrong),
            column.doubted.eq(wrong | registered(m, unknown, "read_unknown")),
        ]

    def vouched(self, flag):
        """Return as `Unchecked.vouched`."""
        return flag & ~self._column.doubted

    def elaborate_sweep(self, m, read):
        """Do as `Unchecked.elaborate_sweep`."""
        self._swept = registered(
            m, self._wrong(m, self._column.memory.b_word, "swept"), "swept_wrong"
        )

    def judge(self, m, writes, used, young):
        """Do as `Unchecked.judge`."""
        m.d.comb += self._column.swept_upset.eq(self._swept)
        m.d.sync += [writes.eq((used & ~young) | self._swept), self._renews.eq(self._swept)]

    def from_operation(self, write, swept):
        """Return as `Unchecked.from_operation`; the number of an operation is the present one."""
        return write | swept

    def value(self, used, others, swept):
        """Return as `Unchecked.value`."""
        renews = swept & self._renews
        at = len(others) - self.cell["check"].width
        # Two ones more leave the parity as it is.
        return Cat(used | renews, others[: at - 1], renews, others[at:] ^ used)

    def elaborate_newcomer(self, m, cell):
        """Do as `Unchecked.elaborate_newcomer`."""
        added = registered(m, sums(Cat(cell.time, cell.rest)), "newcomer_sums")
        m.d.sync += cell.check.eq(~added.xor())

    def refused(self, m, fails, asks, found):
        """Return as `Unchecked.refused`; what a cell held that is in doubt stays."""
        wrong = registered(m, self._wrong(m, found.as_value(), "found"), "found_wrong")
        return fails | (asks & (wrong | (found.used & found.unknown)))

    def _wrong(self, m, word, name):
        return ~registered(m, sums(word), f"{name}_sums").xor()


CHECKS = MappingProxyType({"none": Unchecked, "parity": Parity, "ecc": Voted})
"""What is done by protection."""
