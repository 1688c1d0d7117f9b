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
from ..hash.functions import StateHash
from ..interface import UnitSignature, operation_bits
from ..pipeline import Pipeline, duplicate_registers, registered
from ..profile import DEFAULT_LEVELS
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
    levels : int
        Of the hashes.

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

    def __init__(self, *, spec, tag_bits, slots, levels=DEFAULT_LEVELS):
        self._spec = spec
        self._lanes = spec.lanes
        self._shards = spec.shards
        self._slots = slots
        self._hashes = [
            StateHash(key_bits=spec.key_bits, seed=spec.seed, levels=levels)
            for _ in range(spec.lanes)
        ]
        self._hashed = self._hashes[0].latency
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
        pipeline = Pipeline(m)
        beat = self._elaborate_beat(pipeline)
        states = self._elaborate_states(m, pipeline)
        repeats = self._elaborate_repeats(m, pipeline, states, beat["insert"])
        shifts = self._elaborate_shifts(m, pipeline, beat)
        crosses = pipeline.register("crosses", lambda bits: bits.any(), shifts).at(repeats.stage)
        known = pipeline.combine(
            "known", lambda repeat, cross: repeat & ~cross.replicate(self._lanes), repeats, crosses
        )
        asked = pipeline.register(
            "asked", lambda insert, query, known: (insert | query) & ~known,
            beat["insert"], beat["query"], known,
        )  # fmt: skip
        selection = self._elaborate_select(m, pipeline, states, asked.stage)

        command = beat["command"]
        waits = pipeline.register("waits", lambda turn, cross: turn[0] | cross, command, crosses)
        turned = pipeline.register(
            "turned", lambda turn, cross: turn.any() | cross, command, crosses
        )
        everyone = duplicate_registers(m, turned.value, "everyone", copies=self.BANDS)
        everyone = [pipeline.enter(one, "everyone", stage=turned.stage + 1) for one in everyone]
        slot = self._elaborate_slot(m, pipeline, beat["arrived"].at(everyone[0].stage))
        flags = {"query": beat["query"], "insert": beat["insert"], "shifts": shifts,
                 "turn": command, "waits": waits, "slot": slot}  # fmt: skip
        bands = [
            self._elaborate_band(m, pipeline, band, selection, asked, everyone[band], flags, states)
            for band in range(self.BANDS)
        ]
        for shard in range(self._shards):
            band = shard % self.BANDS
            own = pipeline.combine(
                f"own{shard}", lambda asked, *bits: Cat(bits) & asked,
                asked, *(one_hot[shard] for one_hot in selection["one_hots"]),
            )  # fmt: skip
            self._elaborate_entry(m, pipeline, shard, own, everyone[band], *bands[band])
        self._elaborate_record(m, beat, known, asked, selection["numbers"], slot)
        return m

    def _elaborate_beat(self, pipeline):
        """Return what a beat asks for: its operations, those of its lanes, and its tags."""
        lanes = [self.beat.lanes[lane] for lane in range(self._lanes)]
        operations = [operation_bits(lane.operation) for lane in lanes]
        valid = Cat(self.valid & lane.valid for lane in lanes)
        insert = Cat(bits.insert & ~bits.alone for bits in operations)
        query = Cat(bits.query & ~bits.alone for bits in operations)
        alone = operation_bits(self.beat.alone)
        turns = self.valid & alone.alone & ~alone.insert
        values = {
            "arrived": self.valid,
            "valid": valid,
            "insert": insert & valid,
            "query": query & valid,
            # A `RingCommand`.
            "command": Cat(turns & ~alone.query, turns & alone.query),
        } | {f"tag{number}": lane.tag for number, lane in enumerate(lanes)}
        return {name: pipeline.enter(value, name) for name, value in values.items()}

    def _elaborate_states(self, m, pipeline):
        """Return the states of all lanes."""
        states = []
        for lane, key_hash in enumerate(self._hashes):
            m.submodules[f"hash{lane}"] = key_hash
            m.d.comb += key_hash.key.eq(self.beat.lanes[lane].key)
            states.append(key_hash.state)
        return pipeline.enter(Cat(states), "states", stage=self._hashed)

    def _elaborate_select(self, m, pipeline, states, stage):
        """Return each lane's shard, as number, one-hot and band, at a stage."""
        selection = {"numbers": [], "one_hots": [], "bands": []}
        for lane in range(self._lanes):
            m.submodules[f"select{lane}"] = select = ShardSelect(spec=self._spec)
            m.d.comb += select.state.eq(states.value.word_select(lane, STATE_BITS))
            known = states.stage + select.LATENCY
            number = pipeline.enter(select.number, f"number{lane}", stage=known)
            one_hot = pipeline.enter(select.one_hot, f"one_hot{lane}", stage=known + 1)
            in_band = pipeline.register(
                f"band{lane}",
                lambda one_hot: Cat(
                    one_hot[band :: self.BANDS].any() for band in range(self.BANDS)
                ),
                one_hot.at(stage - 1),
            )
            selection["numbers"].append(number.at(stage))
            selection["one_hots"].append(one_hot.at(stage))
            selection["bands"].append(in_band)
        return selection

    def _elaborate_repeats(self, m, pipeline, states, insert):
        """Return which lanes have a key that an earlier lane of the beat inserts."""
        m.submodules.repeats = repeats = SameBeatKeys(lanes=self._lanes)
        pipeline.drive(repeats, states=states)
        inserts = insert.at(states.stage + repeats.INSERTS_LAG)
        pipeline.drive(repeats, inserts=inserts)
        return pipeline.enter(repeats.repeats, "repeats", stage=states.stage + repeats.LATENCY)

    def _elaborate_shifts(self, m, pipeline, beat):
        """Return the lane for whose insertion the ring turns."""
        m.submodules.finder = finder = ShiftFinder(
            lanes=self._lanes, generation=self._spec.generation
        )
        turn = pipeline.combine("turn", lambda command: command.any(), beat["command"])
        stage = pipeline.drive(finder, turn=turn, inserts=beat["insert"])
        return pipeline.enter(finder.shifts, "shifts", stage=stage + finder.LATENCY)

    def _elaborate_slot(self, m, pipeline, arrived):
        """Number the beats."""
        slot = Signal(range(self._slots))
        with m.If(arrived.value):
            m.d.sync += slot.eq(slot + 1)
        return pipeline.enter(slot, "slot", stage=arrived.stage)

    def _elaborate_valid_next(self, pipeline, items, everyone, name):
        """Return whether there are any items, or all shards get an entry."""
        pairs = pipeline.register(
            f"pairs{name}",
            lambda bits: Cat(bits[at : at + 2].any() for at in range(0, len(bits), 2)),
            items,
        )
        return pipeline.register(
            f"valid_next{name}", lambda pairs, everyone: pairs.any() | everyone, pairs, everyone
        )

    def _elaborate_band(self, m, pipeline, band, selection, asked, everyone, flags, states):
        """Return flags and states for the shards of a band, from registers of its own.

        They are loaded only if one of these shards gets an entry, so that synthesis
        cannot share them with the registers of the other band, which lies apart.
        """
        own = pipeline.combine(
            f"own_of_band{band}", lambda asked, *bits: Cat(bits) & asked,
            asked, *(in_band[band] for in_band in selection["bands"]),
        )  # fmt: skip
        items = pipeline.register(f"items_of_band{band}", lambda bits: bits, own)
        valid_next = self._elaborate_valid_next(pipeline, own, everyone, f"_of_band{band}")
        own_flags = {}
        for name, flag in flags.items():
            loaded = registered(m, flag.at(valid_next.stage).value, f"{name}_of_band{band}",
                                enable=valid_next.value)  # fmt: skip
            own_flags[name] = pipeline.enter(
                loaded, f"{name}_of_band{band}", stage=valid_next.stage + 1
            )
        loaded = self._elaborate_loads(
            m, items.value, states.at(items.stage).value, f"state_of_band{band}"
        )
        own_states = pipeline.enter(
            Cat(loaded), f"states_of_band{band}", stage=items.stage + 1, reset_less=True
        )
        return own_flags, own_states

    def _elaborate_loads(self, m, items, states, name):
        """Return the states of each lane, from registers that are loaded with its items."""
        return [
            registered(m, states.word_select(lane, STATE_BITS), f"{name}_{lane}",
                       reset_less=True, enable=items[lane])
            for lane in range(self._lanes)
        ]  # fmt: skip

    def _elaborate_entry(self, m, pipeline, shard, own, everyone, flags, states):
        """Give a shard its entry, and count it.

        The shard has registers of its own, which synthesis cannot share because each shard
        loads them separately.
        """
        items = pipeline.register(f"items{shard}", lambda bits: bits, own)
        valid_next = self._elaborate_valid_next(pipeline, own, everyone, f"{shard}")
        required = Signal(8, name=f"required{shard}")
        m.d.comb += self.record.required[shard].eq(required)
        with m.If(valid_next.value):
            m.d.sync += required.eq(required + 1)
        here = pipeline.register(f"arriving{shard}", lambda bit: bit, valid_next)
        m.d.comb += self.valid_next[shard].eq(here.value)
        entry = Signal(self._entry, name=f"on_way{shard}")
        flags = {name: flag.at(here.stage) for name, flag in (flags | {"items": items}).items()}
        with m.If(here.value):
            m.d.sync += [
                entry.as_value()[self._bits(name)].eq(flag.value) for name, flag in flags.items()
            ]
        m.d.comb += getattr(self, f"entry{shard}").eq(entry)
        loaded = self._elaborate_loads(
            m, items.at(states.stage).value, states.value, f"state{shard}"
        )
        own_states = pipeline.enter(
            Cat(loaded), f"states{shard}", stage=states.stage + 1, reset_less=True
        )
        m.d.comb += getattr(self, f"states{shard}").eq(own_states.at(here.stage + 1).value)

    def _bits(self, name):
        field = self._entry[name]
        return slice(field.offset, field.offset + field.width)

    def _elaborate_record(self, m, beat, known, asked, numbers, slot):
        """Keep the part of a beat that its results need."""
        stage = self.latency
        m.d.comb += [
            self.slot.eq(slot.at(stage).value),
            self.recorded.eq(beat["arrived"].at(stage).value),
        ]
        shared = {"valid": beat["valid"], "query": beat["query"], "asked": asked, "known": known}
        shared = {name: flags.at(stage).value for name, flags in shared.items()}
        for lane, number in enumerate(numbers):
            record = self.record.lanes[lane]
            m.d.comb += [record[name].eq(flags[lane]) for name, flags in shared.items()]
            m.d.comb += [
                record.number.eq(number.at(stage).value),
                record.tag.eq(beat[f"tag{lane}"].at(stage).value),
            ]
