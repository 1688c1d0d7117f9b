"""The present tick, as the operations that go through a part have it, and ticks by count."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..latencies import check_bits
from ..memory.parity import parity
from ..parameters import require_integer
from ..pipeline import Pipeline


class TickCount(wiring.Component):
    """Counts ticks for all parts, each of which goes with an operation, or none, and counts before.

    Parameters
    ----------
    stamp_bits : int
        Width of a stamp: the number of its tick modulo ``2**stamp_bits``.
    limit : int
        Age that a cell gets from the sweep.
    checked : bool
        Whether stamps have a parity.

    Members
    -------
    tick : In(1)
    now : Out(stamp_bits)
        Stamp of the operation that came `NOW` clocks ago.
    stamp, restamp : Out(stamp_bits)
        Stamp of the one that came `STAMP` clocks ago, and one of age `limit` then.
    now_check, stamp_check, restamp_check : Out(check_bits(stamp_bits))
        If stamps have a parity: theirs, see `lately.hdl.memory.parity`.
    """

    NOW = 4
    STAMP = 7

    def __init__(self, *, stamp_bits, limit, checked=False):
        self._bits = stamp_bits
        self._limit = limit
        checks = dict.fromkeys(stamp_checks(checked), Out(check_bits(stamp_bits)))
        super().__init__(
            {
                "tick": In(1),
                "now": Out(stamp_bits),
                "stamp": Out(stamp_bits),
                "restamp": Out(stamp_bits, init=-limit % (1 << stamp_bits)),
            }
            | checks
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        tick = pipe.enter(self.tick, "tick")
        for count, stage in (
            (self.now, self.NOW), (self.stamp, self.STAMP), (self.restamp, self.STAMP)
        ):  # fmt: skip
            m.d.sync += count.eq(count + tick.at(stage - 1).value)
            if f"{count.name}_check" in self.signature.members:
                self._elaborate_check(m, count, tick.at(stage - 2).value)
        return m

    def _elaborate_check(self, m, count, tick):
        """Drive the parity of a count by one that counts a clock ahead of it, at a `tick`."""
        ahead = Signal(self._bits, name=f"{count.name}_ahead", init=count.init)
        # The first cells are wiped with it right after reset.
        odd = count.init.bit_count() & 1
        check = Signal(check_bits(self._bits), name=f"{count.name}_parity", init=1 - odd)
        m.d.sync += [ahead.eq(ahead + tick), check.eq(parity(ahead))]
        m.d.comb += getattr(self, f"{count.name}_check").eq(check)


def stamp_checks(checked):
    """Return the names of the ports for the parities of stamps, if they have any.

    Parameters
    ----------
    checked : bool
        Whether they have.
    """
    return [f"{name}_check" for name in ("now", "stamp", "restamp")] if checked else []


class BlockCount(wiring.Component):
    """Makes a tick with the last insertion of each block.

    Parameters
    ----------
    block : int
        Insertions of a block.

    Members
    -------
    insert, clear : In(1)
        After a clear a block begins.
    tick : Out(1)
        In the clock of the insertion.
    left : Out(range(block))
        Insertions that are to come after the next one.

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
    """Return for each four bits of a `value` whether they are above those of `least`, and the same.

    `is_at_least` makes one flag of them: whether the value is `least` or more. That takes half of
    the look-up tables of a comparison, which is a chain of carries, and a register can come
    between.
    """
    flags = []
    for low in range(0, len(value), 4):
        digit, own = value[low : low + 4], least >> low & 15
        above = Const(0xFFFF << own + 1 & 0xFFFF, 16).bit_select(digit, 1)
        flags += [above, digit == own]
    return Cat(flags)


def joined_flags(flags):
    """Return flags for twice as many bits each, of those that `constant_flags` returns."""
    joined = []
    for low in range(0, len(flags), 4):
        above, same = flags[low], flags[low + 1]
        if low + 2 < len(flags):
            above, same = flags[low + 2] | flags[low + 3] & above, flags[low + 3] & same
        joined += [above, same]
    return Cat(joined)


def is_at_least(flags):
    """Return whether a value is at least the number of its `flags`; see `constant_flags`."""
    result = Const(1)
    for low in range(0, len(flags), 2):
        above, same = flags[low], flags[low + 1]
        result = above | same & result
    return result
