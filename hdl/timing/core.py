"""Core of a timing filter: hash, parts, and the oldest of a key's cells."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import Control
from ..hash.functions import expand, fold, mix
from ..memory.stamps import PortableStampMemory
from ..pipeline import Pipeline
from ..profile import DEFAULT_LEVELS, hash_latency
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
        one or not. After reset, and after a ``clear``, which comes alone, no other operation may
        come until `clean` has been high `latency` clocks later.
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

    def __init__(self, spec, *, clocks, memory=PortableStampMemory, levels=DEFAULT_LEVELS):
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
        self.latency = self.hash_latency + ElidePart.LATENCY + self.oldest.latency
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
        spec, oldest = self._spec, self.oldest
        m.submodules.oldest = oldest
        pipe = Pipeline(m, levels=self._levels)
        key = pipe.enter(self.key, "key", reset_less=True)
        control = pipe.enter(self.control, "control")
        state = mix(pipe, fold(pipe, key, spec.seed), spec.seed).settled()
        (addresses,) = expand(pipe, state, sizes=spec.index_sizes, functions=1, seed=spec.seed)
        hashed = control.at(self.hash_latency)
        m.submodules.ticks = ticks = TickCount(
            stamp_bits=spec.stamp_bits, limit=spec.window_blocks + 1
        )
        pipe.drive(ticks, tick=hashed["shift"])
        for number, (part, address) in enumerate(zip(self.parts, addresses, strict=True)):
            m.submodules[f"part{number}"] = part
            read = pipe.drive(
                part,
                address=address,
                insert=hashed["insert"],
                tick=hashed["shift"],
                clear=hashed["clear"],
            )
            m.d.comb += [
                getattr(part, name).eq(getattr(ticks, name)) for name in ("now", "stamp", "restamp")
            ]
        read += ElidePart.LATENCY
        found = read + oldest.latency
        pipe.drive(
            oldest,
            query=control["query"].at(read),
            window=pipe.enter(self.window, "window", reset_less=True).at(read),
        )
        verdict = pipe.enter(oldest.verdict, "verdict", stage=found)
        m.d.comb += [
            *(oldest.ages[number].eq(part.age) for number, part in enumerate(self.parts)),
            *(oldest.expired[number].eq(part.expired) for number, part in enumerate(self.parts)),
            self.verdict.eq(verdict.value),
            self.valid.eq(control["valid"].at(found).value),
            # All parts are cleared together.
            self.clean.eq(self.parts[0].clean),
        ]
        pipe.leave(verdict, latency=self.latency)
        return m
