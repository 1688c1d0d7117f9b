"""Proofs of cells in three copies: one copy is wrong until it is repaired."""

from amaranth.hdl._ast import AnySeq

from .dictionary import ColumnAnswers
from .formal import Bounded, Proof
from .harness import Harness, Unreliable, one_lies
from .moves import ExchangeAnswers
from .timing import PartAnswers, RestAnswers, UndefinedCells

MENDED = "a copy is written while the cell is read"  # state that must be reachable


class UnreliableCells(Unreliable, UndefinedCells):
    """A memory of cells that returns arbitrary words while it is wrong."""

    def _read(self, m, read, write):
        return self.answer(super()._read(m, read, write))


class _Copied(Harness):
    """Mixin of harnesses: the cells are in three copies, an arbitrary one of which is wrong."""

    PROTECT = "tmr"
    MEMORY = UnreliableCells
    OWNER = "_unit"

    def build(self, m):
        super().build(m)
        memory = getattr(self, self.OWNER).memory
        one_lies(m, memory.copies)
        self.reach(MENDED, memory.mend.any() & (memory.a_address == memory.b_address))


class CopiedPart(_Copied, PartAnswers):
    """A part with its own port for the sweep."""


class CopiedRest(_Copied, RestAnswers):
    """A part with a sweep in idle cycles."""


class CopiedColumn(_Copied, ColumnAnswers):
    """A column of a dictionary."""

    OWNER = "_column"

    def _inserts(self):
        # Not always: otherwise no entry stays in the window for the duration of the sweep.
        return AnySeq(1)


class CopiedRing(_Copied, ExchangeAnswers):
    """A column of a ring."""

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
"""Proofs of cells in three copies."""
