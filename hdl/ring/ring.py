"""Ring of segments: position of the ring, clearing of the spare, and detection of runs."""

from functools import cache, reduce
from operator import or_
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import Verdict
from ..latencies import DEFAULT_LEVELS
from ..parameters import ceil_log, require_integer, require_power_of_two
from ..pipeline import FAN_IN, Draft, Pipeline, registered


class Ring(wiring.Component):
    """Selects the segments that an operation writes, and clears the spare; one operation per cycle.

    A shift takes effect between the query and the insertion of an operation: `base` is the position
    before the shift, and `set` selects the segments after it. From the next cycle, the retired
    segment is cleared for `clear_words` cycles; the next shift may follow one cycle later. A clear
    returns the ring to its first position and clears all segments in the same way; the ring must
    stay idle for `clear_words` cycles after a clear.
    """

    def __init__(self, *, segments, run, clear_words, check=False):
        require_integer("Segments", segments, minimum=2)
        require_integer("Run", run, minimum=1, maximum=segments - 1)
        require_power_of_two("Words to clear", clear_words)
        self._segments = segments
        self._run = run
        self._clear_words = clear_words
        self._checks = check
        super().__init__(
            {
                "insert": In(1),
                "shift": In(1),
                "clear": In(1),  # excludes the others
                # Whether the new segment (at a clear, every segment) and later segments use the
                # other hash pipeline.
                "adopt": In(1),
                # segments that use the second hash pipeline, including a change by this operation
                "pipelines": Out(segments),
                "set": Out(segments),  # segments that the operation writes
                # physical segment that was the youngest at the start of the operation
                "base": Out(range(segments)),
                "clear_segments": Out(segments),  # segments that are being cleared in this cycle
                "clear_address": Out(range(clear_words)),
            }
            # In the previous cycle the masks were illegal, or an operation used a segment that was
            # being cleared.
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        segments = self._segments
        # The base counts down: the segment s_0 becomes s_1. The youngest follows the spare.
        write = Signal(segments, init=(1 << self._run) - 1)
        spare = Signal(segments, init=1 << (segments - 1))
        turned = Mux(self.shift, write.rotate_right(1), write)
        youngest = spare.rotate_left(1)
        m.d.comb += [
            self.set.eq(turned & self.insert.replicate(segments)),
            self.base.eq(
                Cat(
                    Cat(youngest[at] for at in range(segments) if at >> bit & 1).any()
                    for bit in range(len(self.base))
                )
            ),
        ]
        m.d.sync += write.eq(turned)
        with m.If(self.shift):
            m.d.sync += spare.eq(spare.rotate_right(1))
        with m.If(self.clear):
            m.d.sync += [write.eq(write.init), spare.eq(spare.init)]
        self._elaborate_pipelines(m, spare)
        early = self._elaborate_clear(m, spare)
        if self._checks:
            masks = illegal_masks(m, write, spare, run=self._run)
            m.d.comb += self.illegal.eq(masks | registered(m, early, "early"))
        return m

    def _elaborate_pipelines(self, m, spare):
        newest = Signal()
        pipelines = Signal(self._segments)
        entering = newest ^ self.adopt
        m.d.comb += self.pipelines.eq(
            Cat(
                Mux(self.clear | (self.shift & spare[segment]), entering, pipelines[segment])
                for segment in range(self._segments)
            )
        )
        m.d.sync += pipelines.eq(self.pipelines)
        with m.If(self.shift | self.clear):
            m.d.sync += newest.eq(entering)

    def _elaborate_clear(self, m, spare):
        """Clear segments; return whether an operation arrived before the clearing had ended."""
        everything = Signal()
        count = Signal(range(2 * self._clear_words), init=self._clear_words)
        running = ~count[-1]
        m.d.comb += [
            self.clear_segments.eq(
                (spare | everything.replicate(self._segments)) & running.replicate(self._segments)
            ),
            self.clear_address.eq(count),
        ]
        # Two digits; the carry between them is known one cycle ahead.
        digit = max(2, len(count) // 2)
        low, high = count[:digit], count[digit:]
        carry = Signal()
        with m.If(self.shift | self.clear):
            m.d.sync += [count.eq(0), carry.eq(0), everything.eq(self.clear)]
        with m.Elif(running):
            m.d.sync += [low.eq(low + 1), carry.eq(low == (1 << digit) - 2)]
            # The path from an enable to the registers is shorter than the path from a sum.
            with m.If(carry):
                m.d.sync += high.eq(high + 1)
        return running & (self.shift | (self.insert & everything))


def illegal_masks(m, mask, spare, *, run):
    """Return whether `mask` was not the `run` segments after the spare in the previous cycle."""
    behind = reduce(or_, map(spare.rotate_left, range(1, run + 1)))
    return registered(m, mask ^ behind, "differs").any()


class DetectorShape(NamedTuple):
    segments: int
    parts: int
    run: int
    starts: int


class RingDetector(wiring.Component):
    """Finds the youngest run of segments in which every part holds the bit of the key.

    The detector accepts one operation per cycle. The result equals Algorithm 1 of the APBF paper
    (section 5.1, query), which visits the segments one by one.
    """

    def __init__(self, *, segments, parts, run, starts, levels=DEFAULT_LEVELS):
        require_integer("Parts", parts, minimum=1)
        require_integer("Run", run, minimum=1)
        require_integer("Starts", starts, minimum=1)
        require_integer("Segments", segments, minimum=run + starts - 1)
        require_integer("Levels", levels, minimum=1)
        self.starts = starts
        self._levels = levels
        self._shape = DetectorShape(segments, parts, run, starts)
        self.matches_latency, self.latency = detector_latencies(self._shape, levels=levels)
        super().__init__(
            {
                # bit of part P of segment S at position ``S * parts + P``; may come from one level
                # of LUTs
                "bits": In(segments * parts),
                "base": In(range(segments)),  # the youngest physical segment; with `bits`
                "query": In(1),  # whether the operation is a query; with `bits`
                # whether all parts of each segment hold the bit, from the youngest segment to the
                # spare; `matches_latency` cycles after `bits`
                "matches": Out(segments),
                # start of the youngest run; 0 if there is no run or no query
                "verdict": Out(Verdict(ages=starts)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, levels=self._levels)
        matches, verdict = _detect(pipe, self.bits, self.base, self.query, self._shape)
        m.d.comb += [
            self.matches.eq(matches.value),
            self.verdict.as_value().eq(verdict.value),
        ]
        pipe.leave(matches, latency=self.matches_latency)
        pipe.leave(verdict, latency=self.latency)
        return m


@cache
def detector_latencies(shape, *, levels=DEFAULT_LEVELS):
    """Return the latencies, in cycles, of the matches and of the verdict."""
    bits, base = Signal(shape.segments * shape.parts), Signal(range(shape.segments))
    staged = _detect(Pipeline(Draft(), levels=levels), bits, base, Signal(), shape)
    return tuple(value.stage for value in staged)


def _detect(pipe, bits, base, query, shape):
    segments = [
        pipe.all_of(
            f"segment{segment}",
            pipe.enter(bits.word_select(segment, shape.parts), f"bits{segment}", levels=1),
            steps=1,
            reset_less=True,
        )
        for segment in range(shape.segments)
    ]
    matches = pipe.combine("matches", lambda *flags: Cat(flags), *segments)
    base = pipe.enter(base, "base", reset_less=True)
    # One binary digit of the base per step.
    for digit in range(ceil_log(2, shape.segments)):
        matches = pipe.step(
            f"turned{digit}",
            lambda base, flags, digit=digit: Mux(
                base[digit], flags.rotate_right((1 << digit) % shape.segments), flags
            ),
            base.at(matches.stage),
            matches,
            reset_less=True,
        )
    runs = _extended_spans(pipe, matches, shape.run)
    query = pipe.enter(query, "query")
    return matches, _youngest(pipe, runs, query, shape.starts).settled()


def _extended_spans(pipe, spans, run):
    """Return, for each segment, whether `run` consecutive matches start there.

    Each step checks spans that are up to four times longer.
    """
    span = 1
    while span < run:
        longer = min(span * FAN_IN, run)
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


def _youngest(pipe, runs, query, starts):
    """Return the result of a query: whether a run exists, and the start of the youngest run."""
    candidates = [runs[start] for start in range(starts)]
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
    """Combine the results of two halves, each a flag and an age; 0 if `query` is given and low."""
    any_run = young[0] | old[0]
    age = Cat(Mux(young[0], young[1:], old[1:]), ~young[0])
    if query is not None:
        any_run = any_run & query
        age = age & any_run.replicate(len(age))
    return Cat(any_run, age)
