"""Several keys a clock: one window, whose bits are divided among shards."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.errors import SpecificationError
from ...golden.hash.functions import (
    SHARD_BITS,
    STATE_BITS,
    WORD_BITS,
    index_fields,
    shard_rotations,
)
from ..hash.functions import Fold, Mix
from ..interface import UnitSignature, operation_bits
from ..memory.map import floorplan_groups, memory_map
from ..memory.paged import PagedMemory
from ..pipeline import delayed, registered, selected
from ..profile import FAN_IN, HardwareProfile
from ..queue import ResultQueue
from ..unit import FilterUnit
from .shard import Entry, Shard


class ShardSelect(wiring.Component):
    """Shard of a state. Latency `LATENCY` clocks, one state per clock.

    Parameters
    ----------
    spec : FilterSpec

    Members
    -------
    state : In(64)
    number : Out(range(shards))
    one_hot : Out(shards)
        The same, a clock later.
    """

    LATENCY = 2

    def __init__(self, *, spec):
        self._shards = spec.shards
        self._rotations = shard_rotations(
            index_fields(spec.index_sizes), spec.hash_functions, spec.seed
        )
        super().__init__(
            {
                "state": In(STATE_BITS),
                "number": Out(range(self._shards)),
                "one_hot": Out(self._shards),
            }
        )

    def elaborate(self, platform):
        m = Module()
        first, second, third = (
            self.state.rotate_left(amount)[WORD_BITS - SHARD_BITS :] for amount in self._rotations
        )
        word = Signal(SHARD_BITS, reset_less=True)
        m.d.sync += [
            word.eq(first ^ second ^ third),
            # The word times 3 or 6 shards, which is one sum.
            self.number.eq(word + (word << 1) >> SHARD_BITS - (self._shards // 6)),
            self.one_hot.eq(Cat(self.number == shard for shard in range(self._shards))),
        ]
        return m


class ShiftFinder(wiring.Component):
    """Finds the insertion for which the ring turns: the first after `generation` others.

    Latency `LATENCY` clocks, one beat per clock. At least
    ``lately.hdl.profile.MINIMUM_BEATS`` beats lie between two such insertions.

    Members
    -------
    turn : In(1)
        The ring turns before this beat; the generation begins anew.
    inserts : In(lanes)
    shifts : Out(lanes)
        One bit at most.
    """

    LATENCY = 6

    def __init__(self, *, lanes, generation):
        self._lanes = lanes
        self._generation = generation
        super().__init__({"turn": In(1), "inserts": In(lanes), "shifts": Out(lanes)})

    def elaborate(self, platform):
        m = Module()
        lanes, generation = self._lanes, self._generation
        low = (lanes - 1).bit_length()
        inserts = registered(m, self.inserts, "inserts")
        turns = registered(m, self.turn, "turns")
        counts = [Const(0)]
        for lane in range(lanes):
            counts.append(counts[-1] + inserts[lane])
        ordinals = Cat(count[:low] if len(count) >= low else Cat(count, Const(0, low - len(count)))
                       for count in counts[:lanes])  # fmt: skip
        # Insertions of the generation, less its length and one: the sign tells when it is over.
        # In two digits, the high one a clock later.
        width = generation.bit_length() + 2
        digit = width // 2
        # They begin with what a turn sets them to, so that registers need no gate for it.
        left_low = Signal(digit, init=(1 << digit) - 1)
        left_high = Signal(width - digit, init=(1 << width - digit) - 1)
        # What it changes by if a generation begins with the beat, from a table: an adder is too
        # slow.
        after_turn = [flags.bit_count() - generation for flags in range(1 << lanes)]
        table = Array(Const(change % (1 << width), width) for change in after_turn)
        if_over = Value.cast(table[inserts])
        begun = registered(m, if_over, "begun")
        count = registered(m, Mux(turns, if_over, counts[lanes]), "count")
        change = Signal(width, init=-generation % (1 << width))
        carry = Signal()
        turn = Signal(2)
        over = Signal()
        # What turned meanwhile has begun a generation of its own.
        quiet = registered(m, ~Cat(turns, turn).any(), "quiet")
        m.d.sync += [
            turn.eq(Cat(turns, turn)),
            change.eq(Mux(over, begun, count)),
            Cat(left_low, carry).eq(left_low + change[:digit]),
        ]
        change_high = registered(m, change[digit:], "change_high")
        # One sum: what both have below carries if `carry` is set.
        high = (Cat(1, left_high) + Cat(carry, change_high))[1 : 1 + len(left_high)]
        after = registered(m, high[-1], "after")
        m.d.sync += left_high.eq(high)
        # That of a beat that begins with a turn, just before its change is added.
        with m.If(turn[0]):
            m.d.sync += left_low.eq(-1)
        with m.If(turn[1]):
            m.d.sync += left_high.eq(-1)
        # As they were before the beat: the sign, and the last digits.
        negative = registered(m, left_high[-1], "negative")
        before = delayed(m, left_low[:low], 2, "before")
        inserts = delayed(m, inserts, 4, "inserts_late")
        places = delayed(m, ordinals, 4, "places")
        over_now = negative & ~after
        m.d.sync += [
            over.eq(over_now & quiet),
            self.shifts.eq(
                Cat(
                    over_now & inserts[lane] & (places.word_select(lane, low) == ~before)
                    for lane in range(lanes)
                )
            ),
        ]
        return m


class Repeats(wiring.Component):
    """Finds lanes whose key an earlier lane of the beat inserts. Latency `LATENCY` clocks.

    Members
    -------
    states : In(64 * lanes)
    inserts : In(lanes)
        `LATENCY` - 2 clocks later.
    repeats : Out(lanes)
    """

    LATENCY = 5

    def __init__(self, *, lanes):
        self._lanes = lanes
        super().__init__(
            {"states": In(STATE_BITS * lanes), "inserts": In(lanes), "repeats": Out(lanes)}
        )

    def elaborate(self, platform):
        m = Module()
        states = [self.states.word_select(lane, STATE_BITS) for lane in range(self._lanes)]
        repeats = []
        for lane in range(self._lanes):
            found = Signal(max(1, lane), name=f"found{lane}")
            for earlier in range(lane):
                same = self._elaborate_equal(
                    m, states[earlier], states[lane], f"same{earlier}_{lane}_"
                )
                m.d.sync += found[earlier].eq(same & self.inserts[earlier])
            repeats.append(found.any())
        m.d.sync += self.repeats.eq(Cat(repeats))
        return m

    def _elaborate_equal(self, m, first, second, name):
        """Return whether two states are equal, three clocks later but for a last gate."""
        terms = [first[at : at + 2] == second[at : at + 2] for at in range(0, STATE_BITS, 2)]
        for stage in range(3):
            terms = registered(m, Cat(terms), f"{name}{stage}")
            terms = [terms[at : at + FAN_IN].all() for at in range(0, len(terms), FAN_IN)]
        return Cat(terms).all()


class Places(wiring.Component):
    """Counts what is under way, and says whether there is room for more.

    Members
    -------
    comes, leaves : In(1)
    room : Out(1)
        Whether at most `enough` are, three clocks ago.
    """

    def __init__(self, *, enough):
        self._enough = enough
        super().__init__({"comes": In(1), "leaves": In(1), "room": Out(1)})

    def elaborate(self, platform):
        m = Module()
        change = Signal(signed(2))
        left = Signal(signed(self._enough.bit_length() + 3), init=self._enough)
        m.d.sync += [
            change.eq(registered(m, self.leaves, "left_now") - registered(m, self.comes, "came")),
            left.eq(left + change),
            self.room.eq(left >= 0),
        ]
        return m


class BeatRecord(data.StructLayout):
    """What is kept of a beat until its results are there.

    Members: for each lane ``valid``, ``asked`` (a shard has the answer),
    ``known`` (an earlier lane has just inserted the key), ``query``, ``number``
    (of the shard) and ``tag``; ``required``, how many entries each shard must
    have done.

    Parameters
    ----------
    lanes, shards : int
    tag_bits : int
        Width of the tag.
    """

    def __init__(self, *, lanes, shards, tag_bits):
        lane = data.StructLayout(
            {
                "valid": 1,
                "asked": 1,
                "known": 1,
                "query": 1,
                "number": range(shards),
                "tag": tag_bits,
            }
        )
        super().__init__(
            {"lanes": data.ArrayLayout(lane, lanes), "required": data.ArrayLayout(8, shards)}
        )


class Spread(wiring.Component):
    """Hashes the keys of a beat and gives each shard what it has to do.

    Latency `latency` clocks to `record`, one beat per clock.

    Parameters
    ----------
    spec : FilterSpec
    tag_bits, slots : int

    Members
    -------
    valid, beat : In
    coming : Out(shards)
        A shard gets an entry in the next clock.
    entry0, ... : Out(Entry)
    states0, ... : Out(64 * lanes)
        One of each for each shard.
    recorded : Out(1)
    record : Out(BeatRecord)
    slot : Out(range(slots))
        Number of the recorded beat.
    """

    BANDS = 2
    """Groups of shards that `lately.boards.flow.floorplan` lays side by side: even and odd."""

    def __init__(self, *, spec, tag_bits, slots):
        self._spec = spec
        self._lanes = spec.lanes
        self._shards = spec.shards
        self._slots = slots
        self._folds = [Fold(key_bits=spec.key_bits, seed=spec.seed) for _ in range(spec.lanes)]
        self._mixes = [Mix(seed=spec.seed) for _ in range(spec.lanes)]
        self._hashed = self._folds[0].latency + self._mixes[0].latency
        self.latency = self._hashed + Repeats.LATENCY + 4
        self._entry = Entry(lanes=spec.lanes, slots=slots)
        beat = UnitSignature.from_spec(spec, tag_bits=tag_bits).request
        super().__init__(
            {
                "valid": In(1),
                "beat": In(beat),
                "coming": Out(self._shards),
                "recorded": Out(1),
                "record": Out(BeatRecord(lanes=spec.lanes, shards=self._shards, tag_bits=tag_bits)),
                "slot": Out(range(slots)),
            }
            | {f"entry{shard}": Out(self._entry) for shard in range(self._shards)}
            | {f"states{shard}": Out(STATE_BITS * spec.lanes) for shard in range(self._shards)}
        )

    def elaborate(self, platform):
        m = Module()
        beat = [self.beat.lanes[lane] for lane in range(self._lanes)]
        valid = Cat(self.valid & lane.valid for lane in beat)
        operations = [operation_bits(lane.operation) for lane in beat]
        insert = Cat(bits.insert & ~bits.alone for bits in operations) & valid
        query = Cat(bits.query & ~bits.alone for bits in operations) & valid
        turn = self._elaborate_turn()
        states = self._elaborate_states(m, beat)
        numbers, one_hots, in_bands = self._elaborate_select(m, states)
        repeats = self._elaborate_repeats(m, states, insert)
        shifts, crosses = self._elaborate_shifts(m, turn.any(), insert)

        # A clock later than the repeats.
        at = self._hashed + Repeats.LATENCY + 1
        asked = delayed(m, insert | query, at - 1, "asking")
        known = repeats & ~crosses.replicate(self._lanes)
        known, asked = registered(m, known, "known"), registered(m, asked & ~known, "asked")
        insert = delayed(m, insert, at, "insert")
        query = delayed(m, query, at, "query")
        turn = delayed(m, turn, at, "turn")
        arrived = delayed(m, self.valid, at, "arrived")
        shifts = registered(m, shifts, "shifts_late")
        crosses = registered(m, crosses, "crosses_late")

        flags = {"query": query, "insert": insert, "shifts": shifts, "turn": turn}
        flags["waits"] = turn[0] | crosses
        flags = {name: delayed(m, value, 2, f"{name}_flags") for name, value in flags.items()}
        # A register for each band: of two that are one another's inverse, synthesis keeps both.
        someone = turn.any() | crosses
        everyone = [registered(m, someone, "everyone"), ~registered(m, ~someone, "no_one")]
        slot = Signal(range(self._slots))
        with m.If(registered(m, arrived, "arrived_flags")):
            m.d.sync += slot.eq(slot + 1)
        flags["slot"] = registered(m, slot, "slot_flags")
        states = delayed(m, states, Repeats.LATENCY + 2, "states")
        bands = [
            self._elaborate_band(m, band, in_bands, asked, everyone[band], flags, states)
            for band in range(self.BANDS)
        ]
        for shard in range(self._shards):
            own = Cat(one_hot[shard] for one_hot in one_hots) & asked
            items = registered(m, own, f"items{shard}")
            coming = self._elaborate_coming(m, own, everyone[shard % self.BANDS], f"{shard}")
            self._elaborate_entry(m, shard, items, coming, *bands[shard % self.BANDS])
        slot = delayed(m, slot, 2, "slot")
        self._elaborate_record(m, beat, valid, known, asked, numbers, arrived, slot)
        return m

    def _elaborate_turn(self):
        """Return what turns the ring before the beat, as a `Turn`."""
        alone = operation_bits(self.beat.alone)
        turns = self.valid & alone.alone & ~alone.insert
        return Cat(turns & ~alone.query, turns & alone.query)

    def _elaborate_states(self, m, beat):
        """Return the states of all lanes, `_hashed` clocks late."""
        states = []
        for lane, (fold, mix) in enumerate(zip(self._folds, self._mixes, strict=True)):
            m.submodules[f"fold{lane}"] = fold
            m.submodules[f"mix{lane}"] = mix
            m.d.comb += [fold.key.eq(beat[lane].key), mix.i.eq(fold.state)]
            states.append(mix.o)
        return Cat(states)

    def _elaborate_select(self, m, states):
        """Return each lane's shard, as number, one-hot and band, a clock later than the repeats."""
        numbers, one_hots, bands = [], [], []
        for lane in range(self._lanes):
            m.submodules[f"select{lane}"] = select = ShardSelect(spec=self._spec)
            m.d.comb += select.state.eq(states.word_select(lane, STATE_BITS))
            late = Repeats.LATENCY + 1 - ShardSelect.LATENCY
            numbers.append(delayed(m, select.number, late, f"number{lane}_"))
            before = delayed(m, select.one_hot, late - 2, f"one_hot{lane}_")
            one_hots.append(registered(m, before, f"one_hot_late{lane}"))
            in_band = Cat(before[band :: self.BANDS].any() for band in range(self.BANDS))
            bands.append(registered(m, in_band, f"band{lane}"))
        return numbers, one_hots, bands

    def _elaborate_repeats(self, m, states, insert):
        m.submodules.repeats = repeats = Repeats(lanes=self._lanes)
        late = self._hashed + Repeats.LATENCY - 2
        m.d.comb += [
            repeats.states.eq(states),
            repeats.inserts.eq(delayed(m, insert, late, "insert_of_repeats")),
        ]
        return repeats.repeats

    def _elaborate_shifts(self, m, turns, insert):
        """Return where the ring turns, and whether it does, as late as the repeats."""
        m.submodules.finder = finder = ShiftFinder(
            lanes=self._lanes, generation=self._spec.generation
        )
        m.d.comb += [finder.turn.eq(turns), finder.inserts.eq(insert)]
        late = self._hashed + Repeats.LATENCY - ShiftFinder.LATENCY
        before = delayed(m, finder.shifts, late - 1, "shifts")
        return registered(m, before, "shifts"), registered(m, before.any(), "crosses")

    def _elaborate_coming(self, m, items, everyone, name):
        """Return whether there are any items, or all get an entry, two clocks late."""
        pairs = Cat(items[at : at + 2].any() for at in range(0, len(items), 2))
        any_items = registered(m, pairs, f"pairs{name}").any()
        return registered(m, any_items | everyone, f"coming{name}")

    def _elaborate_band(self, m, band, in_bands, asked, everyone, flags, states):
        """Return flags and states for some of the shards, from registers that are theirs alone.

        Loaded only if one of these shards gets something, so that synthesis
        cannot share them with those of the others, which lie apart.
        """
        own = Cat(in_band[band] for in_band in in_bands)
        items = registered(m, own & asked, f"items_of_band{band}")
        coming = self._elaborate_coming(m, own & asked, everyone, f"_of_band{band}")
        own_flags = {
            name: Signal(len(value), name=f"{name}_of_band{band}") for name, value in flags.items()
        }
        with m.If(coming):
            m.d.sync += [own_flags[name].eq(value) for name, value in flags.items()]
        own_states = Signal(len(states), name=f"states_of_band{band}", reset_less=True)
        for lane in range(self._lanes):
            with m.If(items[lane]):
                state = states.word_select(lane, STATE_BITS)
                m.d.sync += own_states.word_select(lane, STATE_BITS).eq(state)
        return own_flags, own_states

    def _elaborate_entry(self, m, shard, items, coming, flags, states):
        """Give a shard its entry, and count it.

        On the way are registers of the shard's own, which synthesis cannot share as they are
        loaded apart.
        """
        required = Signal(8, name=f"required{shard}")
        m.d.comb += self.record.required[shard].eq(required)
        with m.If(coming):
            m.d.sync += required.eq(required + 1)
        here = registered(m, coming, f"coming_late{shard}")
        m.d.comb += self.coming[shard].eq(here)
        flags = flags | {"items": delayed(m, items, 2, f"items_of{shard}_")}
        entry = Signal(self._entry, name=f"on_way{shard}")
        with m.If(here):
            m.d.sync += [entry.as_value()[self._bits(name)].eq(flags[name]) for name in flags]
        m.d.comb += getattr(self, f"entry{shard}").eq(entry)
        loaded = registered(m, items, f"loaded{shard}")
        for lane in range(self._lanes):
            state = Signal(STATE_BITS, name=f"state{shard}_{lane}", reset_less=True)
            with m.If(loaded[lane]):
                m.d.sync += state.eq(states.word_select(lane, STATE_BITS))
            late = registered(m, state, f"state_late{shard}_{lane}", reset_less=True)
            m.d.comb += getattr(self, f"states{shard}").word_select(lane, STATE_BITS).eq(late)

    def _bits(self, name):
        field = self._entry[name]
        return slice(field.offset, field.offset + field.width)

    def _elaborate_record(self, m, beat, valid, known, asked, numbers, arrived, slot):
        """Keep what the results need."""
        at = self._hashed + Repeats.LATENCY + 1
        valid = delayed(m, valid, at, "valid")
        operations = [operation_bits(lane.operation) for lane in beat]
        queries = Cat(bits.query & ~bits.alone for bits in operations)
        asked_query = delayed(m, queries, at, "asked_query")
        for number, lane in enumerate(beat):
            kept = {
                "valid": valid[number],
                "asked": asked[number],
                "known": known[number],
                "query": asked_query[number] & valid[number],
                "number": numbers[number],
                "tag": delayed(m, lane.tag, at, f"tag{number}_"),
            }
            for name, value in kept.items():
                late = delayed(m, value, 3, f"{name}_kept{number}_")
                m.d.comb += self.record.lanes[number][name].eq(late)
        m.d.comb += [
            self.slot.eq(slot),
            self.recorded.eq(delayed(m, arrived, 3, "recorded")),
        ]


