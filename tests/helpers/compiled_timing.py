"""A timing unit in compiled simulation, with the models of block RAMs that garble."""

import numpy as np
from compiled_unit import STATUS_BITS, CompiledUnit, WideKeys

from lately.hdl.timing.unit import TimingUnit


class CompiledTiming(CompiledUnit):
    """Performs operations; see `CompiledUnit`. Ticks come as close as they may.

    Attributes
    ----------
    now : int
        Ticks at the last result.
    """

    def __init__(self, spec):
        unit = TimingUnit(spec, memory="ecp5", tag_bits=8, ticks="period", time_bits=32)
        parts = [f"core.part{part}.memory.block0.words" for part in range(spec.hashes)]
        top = WideKeys(
            unit, age=("seen", "age", "oldest"), status="time", period=0,
            outputs=(*unit.COUNTERS, "time"),
        )  # fmt: skip
        self.spec, self.now = spec, 0
        super().__init__(top, clear=spec.cells, memories=parts)

    def apply(self, codes, keys, windows, **pauses):
        """Return seen, age, oldest and time of all operations, and the clocks that they took."""
        self.now = self.counts["time"]
        told, clocks = self.perform(codes, keys, windows, **pauses)
        # Between two results there are fewer ticks than the status tells apart.
        passed = np.diff(told["status"], prepend=self.now) % (1 << STATUS_BITS)
        times = self.now + np.cumsum(passed)
        self.now = int(times[-1])
        return told["seen"], told["age"], told["oldest"], times, clocks

    def ages(self):
        """Return the ages of all cells, as golden has them, and the tick that they are of."""
        spec, now = self.spec, self.counts["time"]
        words = np.array([self.memory(part, words=spec.cells, width=18)
                          for part in range(spec.hashes)])  # fmt: skip
        return np.minimum((now - words) % (1 << spec.stamp_bits), spec.window_blocks + 1), now
