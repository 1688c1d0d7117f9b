"""The current tick for operations in the pipeline of a part, and ticks by insertion count."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..memory.cells import CellMemory
from ..memory.protection import parity
from ..parameters import require_integer
from ..pipeline import Pipeline
from .timing_profile import PART_LATENCY


class StampSignature(wiring.Signature):
    """Current tick for the accesses in the pipeline of a part.

    Parameters
    ----------
    stamp_bits, check_bits : int
        Width of a stamp, a tick modulo ``2**stamp_bits``; and width of its parity, if any.

    Members
    -------
    now : Out(stamp_bits)
        Stamp of the access that arrived `TickCount.NOW` cycles ago.
    stamp, restamp : Out(stamp_bits + check_bits)
        Words for the access that arrived `TickCount.STAMP` cycles ago: the word of a cell with its
        stamp, and the word of an expired cell.
    """

    def __init__(self, *, stamp_bits, check_bits=0):
        word = Out(stamp_bits + check_bits)
        super().__init__({"now": Out(stamp_bits), "stamp": word, "restamp": word})


class TickCount(wiring.Component):
    """Counts the ticks for all parts. A tick precedes an access in the same cycle.

    Parameters
    ----------
    stamp_bits : int
    limit : int
        Age of an expired cell.
    check_bits : int
        Width of the parity of a stamp, see `lately.hdl.memory.protection.parity`; 0 without parity.

    Members
    -------
    tick : In(1)
    stamps : Out(StampSignature)
    """

    NOW = 2 + CellMemory.LATENCY
    STAMP = PART_LATENCY

    def __init__(self, *, stamp_bits, limit, check_bits=0):
        self._limit = limit
        self._check_bits = check_bits
        stamps = StampSignature(stamp_bits=stamp_bits, check_bits=check_bits)
        super().__init__({"tick": In(1), "stamps": Out(stamps)})

    def elaborate(self, platform):
        m = Module()
        stamps = self.stamps
        pipe = Pipeline(m)
        tick = pipe.enter(self.tick, "tick")
        m.d.sync += stamps.now.eq(stamps.now + tick.at(self.NOW - 1).value)
        for name, age in (("stamp", 0), ("restamp", self._limit)):
            count = Signal(
                len(stamps.now), name=f"{name}_count", init=-age % (1 << len(stamps.now))
            )
            m.d.sync += count.eq(count + tick.at(self.STAMP - 1).value)
            check = self._elaborate_check(m, count, tick.at(self.STAMP - 2).value)
            m.d.comb += getattr(stamps, name).eq(Cat(count, check))
        return m

    def _elaborate_check(self, m, count, tick):
        """Return the parity of a count, computed one cycle ahead of the count."""
        if not self._check_bits:
            return Cat()
        ahead = Signal.like(count, name_suffix="_ahead")
        # The first cells are wiped with this parity right after reset.
        odd = count.init.bit_count() & 1
        check = Signal(self._check_bits, name=f"{count.name}_parity", init=1 - odd)
        m.d.sync += [ahead.eq(ahead + tick), check.eq(parity(ahead))]
        return check


class BlockCount(wiring.Component):
    """Generates a tick at the last insertion of each block.

    Parameters
    ----------
    block : int
        Insertions per block.

    Members
    -------
    insert, clear : In(1)
        A clear starts a block.
    tick : Out(1)
        In the cycle of the insertion.
    left : Out(range(block))
        Insertions that follow the next one in its block.

    Errors: as `require_integer`.
    """

    def __init__(self, *, block):
        require_integer("Block", block, least=1)
        self._block = block
        super().__init__(
            {
                "insert": In(1),
                "clear": In(1),
                "tick": Out(1),
                "left": Out(range(block), init=block - 1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left = self.left
        m.d.comb += self.tick.eq(self.insert & (left == 0))
        with m.If(self.clear | self.tick):
            m.d.sync += left.eq(self._block - 1)
        with m.Elif(self.insert):
            m.d.sync += left.eq(left - 1)
        return m


def constant_flags(value, least):
    """Return two flags for each four bits of `value`: above, or equal to, these bits of `least`.

    `is_at_least` combines the flags: whether the value is `least` or more. This takes half of the
    LUTs of a comparison with a carry chain, and permits a register in between.
    """
    flags = []
    for low in range(0, len(value), 4):
        digit, own = value[low : low + 4], least >> low & 15
        above = Const(0xFFFF << own + 1 & 0xFFFF, 16).bit_select(digit, 1)
        flags += [above, digit == own]
    return Cat(flags)


def joined_flags(flags):
    """Return `constant_flags` combined pairwise, for digits of twice the width."""
    joined = []
    for low in range(0, len(flags), 4):
        above, same = flags[low], flags[low + 1]
        if low + 2 < len(flags):
            above, same = flags[low + 2] | flags[low + 3] & above, flags[low + 3] & same
        joined += [above, same]
    return Cat(joined)


def is_at_least(flags):
    """Return whether a value reaches the limit for which `constant_flags` made the flags."""
    result = Const(1)
    for low in range(0, len(flags), 2):
        above, same = flags[low], flags[low + 1]
        result = above | same & result
    return result
