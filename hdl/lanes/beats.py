"""Beats: groups of operations, one per lane, that a unit accepts in the same cycle."""

from itertools import accumulate

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.enum import Enum
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import STATE_BITS
from ..latencies import MINIMUM_BEATS
from ..pipeline import FAN_IN, Pipeline, registered


class ShiftFinder(wiring.Component):
    """Finds the lane whose insertion shifts the ring because the generation is complete."""

    LATENCY = 7
    LOOK = 4

    def __init__(self, *, lanes, generation_bits, minimum):
        check_lanes(lanes)
        if not lanes * MINIMUM_BEATS <= minimum < 1 << generation_bits:
            raise ValueError(
                f"Minimum must be at least {lanes * MINIMUM_BEATS} and fit in {generation_bits} "
                f"bits, not {minimum!r}"
            )
        self._lanes = lanes
        self._minimum = minimum
        super().__init__(
            {
                # Insertions in a generation. Sampled with the SHIFT or CLEAR that starts the
                # generation, or `LOOK` cycles after the insertion that starts it.
                "generation": In(generation_bits),
                "turn": In(1),  # a SHIFT or CLEAR starts a generation before this beat
                "inserts": In(lanes),
                "shifts": Out(lanes),  # lane whose insertion carries the shift, one-hot or 0
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipeline = Pipeline(m)
        inserts = pipeline.enter(self.inserts, "inserts").at(1)
        # After reset, a generation begins like after a CLEAR.
        starts = Signal(3, init=1)
        m.d.sync += starts.eq(starts << 1)
        turns = pipeline.enter(self.turn | starts[-1], "turns").at(2)
        counts = [*accumulate(inserts.value, initial=Const(0))]
        # Insertions of the generation, minus its length, minus one: the sign shows when it is over.
        # The count has two digits, the high digit one cycle later.
        width = len(self.generation) + 2
        digit = width // 2
        left_low = Signal(digit, init=(1 << digit) - 1)
        left_high = Signal(width - digit, init=(1 << width - digit) - 1)
        count = pipeline.register("inserted", lambda inserts: counts[-1], inserts)
        begun, count = self._elaborate_changes(m, pipeline, width - digit, digit, turns, count)
        change = Signal(digit)
        carry = Signal()
        turn = Signal(2)
        over = Signal()
        # A SHIFT or CLEAR in between has started a generation itself.
        quiet = registered(m, ~Cat(turns.value, turn).any(), "quiet")
        m.d.sync += [
            turn.eq(Cat(turns.value, turn)),
            change.eq(Mux(over, begun[0].value, count[0].value)),
            Cat(left_low, carry).eq(left_low + change),
        ]
        # Low digit of the count before the beat.
        before = pipeline.enter(left_low, "before", stage=count[0].stage + 1)
        over_late = registered(m, over, "over_late")
        change_high = pipeline.register(
            "change_high", lambda begun, count: Mux(over_late, begun, count), begun[1], count[1]
        )
        # One adder: its lowest bit generates a carry if `carry` is set.
        high = (Cat(1, left_high) + Cat(carry, change_high.value))[1 : 1 + len(left_high)]
        after = pipeline.register(
            "after", lambda bits: bits[-1], pipeline.enter(high, "high", stage=change_high.stage)
        )
        # Sign of the count before the beat.
        negative = registered(m, left_high[-1], "negative")
        m.d.sync += left_high.eq(high)
        # Restart the count for a beat that starts with a SHIFT or CLEAR, just before the beat's
        # change is added.
        with m.If(turn[0]):
            m.d.sync += left_low.eq(-1)
        with m.If(turn[1]):
            m.d.sync += left_high.eq(-1)
        over_now = negative & ~after.value
        m.d.sync += over.eq(over_now & quiet)
        self._elaborate_insertion(m, pipeline, after.stage, over_now, inserts, counts, before)
        return m

    def _elaborate_changes(self, m, pipeline, high_bits, low_bits, turns, count):
        """Return by how much a beat changes the insertion count, as two pairs of digits.

        The first pair applies if a generation ends before the beat; otherwise the second pair
        applies. The high digit of each pair is valid one cycle after its low digit.
        """
        length = registered(m, self.generation, "length")
        enough = registered(m, self.generation >= self._minimum, "enough")
        minimum = Signal(high_bits + low_bits, name="minimum")
        m.d.sync += minimum.eq(Mux(enough, length, self._minimum))
        begun = pipeline.register(
            "begun", lambda count: (count - minimum[:low_bits])[: low_bits + 1], count
        )
        count = pipeline.register(
            "count",
            lambda turns, count: Mux(turns, (count - minimum[:low_bits])[:low_bits], count),
            turns,
            count,
        )
        minimum_high = registered(m, minimum[low_bits:], "minimum_high")
        minus_high = registered(m, (-minimum[low_bits:])[:high_bits], "minus_high")

        def high(begun):
            # The count has no high digit yet, only the borrow of the low digit.
            return Mux(begun[low_bits], ~minimum_high, minus_high)

        begun_high = pipeline.register("begun_high", high, begun)
        count_high = pipeline.register(
            "count_high", lambda turns, begun: Mux(turns, high(begun), 0), turns, begun
        )
        return (begun[:low_bits], begun_high), (count, count_high)

    def _elaborate_insertion(self, m, pipeline, stage, over, inserts, counts, before):
        low = (self._lanes - 1).bit_length()
        ordinals = Cat(count[:low] if len(count) >= low else Cat(count, Const(0, low - len(count)))
                       for count in counts[:-1])  # fmt: skip
        ordinals = pipeline.enter(ordinals, "ordinals", stage=inserts.stage).at(stage).value
        before = before[:low].at(stage).value
        inserts = inserts.at(stage).value
        m.d.sync += self.shifts.eq(
            Cat(
                over & inserts[lane] & (ordinals.word_select(lane, low) == ~before)
                for lane in range(self._lanes)
            )
        )


class SameBeatKeys(wiring.Component):
    """Finds the lanes whose keys are inserted by an earlier lane of the same beat."""

    LATENCY = 5
    INSERTS_LAG = LATENCY - 2

    def __init__(self, *, lanes):
        check_lanes(lanes)
        self._lanes = lanes
        super().__init__(
            # `inserts` follow `states` by `INSERTS_LAG` cycles.
            {"states": In(STATE_BITS * lanes), "inserts": In(lanes), "repeats": Out(lanes)}
        )

    def elaborate(self, platform):
        m = Module()
        states = [self.states.word_select(lane, STATE_BITS) for lane in range(self._lanes)]
        repeats = []
        for lane in range(self._lanes):
            repeated = Signal(max(1, lane), name=f"repeated{lane}")
            for earlier in range(lane):
                same = self._elaborate_equal(
                    m, states[earlier], states[lane], f"same{earlier}_{lane}_"
                )
                m.d.sync += repeated[earlier].eq(same & self.inserts[earlier])
            repeats.append(repeated.any())
        m.d.sync += self.repeats.eq(Cat(repeats))
        return m

    def _elaborate_equal(self, m, first, second, name):
        """Return whether two states were equal three cycles ago; the last gate has no register."""
        terms = [first[at : at + 2] == second[at : at + 2] for at in range(0, STATE_BITS, 2)]
        for stage in range(3):
            terms = registered(m, Cat(terms), f"{name}{stage}")
            terms = [terms[at : at + FAN_IN].all() for at in range(0, len(terms), FAN_IN)]
        return Cat(terms).all()


def check_lanes(lanes):
    if lanes not in (2, 4):
        raise ValueError(f"Lanes must be 2 or 4, not {lanes!r}")


def count_bits(slots):
    """Return the width of the entry counters, which wrap around."""
    return max(8, slots.bit_length())


class BeatRecord(data.StructLayout):
    """Fields of a beat that are stored until the results of the beat arrive."""

    def __init__(self, *, lanes, shards, slots, tag_bits):
        lane = data.StructLayout(
            {
                "valid": 1,
                "asked": 1,  # a shard performs the operation
                "known": 1,  # an earlier lane of the beat inserts the key
                "query": 1,
                "number": range(shards),  # number of the shard
                "tag": tag_bits,
            }
        )
        super().__init__(
            {
                "lanes": data.ArrayLayout(lane, lanes),
                # Entries that each shard must have finished, modulo a power of two.
                "required": data.ArrayLayout(count_bits(slots), shards),
            }
        )


class RingCommand(Enum, shape=2):
    """Ring operation that takes effect before the other operations of a beat."""

    NONE = 0
    SHIFT = 1
    CLEAR = 2


def steps_layout(lanes):
    """Return the layout of the steps of an entry.

    The code of a step is the number of its lane, or `lanes` for a SHIFT or CLEAR. Bit i of ``more``
    is set if step i + 1 exists.
    """
    return data.StructLayout(
        {"codes": data.ArrayLayout(range(lanes + 1), lanes + 1), "more": lanes}
    )


def ordered_steps(m, wanted):
    """Return the steps for the flags in `wanted`, one cycle later.

    There is one flag for each lane, and a top flag for a SHIFT or CLEAR.
    """
    lanes = len(wanted) - 1
    of_lanes = data.StructLayout(
        {"codes": data.ArrayLayout(range(lanes + 1), lanes), "there": lanes}
    )
    table = []
    for flags in range(1 << lanes):
        codes = [lane for lane in range(lanes) if flags >> lane & 1]
        there = (1 << len(codes)) - 1
        codes += [0] * (lanes - len(codes))
        table.append(of_lanes.const({"codes": codes, "there": there}).as_value())
    ordered = data.View(of_lanes, registered(m, Value.cast(Array(table)[wanted[:-1]]), "ordered"))
    codes, turns = ordered.codes.as_value(), registered(m, wanted[-1], "turns")
    first = Const(lanes, len(codes) // lanes)
    return Cat(
        Mux(turns, Cat(first, codes), Cat(codes, Const(0, len(first)))),
        Mux(turns, ordered.there, ordered.there[1:]),
    )


class Entry(data.StructLayout):
    """Operations of a beat that one shard performs; each mask has one bit per lane."""

    def __init__(self, *, lanes, slots):
        super().__init__(
            {
                "items": lanes,  # lanes with an operation for this shard
                "query": lanes,
                "insert": lanes,
                "shifts": lanes,  # lane whose insertion carries the shift, in any shard
                "turn": RingCommand,
                "waits": 1,  # the ring shifts, by a command or an insertion
                "slot": range(slots),  # number of the beat
            }
        )


class OrderedEntry(data.StructLayout):
    """`Entry` with its steps; ``query`` and ``insert`` are 0 in lanes that other shards serve."""

    def __init__(self, entry):
        lanes = entry["items"].width
        members = {name: field.shape for name, field in entry}
        super().__init__({"steps": steps_layout(lanes)} | members)


class Share(data.StructLayout):
    """Operations of a beat for all shards: the fields of `Entry`, but with ``items`` per shard."""

    def __init__(self, *, lanes, shards, slots):
        common = {name: field.shape for name, field in Entry(lanes=lanes, slots=slots)}
        super().__init__(
            common
            | {
                "items": data.ArrayLayout(lanes, shards),  # lanes with an operation for each shard
                "there": shards,  # shards that receive an entry
            }
        )
