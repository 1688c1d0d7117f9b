"""What is proven of banks of words, which hold one cell of every segment."""

from functools import partial

from amaranth.hdl import Assume, Mux, Signal

# There is no public name for a value that is arbitrary and does not change.
from amaranth.hdl._ast import AnyConst, AnySeq

from ...hdl.memory.ecp5 import ECP5WordBank
from ...hdl.memory.words import PortableWordBank
from ...hdl.pipeline import delayed
from ..toolchain import models
from .formal import Bounded, Proof
from .harness import Harness


class UndefinedBank(PortableWordBank):
    """Portable bank that reads any word while it is written, as synthesis may make it."""

    def _elaborate_memory(self, m, *, read_row, word, write_row, write, written):
        read = Signal(len(word))
        super()._elaborate_memory(
            m,
            read_row=read_row,
            word=read,
            write_row=write_row,
            write=write,
            written=written,
        )
        met = delayed(m, write & (read_row == write_row), 2, "met")
        m.d.comb += word.eq(Mux(met, AnySeq(len(word)), read))


class BankAnswers(Harness):
    """A bank of words against a flip-flop for one arbitrary bit of one arbitrary word.

    Passes come in any order and to any rows, those of the sweep where no operation comes. A bit
    that a pass wipes without writing is unknown until one that writes has wiped or set it.
    """

    def __init__(self, *, bank=UndefinedBank, rows=4, columns=3, goal=None):
        self._bank = bank(rows=rows, columns=columns)
        self._rows = rows
        super().__init__(part=self._bank, goal=goal)

    def build(self, m):
        m.submodules.bank = bank = self._bank
        own, column = Signal.like(bank.row), Signal(range(len(bank.word)))
        swept = Signal(range(self._rows + 1), init=self._rows)
        sets, wipes = (mask.bit_select(column, 1) for mask in (bank.set, bank.wipe))
        m.d.comb += [
            own.eq(AnyConst(len(own))),
            column.eq(AnyConst(len(column))),
            Assume(column < len(bank.word)),
            Assume(bank.access | ~bank.insert),
            Assume((bank.set & bank.wipe) == 0),
        ]
        sweeps = ~bank.access & (swept != self._rows)
        with m.If(bank.start):
            m.d.sync += swept.eq(0)
        with m.Elif(sweeps):
            m.d.sync += swept.eq(swept + 1)
        self.require(bank.clean == (swept == self._rows))
        # As the masks of a pass come.
        lag = bank.MASK_LAG
        # After a sweep its row is the first again.
        row = Mux(bank.access, bank.row, swept[: len(own)])
        here = delayed(m, row == own, lag, "here")
        insert = delayed(m, bank.insert, lag, "inserts")
        writes = delayed(m, bank.insert | sweeps, lag, "writes")
        access = delayed(m, bank.access, lag, "accesses")
        bit, known = Signal(), Signal()
        with m.If(here & wipes):
            m.d.sync += [bit.eq(0), known.eq(writes)]
        with m.Elif(here & insert & sets):
            m.d.sync += [bit.eq(1), known.eq(1)]
        late = bank.LATENCY - lag
        asked = delayed(m, here & access & known, late, "asked")
        expected = delayed(m, bit, late, "expected")
        told = bank.word.bit_select(column, 1)
        self.require(~asked | (told == expected))
        self.reach("a bit that was set is read", asked & told)
        self.reach("a bit that was wiped is read", asked & ~told)


CLOCKS = 16
"""Of the proofs of banks: a sweep, and what comes after it."""

_READ = {f"a bit that was {left} is read": CLOCKS for left in ("set", "wiped")}

PROOFS = tuple(
    Proof(
        name=f"words of banks, {variant}, {rows} rows",
        statement="An operation is told the word of its row as all passes before left it, whatever "
        "rows they met in and whatever the memory gives of a row that is being written; the sweep "
        "comes to every row.",
        design=f"bank of {rows} words of {columns} bits, {variant}",
        build=partial(BankAnswers, bank=bank, rows=rows, columns=columns),
        method=Bounded(CLOCKS),
        models=models(variant),
        goals=_READ,
    )
    for variant, bank in (("portable", UndefinedBank), ("ecp5", ECP5WordBank))
    # More columns than a block RAM of ECP5 has bits in a word.
    for rows, columns in ((2, 3), (4, 20))
)
"""Of banks of words."""
