"""Cells and entries of a dictionary: their layouts, and comparisons with an operation."""

from functools import reduce
from operator import or_, xor

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import data

from ..latencies import check_bits
from ..pipeline import registered

GROUP = 4
"""Values that one or two levels of LUTs select from."""


class Cell(data.StructLayout):
    """A cell: whether it is in use, the number of its insertion, and the remainder of its digest.

    A cell with parity has two more fields: the parity, and ``unknown``, set if an upset destroyed
    the digest of the cell.

    Parameters
    ----------
    spec : WindowDictionarySpec
    checked : bool
        Whether the cell has parity.
    """

    def __init__(self, *, spec, checked=False):
        checks = {"unknown": 1, "check": check_bits(spec.cell_bits + 1)} if checked else {}
        super().__init__({"used": 1, "time": spec.timestamp_bits, "rest": spec.rest_bits} | checks)


class Entry(data.StructLayout):
    """A whole digest, and the number of the insertion that wrote it.

    Parameters
    ----------
    spec : WindowDictionarySpec
    """

    def __init__(self, *, spec):
        super().__init__({"digest": spec.digest_bits, "time": spec.timestamp_bits})


def row_of(low, rest, terms):
    """Return the row of a digest in a column or, if `low` is the row, the digest's low bits.

    Parameters
    ----------
    low, rest : Value
        Parts of the digest.
    terms : sequence
        Terms of the column, from `lately.golden.hash.functions.offset_terms`.
    """
    return Cat(reduce(xor, [low[bit], *(rest[term] for term in added)])
               for bit, added in enumerate(terms))  # fmt: skip


def agreeing_pairs(one, other):
    """Return whether two values agree, for each pair of bits: one level of LUTs.

    Parameters
    ----------
    one, other : Value
    """
    return Cat(one[low : low + 2] == other[low : low + 2] for low in range(0, len(one), 2))


def distance_within(m, time, number, *windows, side=0):
    """Return, two cycles later, the distance of a cell, and whether the cell is in each window.

    The delay of a block RAM leaves little of the first cycle, so distances are not compared with
    windows. Instead, a time is in the window if it is neither after the number nor before the
    start of the window. If the numbers wrap in between, it is in the window unless both hold.

    Parameters
    ----------
    m : Module
        Gets the registers.
    time, number : Value
        Time of the cell, and number of the operation, modulo a power of two.
    windows : int
    side : int
        0 or 1: cells of the same side share the registers of numbers.
    """
    bits = len(time)

    def copied(value, name):
        # Synthesis merges registers unless their initial values differ.
        register = Signal(len(value), name=name, init=-1 if side else 0, reset_less=True)
        m.d.sync += register.eq(value)
        return register

    firsts = [copied((number - window)[: bits + 1], "first") for window in windows]
    time = registered(m, time, "time", reset_less=True)
    number = copied(number, "own_number")
    distance = registered(m, (number - time)[: bits + 1], "distance", reset_less=True)
    flags = []
    for first in firsts:
        before = registered(m, time < first[:bits], "before", reset_less=True)
        wraps = registered(m, first[bits], "wraps", reset_less=True)
        flags.append(Mux(distance[bits], wraps & ~before, wraps | ~before))
    return distance[:bits], *flags


def selected(one_hot, values):
    """Return the value whose bit is set, or 0.

    Parameters
    ----------
    one_hot : Value
    values : sequence of Value
    """
    return reduce(
        or_, (value & bit.replicate(len(value)) for bit, value in zip(one_hot, values, strict=True))
    )


def selected_later(m, one_hot, values, name):
    """Return the value whose bit was set in the previous cycle, or 0.

    Parameters
    ----------
    m : Module
        Gets a register for each group of values.
    one_hot : Value
    values : sequence of Value
    name : str
        Name of the registers.
    """
    groups = [
        selected(one_hot[low : low + GROUP], values[low : low + GROUP])
        for low in range(0, len(values), GROUP)
    ]
    return reduce(or_, [registered(m, group, name) for group in groups])


def lowest(bits, *, group=GROUP):
    """Return the lowest set bit, one-hot, in two levels of LUTs for up to 16 bits.

    Parameters
    ----------
    bits : Value
    group : int
        Bits per level.
    """
    groups = [bits[low : low + group] for low in range(0, len(bits), group)]
    return Cat(
        bit & ~part[:at].any() & ~Cat(each.any() for each in groups[:number]).any()
        for number, part in enumerate(groups)
        for at, bit in enumerate(part)
    )