class Collector(wiring.Component):
    """Gives out the results of beats in the order of the beats.

    Looks after beat upon beat, one per clock, without waiting; where a shard
    has not done its part yet, it comes back to that beat `POLL` clocks later.
    Once it lags behind, it need not come back.

    Parameters
    ----------
    record : BeatRecord
    shards, slots : int
    answer : StructLayout
        Payload of the unit's output.
    verdict_bits, results_latency : int
        Bits of a lane's verdict, and clocks from `read` to `results`.

    Members
    -------
    recorded, record, slot : In
        A beat is to be waited for.
    done : In(8 * shards)
        Entries that each shard has done.
    read : Out(range(slots))
    results : In(shards * lanes * verdict_bits)
    o : Out(stream.Signature(answer))
    """

    DEPTH = 64
    POLL = 14
    UNDER_WAY = 18
    """Beats that may still pass when there is no more room."""

    def __init__(self, *, record, shards, slots, answer, verdict_bits, results_latency):
        self._record = record
        self._lanes = record["lanes"].shape.length
        self._shards = shards
        self._slots = slots
        self._answer = answer
        self._verdict_bits = verdict_bits
        self._results_latency = results_latency
        # From the clock in which `done` comes.
        self._selection = (shards - 1).bit_length()
        self.latency = 10 + results_latency + self._selection + ResultQueue.LATENCY_APART
        super().__init__(
            {
                "recorded": In(1),
                "record": In(record),
                "slot": In(range(slots)),
                "done": In(8 * shards),
                "read": Out(range(slots)),
                "results": In(shards * self._lanes * verdict_bits),
                "o": Out(stream.Signature(answer)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.records = records = PagedMemory(depth=self._slots, width=self._record.size)
        m.submodules.queue = queue = ResultQueue(
            depth=self.DEPTH, tag_bits=0, verdict_bits=self._answer.size, apart=True
        )
        m.submodules.places = places = Places(enough=self.DEPTH - self.UNDER_WAY)
        beat = Signal(8)
        m.d.comb += [
            records.write.eq(self.recorded),
            records.write_address.eq(self.slot),
            records.value.eq(self.record),
            records.read_address.eq(beat),
        ]
        passes, passed, record = self._elaborate_check(m, beat, records, places.room)
        m.d.comb += self.read.eq(passed)
        coming, answer = self._elaborate_answer(m, passes, record)
        m.d.comb += [
            queue.coming.eq(coming),
            queue.verdict.eq(answer),
            places.comes.eq(passes),
            places.leaves.eq(self.o.valid & self.o.ready),
            self.o.valid.eq(queue.o.valid),
            self.o.p.eq(queue.o.p),
            queue.o.ready.eq(self.o.ready),
        ]
        return m

    def _elaborate_check(self, m, beat, records, room):
        """Look after beats; return whether one passes, which, and its record."""
        # The ordinal of the newest beat that can be read.
        newest = Signal(8, init=-1)
        with m.If(self.recorded):
            m.d.sync += newest.eq(newest + 1)
        late = records.latency
        reached = self._elaborate_reached(
            m, registered(m, newest, "newest_late"), registered(m, beat, "beat_late"), "there"
        )
        there = delayed(m, reached, late - 1, "there")
        record = Signal(self._record)
        m.d.comb += record.eq(records.word)
        counts = delayed(m, self.done, 2, "counts")
        done = [
            self._elaborate_reached(
                m, counts.word_select(shard, 8), record.required[shard], f"done{shard}"
            )
            for shard in range(self._shards)
        ]
        conditions = Cat(there, *done)
        groups = [conditions[at : at + FAN_IN].all() for at in range(0, len(conditions), FAN_IN)]
        complete = registered(m, registered(m, Cat(groups), "groups").all(), "complete")
        # As late as that.
        clocks = late + 5
        alive = Signal(clocks)
        at_end = delayed(m, beat, clocks, "beat")
        # In the clock after `failing` the beats behind the one that fails are given up.
        fails = Signal()
        failing = alive[-1] & ~complete & ~fails
        m.d.sync += fails.eq(failing)
        goes = Signal()
        m.d.sync += [
            goes.eq(room & ~failing & ~fails),
            alive.eq(Cat(goes, alive) & ~fails.replicate(clocks)),
        ]
        passes = registered(m, alive[-1] & complete & ~fails, "passes")
        passed = registered(m, at_end, "passed")
        self._elaborate_beat(m, beat, goes, fails, passed)
        return passes, passed, delayed(m, record.lanes.as_value(), 6, "record")

    def _elaborate_reached(self, m, count, goal, name):
        """Return, three clocks late, whether a count modulo 256 has reached a goal near it."""
        pairs = [(count[at : at + 2], goal[at : at + 2]) for at in (0, 2, 4)]
        pairs.append((count[6], goal[6]))
        # Whether the difference borrows from what is above, and whether it passes a borrow on.
        less = registered(m, Cat(own < other for own, other in pairs), f"{name}_less")
        same = registered(m, Cat(own == other for own, other in pairs), f"{name}_same")
        top = delayed(m, count[7] ^ goal[7], 2, f"{name}_top")
        below = registered(m, less[1] | (same[1] & less[0]), f"{name}_below")
        borrows = registered(m, less[3] | (same[3] & less[2]), f"{name}_borrows")
        passes = registered(m, same[3] & same[2], f"{name}_passes")
        return registered(m, ~(top ^ (borrows | (passes & below))), name)

    def _elaborate_beat(self, m, beat, goes, fails, back):
        """Count the beats that are looked after, and go back to one.

        The carry into the high digit is computed ahead: no beat is looked after for two
        clocks after it has gone back.
        """
        low, high = beat[:2], beat[2:]
        next_high = registered(m, (high + 1)[: len(high)], "next_high")
        m.d.sync += low.eq(Mux(fails, back[:2], low + goes))
        with m.If(fails | (goes & low.all())):
            m.d.sync += high.eq(Mux(fails, back[2:], next_high))

    def _elaborate_answer(self, m, passes, record):
        """Return when an answer comes, a clock ahead, and the answer."""
        lanes = data.View(self._record["lanes"].shape, record)
        # On the way from the shards.
        results = delayed(m, self.results, 2, "results")
        late, clocks = self._results_latency + 2, self._selection
        answer = Signal(self._answer)
        for lane in range(self._lanes):
            kept = data.View(
                lanes[lane].shape(), delayed(m, lanes[lane].as_value(), late, f"kept{lane}_")
            )
            verdicts = [
                results.word_select(shard * self._lanes + lane, self._verdict_bits)
                for shard in range(self._shards)
            ]
            verdict = selected(m, verdicts, kept.number, f"verdict{lane}_")
            kept = data.View(kept.shape(), delayed(m, kept.as_value(), clocks, f"kept_late{lane}_"))
            of_lane = answer.lanes[lane]
            m.d.sync += [
                of_lane.valid.eq(kept.valid),
                of_lane.tag.eq(kept.tag),
                of_lane.seen.eq((kept.asked & verdict[0]) | (kept.known & kept.query)),
                of_lane.age.eq(verdict[1:] & kept.asked.replicate(self._verdict_bits - 1)),
            ]
        return delayed(m, passes, late + clocks, "coming"), answer


class LaneUnit(wiring.Component):
    """A filter that takes several keys per clock into one window.

    A beat holds an operation for each lane. Operations take effect beat by
    beat and lane by lane, each as if those before it had finished: the outcome
    is that of the golden model for the same sequence, in every verdict and
    every bit of memory. Every beat gives one answer, in order.

    Keys are spread over ``spec.shards`` shards by their hash; a shard performs
    one operation per clock. The ring turns in all shards at the same place of
    the order. `i.ready` falls while too many operations wait for one shard,
    while clearing lags behind, and while answers are not taken. An operation
    on a key that an earlier lane of its beat inserts asks no shard; its
    outcome is known. A stream of one key thus flows at full rate.

    Latency `latency` clocks from acceptance to answer, or less than `Collector.POLL`
    more, if nothing waits.

    Parameters
    ----------
    spec : FilterSpec
        What to build; must pass `HardwareProfile.check_buildable`, and have several lanes.
    tag_bits : int
        Width of the tag.
    memory : str
        Variant of the segment memories, one of `lately.hdl.memory.variants.VARIANTS`.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`: beats, and an answer for each.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification, or it has one lane.
    """

    SLOTS = 128
    """Beats that may be under way."""

    LAG = 8
    """Clocks from an acceptance until `i.ready` knows of it, and two to spare."""

    def __init__(self, spec, *, tag_bits=8, memory="portable"):
        if spec.lanes == 1:
            raise SpecificationError("lanes: must be 2 or 4 for LaneUnit, not 1")
        self._spec = spec
        self._memory = memory
        self._profile = HardwareProfile(spec, memory=memory)
        self._profile.check_buildable()
        signature = UnitSignature.from_spec(spec, tag_bits=tag_bits)
        self._record = BeatRecord(lanes=spec.lanes, shards=spec.shards, tag_bits=tag_bits)
        self._spread = Spread(spec=spec, tag_bits=tag_bits, slots=self.SLOTS)
        self._shards = [
            Shard(spec=spec, number=number, slots=self.SLOTS, memory=memory)
            for number in range(spec.shards)
        ]
        self._collector = Collector(
            record=self._record,
            shards=spec.shards,
            slots=self.SLOTS,
            answer=signature.result,
            verdict_bits=1 + len(self._shards[0].core.age),
            results_latency=self._shards[0].latency,
        )
        super().__init__(signature)

    @property
    def spec(self):
        """What was built."""
        return self._spec

    @property
    def memory_map(self):
        """Memories of the unit, and where each bit lies in them: a `MemoryMap`."""
        return memory_map(self._spec, memory=self._memory)

    @property
    def floorplan_groups(self):
        """Names of the block RAMs of each shard, which belong side by side."""
        return floorplan_groups(self.memory_map.memories)

    @property
    def profile(self):
        """Figures of what was built."""
        return self._profile

    @property
    def latency(self):
        """Clocks from the acceptance of a beat to its answer on an idle output, at least."""
        way_in = self._spread.latency + 1 + Shard.WAY_IN + ResultQueue.LATENCY_APART + 1
        return way_in + self._shards[0].turnaround + self._collector.latency

    def elaborate(self, platform):
        m = Module()
        m.submodules.spread = spread = self._spread
        m.submodules.collector = collector = self._collector
        accepted = Signal()
        m.d.sync += [accepted.eq(self.i.valid & self.i.ready), spread.beat.eq(self.i.p)]
        m.d.comb += spread.valid.eq(accepted)
        rooms = [self._elaborate_places(m, "beats", self.SLOTS - 1 - self.LAG, accepted,
                                        self.o.valid & self.o.ready)]  # fmt: skip
        # An entry comes so long after the acceptance that nobody counts it before.
        enough = Shard.DEPTH - 3 - self.LAG - spread.latency
        for number, shard in enumerate(self._shards):
            m.submodules[f"shard{number}"] = shard
            coming = spread.coming[number]
            came = registered(m, coming, f"came{number}")
            rooms.append(self._elaborate_places(m, f"entries{number}", enough, came, shard.taken))
            width = len(shard.results)
            m.d.comb += [
                shard.coming.eq(coming),
                shard.entry.eq(getattr(spread, f"entry{number}")),
                shard.states.eq(getattr(spread, f"states{number}")),
                shard.slot.eq(collector.read),
                collector.done.word_select(number, 8).eq(shard.done),
                collector.results.word_select(number, width).eq(shard.results),
            ]
        groups = [Cat(rooms[at : at + FAN_IN]).all() for at in range(0, len(rooms), FAN_IN)]
        ready = registered(m, registered(m, Cat(groups), "room").all(), "ready")
        m.d.comb += [
            self.i.ready.eq(ready),
            collector.recorded.eq(spread.recorded),
            collector.record.eq(spread.record),
            collector.slot.eq(spread.slot),
            self.o.valid.eq(collector.o.valid),
            self.o.p.eq(collector.o.p),
            collector.o.ready.eq(self.o.ready),
        ]
        return m

    def _elaborate_places(self, m, name, enough, comes, leaves):
        m.submodules[name] = places = Places(enough=enough)
        m.d.comb += [places.comes.eq(comes), places.leaves.eq(leaves)]
        return places.room


def filter_unit(spec, *, memory="portable", organisation="separate", **options):
    """Return the unit for a specification: `FilterUnit`, or `LaneUnit` for several lanes.

    Parameters, errors: as those of the units.

    Parameters
    ----------
    spec : FilterSpec
    memory, organisation : str
        As for `FilterUnit`; several lanes have separate segments.
    options
        As for `FilterUnit` or `LaneUnit`.

    Raises
    ------
    SpecificationError
        If several lanes are to have another organisation.
    """
    if spec.lanes == 1:
        return FilterUnit(spec, memory=memory, organisation=organisation, **options)
    HardwareProfile(spec, organisation=organisation, memory=memory).check_buildable()
    return LaneUnit(spec, memory=memory, **options)
