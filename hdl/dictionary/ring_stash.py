"""Stash of a ring: entries that found no cell, until they find one in place of another."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..pipeline import registered
from .dictionary_figures import PATIENCE, RECOVERY, crowded_stash
from .ring_column import Entry
from .stash import Stash, selected

LEAST_TURN = 4
"""Clocks, at least, until the same place is looked at again: so many that it is known by then
which column has taken its entry."""

GROUP = 4
"""Places that are looked at in one level of look-up tables, or two."""


class RingStash(Stash):
    """Stash whose entries are offered to the columns one after the other, place by place.

    Entries that are pushed start with one column each in turn, and go on to the next each time that
    they leave for one. While a column holds its place an entry stays, and can be found; then the
    column exchanges it for another, or not. What is pushed goes to the spare place. That is a free
    place, or else the place of an entry that no column holds, which is then given up and reported.

    The search for the next spare place takes three clocks. A push that comes sooner goes to the
    same place and displaces the entry of the push before it, even if another place is free.

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
        As it was two clocks before.
    place : Out
        Its place, or 0 if that was `barred` the clock before.
    held : In
        Places that columns hold.
    takes : In(1)
        A column takes what is offered.
    barred : Out
        Places that changed the clock before, or where the next entry went if one came.
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
            barred=Out(spec.stash),
            exchanges=In(1),
            exchanged=In(spec.stash),
            comer=In(Entry(spec=spec)),
            lives=In(1),
            crowded=Out(1),
        )
        # The column with which the entry that is pushed next starts, and those of the others.
        self._start = Signal(spec.columns, init=1)
        self._next = [
            Signal(spec.columns, init=1, name=f"next{place}") for place in range(spec.stash)
        ]
        # One bit more than there are places, or a few, moves on each clock.
        self._turn = Signal(max(LEAST_TURN, spec.stash), init=1)
        # Where the next entry goes.
        self._spare = Signal(spec.stash, init=1)
        self._holding = Signal(spec.stash)
        self._lately = Signal(spec.stash)

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.sync += [self._turn.eq(self._turn.rotate_left(1)), self._holding.eq(self.held)]
        self._elaborate_spare(m)
        self._elaborate_offer(m)
        self._elaborate_crowd(m)
        return m

    def _oldest(self, m):
        """Return the place that an entry goes to: a free one, or one that no column holds."""
        return self._spare

    def _choice(self, oldest):
        return oldest, (self._valid & oldest & ~self._match).any()

    def _elaborate_times(self, m, least):
        return (
            selected_later(m, self._match, self._times, "matching_time"),
            selected_later(m, least, self._times, "spare_time"),
        )

    def _elaborate_spare(self, m):
        """Find a free place each clock, or keep that of this clock while none is free.

        It is the first or the last in turn, of places that were free two clocks before: they differ
        if there are two. Once an entry has gone to one and none is free, another takes its part.
        """
        turn, places = self._turn, self._spec.stash
        first, last = Signal(places), Signal(places)
        found, phase, used = Signal(), Signal(), Signal()
        other = turn.rotate_left(len(turn) // 2)[:places]
        other = registered(m, other & ~self._holding, "unheld")
        usable, other = registered(m, other.any(), "usable"), registered(m, other, "other")
        chosen = Mux(phase, first, last)
        free = registered(m, ~(self._valid | self._holding | self._spare | chosen), "free")
        m.d.sync += [
            phase.eq(~phase),
            first.eq(lowest(free)),
            last.eq(lowest(free[::-1])[::-1]),
            found.eq(free.any()),
            used.eq((used | self.push) & ~found & ~usable),
        ]
        with m.If(found):
            m.d.sync += self._spare.eq(chosen)
        with m.Elif((used | self.push) & usable):
            m.d.sync += self._spare.eq(other)

    def _elaborate_places(self, m, expired):
        places = self._spec.stash
        exchanged = self.exchanged & self.exchanges.replicate(places)
        cleared = self.clear.replicate(places)
        changed = self._taken | expired | exchanged | self._written
        m.d.sync += [
            self._valid.eq(
                (self._valid & ~self._taken & ~expired & ~exchanged)
                | self._written
                | (exchanged & self.lives.replicate(places))
            ),
            self._lately.eq(changed | cleared),
            self.barred.eq(changed | cleared | self._spare),
        ]
        with m.If(self.clear):
            m.d.sync += self._valid.eq(0)
        digest = Mux(self.exchanges, self.comer.digest, self.digest)
        time = Mux(self.exchanges, self.comer.time, self.number)
        for at in range(places):
            with m.If(self._written[at] | exchanged[at]):
                m.d.sync += [self._digests[at].eq(digest), self._times[at].eq(time)]

    def _elaborate_offer(self, m):
        """Look at one place a clock, in two clocks, and offer its entry if no column holds it."""
        spec = self._spec
        turn = self._turn[: spec.stash]
        looked = registered(m, turn, "looked")
        fit = registered(m, self._valid & ~self._holding, "fit")
        ready, column = Signal(), Signal(spec.columns)
        m.d.sync += [
            self.entry.digest.eq(selected_later(m, turn, self._digests, "looked_digest")),
            self.entry.time.eq(selected_later(m, turn, self._times, "looked_time")),
            self.place.eq(looked & ~self.barred),
            ready.eq((looked & fit).any()),
            column.eq(selected_later(m, turn, self._next, "looked_next")),
        ]
        m.d.comb += self.offers.eq(column & ready.replicate(spec.columns))
        with m.If(self.push):
            m.d.sync += self._start.eq(self._start.rotate_left(1))
        taken = registered(m, self.place & self.takes.replicate(spec.stash), "taken")
        for at, after in enumerate(self._next):
            with m.If(self._written[at]):
                m.d.sync += after.eq(self._start)
            with m.Elif(taken[at]):
                m.d.sync += after.eq(after.rotate_left(1))

    def _elaborate_expiry(self, m):
        """Return which place's entry has expired for all operations to come."""
        distance = (self.number - self.entry.time)[: len(self.number)]
        distance = registered(m, distance, "entry_distance")
        expired = registered(m, distance > self._spec.window, "entry_expired")
        # Places that have not changed since they were looked at.
        place = registered(m, self._turn[: self._spec.stash], "at")
        for clock in range(3):
            place = registered(m, place & ~self._lately, f"at{clock}")
        gone = place & expired.replicate(len(place)) & ~self._lately
        return registered(m, gone, "gone_place") & ~self._lately

    def _elaborate_crowd(self, m):
        counts = list(self._valid)
        while len(counts) > 1:
            groups = [counts[low : low + GROUP] for low in range(0, len(counts), GROUP)]
            counts = [registered(m, sum(group), "count") for group in groups]
        (count,) = counts
        full = registered(m, count >= crowded_stash(self._spec), "full")
        # From the first clock with little room on, and then for a while.
        since = Signal(range(RECOVERY))
        m.d.comb += self.crowded.eq(full & (since < PATIENCE))
        with m.If(full | (since != 0)):
            m.d.sync += since.eq(since + 1)


def selected_later(m, one_hot, values, name):
    """Return the one of some values whose bit was set the clock before, or 0.

    Parameters
    ----------
    m : Module
        Gets the registers, one for each group of values.
    one_hot : Value
    values : sequence of Value
    name : str
        Name of the registers.
    """
    return reduce(
        or_,
        [
            registered(m, selected(one_hot[low : low + GROUP], values[low : low + GROUP]), name)
            for low in range(0, len(values), GROUP)
        ],
    )


def lowest(bits):
    """Return the lowest bit that is set, in two levels of look-up tables for up to 16.

    Parameters
    ----------
    bits : Value
    """
    groups = [bits[low : low + GROUP] for low in range(0, len(bits), GROUP)]
    return Cat(
        bit & ~group[:at].any() & ~Cat(each.any() for each in groups[:number]).any()
        for number, group in enumerate(groups)
        for at, bit in enumerate(group)
    )
