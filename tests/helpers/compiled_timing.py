"""Timing units in compiled simulation, with the models of block RAMs that garble."""

import numpy as np
from compiled_unit import STATUS_BITS, CompiledUnit, WideKeys

from lately.golden import PartitionedTimingSpec
from lately.hdl.timing.unit import CountedTimingUnit, TimingUnit


class CompiledTiming(CompiledUnit):
    """Performs operations; see `CompiledUnit`. Ticks come as close as they may."""

    def __init__(self, spec):
        self.spec = spec
        self.timed = not isinstance(spec, PartitionedTimingSpec)
        outputs, more, age = tuple(TimingUnit.COUNTERS), {}, ("seen", "age", "oldest")
        if self.timed:
            unit = TimingUnit(spec, memory="ecp5", tag_bits=8, ticks="period", time_bits=32)
            outputs, more = (*outputs, "time"), {"status": "time", "period": 0}
        else:
            unit = CountedTimingUnit(spec, memory="ecp5", tag_bits=8)
        parts = [f"core.part{part}.memory.block0.words" for part in range(spec.hashes)]
        top = WideKeys(unit, age=age, outputs=outputs, **more)
        super().__init__(top, clear=spec.cells, memories=parts)

    def apply(self, codes, keys, windows, **pauses):
        """Return seen, age and oldest of all operations, times if timed, and the clocks."""
        before = self.counts.get("time", 0)
        told, clocks = self.perform(codes, keys, windows, **pauses)
        # Between two results there are fewer ticks than the status tells apart.
        passed = np.diff(told["status"], prepend=before) % (1 << STATUS_BITS)
        times = [before + np.cumsum(passed)] if self.timed else []
        return [told["seen"], told["age"], told["oldest"]], times, clocks

    def ages(self):
        """Return the ages of all cells as golden has them, and the tick that they are of.

        By insertions, there must have been no clear.
        """
        spec, counts = self.spec, self.counts
        now = counts["time"] if self.timed else counts["insertions"] // spec.block
        words = np.array([self.memory(part, words=spec.cells, width=18)
                          for part in range(spec.hashes)])  # fmt: skip
        return np.minimum((now - words) % (1 << spec.stamp_bits), spec.window_blocks + 1), now
