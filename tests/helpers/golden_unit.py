"""Golden models in the place of compiled hardware of any kind, with one fault."""

import numpy as np

from lately.golden import from_spec
from lately.hdl.build import unit_profile

AT = 40
"""Operation of each call whose answer is wrong."""


class GoldenUnit:
    """Answers as `lately.sim.compiled_unit` of a specification, less its fault.

    Faults are ``field NAME`` of an answer, ``counter NAME``, ``memory``; ``no generation``,
    ``no secret``, ``no table``, ``no reset``, which have no effect.
    """

    def __init__(self, spec, *, fault="", ticks=None, **_build):
        self.spec, self._fault, self._ticks_from = spec, fault, ticks
        self.profile = unit_profile(spec)
        self.ticks = self.cycles = 0
        self._model = self._new_model()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def _new_model(self):
        return from_spec(self.spec)

    def interrupt(self, _codes, _keys, _beats):
        if self._fault != "no reset":
            self._model = self._new_model()
        self.ticks = 0

    def set_generation(self, length):
        if self._fault != "no generation":
            least = self.profile.minimum_generation
            self._model.generation = max(length, least) if self.spec.lanes > 1 else length

    def rekey(self, secret):
        self._model.rekey(secret ^ (self._fault == "no secret"))

    def decide_by(self, table):
        if self._fault != "no table":
            self._model.decide_by(table)

    @property
    def statistics(self):
        counts = self._model.counters
        kind, _, name = self._fault.partition(" ")
        if kind == "counter":
            counts[name] += 1
        return counts

    @property
    def memory(self):
        timed = self.spec.timed and self.spec.kind == "timing"
        now = self.ticks * self.spec.period if timed else 0
        memory = np.array(self._model.memory_at(now) if timed else self._model.memory)
        if self._fault == "memory":
            memory.flat[0] ^= 1
        return memory

    def _wrong(self, answers):
        kind, _, name = self._fault.partition(" ")
        if kind == "field" and len(answers.seen) > AT:
            getattr(answers, name)[AT] ^= 1
        return answers

    def perform(self, codes, keys, times=None, windows=None, **_how):
        return self._wrong(self._model.perform(codes, keys, times, windows))

    def _times(self, count, period):
        self.cycles += count
        times = self.ticks + np.arange(count) // period
        self.ticks = int(times[-1])
        return times

    def pass_ticks(self, ticks):
        self.ticks += ticks

    def idle(self, cycles):
        self.ticks += cycles // self.profile.least_period

    def perform_freely(self, codes, keys, *asked, period, silence=0, **_how):
        times = self._times(len(codes), period)
        unit = getattr(self.spec, "period", 1)
        told = self._model.perform(codes, keys, times * unit, *asked)
        self.ticks += silence // period
        self.cycles += silence
        return self._wrong(told._replace(time=times))
