"""Proofs for triplicated cells: answers are correct while one copy is wrong."""

from amaranth.hdl._ast import AnySeq

from .dictionary import ColumnAnswers
from .formal import Bounded, Proof
from .harness import Harness, Unreliable, one_lies
from .moves import ExchangeAnswers
from .timing import PartAnswers, RestAnswers, UndefinedCells

MENDED = "a copy is written while the cell is read"  # name of a reachable state


class UnreliableCells(Unreliable, UndefinedCells):
    """Cell memory that returns arbitrary words while it is wrong."""

    def _read(self, m, read, write):
        return self.answer(super()._read(m, read, write))


class _Copied(Harness):
    """Mixin for harnesses: the cells are triplicated, and one arbitrary copy at a time is wrong."""

    PROTECT = "tmr"
    MEMORY = UnreliableCells
    OWNER = "_unit"

    def build(self, m):
        super().build(m)
        memory = getattr(self, self.OWNER).memory
        one_lies(m, memory.copies)
        self.reach(MENDED, memory.mend.any() & (memory.a_address == memory.b_address))


class CopiedPart(_Copied, PartAnswers):
    """A part whose sweep has its own memory port."""


class CopiedRest(_Copied, RestAnswers):
    """A part whose sweep uses idle cycles."""


class CopiedColumn(_Copied, ColumnAnswers):
    """A dictionary column."""

    OWNER = "_column"

    def _inserts(self):
        # Not in every cycle: otherwise every entry expires before the sweep has passed all rows.
        return AnySeq(1)


class CopiedRing(_Copied, ExchangeAnswers):
    """A ring column."""

    OWNER = "_column"


PROOFS = tuple(
    Proof(
        name=f"{name}, one copy wrong",
        statement=f"Operations get exactly the answers of *{name}*, with cells in three copies, "
        "any one of which returns arbitrary words in every cycle, also while the sweep rewrites "
        "that copy.",
        design=f"{design} in three copies",
        build=build,
        method=Bounded(depth),
        goals=(MENDED,),
    )
    for name, design, build, depth in (
        ("ages of cells", "part of 2 cells of 3 bits", CopiedPart, 34),
        ("ages of cells, swept in idle cycles", "part of 2 cells of 3 bits", CopiedRest, 40),
        ("column of a dictionary", "column of 2 cells", CopiedColumn, 26),
        ("column of a ring", "column of 2 cells", CopiedRing, 28),
    )
)
"""Proofs for triplicated cells."""
