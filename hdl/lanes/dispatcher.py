"""Hashes the keys of a beat and assigns its operations to shards."""

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
from ...golden.hash.siphash import SECRET_BITS
from ..hash.functions import StateHash
from ..hash.siphash import SipHash
from ..interface import operation_bits
from ..monitors import watch_count, watch_way
from ..pipeline import Pipeline, successor
from .beats import BeatRecord, SameBeatKeys, ShiftFinder
from .distributor import Share
from .sequencer import RingCommand


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
        The same number in one-hot form, one cycle later.
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
            # The word times 3 or 6 shards takes one sum.
            self.number.eq(word + (word << 1) >> SHARD_BITS - (self._shards // 6)),
            self.one_hot.eq(Cat(self.number == shard for shard in range(self._shards))),
        ]
        return m


class Dispatcher(wiring.Component):
    """Hashes the keys of a beat and determines the work of each shard.

    Latency `latency` cycles to `share`, one beat per cycle.

    Parameters
    ----------
    profile : RingProfile
    beat : StructLayout
        Payload of a unit's input.
    slots : int

    Members
    -------
    generation : In(generation_bits)
        As for `ShiftFinder`.
    valid, beat : In
    hashed : Out(1)
        The keys of a beat are hashed, some cycles before the beat arrives.
    states : Out(64 * lanes)
        States of these keys.
    arrived : Out(1)
        A beat arrives.
    share : Out(Share)
        Work of this beat, by shard.
    recorded, record, slot : Out
        One cycle later: the inputs of `Collector`.
    performed : Out(lanes + 1)
    inserted : Out(lanes)
    shifted : Out(1)
        Operations and insertions of a beat, and whether the ring shifts, for the counters.
    secret : In(128)
        With siphash only. Must be stable from the cycle after a beat.
    cleared : Out(1)
        With siphash only: this beat starts with a clear.
    illegal : Out(1)
        With self-check only: a beat did not arrive, or a count of beats is wrong.
    """

    def __init__(self, *, profile, beat, slots):
        self._spec = spec = profile.spec
        self._checks = profile.self_check
        self._lanes = spec.lanes
        self._shards = spec.shards
        self._hashes = [
            SipHash(key_bits=spec.key_bits)
            if spec.hash == "siphash"
            else StateHash(key_bits=spec.key_bits, seed=spec.seed, levels=profile.lane_hash_levels)
            for _ in range(spec.lanes)
        ]
        self._hashed = profile.lane_hash_latency
        self.latency = self._hashed + SameBeatKeys.LATENCY + 3
        self._finder = ShiftFinder(
            lanes=spec.lanes,
            generation_bits=profile.generation_bits,
            minimum=profile.minimum_generation,
        )
        super().__init__(
            {
                "generation": In(profile.generation_bits),
                "valid": In(1),
                "beat": In(beat),
                "hashed": Out(1),
                "states": Out(STATE_BITS * spec.lanes),
                "arrived": Out(1),
                "share": Out(Share(lanes=spec.lanes, shards=spec.shards, slots=slots)),
                "recorded": Out(1),
                "record": Out(
                    BeatRecord(
                        lanes=spec.lanes,
                        shards=self._shards,
                        slots=slots,
                        tag_bits=profile.options.tag_bits,
                    )
                ),
                "slot": Out(range(slots)),
                "performed": Out(spec.lanes + 1),
                "inserted": Out(spec.lanes),
                "shifted": Out(1),
            }
            | ({"secret": In(SECRET_BITS), "cleared": Out(1)} if spec.hash == "siphash" else {})
            | ({"illegal": Out(1)} if profile.self_check else {})
        )

    def elaborate(self, platform):
        m = Module()
        self._wrong = []
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
        numbers, one_hots = self._elaborate_select(m, pipeline, states, asked.stage)
        command = beat["command"]
        waits = pipeline.register("waits", lambda turn, cross: turn[0] | cross, command, crosses)
        everyone = pipeline.register(
            "everyone", lambda turn, cross: turn.any() | cross, command, crosses
        )
        items, there = self._elaborate_items(pipeline, asked, one_hots, everyone)
        if self._spec.hash == "siphash":
            m.d.comb += self.cleared.eq(beat["command"].value == RingCommand.CLEAR)
        arrived = beat["arrived"].at(self.latency)
        performed = Cat(beat["valid"].value, command.value.any())
        m.d.comb += [
            self.hashed.eq(beat["arrived"].at(states.stage).value),
            self.states.eq(states.value),
            self.arrived.eq(arrived.value),
            self.performed.eq(performed),
            self.inserted.eq(beat["insert"].value),
            self.shifted.eq(waits.value),
        ]
        slot = self._elaborate_slot(m, pipeline, arrived)
        shared = {"there": there, "shifts": shifts, "turn": command,
                  "waits": waits, "slot": slot}  # fmt: skip
        self._elaborate_share(m, shared | {name: beat[name] for name in ("query", "insert")}, items)
        self._elaborate_record(m, beat, known, asked, numbers, there, slot)
        if self._checks:
            way = watch_way(m, self.valid, self.recorded, self.latency + 1, "recorded")
            m.d.comb += self.illegal.eq(Cat(way, *self._wrong).any())
        return m

    def _elaborate_beat(self, pipeline):
        """Return the operations of a beat, of its lanes, and its tags."""
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
            key = pipeline.enter(self.beat.lanes[lane].key, f"key{lane}", reset_less=True)
            pipeline.drive(key_hash, key=key.at(self._hashed - key_hash.latency))
            if "secret" in key_hash.signature.members:
                m.d.comb += key_hash.secret.eq(self.secret)
            states.append(key_hash.state)
        return pipeline.enter(Cat(states), "states", stage=self._hashed)

    def _elaborate_select(self, m, pipeline, states, stage):
        """Return each lane's shard at a stage, as numbers and one-hot."""
        numbers, one_hots = [], []
        for lane in range(self._lanes):
            m.submodules[f"select{lane}"] = select = ShardSelect(spec=self._spec)
            m.d.comb += select.state.eq(states.value.word_select(lane, STATE_BITS))
            known = states.stage + select.LATENCY
            number = pipeline.enter(select.number, f"number{lane}", stage=known)
            one_hot = pipeline.enter(select.one_hot, f"one_hot{lane}", stage=known + 1)
            numbers.append(number.at(stage))
            one_hots.append(one_hot.at(stage))
        return numbers, one_hots

    def _elaborate_repeats(self, m, pipeline, states, insert):
        """Return which lanes have a key that an earlier lane of the beat inserts."""
        m.submodules.repeats = repeats = SameBeatKeys(lanes=self._lanes)
        pipeline.drive(repeats, states=states)
        inserts = insert.at(states.stage + repeats.INSERTS_LAG)
        pipeline.drive(repeats, inserts=inserts)
        return pipeline.enter(repeats.repeats, "repeats", stage=states.stage + repeats.LATENCY)

    def _elaborate_shifts(self, m, pipeline, beat):
        """Return the lane whose insertion turns the ring."""
        m.submodules.finder = finder = self._finder
        m.d.comb += finder.generation.eq(self.generation)
        turn = pipeline.combine("turn", lambda command: command.any(), beat["command"])
        stage = pipeline.drive(finder, turn=turn, inserts=beat["insert"])
        return pipeline.enter(finder.shifts, "shifts", stage=stage + finder.LATENCY)

    def _elaborate_slot(self, m, pipeline, arrived):
        """Number the beats."""
        slot = Signal(self.share.slot.shape())
        with m.If(arrived.value):
            m.d.sync += slot.eq(successor(slot))
        if self._checks:
            self._wrong.append(watch_count(m, slot, "slot", more=arrived.value))
        return pipeline.enter(slot, "slot", stage=arrived.stage)

    def _elaborate_items(self, pipeline, asked, one_hots, everyone):
        """Return the lanes that each shard serves, and the shards that have work."""
        items = [
            pipeline.register(
                f"items{shard}", lambda asked, *bits: Cat(bits) & asked,
                asked, *(one_hot[shard] for one_hot in one_hots),
            )
            for shard in range(self._shards)
        ]  # fmt: skip
        there = pipeline.register(
            "there",
            lambda everyone, *items: Cat(bits.any() | everyone for bits in items),
            everyone.at(items[0].stage), *items,
        )  # fmt: skip
        return items, there

    def _elaborate_share(self, m, shared, items):
        """Drive the work of the shards: the common part, and the items of each shard."""
        share = self.share.as_value()
        for name, value in shared.items():
            field = self.share.shape()[name]
            part = share[field.offset : field.offset + field.width]
            m.d.comb += part.eq(value.at(self.latency).value)
        for shard, own in enumerate(items):
            m.d.comb += self.share.items[shard].eq(own.at(self.latency).value)

    def _elaborate_record(self, m, beat, known, asked, numbers, there, slot):
        """Record the part of a beat that its results need."""
        stage = self.latency + 1
        m.d.comb += [
            self.recorded.eq(beat["arrived"].at(stage).value),
            self.slot.eq(slot.at(stage).value),
        ]
        for shard in range(self._shards):
            # Entries that the shard has received, including this beat's.
            entries = Signal.like(self.record.required[shard], name=f"entries{shard}")
            m.d.comb += self.record.required[shard].eq(entries)
            arrived = beat["arrived"].at(self.latency).value
            more = there.at(self.latency).value[shard]
            with m.If(arrived):
                m.d.sync += entries.eq(entries + more)
            if self._checks:
                wrong = watch_count(m, entries, f"entries{shard}", more=arrived & more)
                self._wrong.append(wrong)
        shared = {"valid": beat["valid"], "query": beat["query"], "asked": asked, "known": known}
        shared = {name: flags.at(stage).value for name, flags in shared.items()}
        for lane, number in enumerate(numbers):
            record = self.record.lanes[lane]
            m.d.comb += [record[name].eq(flags[lane]) for name, flags in shared.items()]
            m.d.comb += [
                record.number.eq(number.at(stage).value),
                record.tag.eq(beat[f"tag{lane}"].at(stage).value),
            ]
