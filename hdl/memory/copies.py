"""Copies of a memory that answer as one, so that what one of them has lost is not lost."""

from functools import reduce
from operator import and_, or_

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..latencies import VOTE_LATENCY


class Copies(wiring.Component):
    """Copies of a memory, which all get the same and answer as one.

    A bit of an answer is set where it is in either of two copies, or in two of three. So what one
    of two has lost still reads as set, and any single bit of three is corrected. Nothing is
    written back: a wrong bit stays until it is written, set or cleared.

    Parameters
    ----------
    copies : list of Component
        Two or three memories of one signature.
    answers : sequence of str
        Outputs of each that are compared; the others are high if those of all copies are.
    latency : int
        Of a copy, which the vote adds `registers` to.
    registers : int
        1, or 0 if a register follows.

    Members
    -------
    As those of the copies, and:

    upset : Out
        With the `answers`, for each whether the copies differ in it; without registers, for each
        of its bits. It means nothing where the answer itself is undefined.

    Raises
    ------
    ValueError
        If there are not two copies or three.
    """

    def __init__(self, copies, *, answers, latency, registers=VOTE_LATENCY):
        if len(copies) not in (2, 3):
            raise ValueError(f"Copies must be 2 or 3, not {len(copies)}")
        self.copies = copies
        self._answers = answers
        self._registers = registers
        self.latency = self.LATENCY = latency + registers
        widths = [1 if registers else len(getattr(copies[0], name)) for name in answers]
        super().__init__({**copies[0].signature.members, "upset": Out(sum(widths))})

    def elaborate(self, platform):
        m = Module()
        domain = m.d.sync if self._registers else m.d.comb
        upsets = []
        for number, copy in enumerate(self.copies):
            m.submodules[f"copy{number}"] = copy
        for name, member in self.copies[0].signature.members.items():
            own, each = getattr(self, name), [getattr(copy, name) for copy in self.copies]
            if member.flow is In:
                m.d.comb += [one.eq(own) for one in each]
            elif name in self._answers:
                domain += own.eq(vote(each))
                differs = reduce(or_, each) & ~reduce(and_, each)
                upsets.append(differs.any() if self._registers else differs)
            else:
                m.d.comb += own.eq(Cat(each).all())
        domain += self.upset.eq(Cat(upsets))
        return m


def vote(values):
    """Return what counts of some values, bit by bit: the one, either of two, or most of three.

    Parameters
    ----------
    values : list of Value
    """
    first, *others = values
    if not others:
        return first
    second, *third = others
    either = first | second
    return first & second | third[0] & either if third else either


def copy_names(copies):
    """Return what the names of copies end with: nothing if there is one.

    Parameters
    ----------
    copies : list
    """
    return range(len(copies)) if len(copies) > 1 else [""]


def protected(build, *, copies, answers, latency=None, **options):
    """Return the memory that is built, or as many copies of it as there shall be.

    Parameters
    ----------
    build : callable
        Takes nothing; returns a memory.
    copies : int
        1 for a memory as it is.
    answers, latency, options
        As for `Copies`; by default the latency is what the memory says.
    """
    if copies == 1:
        return build()
    built = [build() for _ in range(copies)]
    if latency is None:
        latency = getattr(built[0], "latency", None) or built[0].LATENCY
    return Copies(built, answers=answers, latency=latency, **options)
