"""Detector of a ring: bits of the physical segments in, verdict out."""

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import Verdict
from ..latencies import (
    DEFAULT_LEVELS,
    FAN_IN,
    ceil_log,
    detector_steps,
)
from ..parameters import require_integer
from ..pipeline import Pipeline


class RingDetector(wiring.Component):
    """Finds the youngest run of segments in which every part holds the key's bit.

    Latency `latency` cycles, one operation per cycle. The result equals Algorithm 1 of the APBF
    paper (section 5.1, query). The algorithm visits segments in turn; this circuit uses all.

    Parameters
    ----------
    segments : int
        Physical segments, including the spare; at least ``run + starts - 1``.
    parts : int
    run : int
        Length of a run (k); 1 reports any match (GEBF).
    starts : int
        Possible first segments of a run (l + 1).
    levels : int
        See `Pipeline`.

    Members
    -------
    bits : In(segments * parts)
        Bit of part P of segment S at position ``S * parts + P``; may come from one level of
        LUTs.
    base : In(range(segments))
        The youngest physical segment; with `bits`.
    query : In(1)
        Whether the operation is a query; with `bits`.
    matches : Out(segments)
        Whether all parts of each segment hold the bit, from the youngest segment to the spare;
        `matches_latency` cycles after `bits`.
    verdict : Out(Verdict)
        Start of the youngest run; 0 if there is no run or no query.

    Errors: as `require_integer`.
    """

    def __init__(self, *, segments, parts, run, starts, levels=DEFAULT_LEVELS):
        require_integer("Parts", parts, least=1)
        require_integer("Run", run, least=1)
        require_integer("Starts", starts, least=1)
        require_integer("Segments", segments, least=run + starts - 1)
        require_integer("Levels", levels, least=1)
        self._segments = segments
        self._parts = parts
        self._run = run
        self.starts = starts
        self._levels = levels
        figures = {"parts": parts, "segments": segments, "run": run, "generations": starts - 1}
        terms = detector_steps(**figures)
        self.latency = -(-sum(terms.values()) // levels)
        self.matches_latency = (terms["match"] + terms["rotate"]) // levels
        super().__init__(
            {
                "bits": In(segments * parts),
                "base": In(range(segments)),
                "query": In(1),
                "matches": Out(segments),
                "verdict": Out(Verdict(ages=starts)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, levels=self._levels)
        matches = self._elaborate_rotation(pipe, self._elaborate_matches(pipe))
        runs = self._elaborate_runs(pipe, matches)
        query = pipe.enter(self.query, "query")
        verdict = self._elaborate_youngest(pipe, runs, query).settled()
        m.d.comb += [
            self.matches.eq(matches.value),
            self.verdict.as_value().eq(verdict.value),
        ]
        pipe.leave(matches, latency=self.matches_latency)
        pipe.leave(verdict, latency=self.latency)
        return m

    def _elaborate_matches(self, pipe):
        """Return flags of the physical segments: whether all parts hold the key's bit."""
        matches = [
            pipe.all_of(
                f"segment{segment}",
                pipe.enter(self.bits.word_select(segment, self._parts), f"bits{segment}", levels=1),
                steps=1,
                reset_less=True,
            )
            for segment in range(self._segments)
        ]
        return pipe.combine("matches", lambda *flags: Cat(flags), *matches)

    def _elaborate_rotation(self, pipe, flags):
        """Return flags of the logical segments, by one binary digit of the base per step."""
        base = pipe.enter(self.base, "base", reset_less=True)
        for digit in range(ceil_log(2, self._segments)):
            flags = pipe.step(
                f"turned{digit}",
                lambda base, flags, digit=digit: Mux(
                    base[digit], flags.rotate_right((1 << digit) % self._segments), flags
                ),
                base.at(flags.stage),
                flags,
                reset_less=True,
            )
        return flags

    def _elaborate_runs(self, pipe, spans):
        """Return flags of the runs, by start; each step extends the spans up to fourfold."""
        span = 1
        while span < self._run:
            longer = min(span * FAN_IN, self._run)
            offsets = sorted({min(step * span, longer - span) for step in range(FAN_IN)})
            starts = range(len(spans) - (longer - span))
            spans = pipe.step(
                f"span{longer}",
                lambda spans, offsets=offsets, starts=starts: Cat(
                    Cat(spans[start + offset] for offset in offsets).all() for start in starts
                ),
                spans,
                reset_less=True,
            )
            span = longer
        return spans

    def _elaborate_youngest(self, pipe, runs, query):
        """Return whether a flag is set, and the position of the lowest flag, by halving.

        The last step masks the result: it is 0 without a flag or without a query.
        """
        candidates = [runs[start] for start in range(self.starts)]
        last = False
        while not last:
            last = len(candidates) <= 2
            if len(candidates) % 2:
                none = Const(0, len(candidates[0]))
                candidates.append(pipe.enter(none, "none", stage=None))
            candidates = [
                pipe.step(
                    f"youngest{len(candidates)}_{at}",
                    _younger,
                    *candidates[at : at + 2],
                    *([query] if last else []),
                    reset_less=True,
                )
                for at in range(0, len(candidates), 2)
            ]
        return candidates[0]


def _younger(young, old, query=None):
    """Join the results (found, position) of two halves; mask them with a query."""
    found = young[0] | old[0]
    age = Cat(Mux(young[0], young[1:], old[1:]), ~young[0])
    if query is not None:
        found = found & query
        age = age & found.replicate(len(age))
    return Cat(found, age)
