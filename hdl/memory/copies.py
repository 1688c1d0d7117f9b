"""Redundant copies of a memory with one voted answer."""

from functools import reduce
from operator import and_, or_

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..latencies import VOTE_LATENCY

DIGIT = 4
"""Bits of a word that are compared, or combined, per cycle."""


class Copies(wiring.Component):
    """Two or three copies of a memory with the same inputs and one voted answer.

    A bit of the answer is set if it is set in either of two copies, or in two of three copies. So
    two copies mask a lost bit, and three copies correct any single bit. A wrong bit persists until
    it is written, or until `mend` writes its copy.

    Parameters
    ----------
    copies : list of Component
        Two or three memories of one signature.
    answers : sequence of str
        Voted outputs of each copy. Any other output is high if it is high in all copies.
    latency : int
        Latency of a copy; the vote adds `registers`.
    registers : int
        1, or 0 if a register follows.
    writes : str, optional
        Write enable of a copy, if single copies can be written.

    Members
    -------
    Members of a copy, and:

    upset : Out
        One flag for each of the `answers`: whether the copies differ. Without registers, one mask
        for each copy except the first: the bits that differ from the first copy. Undefined while
        the answer is undefined.
    mend : In(len(copies))
        With `writes` only: a bit for each copy that is written in this cycle, independent of the
        write enable.

    Raises
    ------
    ValueError
        If the number of copies is not 2 or 3.
    """

    def __init__(self, copies, *, answers, latency, registers=VOTE_LATENCY, writes=None):
        if len(copies) not in (2, 3):
            raise ValueError(f"Copies must be 2 or 3, not {len(copies)}")
        self.copies = copies
        self._registers = registers
        self._writes = writes
        self.latency = self.LATENCY = latency + registers
        self._others = len(copies) - 1
        # Position of the flags of each answer.
        self._places, bits = {}, 0
        for name in answers:
            self._places[name] = bits
            bits += 1 if registers else self._others * len(getattr(copies[0], name))
        super().__init__(
            {**copies[0].signature.members, "upset": Out(bits)}
            | ({"mend": In(len(copies))} if writes else {})
        )

    def elaborate(self, platform):
        m = Module()
        domain = m.d.sync if self._registers else m.d.comb
        upsets = []
        for number, copy in enumerate(self.copies):
            m.submodules[f"copy{number}"] = copy
        for name, member in self.copies[0].signature.members.items():
            own, each = getattr(self, name), [getattr(copy, name) for copy in self.copies]
            if name == self._writes:
                m.d.comb += [one.eq(own | mend) for one, mend in zip(each, self.mend, strict=True)]
            elif member.flow is In:
                m.d.comb += [one.eq(own) for one in each]
            elif name in self._places:
                domain += own.eq(vote(each))
                if self._registers:
                    upsets.append((reduce(or_, each) & ~reduce(and_, each)).any())
                else:
                    upsets += [each[0] ^ other for other in each[1:]]
            else:
                m.d.comb += own.eq(Cat(each).all())
        domain += self.upset.eq(Cat(upsets))
        return m

    def unlike(self, name):
        """Return for each copy except the first whether it differs from the first, by bit group.

        Without registers only.

        Parameters
        ----------
        name : str
            One of the `answers`.
        """
        start, width = self._places[name], len(getattr(self, name))
        each = [self.upset[start + number * width :][:width] for number in range(self._others)]
        return [Cat(differs[at : at + DIGIT].any() for at in range(0, width, DIGIT))
                for differs in each]  # fmt: skip


def vote(values):
    """Return the vote over values, bit by bit: the only value, the OR of two, or the majority.

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
    """Return the suffixes of the names of copies; empty for a single copy.

    Parameters
    ----------
    copies : list
    """
    return range(len(copies)) if len(copies) > 1 else [""]


def protected(build, *, copies, answers, latency=None, **options):
    """Build a memory, or the given number of copies of it.

    Parameters
    ----------
    build : callable
        Takes no argument; returns a memory.
    copies : int
        1 for a single memory.
    answers, latency, options
        As for `Copies`; the default latency is the latency of the memory.
    """
    if copies == 1:
        return build()
    built = [build() for _ in range(copies)]
    if latency is None:
        latency = getattr(built[0], "latency", None) or built[0].LATENCY
    return Copies(built, answers=answers, latency=latency, **options)
