"""Knowledge about whole beats: where the ring turns, which keys repeat, what results need."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.functions import (
    STATE_BITS,
)
from ..pipeline import delayed, registered
from ..profile import FAN_IN, MINIMUM_BEATS


class ShiftFinder(wiring.Component):
    """Finds the insertion for which the ring turns: the first after `generation` others.

    Latency `LATENCY` cycles, one beat per cycle. At least
    ``lately.hdl.profile.MINIMUM_BEATS`` beats lie between two such insertions.

    Members
    -------
    turn : In(1)
        The ring turns before this beat; the generation begins anew.
    inserts : In(lanes)
    shifts : Out(lanes)
        One bit at most.

    Raises
    ------
    ValueError
        If there are not 2 or 4 lanes, or the generation is too short.
    """

    LATENCY = 6

    def __init__(self, *, lanes, generation):
        check_lanes(lanes)
        if generation < lanes * MINIMUM_BEATS:
            raise ValueError(
                f"Generation must be at least {lanes * MINIMUM_BEATS}, not {generation!r}"
            )
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
        # In two digits, the high one a cycle later.
        width = generation.bit_length() + 2
        digit = width // 2
        # They begin with what a turn sets them to, so that registers need no gate for it.
        left_low = Signal(digit, init=(1 << digit) - 1)
        left_high = Signal(width - digit, init=(1 << width - digit) - 1)
        begun, count = self._elaborate_changes(m, width, inserts, turns, counts[lanes])
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

    def _elaborate_changes(self, m, width, inserts, turns, count):
        """Return by how much a beat changes the count, a cycle late.

        First if a generation is found to be over before it, then if not.
        """
        # From a table: an adder is too slow.
        after_turn = [flags.bit_count() - self._generation for flags in range(1 << self._lanes)]
        table = Array(Const(change % (1 << width), width) for change in after_turn)
        if_over = Value.cast(table[inserts])
        begun = registered(m, if_over, "begun")
        return begun, registered(m, Mux(turns, if_over, count), "count")


class SameBeatKeys(wiring.Component):
    """Finds lanes whose key an earlier lane of the beat inserts. Latency `LATENCY` cycles.

    Members
    -------
    states : In(64 * lanes)
    inserts : In(lanes)
        `INSERTS_LAG` cycles later.
    repeats : Out(lanes)

    Raises
    ------
    ValueError
        If there are not 2 or 4 lanes.
    """

    LATENCY = 5
    INSERTS_LAG = LATENCY - 2

    def __init__(self, *, lanes):
        check_lanes(lanes)
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
        """Return whether two states are equal, three cycles later but for a last gate."""
        terms = [first[at : at + 2] == second[at : at + 2] for at in range(0, STATE_BITS, 2)]
        for stage in range(3):
            terms = registered(m, Cat(terms), f"{name}{stage}")
            terms = [terms[at : at + FAN_IN].all() for at in range(0, len(terms), FAN_IN)]
        return Cat(terms).all()


def check_lanes(lanes):
    """Refuse a number of lanes that no unit has.

    Raises
    ------
    ValueError
        If there are not 2 or 4.
    """
    if lanes not in (2, 4):
        raise ValueError(f"Lanes must be 2 or 4, not {lanes!r}")


class BeatRecord(data.StructLayout):
    """The part of a beat that is kept until its results arrive.

    Members: for each lane ``valid``, ``asked`` (a shard has the answer),
    ``known`` (an earlier lane has just inserted the key), ``query``, ``number``
    (of the shard) and ``tag``; ``required``, the number of entries that each
    shard must have finished.

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
