"""A dictionary unit in compiled simulation, with the models of block RAMs that garble."""

import numpy as np
from compiled_unit import CompiledUnit, WideKeys

from lately.hdl.dictionary.unit import DictionaryUnit


class CompiledDictionary(CompiledUnit):
    """Performs operations; see `CompiledUnit`."""

    def __init__(self, spec):
        unit = DictionaryUnit(spec, memory="ecp5", tag_bits=8)
        top = WideKeys(unit, age=("seen", "age"), outputs=tuple(unit.COUNTERS))
        super().__init__(top, clear=spec.rows)

    def apply(self, codes, keys, windows, **pauses):
        """Return ages of all operations, -1 for not seen, and the clocks that they took."""
        told, clocks = self.perform(codes, keys, windows, **pauses)
        return np.where(told["seen"] == 1, told["age"], -1), clocks
