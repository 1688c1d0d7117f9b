"""What the parts of a timing filter have in common: their ports, and reads that meet writes."""

from amaranth.hdl import Cat, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..memory.cells import PortableCellMemory
from .timing_profile import PART_LATENCY


class CellPart(wiring.Component):
    """Base of parts: cells of one hash function, each of which holds the stamp of its insertion.

    A stamp is the number of its tick modulo ``2**stamp_bits``. One operation per clock, latency
    `LATENCY` clocks.

    Parameters
    ----------
    cells : int
        Power of two.
    stamp_bits : int
        Width of a cell.
    limit : int
        Age from which on a cell has expired, in ticks.
    memory : callable
        Builds the memory; as the classes of `lately.hdl.memory.cells`.
    others
        Further ports of the part, by name.

    Members
    -------
    address : In(range(cells))
    insert : In(1)
    tick : In(1)
        A tick comes before the operation, whether there is one or not.
    now, stamp, restamp : In(stamp_bits)
        Of a `TickCount` that has the same ticks.
    age : Out(range(limit))
        In ticks, unless expired.
    expired : Out(1)
        Whether the age is `limit` or more.
    """

    LATENCY = PART_LATENCY

    def __init__(self, *, cells, stamp_bits, limit, memory=PortableCellMemory, **others):
        self.memory = memory(depth=cells, width=stamp_bits)
        self._bits = stamp_bits
        self._limit = limit
        super().__init__(
            {
                "address": In(range(cells)),
                "insert": In(1),
                "tick": In(1),
                "now": In(stamp_bits),
                "stamp": In(stamp_bits),
                "restamp": In(stamp_bits),
                "age": Out(range(limit)),
                "expired": Out(1),
            }
            | others
        )

    def _age(self, now, stamp):
        return (now - stamp)[: self._bits]

    def _elaborate_same(self, pipe, name, address, other, flag, *, stage=1):
        """Return whether a flag of a stage is set and its address the operation's, two later."""
        pairs = pipe.register(
            f"{name}_pairs",
            lambda here: Cat(
                flag, (here[at : at + 2] == other[at : at + 2] for at in range(0, len(here), 2))
            ),
            address.at(stage),
        )
        return pipe.register(name, lambda pairs: pairs.all(), pairs)


class WritePort:
    """Registers ahead of the port that writes: of an operation, or of the sweep.

    Parameters
    ----------
    m : Module
        Gets the connections.
    memory : CellMemory
    """

    def __init__(self, m, memory):
        self.address = Signal.like(memory.b_address, name="b_address", reset_less=True)
        self.value = Signal.like(memory.value, name="b_value", reset_less=True)
        self.write, self.inserts, self.sweeps = Signal(), Signal(), Signal()
        m.d.comb += [
            memory.b_address.eq(self.address),
            memory.value.eq(self.value),
            memory.write.eq(self.write),
        ]
