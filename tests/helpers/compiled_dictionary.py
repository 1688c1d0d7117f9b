"""A dictionary unit in compiled simulation, with the models of block RAMs that garble."""

import ctypes

import numpy as np
from amaranth.back import verilog
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from lately.hdl.dictionary.unit import DictionaryUnit
from lately.hdl.interface import UnitSignature
from lately.sim.replay import compiled
from lately.sim.replay.model import cached_model, defines, load_model
from lately.sim.toolchain import cell_models

COUNTERS = DictionaryUnit.COUNTERS


class WideKeys(wiring.Component):
    """The unit as the driver of filters knows units: the window is the top of a key."""

    def __init__(self, spec):
        self.unit = DictionaryUnit(spec, memory="ecp5", tag_bits=8)
        self.words = -(-spec.key_bits // 64)
        self.key_bits = spec.key_bits
        signature = UnitSignature(
            key_bits=64 * self.words + spec.window.bit_length(), tag_bits=8,
            generations=spec.window, removes=True, counters=dict.fromkeys(COUNTERS, 32),
        )  # fmt: skip
        self.macros = signature.macros()
        super().__init__(wiring.Signature({**dict(signature.members), "generation": In(8)}))

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        m.d.comb += [
            unit.i.p.key.eq(self.i.p.key[: self.key_bits]),
            unit.i.p.window.eq(self.i.p.key[64 * self.words :]),
            unit.i.p.operation.eq(self.i.p.operation),
            unit.i.p.tag.eq(self.i.p.tag),
            unit.i.valid.eq(self.i.valid),
            self.i.ready.eq(unit.i.ready),
            self.o.valid.eq(unit.o.valid),
            unit.o.ready.eq(self.o.ready),
            self.o.p.eq(Cat(unit.o.p.seen, unit.o.p.age, unit.o.p.tag)),
            *(getattr(self, name).eq(getattr(unit, name)) for name in COUNTERS),
        ]
        return m


class CompiledDictionary:
    """Performs operations; counts clocks from the end of the clear after reset on."""

    def __init__(self, spec):
        top = WideKeys(spec)
        self.words = top.words
        counts = " ".join(f"COUNTER({at}, {name})" for at, name in enumerate(COUNTERS))
        text = verilog.convert(top, name="top_unit", emit_src=False)
        library = cached_model(
            "\n".join([text, *(path.read_text() for path in cell_models("DP16KD"))]),
            top="top_unit",
            driver=compiled._DRIVER,
            header=defines(*top.macros, "MEMORIES", f"COUNTERS {counts}"),
            options=["--flatten"],
            optimisation=2,
        )
        unit, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
        chance = ctypes.c_uint32
        self.library = load_model(library, {
            "lately_new": (unit, ()), "lately_reset": (None, (unit,)),
            "lately_cycles": (count, (unit,)), "lately_idle": (None, (unit, count)),
            "lately_statistics": (None, (unit, array)), "lately_begin": (None, (unit, count)),
            "lately_run": (ctypes.c_int64, (unit, count, count, *(array,) * 7, chance, chance)),
        })  # fmt: skip
        self.unit = ctypes.c_void_p(self.library.lately_new())
        self.library.lately_reset(self.unit)
        self.library.lately_idle(self.unit, spec.rows + 200)

    def apply(self, codes, keys, windows, *, pauses=(0, 0)):
        """Return ages of all operations, -1 for not seen, and the clocks that they took."""
        count = len(codes)
        wide = np.column_stack(
            [np.asarray(keys, np.uint64).reshape(count, -1), np.asarray(windows, np.uint64)]
        )
        arrays = [
            np.zeros(count, np.uint8), np.asarray(codes, np.uint8),
            np.ascontiguousarray(wide, np.uint64), np.zeros(count + 1, np.uint64),
            np.zeros(count + 1, np.uint8), np.full(count + 1, -1, np.int16),
            np.zeros(count + 1, np.uint8),
        ]  # fmt: skip
        # The driver masks the highest bit of a code, which tells it of an operation.
        arrays[1] = arrays[1] | 0x80
        start = self.library.lately_cycles(self.unit)
        self.library.lately_begin(self.unit, 1)
        failed = self.library.lately_run(
            self.unit, count, count, *(array.ctypes.data for array in arrays), *pauses
        )
        assert failed == 0
        return arrays[5][:count].astype(np.int64), self.library.lately_cycles(self.unit) - start

    @property
    def counts(self):
        self.library.lately_idle(self.unit, 100)
        values = np.zeros(len(COUNTERS), np.uint64)
        self.library.lately_statistics(self.unit, values.ctypes.data)
        return dict(zip(COUNTERS, values.tolist(), strict=True))
