"""Dispatch of beats: keys are hashed, and each shard receives its operations."""

from amaranth.hdl import Cat, Module, Signal, signed
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
from ..latencies import DISPATCH_LATENCY, SHARD_CAPACITY
from ..memory.paged import PagedMemory
from ..monitors import watch_count, watch_way
from ..parameters import require_integer, require_power_of_two
from ..pipeline import Pipeline, registered, successor
from .beats import BeatRecord, Entry, RingCommand, SameBeatKeys, Share, ShiftFinder, check_lanes


class ShardSelect(wiring.Component):
    """Selects a shard by the hash state of a key; accepts one state per cycle."""

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
                "one_hot": Out(self._shards),  # the same number in one-hot form, one cycle later
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
            # Multiplies the word by 3 or 6 shards with one addition.
            self.number.eq(word + (word << 1) >> SHARD_BITS - (self._shards // 6)),
            self.one_hot.eq(Cat(self.number == shard for shard in range(self._shards))),
        ]
        return m


class Dispatcher(wiring.Component):
    """Hashes the keys of a beat and computes the work of each shard; accepts one beat per cycle."""

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
        self.latency = self._hashed + DISPATCH_LATENCY
        self._finder = ShiftFinder(
            lanes=spec.lanes,
            generation_bits=profile.generation_bits,
            minimum=profile.minimum_generation,
        )
        super().__init__(
            {
                "generation": In(profile.generation_bits),  # see `ShiftFinder`
                "valid": In(1),
                "beat": In(beat),
                # the keys of a beat are hashed, some cycles before the beat arrives
                "hashed": Out(1),
                "states": Out(STATE_BITS * spec.lanes),  # states of these keys
                "arrived": Out(1),  # a beat arrives
                # Work of this beat for all shards.
                "share": Out(Share(lanes=spec.lanes, shards=spec.shards, slots=slots)),
                # Inputs of `Collector`, one cycle later.
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
                # Events of the counters.
                "performed": Out(spec.lanes + 1),
                "inserted": Out(spec.lanes),
                "shifted": Out(1),
            }
            # `secret` must be stable from the cycle after a beat. `cleared`: the beat starts with a
            # clear.
            | ({"secret": In(SECRET_BITS), "cleared": Out(1)} if spec.hash == "siphash" else {})
            # A beat did not arrive, or a count of beats is wrong.
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
        """Return the shard of each lane at `stage`, first as numbers and then in one-hot form."""
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
        m.submodules.repeats = repeats = SameBeatKeys(lanes=self._lanes)
        pipeline.drive(repeats, states=states)
        inserts = insert.at(states.stage + repeats.INSERTS_LAG)
        pipeline.drive(repeats, inserts=inserts)
        return pipeline.enter(repeats.repeats, "repeats", stage=states.stage + repeats.LATENCY)

    def _elaborate_shifts(self, m, pipeline, beat):
        m.submodules.finder = finder = self._finder
        m.d.comb += finder.generation.eq(self.generation)
        turn = pipeline.combine("turn", lambda command: command.any(), beat["command"])
        stage = pipeline.drive(finder, turn=turn, inserts=beat["insert"])
        return pipeline.enter(finder.shifts, "shifts", stage=stage + finder.LATENCY)

    def _elaborate_slot(self, m, pipeline, arrived):
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
        share = self.share.as_value()
        for name, value in shared.items():
            field = self.share.shape()[name]
            part = share[field.offset : field.offset + field.width]
            m.d.comb += part.eq(value.at(self.latency).value)
        for shard, lanes in enumerate(items):
            m.d.comb += self.share.items[shard].eq(lanes.at(self.latency).value)

    def _elaborate_record(self, m, beat, known, asked, numbers, there, slot):
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


class Distributor(wiring.Component):
    """Stores beats until all shards have room, then sends each shard its entry.

    At most one beat leaves per cycle. There is no overflow check: at most `depth` beats may be in
    flight, including beats for which only the hash states have arrived.
    """

    PLACES = SHARD_CAPACITY  # capacity of a shard's queue

    def __init__(self, *, lanes, shards, slots, depth, copies=1, check=False):
        check_lanes(lanes)
        require_integer("Shards", shards, minimum=1)
        require_power_of_two("Slots", slots, minimum=2)
        self.depth = depth
        self._lanes = lanes
        self._shards = shards
        self._share = Share(lanes=lanes, shards=shards, slots=slots)
        self._entry = Entry(lanes=lanes, slots=slots)
        self._beats, self._states = (
            PagedMemory(
                depth=depth,
                width=width,
                number=number,
                memories=2,
                far=True,
                # Few words share registers, because shards in all corners of the chip pull the
                # words apart.
                share=24,
                copies=copies,
            )
            for number, width in enumerate((self._share.size, STATE_BITS * lanes))
        )
        # Entries that may still be sent after a shard has run out of room.
        self._lag = self._beats.latency + 4
        self._checks = check
        super().__init__(
            {
                "hashed": In(1),  # the states of a beat arrive, before the beat or with it
                "states": In(STATE_BITS * lanes),
                "arrived": In(1),  # a beat arrives
                "share": In(self._share),  # work of this beat for all shards
                "taken": In(shards),  # an entry has left the queue of a shard
                "left": Out(1),  # a beat has left
                "valid": Out(shards),  # a shard receives an entry
            }
            | {f"entry{shard}": Out(self._entry) for shard in range(shards)}
            | {f"states{shard}": Out(STATE_BITS * lanes) for shard in range(shards)}
            # A count is wrong.
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        self._wrong = []
        m.submodules.beats = beats = self._beats
        m.submodules.states = states = self._states
        room = Signal()
        pops = Signal()
        read = Signal(range(self.depth))
        # Stored beats, minus one.
        more = Signal(signed(self.depth.bit_length() + 1), init=-1)
        self._elaborate_memory(m, "beats", beats, self.arrived, self.share, read)
        self._elaborate_memory(m, "states", states, self.hashed, self.states, read)
        m.d.sync += [
            # Another beat leaves if one is stored in addition to a beat that leaves now.
            pops.eq(room & ~more[-1] & (more.any() | ~pops)),
            more.eq(more + self.arrived - pops),
            self.left.eq(pops),
        ]
        with m.If(pops):
            m.d.sync += read.eq(successor(read))
        pipeline = Pipeline(m)
        share = Signal(self._share)
        m.d.comb += share.eq(beats.word)
        arrives = pipeline.enter(pops, "pops").at(beats.latency)
        there = pipeline.combine(
            "there",
            lambda share, pops: share.there & pops.replicate(self._shards),
            pipeline.enter(share, "share", stage=beats.latency),
            arrives,
        )
        credits = []
        for shard in range(self._shards):
            self._elaborate_entry(m, shard, share, there.value[shard])
            credits.append(self._elaborate_credit(m, shard))
        m.d.sync += room.eq(Cat(credits).all())
        if self._checks:
            self._wrong += [
                watch_count(m, read, "read", more=pops),
                watch_count(m, more, "more", more=self.arrived, less=pops),
                watch_way(m, pops, arrives.value, beats.latency, "pops"),
            ]
            m.d.comb += self.illegal.eq(Cat(self._wrong).any())
        return m

    def _elaborate_credit(self, m, shard):
        """Return whether a shard has room for all entries that may be in transit."""
        change = Signal(signed(2), name=f"change{shard}")
        left = Signal(signed(self.PLACES.bit_length() + 1), name=f"left{shard}",
                      init=self.PLACES - 2 - self._lag)  # fmt: skip
        # The signal arrives from a corner of the chip.
        taken = registered(m, self.taken[shard], f"taken{shard}")
        m.d.sync += [
            change.eq(taken - self.valid[shard]),
            left.eq(left + change),
        ]
        if self._checks:
            events = registered(m, Cat(taken, self.valid[shard]), f"events{shard}")
            wrong = watch_count(m, left, f"left{shard}", more=events[0], less=events[1])
            self._wrong.append(wrong)
        return left >= 0

    def _elaborate_memory(self, m, name, memory, comes, value, read):
        written = Signal(range(self.depth), name=f"{name}_written")
        with m.If(comes):
            m.d.sync += written.eq(successor(written))
        m.d.comb += [
            memory.write.eq(comes),
            memory.write_address.eq(written),
            memory.value.eq(value),
            memory.read_address.eq(read),
        ]
        if self._checks:
            self._wrong.append(watch_count(m, written, f"{name}_written", more=comes))

    def _elaborate_entry(self, m, shard, share, goes):
        """Drive the entry of a shard from separate registers, which synthesis cannot merge."""
        here = registered(m, goes, f"here{shard}")
        entry = Signal(self._entry)
        m.d.comb += [
            entry[name].eq(share.items[shard] if name == "items" else share[name])
            for name, _field in self._entry
        ]
        states = [
            registered(m, self._states.word.word_select(lane, STATE_BITS), f"state{shard}_{lane}",
                       reset_less=True, enable=share.items[shard][lane])
            for lane in range(self._lanes)
        ]  # fmt: skip
        m.d.comb += [
            self.valid[shard].eq(here),
            getattr(self, f"entry{shard}").eq(
                registered(m, entry, f"on_way{shard}", reset_less=True, enable=share.there[shard])
            ),
            getattr(self, f"states{shard}").eq(Cat(states)),
        ]
