"""Cores of timing filters: hash, parts, and the oldest of a key's cells."""

from abc import ABC, abstractmethod
from functools import partial

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..control import PlainCoreSignature
from ..hash.functions import expand, fold, mix
from ..latencies import CONTROL_LAG, DEFAULT_LEVELS, PAGE_WORDS, VOTES, hash_latency
from ..memory.copies import protected
from ..memory.delay import DelayLine
from ..memory.variants import cell_memory
from ..pipeline import Pipeline
from .elide import ElidePart
from .oldest import OldestCell, TimingVerdict
from .part import CellPart
from .rest import RestPart, RestSweep
from .sweep_rules import check_elision, check_rest, rest_interval
from .ticks import TickCount
from .timing_profile import TimingProfile


class StampedCore(wiring.Component, ABC):
    """Base of the cores of timing filters: one operation per clock, no stall.

    Parameters
    ----------
    spec : StampedPartsSpec
        A block is a tick.
    memory : str or type
        Variant of the memories; as for `lately.hdl.memory.variants.cell_memory`.
    levels : int
        See `Pipeline`.
    protect : str
        As for `CellPart`.

    Members
    -------
    As those of `PlainCoreSignature`; the ``shift`` of a control is a tick, which comes before the
    operation, whether there is one or not. And:

    window : In(range(window_blocks + 1))
        With the key: of the query, in ticks.
    upset : Out(1)
        If protected: an operation or the sweep has found a cell upset.

    Raises
    ------
    ValueError
        If there is no such memory.
    """

    PART: type[CellPart]

    def __init__(self, spec, *, memory="portable", levels=DEFAULT_LEVELS, protect="none"):
        self._spec = spec
        self._levels = levels
        checked = protect == "parity"
        self._told = protect != "none"
        window = spec.window_blocks
        shape = {"cells": spec.cells, "stamp_bits": spec.stamp_bits, "limit": window + 1}
        build = partial(cell_memory, memory)
        self.parts = [self.PART(**shape, memory=build, protect=protect) for _ in range(spec.hashes)]
        self.ticks = TickCount(stamp_bits=spec.stamp_bits, limit=window + 1, checked=checked)
        self.oldest = OldestCell(window=window, hashes=spec.hashes)
        terms = TimingProfile(spec, levels=levels, memory=memory).latency_terms
        self.hash_latency = terms["hash"]
        self.read_latency = self.hash_latency + terms["cells"]
        """Cycles from a key to the ages of its cells."""
        self.latency = self.read_latency + terms["oldest"]
        super().__init__(
            PlainCoreSignature(
                key_bits=spec.key_bits,
                verdict=TimingVerdict(window=window, hashes=spec.hashes),
                window=In(range(window + 1)),
                **({"upset": Out(1)} if self._told else {}),
            )
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.oldest = oldest = self.oldest
        pipe = Pipeline(m, levels=self._levels)
        control = pipe.enter(self.control, "control", stage=CONTROL_LAG)
        self._elaborate_parts(m, pipe, control.at(self.hash_latency))
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
        valid = control["valid"].at(found).value
        m.d.comb += [
            self.verdict.eq(verdict.value),
            self.valid_next.eq(control["valid"].at(found - 1).value),
            self.valid.eq(valid),
            self.hit.eq(valid & self.verdict.seen),
            self.insert.eq(control["insert"].at(found).value),
        ]
        come = control["clear"].at(self.read_latency)
        # Until the parts know of it.
        coming = Signal()
        m.d.sync += coming.eq(control["clear"].value | coming & ~come.value)
        m.d.comb += self.clean.eq(self._elaborate_sweep(m, control.at(self.hash_latency)) & ~coming)
        if self._told:
            self._elaborate_upset(m, pipe, control)
        pipe.leave(verdict, latency=self.latency)
        return m

    @abstractmethod
    def _elaborate_sweep(self, m, control):
        """Have the parts swept, with the control that comes with an address; return if clean."""

    def _elaborate_parts(self, m, pipe, control):
        """Give each part its address, and all of them the control, which comes with it."""
        spec = self._spec
        # A fast hash waits for the control.
        key = pipe.enter(self.key, "key", reset_less=True)
        key = key.at(self.hash_latency - hash_latency(spec.key_bits, levels=self._levels))
        state = mix(pipe, fold(pipe, key, spec.seed), spec.seed).settled()
        (addresses,) = expand(pipe, state, sizes=spec.index_sizes, functions=1, seed=spec.seed)
        m.submodules.ticks = ticks = self.ticks
        flags = {"insert": control["insert"], "tick": control["shift"]}
        pipe.drive(ticks, tick=flags["tick"])
        for number, (part, address) in enumerate(zip(self.parts, addresses, strict=True)):
            m.submodules[f"part{number}"] = part
            pipe.drive(part, address=address, **flags)
            m.d.comb += [
                getattr(part, name).eq(getattr(ticks, name))
                for name in ticks.signature.members
                if name != "tick"
            ]

    def _elaborate_upset(self, m, pipe, control):
        """Tell whether a part has found a cell upset, for an operation or the sweep."""
        found = Cat(part.upset for part in self.parts)
        renewed = Cat(part.renewed for part in self.parts)
        asked = (control["query"] | control["insert"]).at(self.read_latency - 1).value
        m.d.sync += self.upset.eq(found.any() & asked | renewed.any())

    def _elaborate_window(self, m, pipe):
        """Return the window of the query, which waits for the ages."""
        window = pipe.enter(self.window, "window", reset_less=True)
        while (cycles := min(self.read_latency - window.stage, PAGE_WORDS + 1)) > 1:
            after = window.stage + cycles
            m.submodules[f"delay{after}"] = delay = protected(
                partial(DelayLine, width=len(window), cycles=cycles),
                copies=VOTES if self._told else 1,
                answers=["o"],
                latency=cycles,
                registers=0,
            )
            pipe.drive(delay, i=window)
            window = pipe.enter(delay.o, "window", stage=after, reset_less=True)
        return window


class SelfSweptCore(StampedCore):
    """Base of cores whose parts sweep themselves."""

    def _elaborate_sweep(self, m, control):
        m.d.comb += [part.clear.eq(control["clear"].value) for part in self.parts]
        # All parts are cleared together.
        return self.parts[0].clean


class TimingCore(SelfSweptCore):
    """Core of a timing filter with a clock of ticks: no clock is lost, whatever the keys.

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
    options
        ``memory``, ``levels`` and ``protect``, as for `StampedCore`.

    Members
    -------
    As those of `StampedCore`.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the filter; see `check_elision`.
    ValueError
        If there is no such memory.
    """

    PART = ElidePart

    def __init__(self, spec, *, clocks, **options):
        check_elision(spec, clocks=clocks)
        super().__init__(spec, **options)


class CountedTimingCore(StampedCore):
    """Core of a timing filter with a clock of insertions: the sweep takes one clock in a few.

    Verdicts are those of `lately.golden.PartitionedTimingFilter`, whose blocks are ticks, which may
    come in every clock. Where no clock is free, the core is late for one in `rest_interval`.

    Parameters
    ----------
    spec : PartitionedTimingSpec
    options
        ``memory``, ``levels`` and ``protect``, as for `StampedCore`.

    Members
    -------
    As those of `StampedCore`.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the filter; see `check_rest`.
    ValueError
        If there is no such memory.
    """

    PART = RestPart

    def __init__(self, spec, **options):
        check_rest(spec)
        super().__init__(spec, **options)
        self.sweep = RestSweep(cells=spec.cells, interval=rest_interval(spec), waits=self._told)

    def _elaborate_sweep(self, m, control):
        m.submodules.sweep = sweep = self.sweep
        m.d.comb += [
            sweep.free.eq(~control["valid"].value),
            sweep.clear.eq(control["clear"].value),
            self.late.eq(sweep.late),
        ]
        for part in self.parts:
            m.d.comb += [
                getattr(part, name).eq(getattr(sweep, name)) for name in ("sweep", "wipe", "swept")
            ]
        return sweep.clean
