"""Layouts, ports and helper functions for the cells and entries of a dictionary."""

from functools import reduce
from operator import or_, xor

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..parameters import check_bits
from ..pipeline import registered
from .dictionary_figures import COMPARISON

GROUP = 4  # number of values that one or two levels of LUTs select from


class Cell(data.StructLayout):
    """Layout of a cell: insertion number, high digest bits and, with parity, check bits."""

    def __init__(self, *, spec, checked=False):
        checks = {"unknown": 1, "check": check_bits(spec.cell_bits + 1)} if checked else {}
        super().__init__({"used": 1, "time": spec.timestamp_bits, "rest": spec.rest_bits} | checks)


class Entry(data.StructLayout):
    """Layout of an entry: a whole digest, and the number of the insertion that wrote it."""

    def __init__(self, *, spec):
        super().__init__({"digest": spec.digest_bits, "time": spec.timestamp_bits})


def row_of(low, rest, terms):
    """Return the row that belongs to the low bits of a digest.

    The function is its own inverse: if `low` is a row, the result is the low bits of the digest.
    """
    return Cat(reduce(xor, [low[bit], *(rest[term] for term in added)])
               for bit, added in enumerate(terms))  # fmt: skip


def agreeing_pairs(first, second):
    """Compare two values two bits at a time; return one flag per pair."""
    return Cat(first[low : low + 2] == second[low : low + 2] for low in range(0, len(first), 2))


def distance_within(m, time, number, *windows, side=0):
    """Return the age of a cell and, for each window, whether the age is within the window.

    The results follow the inputs by two cycles.
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
    """Return the value whose `one_hot` bit is set, or 0."""
    return reduce(
        or_, (value & bit.replicate(len(value)) for bit, value in zip(one_hot, values, strict=True))
    )


def selected_later(m, one_hot, values, name):
    """Return the value whose `one_hot` bit was set in the previous cycle, or 0."""
    groups = [
        selected(one_hot[low : low + GROUP], values[low : low + GROUP])
        for low in range(0, len(values), GROUP)
    ]
    return reduce(or_, [registered(m, group, name) for group in groups])


def lowest(bits, *, group=GROUP):
    """Return a mask with only the lowest set bit; up to 16 bits need two levels of LUTs."""
    groups = [bits[low : low + group] for low in range(0, len(bits), group)]
    return Cat(
        bit & ~part[:at].any() & ~Cat(each.any() for each in groups[:number]).any()
        for number, part in enumerate(groups)
        for at, bit in enumerate(part)
    )


class HazardWindow(wiring.Component):
    """Compares each value with the values of the previous cycles, to detect hazards."""

    LATENCY = COMPARISON

    def __init__(self, *, bits, depth):
        self._depth = depth
        super().__init__(
            {
                "value": In(bits),
                # item k - 1: the value k cycles earlier
                "before": Out(data.ArrayLayout(bits, depth)),
                # bit k - 1, `LATENCY` cycles after a value: whether it equals the value k cycles
                # earlier
                "same": Out(depth),
            }
        )

    def elaborate(self, platform):
        m = Module()
        before, same = self.value, []
        for distance in range(1, self._depth + 1):
            before = registered(m, before, f"before{distance}", reset_less=True)
            m.d.comb += self.before[distance - 1].eq(before)
            pairs = agreeing_pairs(self.value, before)
            pairs = registered(m, pairs, f"pairs{distance}", reset_less=True)
            same.append(registered(m, pairs.all(), f"same{distance}", reset_less=True))
        m.d.comb += self.same.eq(Cat(same))
        return m


class VisitSignature(wiring.Signature):
    """Ports through which entries of the stash arrive at a column, as seen by the stash."""

    def __init__(self, *, spec):
        entry = Entry(spec=spec)
        outputs = {
            "arrives": 1,  # while not `closed`: `entry` arrives from its `slot` in the stash
            "entry": entry,
            "slot": spec.stash,  # slot in the stash, one-hot
            "stale": spec.stash,  # slots that changed in the previous cycle, or will be displaced
        }
        # `pushes`: an operation goes to the stash in the next cycle
        # `granted`: the entry may be written in the next cycle; never in two consecutive cycles
        outputs |= {"pushes": 1, "granted": 1}
        inputs = {
            "closed": 1,  # the column holds an entry, or its sweep is behind
            # slot of the held entry; 0 without an entry, or if the slot was stale at the arrival
            "holds": spec.stash,
            "requests": 1,  # the entry waits to be written
            "done": 1,  # the entry is written and replaces `evicted`
        }
        # `evicted_valid`: the evicted entry is within the window
        inputs |= {"evicted": entry, "evicted_valid": 1}
        super().__init__(
            {name: Out(shape) for name, shape in outputs.items()}
            | {name: In(shape) for name, shape in inputs.items()}
        )
