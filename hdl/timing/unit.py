"""Timing filters as units: streams in and out, and any window for each query."""

from typing import ClassVar

from amaranth.hdl import Signal
from amaranth.lib import wiring

from ...golden.spec.base import require
from ...golden.spec.timestamp import PartitionedTimingSpec, StampedPartsSpec, TimedTimingSpec
from ..frontend.prescaler import Prescaler
from ..frontend.tick_spacing import TickSpacing
from ..interface import PERIOD_BITS
from ..latencies import DEFAULT_LEVELS, TIMING_TICKS, VOTES
from ..parameters import require_integer
from ..unit_shell import UnitShell
from .core import TimingCore
from .decision_tables import DecidingCore
from .ticks import BlockCount
from .timing_profile import TimingProfile


class StampedUnit(UnitShell):
    """Base of the units of timing filters.

    If the specification has classes, a table of thresholds answers.

    Parameters
    ----------
    core : TimingCore
    options
        As for `UnitShell`.
    """

    SPECIFICATION: ClassVar[type[StampedPartsSpec]]

    def __init__(self, core, **options):
        spec = self.spec
        if self._profile.decides:
            core = DecidingCore(
                core=core,
                spec=spec,
                classes=spec.classes,
                bits=spec.phase_bits,
                memory=self._profile.memory,
            )
            options |= {"class_bits": (spec.classes - 1).bit_length(), "table": core.entry}
        else:
            options["window_bits"] = spec.window_blocks.bit_length()
        super().__init__(
            core,
            copies=1 if self._profile.protect == "none" else VOTES,
            generations=spec.window_blocks + 2,
            oldest_bits=spec.hashes.bit_length(),
            **options,
        )

    def _check(self, spec, memory, levels, protect):
        """Refuse what this unit cannot be built for; keep the profile, and return it."""
        rule = f"must be {self.SPECIFICATION.family} for {type(self).__name__}"
        require(isinstance(spec, self.SPECIFICATION), "family", rule, spec.family)
        self._profile = TimingProfile(spec, memory=memory, levels=levels, protect=protect)
        if protect != "none":
            self.COUNTERS = {**self.COUNTERS, "upsets": "upset"}
        self._profile.check_buildable()
        return self._profile

    def _elaborate_asked(self, m):
        """Connect what each query asks by: its window, or its class and the table."""
        core = self._core
        if not self._profile.decides:
            m.d.comb += core.window.eq(self.i.p.window)
            return
        wiring.connect(m, wiring.flipped(self.table), core.table)
        m.d.comb += core.swap.eq(self.swap)
        if "query_class" in self.signature.request.members:
            m.d.comb += core.query_class.eq(self.i.p.query_class)

    @property
    def spec(self):
        """Specification of the unit."""
        return self._profile.spec

    @property
    def profile(self):
        """Figures of what was built: a `TimingProfile`."""
        return self._profile

    @property
    def longest_pause(self):
        """Most cycles for which a CLEAR keeps the input closed."""
        return self._profile.longest_pause


