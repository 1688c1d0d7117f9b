"""Moves of entries between the stash of a dictionary and its columns."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import registered
from .cells import GROUP, Entry, lowest, selected, selected_later
from .dictionary_figures import MAX_STALL, STALL_PERIOD, crowded_stash
from .places import turn_bits
from .visitor import VisitSignature


class ExchangeSignature(wiring.Signature):
    """Ports through which the stash exchanges entries with the columns, as seen by the stash.

    Parameters
    ----------
    spec : WindowDictionarySpec

    Members
    -------
    offers : Out
        Columns, at most one bit: the `entry` in `place` should move to this column.
    entry : Out(Entry)
        The entry as of two cycles ago.
    place : Out
        Place of the entry, or 0 if the place was `stale` in the previous cycle.
    stale : Out
        Places that changed in the previous cycle, or received a pushed entry.
    held : In
        Places whose entries the columns hold.
    takes : In(1)
        A column accepts the offered entry.
    exchanges : In(1)
        The entry in the place `exchanged` is replaced by `evicted`; without `evicted_valid` the
        place becomes free. Not while an operation is pushed to the stash.
    exchanged, evicted, evicted_valid : In
    """

    def __init__(self, *, spec):
        entry = Entry(spec=spec)
        outputs = {"offers": spec.columns, "entry": entry, "place": spec.stash, "stale": spec.stash}
        inputs = {"held": spec.stash, "takes": 1, "exchanges": 1, "exchanged": spec.stash}
        inputs |= {"evicted": entry, "evicted_valid": 1}
        super().__init__(
            {name: Out(shape) for name, shape in outputs.items()}
            | {name: In(shape) for name, shape in inputs.items()}
        )


class Offers(wiring.Component):
    """Offers the entries of the stash to the columns, one place per cycle.

    Pushed entries start at the columns in turn. Each time an entry leaves for a column, its next
    column advances. The entry that returns to its place continues with this column.

    Parameters
    ----------
    spec : WindowDictionarySpec

    Members
    -------
    turn : In
        Place that is examined, as for `lately.hdl.dictionary.places.PlaceSignature`.
    valid, held, written : In
        Places in use; places whose entries columns held in the previous cycle; place of a push.
    push, takes : In(1)
    stale : In
        As for `ExchangeSignature`.
    offers, place : Out
        As for `ExchangeSignature`, two cycles after the turn.
    """

    def __init__(self, *, spec):
        self._spec = spec
        places = spec.stash
        inputs = {"turn": turn_bits(places), "valid": places, "held": places, "written": places}
        inputs |= {"push": 1, "takes": 1, "stale": places}
        super().__init__(
            {name: In(width) for name, width in inputs.items()}
            | {"offers": Out(spec.columns), "place": Out(places)}
        )

    def elaborate(self, platform):
        m = Module()
        columns, places = self._spec.columns, self._spec.stash
        # First column of the next pushed entry, and next columns of the other entries.
        start = Signal(columns, init=1)
        following = [Signal(columns, init=1, name=f"next{place}") for place in range(places)]
        turn = self.turn[:places]
        looked = registered(m, turn, "looked")
        fit = registered(m, self.valid & ~self.held, "fit")
        ready = registered(m, (looked & fit).any(), "ready")
        column = registered(m, selected_later(m, turn, following, "looked_next"), "column")
        taken = registered(m, self.place & self.takes.replicate(places), "taken")
        m.d.comb += self.offers.eq(column & ready.replicate(columns))
        m.d.sync += self.place.eq(looked & ~self.stale)
        with m.If(self.push):
            m.d.sync += start.eq(start.rotate_left(1))
        for at, after in enumerate(following):
            with m.If(self.written[at]):
                m.d.sync += after.eq(start)
            with m.Elif(taken[at]):
                m.d.sync += after.eq(after.rotate_left(1))
        return m


class Crowd(wiring.Component):
    """Stalls the input while the stash is almost full.

    Parameters
    ----------
    spec : WindowDictionarySpec

    Members
    -------
    valid : In
        Places in use.
    crowded : Out(1)
        The stash is almost full. High for at most `MAX_STALL` cycles in `STALL_PERIOD`.
    """

    def __init__(self, *, spec):
        self._spec = spec
        super().__init__({"valid": In(spec.stash), "crowded": Out(1)})

    def elaborate(self, platform):
        m = Module()
        counts = list(self.valid)
        while len(counts) > 1:
            groups = [counts[low : low + GROUP] for low in range(0, len(counts), GROUP)]
            counts = [registered(m, sum(group), "count") for group in groups]
        (count,) = counts
        full = registered(m, count >= crowded_stash(self._spec), "full")
        # Counts from the first cycle with little room.
        since = Signal(range(STALL_PERIOD))
        m.d.comb += self.crowded.eq(full & (since < MAX_STALL))
        with m.If(full | (since != 0)):
            m.d.sync += since.eq(since + 1)
        return m


class Moves(wiring.Component):
    """Moves entries from the stash to the columns, and displaced entries back to the stash.

    Parameters
    ----------
    spec : WindowDictionarySpec

    Members
    -------
    exchange : In(ExchangeSignature)
    pushes : In(1)
        An operation goes to the stash in the next cycle.
    visit0, ... : Out(VisitSignature)
        One for each column.
    """

    def __init__(self, *, spec):
        self._columns = spec.columns
        visit = Out(VisitSignature(spec=spec))
        super().__init__(
            {"exchange": In(ExchangeSignature(spec=spec)), "pushes": In(1)}
            | {f"visit{column}": visit for column in range(spec.columns)}
        )

    def elaborate(self, platform):
        m = Module()
        exchange = self.exchange
        visits = [getattr(self, f"visit{column}") for column in range(self._columns)]
        requests = Cat(visit.requests for visit in visits)
        # The column that may write in the next cycle, and the column after it.
        granted = Signal(self._columns)
        m.d.sync += granted.eq(lowest(requests & ~granted))
        arrivals = exchange.offers & ~Cat(visit.closed for visit in visits)
        m.d.comb += [
            exchange.held.eq(reduce(or_, [visit.holds for visit in visits])),
            exchange.takes.eq(arrivals.any()),
        ]
        for column, visit in enumerate(visits):
            m.d.comb += [
                visit.arrives.eq(arrivals[column]),
                visit.entry.eq(exchange.entry),
                visit.place.eq(exchange.place),
                visit.stale.eq(exchange.stale),
                visit.pushes.eq(self.pushes),
                visit.granted.eq(granted[column]),
            ]
        # The column that was allowed to write, whether it wrote or not.
        allowed = registered(m, granted, "allowed")
        m.d.sync += [
            exchange.exchanges.eq(Cat(visit.done for visit in visits).any()),
            exchange.exchanged.eq(selected(allowed, [visit.holds for visit in visits])),
            exchange.evicted.as_value().eq(
                selected(allowed, [visit.evicted.as_value() for visit in visits])
            ),
            exchange.evicted_valid.eq(selected(allowed, [visit.evicted_valid for visit in visits])),
        ]
        return m
