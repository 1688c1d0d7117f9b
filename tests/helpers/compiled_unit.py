"""Units with a window for each query in compiled simulation, driven as filters are."""

import ctypes

import numpy as np
from amaranth.back import verilog
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lately.hdl.interface import UnitSignature
from lately.sim.replay import compiled
from lately.sim.replay.model import cached_model, defines, load_model
from lately.sim.toolchain import cell_models

STATUS_BITS = 8


class WideKeys(wiring.Component):
    """A unit as the driver of filters knows units: the window is the top of a key.

    What the results are to have is chosen as `told`: names of fields whose bits, side by side, are
    the driver's age, of at most 15 bits; and of one whose low bits are its status.
    """

    def __init__(self, unit, *, age, status=None, outputs=(), **inputs):
        request, result = unit.signature.request, unit.signature.result
        self.unit, self.age, self.status = unit, age, status
        self.outputs, self.inputs = outputs, inputs
        self.key_bits = len(unit.i.p.key)
        self.words = -(-self.key_bits // 64)
        bits = sum(result[name].width for name in age)
        signature = UnitSignature(
            key_bits=64 * self.words + request["window"].width, tag_bits=8, generations=1 << bits,
            status_bits=STATUS_BITS, removes=request["operation"].width > 3,
        )  # fmt: skip
        self.macros = signature.macros()
        members = dict(signature.members) | {name: Out(32) for name in outputs}
        super().__init__(wiring.Signature({**members, "generation": In(8)}))

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
            # All results are seen, so that the driver tells all ages.
            self.o.p.seen.eq(1),
            self.o.p.age.eq(Cat(getattr(unit.o.p, name) for name in self.age)),
            self.o.p.tag.eq(unit.o.p.tag),
            *(getattr(self, name).eq(getattr(unit, name)) for name in self.outputs),
            *(getattr(unit, name).eq(value) for name, value in self.inputs.items()),
        ]
        if self.status:
            m.d.comb += self.o.p.status.eq(getattr(unit.o.p, self.status))
        return m


class CompiledUnit:
    """Performs operations; counts clocks from the end of the clear after reset on.

    Block RAMs are the models that garble where ports meet.

    Parameters
    ----------
    top : WideKeys
    clear : int
        Clocks of a clear.
    memories : list of str
        Paths of the memories below the unit that `memory` reads.
    """

    def __init__(self, top, *, clear, memories=()):
        self.top = top
        counts = " ".join(f"COUNTER({at}, {name})" for at, name in enumerate(top.outputs))
        paths = " ".join(
            f"MEMORY({at}, top_unit__DOT__unit__DOT__{path.replace('.', '__DOT__')})"
            for at, path in enumerate(memories)
        )
        library = cached_model(
            "\n".join([
                verilog.convert(top, name="top_unit", emit_src=False),
                *(path.read_text() for path in cell_models("DP16KD")),
            ]),
            top="top_unit",
            driver=compiled._DRIVER,
            header=defines(*top.macros, f"MEMORIES {paths}", f"COUNTERS {counts}"),
            options=["--flatten"],
            optimisation=2,
        )  # fmt: skip
        unit, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
        chance = ctypes.c_uint32
        self.library = load_model(library, {
            "lately_new": (unit, ()), "lately_reset": (None, (unit,)),
            "lately_cycles": (count, (unit,)), "lately_idle": (None, (unit, count)),
            "lately_statistics": (None, (unit, array)), "lately_begin": (None, (unit, count)),
            "lately_run": (ctypes.c_int64, (unit, count, count, *(array,) * 7, chance, chance)),
            "lately_memory": (None, (unit, count, count, count, array)),
        })  # fmt: skip
        self.unit = ctypes.c_void_p(self.library.lately_new())
        self.library.lately_reset(self.unit)
        self.idle(clear + 200)

    def idle(self, clocks):
        """Let clocks pass."""
        self.library.lately_idle(self.unit, clocks)

    def perform(self, codes, keys, windows, *, pauses=(0, 0)):
        """Return the fields of `age`, by name, and the status of all results, and the clocks."""
        count = len(codes)
        wide = np.column_stack(
            [np.asarray(keys, np.uint64).reshape(count, -1), np.asarray(windows, np.uint64)]
        )
        arrays = [
            # The driver masks the highest bit of a code, which tells it of an operation.
            np.zeros(count, np.uint8), np.asarray(codes, np.uint8) | 0x80,
            np.ascontiguousarray(wide, np.uint64), np.zeros(count + 1, np.uint64),
            np.zeros(count + 1, np.uint8), np.full(count + 1, -1, np.int16),
            np.zeros(count + 1, np.uint8),
        ]  # fmt: skip
        start = self.library.lately_cycles(self.unit)
        self.library.lately_begin(self.unit, 1)
        failed = self.library.lately_run(
            self.unit, count, count, *(array.ctypes.data for array in arrays), *pauses
        )
        assert failed == 0
        told, fields = arrays[5][:count].astype(np.int64), {}
        for name in self.top.age:
            bits = self.top.unit.signature.result[name].width
            fields[name], told = told & (1 << bits) - 1, told >> bits
        fields["status"] = arrays[6][:count].astype(np.int64)
        return fields, self.library.lately_cycles(self.unit) - start

    def memory(self, index, *, words, width):
        """Return the words of one of the `memories`."""
        values = np.zeros(words, np.uint64)
        self.library.lately_memory(self.unit, index, words, width, values.ctypes.data)
        return values.astype(np.int64)

    @property
    def counts(self):
        """Values of the outputs, 100 clocks on."""
        self.idle(100)
        values = np.zeros(len(self.top.outputs), np.uint64)
        self.library.lately_statistics(self.unit, values.ctypes.data)
        return dict(zip(self.top.outputs, values.tolist(), strict=True))
