"""The pipeline of a filter: fixed latency, one operation per clock, no stall inside."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .detector import Align, MatchReducer, RunDetector
from .hash import Expand, Fold, Mix
from .memories import segment_memory
from .ring import Ring


class Control(data.Struct):
    """What travels down the pipeline beside the key.

    Attributes
    ----------
    valid
        A result is expected. The other flags act whether it is set or not.
    query, insert, shift, clear
        The effects of the operation. A shift comes between query and insertion.
    """

    valid: 1
    query: 1
    insert: 1
    shift: 1
    clear: 1


class FilterCore(wiring.Component):
    """Pipeline of a count-based filter: hash, ring of segments, run detector.

    Latency `latency` clocks, one operation per clock, results in order. An
    operation sees the effects of all operations before it. The core trusts
    its user with the two rules that `Ring` states: at least `clear_words`
    clocks between two shifts, and `clear_words` idle clocks after a clear.

    Parameters
    ----------
    spec : FilterSpec
        What to build; must pass ``spec.check_buildable()``.
    memory : str
        Variant of the segment memories, one of `lately.hdl.memories.VARIANTS`.

    Members
    -------
    control : In(Control)
    key : In(key_bits)
    valid, seen, hit, insert, shift : Out(1)
        `hit` is `seen` of a valid operation. `insert` and `shift` are those of
        the operation that leaves.
    age : Out(range(window_generations + 1))
        Youngest generation that the key can be of; 0 if it was not seen.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    """

    def __init__(self, *, spec, memory="portable"):
        spec.check_buildable()
        self._spec = spec
        self._memory = memory
        self._fold = Fold(key_bits=spec.key_bits, seed=spec.seed)
        self._mix = Mix(seed=spec.seed)
        self._expand = Expand(sizes=spec.index_sizes, functions=spec.hash_functions, seed=spec.seed)
        self._ring = Ring(segments=spec.segments, run=spec.run, clear_words=spec.clear_words)
        self._reducer = MatchReducer(segments=spec.segments, parts=spec.parts)
        self._align = Align(segments=spec.segments)
        self._detector = RunDetector(run=spec.run, starts=spec.window_generations + 1)
        self._memories = [
            [
                segment_memory(memory, depth=spec.part_bits, clear_bits=spec.clear)
                for _ in range(spec.parts)
            ]
            for _ in range(spec.segments)
        ]
        self._hash_latency = self._fold.latency + self._mix.latency + self._expand.latency
        self._match_latency = self._memories[0][0].LATENCY + self._reducer.latency
        self._verdict_latency = self._align.latency + self._detector.latency
        self.latency = (
            self._hash_latency + Ring.LATENCY + self._match_latency + self._verdict_latency
        )
        super().__init__(
            {
                "control": In(Control),
                "key": In(spec.key_bits),
                "valid": Out(1),
                "seen": Out(1),
                "hit": Out(1),
                "insert": Out(1),
                "shift": Out(1),
                "age": Out(range(spec.window_generations + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fold = self._fold
        m.submodules.mix = self._mix
        m.submodules.expand = self._expand
        m.submodules.ring = ring = self._ring
        m.submodules.reducer = reducer = self._reducer
        m.submodules.align = align = self._align
        m.submodules.detector = detector = self._detector
        m.d.comb += [
            self._fold.key.eq(self.key),
            self._mix.i.eq(self._fold.state),
            self._expand.state.eq(self._mix.o),
        ]

        hashed = self._delay(m, self.control, self._hash_latency, "hashed")
        m.d.comb += [
            ring.insert.eq(hashed.insert),
            ring.shift.eq(hashed.shift),
            ring.clear.eq(hashed.clear),
            reducer.bits.eq(self._elaborate_segments(m)),
            align.i.eq(reducer.matches),
            align.base.eq(self._delay(m, ring.base, self._match_latency, "base")),
            detector.matches.eq(align.o),
        ]

        rest = Ring.LATENCY + self._match_latency + self._verdict_latency
        leaving = self._delay(m, hashed, rest, "leaving")
        seen = leaving.query & detector.seen
        m.d.comb += [
            self.valid.eq(leaving.valid),
            self.insert.eq(leaving.insert),
            self.shift.eq(leaving.shift),
            self.seen.eq(seen),
            self.hit.eq(leaving.valid & seen),
            self.age.eq(Mux(seen, detector.age, 0)),
        ]
        return m

    def _elaborate_segments(self, m):
        """Connect every memory to its indices; return their bits, segment by segment."""
        spec = self._spec
        bits = []
        for segment, parts in enumerate(self._memories):
            indices = self._expand.indices(segment % spec.hash_functions)
            block, cells = indices[: -spec.parts], indices[-spec.parts :]
            for part, (bank, cell) in enumerate(zip(parts, cells, strict=True)):
                m.submodules[f"segment{segment}_part{part}"] = bank
                address = Signal.like(
                    bank.address, name=f"address{segment}_{part}", reset_less=True
                )
                m.d.sync += address.eq(Cat(cell, *block))
                m.d.comb += [
                    bank.address.eq(address),
                    bank.set.eq(self._ring.set[segment]),
                    bank.clear.eq(self._ring.clear_segments[segment]),
                    bank.clear_address.eq(self._ring.clear_address),
                ]
                bits.append(bank.bit)
        return Cat(bits)

    def _delay(self, m, value, clocks, name):
        """Return `value` as it was `clocks` clocks ago."""
        for clock in range(clocks):
            delayed = Signal.like(value, name=f"{name}{clock}")
            m.d.sync += delayed.eq(value)
            value = delayed
        return value
