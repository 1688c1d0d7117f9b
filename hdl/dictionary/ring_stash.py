"""Stash of a ring: entries that found no cell, until they find one in place of another."""

from functools import reduce
from operator import or_

from amaranth.hdl import Mux, Signal
from amaranth.lib.wiring import In, Out

from ..pipeline import delayed, registered
from .dictionary_figures import PATIENCE, RECOVERY, crowded_stash
from .ring_column import Entry
from .stash import Stash, selected

LEAST_TURN = 4
"""Clocks, at least, until the same place is looked at again."""


class RingStash(Stash):
    """Stash whose entries are offered to the columns one after the other, place by place.

    An entry that is pushed starts with the middle column, and goes on to the next each time that
    it leaves for one. While a column holds its place it stays, and can be found; then the column
    exchanges it for another entry, or not. What is pushed goes to a free place; if there is none,
    to that of another entry which no column holds, and that is given up.

    Parameters
    ----------
    spec : WindowDictionarySpec
        With more places of the stash than columns.

    Members
    -------
    As those of `Stash`, and:

    offers : Out
        Columns, one bit of them or none: `entry` in `place` is to go to one.
    entry : Out(Entry)
    place : Out
    held : In
        Places that columns hold.
    takes : In(1)
        A column takes what is offered.
    changed : Out
        Places that changed the clock before.
    exchanges : In(1)
        The entry in the place `exchanged` gives way to `comer`, which is free if not `lives`. Not
        while one is pushed.
    exchanged, comer, lives : In
    crowded : Out(1)
        Little room is left; for at most `PATIENCE` clocks in `RECOVERY`.
    """

    def __init__(self, *, spec):
        super().__init__(
            spec=spec,
            offers=Out(spec.columns),
            entry=Out(Entry(spec=spec)),
            place=Out(spec.stash),
            held=In(spec.stash),
            takes=In(1),
            changed=Out(spec.stash),
            exchanges=In(1),
            exchanged=In(spec.stash),
            comer=In(Entry(spec=spec)),
            lives=In(1),
            crowded=Out(1),
        )
        # Where the next entry goes.
        self._spare = Signal(spec.stash, init=1)

        places = range(spec.stash)
        first = 1 << spec.columns // 2
        self._next = [Signal(spec.columns, init=first, name=f"next{at}") for at in places]
        # One bit more than there are places, or a few, moves on each clock.
        self._turn = Signal(max(LEAST_TURN, spec.stash), init=1)

    def elaborate(self, platform):
        m = super().elaborate(platform)
        turn = self._turn
        m.d.sync += turn.eq(turn.rotate_left(1))
        self._elaborate_offer(m)
        self._elaborate_crowd(m)
        other = turn.rotate_left(len(turn) // 2)[: self._spec.stash]
        # That of this clock may be taken.
        free = ~self._valid & ~self._spare
        with m.If(free.any()):
            m.d.sync += self._spare.eq(free & -free)
        with m.Elif((other & ~self.held).any()):
            m.d.sync += self._spare.eq(other)
        return m

    def _oldest(self, m):
        """Return the place that an entry goes to: a free one, or one that no column holds."""
        return self._spare

    def _elaborate_places(self, m, expired):
        places = self._spec.stash
        exchanged = self.exchanged & self.exchanges.replicate(places)
        cleared = self.clear.replicate(places)
        m.d.sync += [
            self._valid.eq(
                (
                    (self._valid & ~self._taken & ~expired & ~exchanged)
                    | self._written
                    | (exchanged & self.lives.replicate(places))
                )
                & ~cleared
            ),
            self.changed.eq(self._taken | expired | exchanged | self._written | cleared),
        ]
        digest = Mux(self.exchanges, self.comer.digest, self.digest)
        time = Mux(self.exchanges, self.comer.time, self.number)
        for at in range(places):
            with m.If(self._written[at] | exchanged[at]):
                m.d.sync += [self._digests[at].eq(digest), self._times[at].eq(time)]

    def _elaborate_offer(self, m):
        spec = self._spec
        turn = self._turn[: spec.stash]
        ready, column = Signal(), Signal(spec.columns)
        m.d.sync += [
            self.entry.digest.eq(selected(turn, self._digests)),
            self.entry.time.eq(selected(turn, self._times)),
            self.place.eq(turn),
            ready.eq((turn & self._valid & ~self.held).any()),
            column.eq(selected(turn, self._next)),
        ]
        stays = ready & ~(self.place & (self.changed | self._spare)).any()
        m.d.comb += self.offers.eq(column & stays.replicate(spec.columns))
        for at, after in enumerate(self._next):
            with m.If(self._written[at]):
                m.d.sync += after.eq(after.init)
            with m.Elif(self.takes & self.place[at]):
                m.d.sync += after.eq(after.rotate_left(1))

    def _elaborate_expiry(self, m):
        """Return which place's entry has expired for all operations to come."""
        distance = (self.number - self.entry.time)[: len(self.number)]
        distance = registered(m, distance, "entry_distance")
        expired = registered(m, distance > self._spec.window, "entry_expired")
        changed = [self.changed]
        for clock in range(2):
            changed.append(registered(m, changed[-1], f"changed{clock}"))
        place = delayed(m, self.place, 2, "looked")
        return place & expired.replicate(len(place)) & ~reduce(or_, changed)

    def _elaborate_crowd(self, m):
        spec = self._spec
        count = registered(m, sum(self._valid), "count")
        full = registered(m, count >= crowded_stash(spec), "full")
        # From the first clock with little room on, and then for a while.
        since = Signal(range(RECOVERY))
        m.d.comb += self.crowded.eq(full & (since < PATIENCE))
        with m.If(full | (since != 0)):
            m.d.sync += since.eq(since + 1)
