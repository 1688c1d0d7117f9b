"""Stash of a dictionary: whole digests that found no cell."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import Pipeline, registered
from .cells import Entry, agreeing_pairs, selected_later
from .dictionary_figures import STASH_HAZARDS
from .moves import Crowd, ExchangeSignature, Offers
from .places import OldestPlace, SparePlace, turn_bits


class Stash(wiring.Component):
    """Stash of a dictionary: digests without a cell, each with the number of its insertion.

    One operation per cycle. An insertion or removal takes its digest out of the stash. A pushed
    insertion goes to a free place, or displaces an entry: the oldest, or with moves any entry that
    no column holds. If the displaced entry has not expired, it is reported as lost. The stash
    examines one place after another, and drops entries that have expired for all later operations.

    Parameters
    ----------
    spec : WindowDictionarySpec
        With moves, the stash has more places than there are columns.

    Members
    -------
    digest, number : In
        Digest of the operation that takes effect `STASH_HAZARDS` cycles later; number modulo 2**T.
    same : In(STASH_HAZARDS)
        Bit k - 1: whether the operation k cycles earlier has the same digest.
    acts, push : In(1)
        The current operation inserts or removes; it goes to the stash.
    clear : In(1)
        All places become free.
    hit : Out(1)
        A place held the digest, one cycle later; the entry may have expired.
    distance : Out
        Number of the operation minus number of the entry, two cycles later.
    lost : Out(1)
        An entry that had not expired was displaced, three cycles later.
    lost_distance : Out
        Number of the operation minus number of the lost entry, three cycles later.
    exchange : Out(ExchangeSignature)
        With moves only: entries offered to columns, and entries that return.
    crowded : Out(1)
        With moves only: as for `Crowd`.

    Attributes
    ----------
    valid : Signal
        Places in use.
    entries : list of View
        Entries of all places.
    """

    def __init__(self, *, spec):
        self._spec = spec
        self._moves = bool(spec.moves)
        places, time = spec.stash, spec.timestamp_bits
        self.place = (SparePlace if spec.moves else OldestPlace)(places=places)
        self.valid = Signal(places)
        self.entries = [Signal(Entry(spec=spec), name=f"entry{at}") for at in range(places)]
        inputs = {"digest": spec.digest_bits, "number": time, "same": STASH_HAZARDS}
        inputs |= dict.fromkeys(("acts", "push", "clear"), 1)
        outputs = {"hit": 1, "distance": time, "lost": 1, "lost_distance": time}
        moves = {"exchange": Out(ExchangeSignature(spec=spec)), "crowded": Out(1)}
        super().__init__(
            {name: In(shape) for name, shape in inputs.items()}
            | {name: Out(shape) for name, shape in outputs.items()}
            | (moves if spec.moves else {})
        )

    def elaborate(self, platform):
        m = Module()
        places = self._spec.stash
        pipe = Pipeline(m)
        digest = pipe.enter(self.digest, "digest", reset_less=True)
        number = pipe.enter(self.number, "number", reset_less=True).at(STASH_HAZARDS).value
        match, written, taken = (
            Signal(places, name=name) for name in ("match", "written", "taken")
        )
        self._elaborate_match(m, pipe, digest, match, written, taken)
        # The place that the stash examines; its entry is known two cycles later.
        turn = Signal(turn_bits(places), init=1)
        m.d.sync += turn.eq(turn.rotate_left(1))
        entries = [entry.as_value() for entry in self.entries]
        looked = selected_later(m, turn[:places], entries, "looked")
        looked = registered(m, data.View(Entry(spec=self._spec), looked), "looked_entry")
        stale = Signal(places)
        held = self._elaborate_offers(m, turn, looked, written, stale) if self._moves else 0
        m.submodules.place = place = self.place
        m.d.comb += [
            taken.eq(match & self.acts.replicate(places)),
            written.eq(place.place & self.push.replicate(places)),
            place.valid.eq(self.valid),
            place.match.eq(match),
            place.taken.eq(taken),
            place.push.eq(self.push),
            place.held.eq(held),
            place.turn.eq(turn),
        ]
        expired = Signal(places)
        own = Cat(digest.at(STASH_HAZARDS).value, number)
        changed = self._elaborate_places(m, own, written, taken, expired)
        m.d.sync += stale.eq(changed | place.candidate)
        lately = registered(m, changed, "lately")
        m.d.comb += expired.eq(self._elaborate_expiry(m, turn, looked.time, number, lately))
        self._elaborate_answer(m, match, number)
        return m

    def _elaborate_match(self, m, pipe, digest, match, written, taken):
        """Find the place of a digest in three cycles, despite changes by earlier operations."""
        pairs = [
            registered(m, agreeing_pairs(entry.digest, digest.value), f"pairs{at}")
            for at, entry in enumerate(self.entries)
        ]
        equal = Cat(each.all() for each in pairs) & registered(m, self.valid, "was_valid")
        same = pipe.enter(self.same, "same")
        changed = written | taken
        changed_before, written_before = (
            registered(m, value, f"{name}_before")
            for name, value in (("changed", changed), ("written", written))
        )

        def after(match, changed, written, same):
            return (match & ~changed) | (written & same.replicate(len(match)))

        equal = after(equal, changed_before, written_before, same.at(1).value[2])
        equal = registered(m, equal, "equal")
        equal = after(equal, changed_before, written_before, same.at(2).value[1])
        m.d.sync += match.eq(after(equal, changed, written, same.at(2).value[0]))

    def _elaborate_offers(self, m, turn, looked, written, stale):
        """Offer the examined entry; return the places whose entries columns hold."""
        exchange = self.exchange
        held = registered(m, exchange.held, "holding")
        m.submodules.offers = offers = Offers(spec=self._spec)
        m.submodules.crowd = crowd = Crowd(spec=self._spec)
        m.d.comb += [
            offers.turn.eq(turn),
            offers.valid.eq(self.valid),
            offers.held.eq(held),
            offers.written.eq(written),
            offers.push.eq(self.push),
            offers.takes.eq(exchange.takes),
            offers.stale.eq(stale),
            exchange.offers.eq(offers.offers),
            exchange.place.eq(offers.place),
            exchange.entry.eq(looked),
            exchange.stale.eq(stale),
            crowd.valid.eq(self.valid),
            self.crowded.eq(crowd.crowded),
        ]
        return held

    def _elaborate_places(self, m, own, written, taken, expired):
        """Change the places; return the changed places."""
        places = self._spec.stash
        exchanged, returns, entry = Const(0, places), Const(0, places), own
        if self._moves:
            exchange = self.exchange
            exchanged = exchange.exchanged & exchange.exchanges.replicate(places)
            returns = exchanged & exchange.evicted_valid.replicate(places)
            entry = Mux(exchange.exchanges, exchange.evicted.as_value(), own)
        removed = taken | expired | exchanged
        m.d.sync += self.valid.eq((self.valid & ~removed) | written | returns)
        with m.If(self.clear):
            m.d.sync += self.valid.eq(0)
        for at, place in enumerate(self.entries):
            with m.If(written[at] | exchanged[at]):
                m.d.sync += place.eq(entry)
        return removed | written | self.clear.replicate(places)

    def _elaborate_expiry(self, m, turn, time, number, lately):
        """Return the place whose entry has expired for all later operations."""
        distance = registered(m, (number - time)[: len(number)], "looked_distance")
        expired = registered(m, distance > self._spec.window, "looked_expired")
        # Places that have not changed since they were examined.
        place = registered(m, turn[: self._spec.stash], "at")
        for cycle in range(3):
            place = registered(m, place & ~lately, f"at{cycle}")
        gone = place & expired.replicate(len(place)) & ~lately
        return registered(m, gone, "gone_place") & ~lately

    def _elaborate_answer(self, m, match, number):
        times = [entry.time for entry in self.entries]
        time = selected_later(m, match, times, "matching_time")
        displaced = selected_later(m, self.place.candidate, times, "candidate_time")
        displaces = registered(m, self.push & self.place.displaces, "displaces")
        displaces = registered(m, displaces, "displaced")
        number, bits = registered(m, number, "own_number"), len(number)
        gone = registered(m, (number - displaced)[:bits], "displaced_distance")
        m.d.sync += [
            self.hit.eq(match.any()),
            self.distance.eq(number - time),
            self.lost.eq(displaces & (gone < self._spec.window)),
            self.lost_distance.eq(gone),
        ]
