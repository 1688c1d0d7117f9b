"""From the matches of physical segments to the verdict."""

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer
from ..pipeline import Pipeline
from ..profile import FAN_IN, ceil_log


class MatchReducer(wiring.Component):
    """Whether all parts of each segment hold the key's bit. Latency `latency` cycles.

    Parameters
    ----------
    segments, parts : int

    Members
    -------
    bits : In(segments * parts)
        Bit of part P of segment S at position ``S * parts + P``.
    matches : Out(segments)

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, segments, parts):
        require_integer("Segments", segments, least=1)
        require_integer("Parts", parts, least=1)
        self._segments = segments
        self._parts = parts
        self.latency = max(1, ceil_log(FAN_IN, parts))
        super().__init__({"bits": In(segments * parts), "matches": Out(segments)})

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        matches = []
        for segment in range(self._segments):
            bits = pipe.enter(self.bits.word_select(segment, self._parts), f"bits{segment}")
            matches.append(pipe.all_of(f"segment{segment}", bits, stages=1, reset_less=True))
        m.d.comb += self.matches.eq(Cat(match.value for match in matches))
        pipe.leave(*matches, latency=self.latency)
        return m


class Rotator(wiring.Component):
    """Turn physical segments to logical order, youngest first. Latency `latency` cycles.

    A rotation of as many bits as there are segments, by one binary digit of the
    amount per cycle.

    Parameters
    ----------
    segments : int

    Members
    -------
    i : In(segments)
        One flag per physical segment.
    base : In(range(segments))
        Physical segment that is the youngest.
    o : Out(segments)
        Flag of the youngest segment first; the spare comes last.

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, segments):
        require_integer("Segments", segments, least=1)
        self._segments = segments
        self.latency = ceil_log(2, segments)
        super().__init__({"i": In(segments), "base": In(range(segments)), "o": Out(segments)})

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        flags = pipe.enter(self.i, "i")
        amount = pipe.enter(self.base, "base", reset_less=True)
        for digit in range(self.latency):
            by = (1 << digit) % self._segments
            flags = pipe.register(
                f"turned{digit}",
                lambda turns, flags, by=by: Mux(turns, flags.rotate_right(by), flags),
                amount.at(digit)[digit],
                flags,
                reset_less=True,
            )
        m.d.comb += self.o.eq(flags.value)
        pipe.leave(flags, latency=self.latency)
        return m


class RunDetector(wiring.Component):
    """Find the youngest run of consecutive matches (APBF, section 5.1, query).

    Latency `latency` cycles. Equal in outcome to Algorithm 1, which looks at
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

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, run, starts):
        require_integer("Run", run, least=1)
        require_integer("Starts", starts, least=1)
        self._run = run
        self._starts = starts
        self.latency = ceil_log(FAN_IN, run) + ceil_log(2, starts)
        super().__init__(
            {"matches": In(starts + run - 1), "seen": Out(1), "age": Out(range(starts))}
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        seen, age = self._elaborate_youngest(pipe, self._elaborate_runs(pipe))
        m.d.comb += [
            self.seen.eq(seen.value),
            self.age.eq(age.value & seen.value.replicate(len(age))),
        ]
        pipe.leave(seen, age, latency=self.latency)
        return m

    def _elaborate_runs(self, pipe):
        """Return flags of the runs, by start: spans of matches, grown up to fourfold per cycle."""
        spans, span = pipe.enter(self.matches, "matches"), 1
        while span < self._run:
            longer = min(span * FAN_IN, self._run)
            offsets = sorted({min(step * span, longer - span) for step in range(FAN_IN)})
            starts = range(len(spans) - (longer - span))
            spans = pipe.register(
                f"span{longer}",
                lambda spans, offsets=offsets, starts=starts: Cat(
                    Cat(spans[start + offset] for offset in offsets).all() for start in starts
                ),
                spans,
                reset_less=True,
            )
            span = longer
        return spans

    def _elaborate_youngest(self, pipe, runs):
        """Return whether a flag is set, and the position of the lowest, by halving."""
        none = pipe.enter(Const(0, 1), "none", stage=None)
        candidates = [(runs[start], None) for start in range(self._starts)]
        stage = 0
        while len(candidates) > 1:
            merged = []
            for index in range(0, len(candidates), 2):
                (young, young_age), (old, old_age) = [*candidates, (none, none)][index : index + 2]
                name = f"{stage}_{index // 2}"
                found = pipe.register(
                    f"found{name}", lambda young, old: young | old, young, old, reset_less=True
                )
                ages = () if young_age is None else (young_age, old_age)
                age = pipe.register(
                    f"age{name}",
                    lambda young, *ages: Cat(Mux(young, *ages) if ages else (), ~young),
                    young,
                    *ages,
                    reset_less=True,
                )
                merged.append((found, age))
            candidates = merged
            stage += 1
        found, age = candidates[0]
        return found, age if age is not None else pipe.enter(Cat(), "age", stage=found.stage)


class RingDetector(wiring.Component):
    """Verdict of a ring: the youngest run of segments whose parts all hold the key's bit.

    Latency `latency` cycles.

    Parameters
    ----------
    segments, parts : int
        As the ring has them, the spare included.
    run, starts : int
        As for `RunDetector`.

    Members
    -------
    bits : In(segments * parts)
        As `MatchReducer` has them.
    base : In(range(segments))
        Physical segment that is the youngest; with `bits`.
    seen, age : Out
        As `RunDetector` has them.
    """

    def __init__(self, *, segments, parts, run, starts):
        self.starts = starts
        self.reducer = MatchReducer(segments=segments, parts=parts)
        self.rotator = Rotator(segments=segments)
        self.runs = RunDetector(run=run, starts=starts)
        self.latency = self.reducer.latency + self.rotator.latency + self.runs.latency
        super().__init__(
            {
                "bits": In(segments * parts),
                "base": In(range(segments)),
                "seen": Out(1),
                "age": Out(range(starts)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.reducer = reducer = self.reducer
        m.submodules.rotator = rotator = self.rotator
        m.submodules.runs = runs = self.runs
        pipe = Pipeline(m)
        reduced = pipe.drive(reducer, bits=pipe.enter(self.bits, "bits")) + reducer.latency
        matches = pipe.enter(reducer.matches, "matches", stage=reduced)
        base = pipe.enter(self.base, "base").at(reduced)
        turned = pipe.drive(rotator, i=matches, base=base) + rotator.latency
        logical = pipe.enter(rotator.o, "logical", stage=turned)
        found = pipe.drive(runs, matches=logical[: len(runs.matches)]) + runs.latency
        m.d.comb += [self.seen.eq(runs.seen), self.age.eq(runs.age)]
        pipe.leave(pipe.enter(runs.seen, "seen", stage=found), latency=self.latency)
        return m
