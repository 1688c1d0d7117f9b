"""From the matches of physical segments to the verdict."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..profile import FAN_IN, ceil_log


class MatchReducer(wiring.Component):
    """Whether all parts of each segment hold the key's bit. Latency `latency` clocks.

    Members
    -------
    bits : In(segments * parts)
        Bit of part P of segment S at position ``S * parts + P``.
    matches : Out(segments)
    """

    def __init__(self, *, segments, parts):
        self._segments = segments
        self._parts = parts
        self.latency = max(1, ceil_log(FAN_IN, parts))
        super().__init__({"bits": In(segments * parts), "matches": Out(segments)})

    def elaborate(self, platform):
        m = Module()
        groups = [self.bits.word_select(index, self._parts) for index in range(self._segments)]
        for stage in range(self.latency):
            reduced = []
            for index, group in enumerate(groups):
                slices = [group[low : low + FAN_IN] for low in range(0, len(group), FAN_IN)]
                both = Signal(len(slices), name=f"all{stage}_{index}", reset_less=True)
                m.d.sync += both.eq(Cat(part.all() for part in slices))
                reduced.append(both)
            groups = reduced
        m.d.comb += self.matches.eq(Cat(groups))
        return m


class Align(wiring.Component):
    """Turn physical segments to logical order, youngest first. Latency `latency` clocks.

    A rotation of as many bits as there are segments, one binary digit of the
    amount per clock.

    Members
    -------
    i : In(segments)
        One flag per physical segment.
    base : In(range(segments))
        Physical segment that is the youngest.
    o : Out(segments)
        Flag of the youngest segment first; the spare comes last.
    """

    def __init__(self, *, segments):
        self._segments = segments
        self.latency = ceil_log(2, segments)
        super().__init__({"i": In(segments), "base": In(range(segments)), "o": Out(segments)})

    def elaborate(self, platform):
        m = Module()
        flags, amount = self.i, self.base
        for digit in range(self.latency):
            turned = Signal(self._segments, name=f"turned{digit}", reset_less=True)
            m.d.sync += turned.eq(
                Mux(amount[0], flags.rotate_right((1 << digit) % self._segments), flags)
            )
            rest = Signal(max(0, len(amount) - 1), name=f"amount{digit}", reset_less=True)
            m.d.sync += rest.eq(amount[1:])
            flags, amount = turned, rest
        m.d.comb += self.o.eq(flags)
        return m


class RunDetector(wiring.Component):
    """Find the youngest run of consecutive matches (APBF, section 5.1, query).

    Latency `latency` clocks. Equal in outcome to Algorithm 1, which looks at
    one segment at a time; here all are at hand.

    Parameters
    ----------
    run : int
        Length of a run (k); 1 reports any match (GEBF).
    starts : int
        Segments at which a run may start (l + 1).

    Members
    -------
    matches : In(starts + run - 1)
        Youngest segment first.
    seen : Out(1)
    age : Out(range(starts))
        Start of the youngest run; 0 if there is none.
    """

    def __init__(self, *, run, starts):
        self._run = run
        self._starts = starts
        self.latency = ceil_log(FAN_IN, run) + ceil_log(2, starts)
        super().__init__(
            {"matches": In(starts + run - 1), "seen": Out(1), "age": Out(range(starts))}
        )

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self._priority(m, self._runs(m))
        return m

    def _runs(self, m):
        """Return flags of the runs, by start: spans of matches, grown up to fourfold per clock."""
        spans, span = self.matches, 1
        for stage in range(ceil_log(FAN_IN, self._run)):
            longer = min(span * FAN_IN, self._run)
            offsets = sorted({min(step * span, longer - span) for step in range(FAN_IN)})
            grown = Signal(len(spans) - (longer - span), name=f"span{stage}", reset_less=True)
            m.d.sync += grown.eq(
                Cat(
                    Cat(spans[start + offset] for offset in offsets).all()
                    for start in range(len(grown))
                )
            )
            spans, span = grown, longer
        return spans

    def _priority(self, m, runs):
        """Assign the lowest set flag and its position, by halving."""
        none = (0, Cat())
        candidates = [(runs[start], Cat()) for start in range(self._starts)]
        for stage in range(ceil_log(2, self._starts)):
            merged = []
            for index in range(0, len(candidates), 2):
                young, young_age = candidates[index]
                old, old_age = [*candidates, none][index + 1]
                found = Signal(name=f"found{stage}_{index // 2}", reset_less=True)
                age = Signal(stage + 1, name=f"age{stage}_{index // 2}", reset_less=True)
                m.d.sync += [
                    found.eq(young | old),
                    age.eq(Cat(Mux(young, young_age, old_age), ~young)),
                ]
                merged.append((found, age))
            candidates = merged
        found, age = candidates[0]
        return [self.seen.eq(found), self.age.eq(age & found.replicate(len(age)))]
