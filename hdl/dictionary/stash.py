"""Stash of a dictionary: whole digests that found no cell."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import registered

STASH_HAZARDS = 3
"""Operations before one that may change the stash while its digest is looked for."""


class Stash(wiring.Component):
    """Places for digests, each with the number of its insertion.

    One operation a clock: an insertion or removal takes its digest out, and
    one that is pushed goes to a free place, else in place of the oldest entry,
    which is told to be lost if it has not expired. Expired entries are dropped
    in time, one place looked at after the other.

    Parameters
    ----------
    spec : WindowDictionarySpec
    further
        Further members.

    Members
    -------
    asked : In
        Digest of the operation that is performed `STASH_HAZARDS` clocks later.
    same : In(STASH_HAZARDS)
        Bit k - 1: whether the operation that is performed k clocks later has the digest of
        that which is performed.
    acts, push : In(1)
        What is performed: it inserts or removes; it goes to the stash.
    digest, number : In
        Its digest; the number of its insertion, modulo 2**T.
    clear : In(1)
        All places become free.
    hit : Out(1)
        A place held the digest, the clock before; it may have expired.
    distance : Out
        Number less that of the place, two clocks before.
    lost : Out(1)
        An entry that had not expired was displaced, three clocks before.
    lost_distance : Out
        Number less that of the entry, likewise.
    """

    def __init__(self, *, spec, **further):
        self._spec = spec
        time = spec.timestamp_bits
        super().__init__(
            {
                "asked": In(spec.digest_bits),
                "same": In(STASH_HAZARDS),
                "acts": In(1),
                "push": In(1),
                "digest": In(spec.digest_bits),
                "number": In(time),
                "clear": In(1),
                "hit": Out(1),
                "distance": Out(time),
                "lost": Out(1),
                "lost_distance": Out(time),
            }
            | further
        )
        places = spec.stash
        self._valid = Signal(places)
        self._digests = [Signal(spec.digest_bits, name=f"digest{at}") for at in range(places)]
        self._times = [Signal(time, name=f"time{at}") for at in range(places)]
        self._match = Signal(places)
        self._written = Signal(places)
        self._taken = Signal(places)
        self._wrote = Signal(places)
        self._changed = Signal(places)

    def elaborate(self, platform):
        m = Module()
        oldest = self._oldest(m)
        chosen, displaces = self._choice(oldest)
        m.d.comb += [
            self._taken.eq(self._match & self.acts.replicate(self._spec.stash)),
            self._written.eq(chosen & self.push.replicate(self._spec.stash)),
        ]
        m.d.sync += [
            self._wrote.eq(self._written),
            self._changed.eq(self._written | self._taken),
        ]
        self._elaborate_match(m)
        self._elaborate_places(m, self._elaborate_expiry(m))
        self._elaborate_answer(m, displaces, oldest)
        return m

    def _choice(self, oldest):
        """Return the place to which a digest is pushed, and whether that displaces another."""
        held = self._match.any()
        return Mux(held, self._match, oldest), (self._valid & oldest).any() & ~held

    def _elaborate_places(self, m, expired):
        """Change the places as the operation that is performed does."""
        m.d.sync += self._valid.eq(
            ((self._valid & ~self._taken & ~expired) | self._written)
            & ~self.clear.replicate(self._spec.stash)
        )
        for at, (digest, time) in enumerate(zip(self._digests, self._times, strict=True)):
            with m.If(self._written[at]):
                m.d.sync += [digest.eq(self.digest), time.eq(self.number)]

    def _elaborate_match(self, m):
        """Find the digest that is asked, in three clocks; what is performed meanwhile changes it.

        In the last, of operations one and two clocks ahead, of which the latter has been performed.
        """
        pairs = [Signal(-(-self._spec.digest_bits // 2), name=f"pairs{at}")
                 for at in range(self._spec.stash)]  # fmt: skip
        valid, found = Signal(self._spec.stash), Signal(self._spec.stash)
        for digest, equal in zip(self._digests, pairs, strict=True):
            m.d.sync += equal.eq(
                Cat(digest[low : low + 2] == self.asked[low : low + 2]
                    for low in range(0, len(digest), 2))
            )  # fmt: skip
        equal = Cat(each.all() for each in pairs) & valid
        second, third = (registered(m, self.same[at], f"same_{at}") for at in (1, 2))
        m.d.sync += [
            valid.eq(self._valid),
            found.eq(self._told(equal, self._changed, self._wrote, third)),
        ]
        found = self._told(found, self._changed, self._wrote, second)
        changed = self._written | self._taken
        m.d.sync += self._match.eq(self._told(found, changed, self._written, self.same[0]))

    def _told(self, match, changed, written, same):
        """Return a match with what another operation changes, and writes, of the same digest."""
        return (match & ~changed) | (written & same.replicate(self._spec.stash))

    def _oldest(self, m):
        """Return which place was written least recently; those that became free come first."""
        places = self._spec.stash
        # older[i][j]: place i was written before place j.
        older = {(i, j): Signal(name=f"older{i}_{j}") for j in range(places) for i in range(j)}
        for (i, j), flag in older.items():
            with m.If(self._written[i]):
                m.d.sync += flag.eq(0)
            with m.Elif(self._written[j] | self._taken[i]):
                m.d.sync += flag.eq(1)
            with m.Elif(self._taken[j]):
                m.d.sync += flag.eq(0)
        return Cat(
            Cat(older[at, other] if at < other else ~older[other, at]
                for other in range(places) if other != at).all()
            for at in range(places)
        )  # fmt: skip

    def _elaborate_expiry(self, m):
        """Return the places whose entries have expired for all operations to come."""
        places = self._spec.stash
        looked = Signal(places, init=1)
        time = Signal.like(self.number)
        distance = Signal.like(self.number)
        expired = Signal()
        kept = Signal()
        phase = Signal(4, init=1)
        m.d.sync += [
            phase.eq(phase.rotate_left(1)),
            time.eq(selected(looked, self._times)),
            distance.eq(self.number - time),
            expired.eq((distance > self._spec.window) & phase[2]),
            # What was written since its time was taken stays.
            kept.eq((kept & ~phase[1]) | (looked & self._wrote).any()),
        ]
        with m.If(phase[3]):
            m.d.sync += looked.eq(looked.rotate_left(1))
        return looked & ~self._wrote & (expired & ~kept).replicate(places)

    def _elaborate_times(self, m, least):
        """Return the times of the match and of the place `least`, the clock before."""
        time, oldest = Signal.like(self.number), Signal.like(self.number)
        m.d.sync += [
            time.eq(selected(self._match, self._times)),
            oldest.eq(selected(least, self._times)),
        ]
        return time, oldest

    def _elaborate_answer(self, m, displaces, least):
        m.d.sync += self.hit.eq(self._match.any())
        time, oldest = self._elaborate_times(m, least)
        number, displaced, later = Signal.like(self.number), Signal(), Signal()
        gone = Signal.like(self.number)
        m.d.sync += [
            number.eq(self.number),
            self.distance.eq(number - time),
            displaced.eq(self.push & displaces),
            later.eq(displaced),
            gone.eq(number - oldest),
            self.lost.eq(later & (gone < self._spec.window)),
            self.lost_distance.eq(gone),
        ]


def selected(one_hot, values):
    """Return the one of some values whose bit is set, or 0.

    Parameters
    ----------
    one_hot : Value
    values : sequence of Value
    """
    return reduce(
        or_, (value & bit.replicate(len(value)) for bit, value in zip(one_hot, values, strict=True))
    )
