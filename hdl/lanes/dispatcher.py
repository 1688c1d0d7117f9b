"""Hashes the keys of a beat and gives each shard its share of the operations."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import (
    SHARD_BITS,
    STATE_BITS,
    WORD_BITS,
    index_fields,
    shard_rotations,
)
from ..hash.functions import Fold, Mix
from ..interface import UnitSignature, operation_bits
from ..pipeline import delayed, duplicate_registers, registered
from .beats import BeatRecord, SameBeatKeys, ShiftFinder
from .sequencer import Entry


class ShardSelect(wiring.Component):
    """Shard of a state. Latency `LATENCY` cycles, one state per cycle.

    Parameters
    ----------
    spec : FilterSpec

    Members
    -------
    state : In(64)
    number : Out(range(shards))
    one_hot : Out(shards)
        The same, a cycle later.
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


class Dispatcher(wiring.Component):
    """Hashes the keys of a beat and gives each shard what it has to do.

    Latency `latency` cycles to `record`, one beat per cycle.

    Parameters
    ----------
    spec : FilterSpec
    tag_bits, slots : int

    Members
    -------
    valid, beat : In
    valid_next : Out(shards)
        A shard gets an entry in the next cycle.
    entry0, ... : Out(Entry)
    states0, ... : Out(64 * lanes)
        One of each for each shard.
    recorded : Out(1)
    record : Out(BeatRecord)
    slot : Out(range(slots))
        Number of the recorded beat.
    """

    BANDS = 2
    """Bands of the device in which `lately.boards.flow.floorplan` lays the shards: even, odd."""

    def __init__(self, *, spec, tag_bits, slots):
        self._spec = spec
        self._lanes = spec.lanes
        self._shards = spec.shards
        self._slots = slots
        self._folds = [Fold(key_bits=spec.key_bits, seed=spec.seed) for _ in range(spec.lanes)]
        self._mixes = [Mix(seed=spec.seed) for _ in range(spec.lanes)]
        self._hashed = self._folds[0].latency + self._mixes[0].latency
        self.latency = self._hashed + SameBeatKeys.LATENCY + 4
        self._entry = Entry(lanes=spec.lanes, slots=slots)
        beat = UnitSignature.from_spec(spec, tag_bits=tag_bits).request
        super().__init__(
            {
                "valid": In(1),
                "beat": In(beat),
                "valid_next": Out(self._shards),
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

        # A cycle later than the repeats.
        at = self._hashed + SameBeatKeys.LATENCY + 1
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
        everyone = duplicate_registers(m, turn.any() | crosses, "everyone", copies=self.BANDS)
        slot = Signal(range(self._slots))
        with m.If(registered(m, arrived, "arrived_flags")):
            m.d.sync += slot.eq(slot + 1)
        flags["slot"] = registered(m, slot, "slot_flags")
        states = delayed(m, states, SameBeatKeys.LATENCY + 2, "states")
        bands = [
            self._elaborate_band(m, band, in_bands, asked, everyone[band], flags, states)
            for band in range(self.BANDS)
        ]
        for shard in range(self._shards):
            own = Cat(one_hot[shard] for one_hot in one_hots) & asked
            items = registered(m, own, f"items{shard}")
            valid_next = self._elaborate_valid_next(
                m, own, everyone[shard % self.BANDS], f"{shard}"
            )
            self._elaborate_entry(m, shard, items, valid_next, *bands[shard % self.BANDS])
        slot = delayed(m, slot, 2, "slot")
        self._elaborate_record(m, beat, valid, known, asked, numbers, arrived, slot)
        return m

    def _elaborate_turn(self):
        """Return what turns the ring before the beat, as a `RingCommand`."""
        alone = operation_bits(self.beat.alone)
        turns = self.valid & alone.alone & ~alone.insert
        return Cat(turns & ~alone.query, turns & alone.query)

    def _elaborate_states(self, m, beat):
        """Return the states of all lanes, `_hashed` cycles late."""
        states = []
        for lane, (fold, mix) in enumerate(zip(self._folds, self._mixes, strict=True)):
            m.submodules[f"fold{lane}"] = fold
            m.submodules[f"mix{lane}"] = mix
            m.d.comb += [fold.key.eq(beat[lane].key), mix.i.eq(fold.state)]
            states.append(mix.o)
        return Cat(states)

    def _elaborate_select(self, m, states):
        """Return each lane's shard, as number, one-hot and band, a cycle later than the repeats."""
        numbers, one_hots, bands = [], [], []
        for lane in range(self._lanes):
            m.submodules[f"select{lane}"] = select = ShardSelect(spec=self._spec)
            m.d.comb += select.state.eq(states.word_select(lane, STATE_BITS))
            late = SameBeatKeys.LATENCY + 1 - ShardSelect.LATENCY
            numbers.append(delayed(m, select.number, late, f"number{lane}_"))
            before = delayed(m, select.one_hot, late - 2, f"one_hot{lane}_")
            one_hots.append(registered(m, before, f"one_hot_late{lane}"))
            in_band = Cat(before[band :: self.BANDS].any() for band in range(self.BANDS))
            bands.append(registered(m, in_band, f"band{lane}"))
        return numbers, one_hots, bands

    def _elaborate_repeats(self, m, states, insert):
        m.submodules.repeats = repeats = SameBeatKeys(lanes=self._lanes)
        late = self._hashed + SameBeatKeys.LATENCY - 2
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
        late = self._hashed + SameBeatKeys.LATENCY - ShiftFinder.LATENCY
        before = delayed(m, finder.shifts, late - 1, "shifts")
        return registered(m, before, "shifts"), registered(m, before.any(), "crosses")

    def _elaborate_valid_next(self, m, items, everyone, name):
        """Return whether there are any items, or all get an entry, two cycles late."""
        pairs = Cat(items[at : at + 2].any() for at in range(0, len(items), 2))
        any_items = registered(m, pairs, f"pairs{name}").any()
        return registered(m, any_items | everyone, f"valid_next{name}")

    def _elaborate_band(self, m, band, in_bands, asked, everyone, flags, states):
        """Return flags and states for the shards of a band, from registers of its own.

        They are loaded only if one of these shards gets an entry, so that synthesis
        cannot share them with the registers of the other band, which lies apart.
        """
        own = Cat(in_band[band] for in_band in in_bands)
        items = registered(m, own & asked, f"items_of_band{band}")
        valid_next = self._elaborate_valid_next(m, own & asked, everyone, f"_of_band{band}")
        own_flags = {
            name: Signal(len(value), name=f"{name}_of_band{band}") for name, value in flags.items()
        }
        with m.If(valid_next):
            m.d.sync += [own_flags[name].eq(value) for name, value in flags.items()]
        own_states = Signal(len(states), name=f"states_of_band{band}", reset_less=True)
        for lane in range(self._lanes):
            with m.If(items[lane]):
                state = states.word_select(lane, STATE_BITS)
                m.d.sync += own_states.word_select(lane, STATE_BITS).eq(state)
        return own_flags, own_states

    def _elaborate_entry(self, m, shard, items, valid_next, flags, states):
        """Give a shard its entry, and count it.

        The shard has registers of its own, which synthesis cannot share because each shard
        loads them separately.
        """
        required = Signal(8, name=f"required{shard}")
        m.d.comb += self.record.required[shard].eq(required)
        with m.If(valid_next):
            m.d.sync += required.eq(required + 1)
        here = registered(m, valid_next, f"arriving{shard}")
        m.d.comb += self.valid_next[shard].eq(here)
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
        at = self._hashed + SameBeatKeys.LATENCY + 1
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
