"""A family in one file: filters that hold one key. docs/development.md explains it."""

from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from lately.golden import CountedFilter, Results, Specification
from lately.golden.operations import Operation, OperationBit
from lately.golden.spec.base import optional
from lately.hdl.build import Family, register
from lately.hdl.control import CoreSignature, Verdict
from lately.hdl.latencies import CONTROL_LAG, QUEUE_LATENCY
from lately.hdl.memory.map import MemoryMap, PhysicalMemory, Position
from lately.hdl.pipeline import Pipeline, registered
from lately.hdl.profile import Profile
from lately.planner import PLANNER_FAMILIES, PlannerFamily


@dataclass(frozen=True, kw_only=True)
class LastKeySpec(Specification, family="last-key"):
    """A filter that holds the last inserted key.

    QUERY reports a key if it equals the key that was inserted last, with age 0. INSERT replaces
    the key. CHECK_AND_INSERT reports before it replaces. After CLEAR and reset there is no key.
    """

    window: int = optional(1, high=1)
    mean_false_positive_rate = 0.0

    @property
    def storage_bits(self):
        return 1 + self.key_bits


class LastKey(CountedFilter):
    """Golden model."""

    specification = LastKeySpec

    def _empty(self):
        self._held = np.zeros(1 + -(-self.key_bits // 64), np.uint64)

    def _perform(self, codes, keys, times, windows):
        seen = np.zeros(len(codes), np.bool_)
        for at, code in enumerate(codes):
            entry = np.array([1, *keys[at]], np.uint64)
            if code == Operation.CLEAR:
                self._empty()
                continue
            seen[at] = code & OperationBit.QUERY and (self._held == entry).all()
            if code & OperationBit.INSERT:
                self._held = entry
        return Results.of(seen, np.where(seen, 0, -1))

    @property
    def memory(self):
        words = self._held[1:].astype("<u8").view(np.uint8)
        bits = np.unpackbits(words, bitorder="little")[: self.key_bits]
        return np.array([self._held[0], *bits], np.bool_).reshape(1, -1, 1)

    def _arrays(self):
        return {"held": (self._held, (1 << min(self.key_bits, 64)) - 1)}


class LastKeyCore(wiring.Component):
    """Hardware: a memory of one word, compared with the key of each operation."""

    latency = CONTROL_LAG + 1

    def __init__(self, spec):
        self._spec = spec
        super().__init__(CoreSignature(key_bits=spec.key_bits, verdict=Verdict(ages=1)))

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=1 + len(self.key), depth=1, init=[])
        held, write = words.read_port(domain="comb"), words.write_port()
        key = Pipeline(m).enter(self.key, "key", reset_less=True).at(CONTROL_LAG).value
        control, entry = self.control, Cat(1, key)
        m.d.comb += [
            write.en.eq(control.insert | control.clear),
            write.data.eq(Mux(control.clear, 0, entry)),
            self.valid_next.eq(control.valid),
            self.hit.eq(self.valid & self.verdict.seen),
        ]
        m.d.sync += self.verdict.seen.eq(control.query & (held.data == entry))
        for name in ("valid", "insert", "shift"):
            m.d.comb += getattr(self, name).eq(registered(m, control[name], f"{name}_after"))
        return m


class LastKeyProfile(Profile):
    """Figures of the unit."""

    latency_terms = {"core": LastKeyCore.latency, "queue": QUEUE_LATENCY - 1}

    def promise(self, key, *, flags):
        return ["The last inserted key is reported, and no other key."]


def _memory_map(profile):
    """Say where the memory of the golden model lies in the unit."""
    bits = profile.spec.storage_bits
    word = PhysicalMemory(("core", "words"), words=1, width=bits)
    return MemoryMap((word,), 1, bits, 1, lambda segment, bit, cell: Position(0, cell, bit))


class LastKeyPlan(PlannerFamily):
    """What the planner knows."""

    answers, exact_window, counts = "age 0", True, ("insertions",)

    def specs(self, requirement):
        if requirement.window == 1:
            yield LastKeySpec(key_bits=requirement.key_bits, seed=requirement.seed)

    def rates(self, spec, requirement):
        return 0.0, 0.0


register(
    Family(
        specification=LastKeySpec,
        profile=LastKeyProfile,
        core=lambda profile: LastKeyCore(profile.spec),
        memory_map=_memory_map,
    )
)
PLANNER_FAMILIES["last-key"] = LastKeyPlan("last-key")