class TimingUnit(StampedUnit):
    """A timing filter with a clock of ticks: answers of `lately.golden.TimedTimingFilter`.

    A key inserted at most w ticks ago is reported, for every window w of the query's own; one
    inserted longer ago is not, unless others touched all its cells within w. No stamp comes round,
    in any stream and any silence.

    The unit accepts one operation per clock for as long as its results are taken, whatever the
    keys are, through ticks too. `i.ready` also falls after a CLEAR and after reset, for
    `longest_pause` clocks at most.

    Parameters
    ----------
    spec : TimedTimingSpec
        What to build; must pass `TimingProfile.check_buildable`. A period is a tick.
    tag_bits : int
        Width of the tag.
    statistics_bits : int
        Width of the counters, which wrap around.
    memory, levels, protect
        As for `TimingCore`.
    ticks : str
        Where ticks come from, one of `lately.hdl.latencies.TIMING_TICKS`: "tick", a port that is
        high for a clock for each;
        "period", a counter of the clocks that the port of this name says. Ticks must be
        `TimingProfile.least_period` clocks apart. A shorter period counts as that; of the ticks
        of a port that are closer, up to `lately.hdl.latencies.TICKS_WAITING` wait.
    time_bits : int, optional
        Width of the tick counter; by default that of a stamp.
    check : bool
        As for `lately.hdl.unit_shell.UnitShell`.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`. ``window`` counts ticks; a longer one acts as
        that of the specification. ``age`` is that of the oldest cell of the key, in ticks, or one
        more than the longest window if that has expired; ``oldest`` counts the cells that have it.
        Both come with every operation that has a key, and mean nothing with SHIFT and CLEAR.
        ``time`` is the tick counter, which a CLEAR leaves.
    table, swap : In
        If the specification has classes: entries of a table of thresholds, as
        `lately.golden.DecisionTable` computes them, and the order to use it, see
        `lately.hdl.timing.decision_tables.DecidingCore`. Requests then have a ``query_class`` in
        place of a window, if there are several, and ``seen`` is what the table says. A class of
        ``classes`` or more is answered by entries of that number; one that was never loaded gives
        any answer. A swap
        is for operations that are accepted in later clocks. In the first table all entries are 0,
        and every key that is asked for is seen.
    tick, or period : In
        See `ticks`. A tick takes effect between two operations, takes no cycle of theirs, and is
        told by the ``time`` of their results.
    operations, insertions, hits : Out(statistics_bits)
        Events since reset.
    upsets : Out(statistics_bits)
        With protection only: clocks in which an operation or the sweep found a cell upset.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    TypeError
        If a width is not an integer.
    ValueError
        If a width is out of its range, or there are no such ticks or memory.
    """

    SPECIFICATION = TimedTimingSpec

    def __init__(
        self,
        spec,
        *,
        tag_bits=8,
        statistics_bits=32,
        memory="portable",
        levels=DEFAULT_LEVELS,
        ticks="tick",
        time_bits=None,
        protect="none",
        check=False,
    ):
        least = self._check(spec, memory, levels, protect).least_period
        if ticks not in TIMING_TICKS:
            raise ValueError(f"Ticks must be {' or '.join(TIMING_TICKS)}, not {ticks!r}")
        time_bits = spec.stamp_bits if time_bits is None else time_bits
        require_integer("Time bits", time_bits, least=1)
        super().__init__(
            TimingCore(spec, memory=memory, levels=levels, protect=protect),
            tag_bits=tag_bits,
            statistics_bits=statistics_bits,
            result_time_bits=time_bits,
            tick_bits=PERIOD_BITS if ticks == "period" else 1,
            check=check,
        )
        self.time = Signal.like(self.o.p.time, name="time")
        """Tick counter, in the clock after the control of an operation."""
        if ticks == "period":
            self._source = Prescaler(width=PERIOD_BITS, least=least)
        else:
            self._source = TickSpacing(least=least)

    def _elaborate_core(self, m, control):
        m.submodules.source = source = self._source
        self._elaborate_asked(m)
        if "period" in source.signature.members:
            m.d.comb += source.period.eq(self.period)
        else:
            m.d.comb += source.i.eq(self.tick)
        m.d.sync += [control.shift.eq(source.tick), self.time.eq(self.time + control.shift)]
        return self.time


class CountedTimingUnit(StampedUnit):
    """A timing filter with a clock of insertions.

    Its answers are those of `lately.golden.PartitionedTimingFilter`.

    A key among the last w insertions is reported, for every window w of the query's own, and one
    that was inserted a block earlier, or more, is not, unless others touched all its cells within
    the window. No stamp comes round, in any stream.

    For as long as its results are taken, the unit accepts one operation per clock but for one
    clock in `TimingProfile.rest_interval`, which is the sweep's. `i.ready` also falls after a
    CLEAR and after reset, for `longest_pause` clocks at most.

    Parameters
    ----------
    spec : PartitionedTimingSpec
        What to build; must pass `TimingProfile.check_buildable`.
    memory : str or type
        As for `TimingCore`.
    tag_bits, statistics_bits, levels, protect, check
        As for `TimingUnit`.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`. ``window`` and ``age`` count blocks; otherwise as
        for `TimingUnit`. Results have no time.
    table, swap : In
        As those of `TimingUnit`.
    operations, insertions, hits, upsets : Out(statistics_bits)
        As those of `TimingUnit`.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    TypeError
        If a width is not an integer.
    ValueError
        If a width is out of its range, or there is no such memory.
    """

    SPECIFICATION = PartitionedTimingSpec

    def __init__(
        self,
        spec,
        *,
        tag_bits=8,
        statistics_bits=32,
        memory="portable",
        levels=DEFAULT_LEVELS,
        protect="none",
        check=False,
    ):
        self._check(spec, memory, levels, protect)
        core = TimingCore(spec, memory=memory, levels=levels, protect=protect)
        super().__init__(core, tag_bits=tag_bits, statistics_bits=statistics_bits, check=check)

    def _elaborate_core(self, m, control):
        m.submodules.blocks = blocks = BlockCount(block=self.spec.block)
        m.d.comb += [blocks.insert.eq(control.insert), blocks.clear.eq(control.clear)]
        # A tick comes before the operation that has it: the one after the last of a block.
        m.d.sync += control.shift.eq(blocks.tick)
        self._elaborate_asked(m)
        if self._profile.decides:
            phase, insertions = self._core.phase, ~blocks.left
            m.d.comb += phase.eq(insertions[len(insertions) - len(phase) :])
        return super()._elaborate_core(m, control)
