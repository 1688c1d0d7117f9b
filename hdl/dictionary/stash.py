"""Stash of a dictionary, which holds digests without a cell and may move them to the columns."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import Pipeline, registered
from .cells import GROUP, Entry, VisitSignature, agreeing_pairs, lowest, selected, selected_later
from .dictionary_figures import MAX_STALL, STALL_PERIOD, STASH_HAZARDS, crowded_stash

# Minimum cycles until the stash examines a slot again. By then it is known whether a column has
# accepted the entry of the slot.
MIN_TURN = 4


def turn_bits(entries):
    return max(MIN_TURN, entries)


class SlotSignature(wiring.Signature):
    """Ports of a component that selects the slot for the next digest.

    Each mask has one bit per slot.
    """

    def __init__(self, *, entries):
        inputs = {
            "valid": entries,  # slots in use
            "match": entries,  # slot that holds the digest of the current operation
            "taken": entries,  # slot whose entry the current operation removes
            "push": 1,  # the current operation goes to the stash
        }
        # `held`: slots whose entries columns are exchanging, as of the previous cycle
        # `turn`: one-hot slot that the stash examines; the bit moves to the next slot in each
        # cycle. Bits above the number of slots select no slot.
        inputs |= {"held": entries, "turn": turn_bits(entries)}
        outputs = {
            "slot": entries,  # slot for the digest of the operation
            "candidate": entries,  # `slot`, if no slot holds the digest
            "displaces": 1,  # a push would replace the entry in `candidate`
        }
        super().__init__(
            {name: In(width) for name, width in inputs.items()}
            | {name: Out(width) for name, width in outputs.items()}
        )


class OldestSlot(wiring.Component):
    """Selects a free slot, or the least recently written slot if no slot is free."""

    def __init__(self, *, entries):
        self._entries = range(entries)
        super().__init__(SlotSignature(entries=entries))

    def elaborate(self, platform):
        m = Module()
        held = self.match.any()
        m.d.comb += [
            self.slot.eq(Mux(held, self.match, self.candidate)),
            self.displaces.eq((self.valid & self.candidate).any() & ~held),
        ]
        written = self.slot & self.push.replicate(len(self._entries))
        # older[i, j]: slot i was written before slot j.
        older = {(i, j): Signal(name=f"older{i}_{j}") for j in self._entries for i in range(j)}
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
                    for other in self._entries if other != at).all()
                for at in self._entries
            )
        )  # fmt: skip
        return m


class SpareSlot(wiring.Component):
    """Selects a free slot, or a slot in use if none is free; never a slot that a column holds.

    Slots are selected in advance: a spare slot for the next push, and another slot for the push
    after that. In a full stash, a push may displace the entry of the previous push.
    """

    def __init__(self, *, entries):
        self._entries = entries
        # slots that were free in the previous cycle, and are neither the next slot nor displaced
        self.unused = Signal(entries)
        super().__init__(SlotSignature(entries=entries))

    def elaborate(self, platform):
        m = Module()
        spare = Signal(self._entries, init=1)
        # The next push displaces the entry in the spare slot; no push has arrived since.
        fresh = Signal()
        # Another slot has become the spare slot.
        moved = Signal()
        following, available = Signal(self._entries), Signal()
        # A slot whose entry can be displaced: the columns are offered another entry.
        unheld = self.turn.rotate_left(len(self.turn) // 2)[: self._entries]
        unheld = registered(m, unheld & self.valid & ~self.held, "unheld")
        usable, other = registered(m, unheld.any(), "usable"), registered(m, unheld, "other")
        in_use = registered(m, (self.valid & spare).any(), "was_in_use") & ~moved
        occupied = self.valid | self.held | spare | following | unheld | other
        m.d.sync += self.unused.eq(~occupied)
        unused = self.unused & ~following
        m.d.comb += [
            self.slot.eq(spare),
            self.candidate.eq(spare),
            self.displaces.eq((self.valid & spare & ~self.match).any()),
        ]
        m.d.sync += moved.eq(0)
        with m.If(available & (self.push | in_use)):
            m.d.sync += [spare.eq(following), fresh.eq(0), moved.eq(1)]
        with m.Elif(usable & (self.push | (in_use & ~fresh))):
            m.d.sync += [spare.eq(other), fresh.eq(1), moved.eq(1)]
        with m.Elif(self.push):
            m.d.sync += fresh.eq(0)
        with m.If(self.push | in_use | ~available):
            m.d.sync += [following.eq(lowest(unused)), available.eq(unused.any())]
        return m


class ExchangeSignature(wiring.Signature):
    """Ports through which the stash and the columns exchange entries, as seen by the stash."""

    def __init__(self, *, spec):
        entry = Entry(spec=spec)
        outputs = {
            # columns, at most one bit: the `entry` in `slot` should move to this column
            "offers": spec.columns,
            "entry": entry,  # the entry as of two cycles ago
            # slot of the entry, or 0 if the slot was `stale` in the previous cycle
            "slot": spec.stash,
            # slots that changed in the previous cycle, or received a pushed entry
            "stale": spec.stash,
        }
        inputs = {
            "held": spec.stash,  # slots whose entries the columns hold
            "takes": 1,  # a column accepts the offered entry
            # the entry in the slot `exchanged` is replaced by `evicted`; without `evicted_valid`
            # the slot becomes free. Not while an operation is pushed to the stash.
            "exchanges": 1,
            "exchanged": spec.stash,
        }
        inputs |= {"evicted": entry, "evicted_valid": 1}
        super().__init__(
            {name: Out(shape) for name, shape in outputs.items()}
            | {name: In(shape) for name, shape in inputs.items()}
        )


class Offers(wiring.Component):
    """Offers the entries of the stash to the columns, one slot per cycle.

    Successive pushed entries are first offered to successive columns. Each time a column accepts an
    entry, the next offer of this entry goes to the following column.
    """

    def __init__(self, *, spec):
        self._spec = spec
        size = spec.stash
        inputs = {
            # slot that is examined, see `lately.hdl.dictionary.stash.SlotSignature`
            "turn": turn_bits(size),
            "valid": size,  # slots in use
            "held": size,  # slots whose entries columns held in the previous cycle
            "written": size,  # slot of a push
        }
        # `stale`: see `ExchangeSignature`
        inputs |= {"push": 1, "takes": 1, "stale": size}
        super().__init__(
            {name: In(width) for name, width in inputs.items()}
            # Two cycles after `turn`; see `ExchangeSignature`.
            | {"offers": Out(spec.columns), "slot": Out(size)}
        )

    def elaborate(self, platform):
        m = Module()
        columns, size = self._spec.columns, self._spec.stash
        # First column of the next pushed entry, and next columns of the other entries.
        start = Signal(columns, init=1)
        following = [Signal(columns, init=1, name=f"next{index}") for index in range(size)]
        turn = self.turn[:size]
        looked = registered(m, turn, "looked")
        fit = registered(m, self.valid & ~self.held, "fit")
        ready = registered(m, (looked & fit).any(), "ready")
        column = registered(m, selected_later(m, turn, following, "looked_next"), "column")
        taken = registered(m, self.slot & self.takes.replicate(size), "taken")
        m.d.comb += self.offers.eq(column & ready.replicate(columns))
        m.d.sync += self.slot.eq(looked & ~self.stale)
        with m.If(self.push):
            m.d.sync += start.eq(start.rotate_left(1))
        for at, after in enumerate(following):
            with m.If(self.written[at]):
                m.d.sync += after.eq(start)
            with m.Elif(taken[at]):
                m.d.sync += after.eq(after.rotate_left(1))
        return m


class Crowd(wiring.Component):
    """Stalls the input while the stash is almost full."""

    def __init__(self, *, spec):
        self._spec = spec
        # `valid`: slots in use
        # `crowded`: the stash is almost full. High for at most `MAX_STALL` cycles in
        # `STALL_PERIOD`.
        super().__init__({"valid": In(spec.stash), "crowded": Out(1)})

    def elaborate(self, platform):
        m = Module()
        counts = list(self.valid)
        while len(counts) > 1:
            groups = [counts[low : low + GROUP] for low in range(0, len(counts), GROUP)]
            counts = [registered(m, sum(group), "count") for group in groups]
        (count,) = counts
        full = registered(m, count >= crowded_stash(self._spec), "full")
        # Cycles since the stash became almost full.
        since = Signal(range(STALL_PERIOD))
        m.d.comb += self.crowded.eq(full & (since < MAX_STALL))
        with m.If(full | (since != 0)):
            m.d.sync += since.eq(since + 1)
        return m


class Moves(wiring.Component):
    """Moves entries from the stash to the columns, and evicted entries back to the stash."""

    def __init__(self, *, spec):
        self._columns = spec.columns
        visit = Out(VisitSignature(spec=spec))
        # `visit0`: one port per column
        super().__init__(
            # `pushes`: an operation goes to the stash in the next cycle
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
                visit.slot.eq(exchange.slot),
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


class Stash(wiring.Component):
    """Stash of a dictionary: digests without a cell, each with its insertion number.

    An insertion or removal removes the digest from the stash. An insertion without a cell goes to a
    free slot, or displaces the oldest entry; with moves, it may displace any entry that no column
    holds. If the displaced entry has not expired, it is reported as lost. Expired entries are
    dropped.
    """

    def __init__(self, *, spec):
        self._spec = spec
        self._moves = bool(spec.moves)
        size, time = spec.stash, spec.timestamp_bits
        self.slot = (SpareSlot if spec.moves else OldestSlot)(entries=size)
        self.valid = Signal(size)  # slots in use
        # entries of all slots
        self.entries = [Signal(Entry(spec=spec), name=f"entry{at}") for at in range(size)]
        inputs = {
            # digest of the operation that takes effect `STASH_HAZARDS` cycles later
            "digest": spec.digest_bits,
            "number": time,  # number modulo 2**T
            # bit k - 1: whether the operation k cycles earlier has the same digest
            "same": STASH_HAZARDS,
        }
        # `acts`: the current operation inserts or removes. `push`: it goes to the stash. `clear`:
        # all slots become free.
        inputs |= dict.fromkeys(("acts", "push", "clear"), 1)
        outputs = {
            "hit": 1,  # a slot held the digest, one cycle later; the entry may have expired
            "distance": time,  # age of the entry in insertions, two cycles later
            "lost": 1,  # an entry that had not expired was displaced, three cycles later
            # Age of the lost entry in insertions, three cycles later.
            "lost_distance": time,
        }
        moves = {"exchange": Out(ExchangeSignature(spec=spec)), "crowded": Out(1)}
        super().__init__(
            {name: In(shape) for name, shape in inputs.items()}
            | {name: Out(shape) for name, shape in outputs.items()}
            | (moves if spec.moves else {})
        )

    def elaborate(self, platform):
        m = Module()
        size = self._spec.stash
        pipe = Pipeline(m)
        digest = pipe.enter(self.digest, "digest", reset_less=True)
        number = pipe.enter(self.number, "number", reset_less=True).at(STASH_HAZARDS).value
        match, written, taken = (Signal(size, name=name) for name in ("match", "written", "taken"))
        self._elaborate_match(m, pipe, digest, match, written, taken)
        # The slot that the stash examines; its entry is known two cycles later.
        turn = Signal(turn_bits(size), init=1)
        m.d.sync += turn.eq(turn.rotate_left(1))
        entries = [entry.as_value() for entry in self.entries]
        looked = selected_later(m, turn[:size], entries, "looked")
        looked = registered(m, data.View(Entry(spec=self._spec), looked), "looked_entry")
        stale = Signal(size)
        held = self._elaborate_offers(m, turn, looked, written, stale) if self._moves else 0
        m.submodules.slot = chooser = self.slot
        m.d.comb += [
            taken.eq(match & self.acts.replicate(size)),
            written.eq(chooser.slot & self.push.replicate(size)),
            chooser.valid.eq(self.valid),
            chooser.match.eq(match),
            chooser.taken.eq(taken),
            chooser.push.eq(self.push),
            chooser.held.eq(held),
            chooser.turn.eq(turn),
        ]
        expired = Signal(size)
        operation_entry = Cat(digest.at(STASH_HAZARDS).value, number)
        changed = self._elaborate_entries(m, operation_entry, written, taken, expired)
        m.d.sync += stale.eq(changed | chooser.candidate)
        lately = registered(m, changed, "lately")
        m.d.comb += expired.eq(self._elaborate_expiry(m, turn, looked.time, number, lately))
        self._elaborate_answer(m, match, number)
        return m

    def _elaborate_match(self, m, pipe, digest, match, written, taken):
        """Find the slot of a digest in three cycles, allowing for changes by earlier operations."""
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
        """Offer the examined entry; return the slots whose entries the columns hold."""
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
            exchange.slot.eq(offers.slot),
            exchange.entry.eq(looked),
            exchange.stale.eq(stale),
            crowd.valid.eq(self.valid),
            self.crowded.eq(crowd.crowded),
        ]
        return held

    def _elaborate_entries(self, m, operation_entry, written, taken, expired):
        size = self._spec.stash
        exchanged, returns, entry = Const(0, size), Const(0, size), operation_entry
        if self._moves:
            exchange = self.exchange
            exchanged = exchange.exchanged & exchange.exchanges.replicate(size)
            returns = exchanged & exchange.evicted_valid.replicate(size)
            entry = Mux(exchange.exchanges, exchange.evicted.as_value(), operation_entry)
        removed = taken | expired | exchanged
        m.d.sync += self.valid.eq((self.valid & ~removed) | written | returns)
        with m.If(self.clear):
            m.d.sync += self.valid.eq(0)
        for at, slot in enumerate(self.entries):
            with m.If(written[at] | exchanged[at]):
                m.d.sync += slot.eq(entry)
        return removed | written | self.clear.replicate(size)

    def _elaborate_expiry(self, m, turn, time, number, lately):
        """Return a mask of the examined slot if its entry has expired and is unchanged."""
        distance = registered(m, (number - time)[: len(number)], "looked_distance")
        expired = registered(m, distance > self._spec.window, "looked_expired")
        # Slots that have not changed since they were examined.
        examined = registered(m, turn[: self._spec.stash], "at")
        for cycle in range(3):
            examined = registered(m, examined & ~lately, f"at{cycle}")
        gone = examined & expired.replicate(len(examined)) & ~lately
        return registered(m, gone, "gone_place") & ~lately

    def _elaborate_answer(self, m, match, number):
        times = [entry.time for entry in self.entries]
        time = selected_later(m, match, times, "matching_time")
        displaced = selected_later(m, self.slot.candidate, times, "candidate_time")
        displaces = registered(m, self.push & self.slot.displaces, "displaces")
        displaces = registered(m, displaces, "displaced")
        number, bits = registered(m, number, "own_number"), len(number)
        gone = registered(m, (number - displaced)[:bits], "displaced_distance")
        m.d.sync += [
            self.hit.eq(match.any()),
            self.distance.eq(number - time),
            self.lost.eq(displaces & (gone < self._spec.window)),
            self.lost_distance.eq(gone),
        ]
