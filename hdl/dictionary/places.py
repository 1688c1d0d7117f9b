"""Choice of the place for the next digest in the stash: the oldest place, or a free one."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import registered
from .cells import lowest

LEAST_TURN = 4
"""Minimum cycles until the stash examines a place again. By then it is known whether a column
has accepted the entry of the place."""


def turn_bits(places):
    """Return the width of the turn of a stash: one bit per place, and a minimum.

    Parameters
    ----------
    places : int
    """
    return max(LEAST_TURN, places)


class PlaceSignature(wiring.Signature):
    """Ports of a component that chooses the place of the next digest. One bit is one place.

    Parameters
    ----------
    places : int

    Members
    -------
    valid : In(places)
        Places in use.
    match : In(places)
        Place that holds the digest of the current operation.
    taken : In(places)
        Place whose entry the current operation removes.
    push : In(1)
        The current operation goes to the stash.
    held : In(places)
        Places whose entries columns are exchanging, as in the previous cycle.
    turn : In
        One-hot place that the stash examines; the bit moves to the next place in each cycle. Bits
        above the number of places select no place.
    place : Out(places)
        Place for the digest of the operation.
    candidate : Out(places)
        `place`, if no place holds the digest.
    displaces : Out(1)
        A push would replace the entry in `candidate`.
    """

    def __init__(self, *, places):
        inputs = {"valid": places, "match": places, "taken": places, "push": 1}
        inputs |= {"held": places, "turn": turn_bits(places)}
        outputs = {"place": places, "candidate": places, "displaces": 1}
        super().__init__(
            {name: In(width) for name, width in inputs.items()}
            | {name: Out(width) for name, width in outputs.items()}
        )


class OldestPlace(wiring.Component):
    """Chooses the place written least recently; places that became free come first.

    Parameters
    ----------
    places : int

    Members: as for `PlaceSignature`.
    """

    def __init__(self, *, places):
        self._places = range(places)
        super().__init__(PlaceSignature(places=places))

    def elaborate(self, platform):
        m = Module()
        held = self.match.any()
        m.d.comb += [
            self.place.eq(Mux(held, self.match, self.candidate)),
            self.displaces.eq((self.valid & self.candidate).any() & ~held),
        ]
        written = self.place & self.push.replicate(len(self._places))
        # older[i, j]: place i was written before place j.
        older = {(i, j): Signal(name=f"older{i}_{j}") for j in self._places for i in range(j)}
        for (i, j), flag in older.items():
            with m.If(written[i]):
                m.d.sync += flag.eq(0)
            with m.Elif(written[j] | self.taken[i]):
                m.d.sync += flag.eq(1)
            with m.Elif(self.taken[j]):
                m.d.sync += flag.eq(0)
        m.d.comb += self.candidate.eq(
            Cat(
                Cat(older[at, other] if at < other else ~older[other, at]
                    for other in self._places if other != at).all()
                for at in self._places
            )
        )  # fmt: skip
        return m


class SparePlace(wiring.Component):
    """Chooses a free place that no column holds, otherwise a place in use that no column holds.

    A place is found within six cycles after it becomes free. The spare place takes the next push,
    and the following place the push after that. So consecutive pushes go to different places, and
    displace entries only if no other place is free; in a full stash a push may displace the entry
    of the push before.

    Parameters
    ----------
    places : int

    Members: as for `PlaceSignature`.

    Attributes
    ----------
    unused : Signal
        Places that were free in the previous cycle, and are neither the next place nor displaced.
    """

    def __init__(self, *, places):
        self._places = places
        self.unused = Signal(places)
        super().__init__(PlaceSignature(places=places))

    def elaborate(self, platform):
        m = Module()
        spare = Signal(self._places, init=1)
        # The next push displaces the entry in the spare place; no push has arrived since.
        fresh = Signal()
        # Another place has become the spare place.
        moved = Signal()
        following, found = Signal(self._places), Signal()
        # A place whose entry can be displaced: the columns are offered another entry.
        unheld = self.turn.rotate_left(len(self.turn) // 2)[: self._places]
        unheld = registered(m, unheld & self.valid & ~self.held, "unheld")
        usable, other = registered(m, unheld.any(), "usable"), registered(m, unheld, "other")
        in_use = registered(m, (self.valid & spare).any(), "was_in_use") & ~moved
        occupied = self.valid | self.held | spare | following | unheld | other
        m.d.sync += self.unused.eq(~occupied)
        unused = self.unused & ~following
        m.d.comb += [
            self.place.eq(spare),
            self.candidate.eq(spare),
            self.displaces.eq((self.valid & spare & ~self.match).any()),
        ]
        m.d.sync += moved.eq(0)
        with m.If(found & (self.push | in_use)):
            m.d.sync += [spare.eq(following), fresh.eq(0), moved.eq(1)]
        with m.Elif(usable & (self.push | (in_use & ~fresh))):
            m.d.sync += [spare.eq(other), fresh.eq(1), moved.eq(1)]
        with m.Elif(self.push):
            m.d.sync += fresh.eq(0)
        with m.If(self.push | in_use | ~found):
            m.d.sync += [following.eq(lowest(unused)), found.eq(unused.any())]
        return m
