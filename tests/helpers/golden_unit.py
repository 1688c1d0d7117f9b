"""Golden models in the place of compiled hardware of any kind, with one fault."""

from campaigns.random_test import GoldenPlayer

AT = 40
"""Operation of each call whose answer is wrong."""


class GoldenUnit(GoldenPlayer):
    """Answers as `lately.sim.compiled_unit` of a specification, less its fault.

    Faults are ``field NAME`` of an answer, ``counter NAME``, ``memory``; ``no generation``,
    ``no secret``, ``no table``, ``no reset``, which have no effect.
    """

    def __init__(self, spec, *, fault="", **_build):
        self._kind, _, self._name = fault.partition(" ")
        self._missing = self._name if self._kind == "no" else ""
        super().__init__(spec)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def interrupt(self, codes, keys, beats):
        before = self.model
        super().interrupt(codes, keys, beats)
        self.model = before if self._missing == "reset" else self.model

    def set_generation(self, length):
        if self._missing != "generation":
            super().set_generation(length)

    def rekey(self, secret):
        super().rekey(secret ^ (self._missing == "secret"))

    def decide_by(self, table):
        if self._missing != "table":
            super().decide_by(table)

    @property
    def statistics(self):
        counts = super().statistics
        if self._kind == "counter":
            counts[self._name] += 1
        return counts

    @property
    def memory(self):
        memory = super().memory
        if self._kind == "memory":
            memory.flat[0] ^= 1
        return memory

    def _wrong(self, answers):
        if self._kind == "field" and len(answers.seen) > AT:
            getattr(answers, self._name)[AT] ^= 1
        return answers

    def perform(self, *operations, **how):
        return self._wrong(super().perform(*operations, **how))

    def perform_freely(self, *operations, **how):
        return self._wrong(super().perform_freely(*operations, **how))
