"""Proofs for triplicated cells: results are correct while one replica is wrong."""

from amaranth.hdl._ast import AnySeq

from .dictionary import ColumnAnswers
from .formal import Bounded, Proof
from .harness import Harness, Unreliable, make_one_wrong
from .moves import ExchangeAnswers
from .timing import PartAnswers, RestAnswers, UndefinedCells

MENDED = "a replica is repaired while the cell is read"  # name of a reachable state


class UnreliableCells(Unreliable, UndefinedCells):
    def _read(self, m, read, write):
        return self.answer(super()._read(m, read, write))


class _Copied(Harness):
    """Mixin for harnesses: the cells are triplicated, and one arbitrary replica is wrong."""

    PROTECT = "tmr"
    MEMORY = UnreliableCells

    def build(self, m):
        super().build(m)
        memory = self._cells.memory
        make_one_wrong(m, memory.copies)
        self.reach(MENDED, memory.mend.any() & (memory.a_address == memory.b_address))

    def _inserts(self):
        # Not in every cycle: otherwise every entry of a dictionary expires before the sweep has
        # passed all rows.
        return AnySeq(1)


def copied(harness):
    return type(f"Copied{harness.__name__}", (_Copied, harness), {})


PROOFS = tuple(
    Proof(
        name=f"{name}, one copy wrong",
        statement=f"*{name.capitalize()}* also holds if cells are triplicated and any one replica "
        "returns arbitrary words in every cycle, even while the sweep rewrites that replica.",
        design=f"{design}, in three replicas",
        build=copied(harness),
        method=Bounded(depth),
        goals=(MENDED,),
    )
    for name, design, harness, depth in (
        ("ages of cells", "part of 2 cells of 3 bits", PartAnswers, 34),
        ("ages of cells, swept in idle cycles", "part of 2 cells of 3 bits", RestAnswers, 40),
        ("column of a dictionary", "column of 2 cells", ColumnAnswers, 26),
        ("column of a ring", "column of 2 cells", ExchangeAnswers, 28),
    )
)
