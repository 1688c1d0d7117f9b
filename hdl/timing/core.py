"""Core of a timing filter: hash, parts, and the oldest of a key's cells."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import Control
from ..hash.functions import expand, fold, mix
from ..latencies import DEFAULT_LEVELS, PAGE_WORDS, hash_latency
from ..memory.cells import PortableCellMemory
from ..memory.delay import DelayLine
from ..pipeline import Pipeline
from .elide import ElidePart
from .oldest import OldestCell, TimingVerdict
from .sweep_rules import check_elision
from .ticks import TickCount


class TimingCore(wiring.Component):
    """Pipeline of a timing filter with a clock of ticks: one operation per clock, no stall.

    A key inserted at most w ticks ago is reported, for every window w of the query's own; one
    inserted longer ago is not, unless others touched all its cells within w. No stamp comes round,
    in any stream and any silence. Verdicts are those of `lately.golden.TimedTimingFilter` whose
    time is the number of ticks.

    Parameters
    ----------
    spec : TimedTimingSpec
        A period is a tick.
    clocks : int
        Clocks from one tick to the next, at least.
    memory : callable
        As for `ElidePart`.
    levels : int
        See `Pipeline`.

    Members
    -------
    control : In(Control)
        With its key. Its ``shift`` is a tick, which comes before the operation, whether there is
        one or not. A ``clear`` comes alone. Operations may come once `clean` is high: after
        reset, and from `latency` clocks after a clear on.
    key : In(key_bits)
    window : In(range(window_blocks + 1))
        Of the query, in ticks.
    verdict : Out(TimingVerdict)
        `latency` clocks after its key.
    valid : Out(1)
    clean : Out(1)
        Whether the memory has been cleared.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the filter; see `check_elision`.
    """

    def __init__(self, spec, *, clocks, memory=PortableCellMemory, levels=DEFAULT_LEVELS):
        check_elision(spec, clocks=clocks)
        self._spec = spec
        self._levels = levels
        window = spec.window_blocks
        self.parts = [
            ElidePart(cells=spec.cells, stamp_bits=spec.stamp_bits, limit=window + 1, memory=memory)
            for _ in range(spec.hashes)
        ]
        self.oldest = OldestCell(window=window, hashes=spec.hashes)
        self.hash_latency = hash_latency(spec.key_bits, levels=levels)
        # The parts lie far apart: from them it is a clock to what compares them.
        self.read_latency = self.hash_latency + ElidePart.LATENCY + 1
        """Cycles from a key to the ages of its cells."""
        self.latency = self.read_latency + self.oldest.latency
        super().__init__(
            {
                "control": In(Control),
                "key": In(spec.key_bits),
                "window": In(range(window + 1)),
                "verdict": Out(TimingVerdict(window=window, hashes=spec.hashes)),
                "valid": Out(1),
                "clean": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.oldest = oldest = self.oldest
        pipe = Pipeline(m, levels=self._levels)
        control = pipe.enter(self.control, "control")
        self._elaborate_parts(m, pipe, control)
        answers = {
            name: pipe.enter(
                Cat(getattr(part, port) for part in self.parts),
                name,
                stage=self.read_latency - 1,
                reset_less=True,
            )
            for name, port in (("ages", "age"), ("expired", "expired"))
        }
        answers |= {"query": control["query"], "window": self._elaborate_window(m, pipe)}
        read = self.read_latency
        found = read + oldest.latency
        pipe.drive(oldest, **{name: value.at(read) for name, value in answers.items()})
        verdict = pipe.enter(oldest.verdict, "verdict", stage=found)
        m.d.comb += [
            self.verdict.eq(verdict.value),
            self.valid.eq(control["valid"].at(found).value),
            # All parts are cleared together.
            self.clean.eq(self.parts[0].clean),
        ]
        pipe.leave(verdict, latency=self.latency)
        return m

    def _elaborate_parts(self, m, pipe, control):
        """Give each part its address, and all of them the rest."""
        spec = self._spec
        key = pipe.enter(self.key, "key", reset_less=True)
        state = mix(pipe, fold(pipe, key, spec.seed), spec.seed).settled()
        (addresses,) = expand(pipe, state, sizes=spec.index_sizes, functions=1, seed=spec.seed)
        m.submodules.ticks = ticks = TickCount(
            stamp_bits=spec.stamp_bits, limit=spec.window_blocks + 1
        )
        hashed = control.at(self.hash_latency)
        flags = {"insert": hashed["insert"], "tick": hashed["shift"], "clear": hashed["clear"]}
        pipe.drive(ticks, tick=flags["tick"])
        for number, (part, address) in enumerate(zip(self.parts, addresses, strict=True)):
            m.submodules[f"part{number}"] = part
            pipe.drive(part, address=address, **flags)
            m.d.comb += [
                getattr(part, name).eq(getattr(ticks, name)) for name in ("now", "stamp", "restamp")
            ]

    def _elaborate_window(self, m, pipe):
        """Return the window of the query, which waits for the ages."""
        cycles = min(self.read_latency, PAGE_WORDS + 1)
        m.submodules.delay = delay = DelayLine(width=len(self.window), cycles=cycles)
        m.d.comb += delay.i.eq(self.window)
        return pipe.enter(delay.o, "window", stage=cycles, reset_less=True)
