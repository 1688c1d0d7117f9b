"""The random course of long runs: it has all that a user can vary, and each fault shows in it."""

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest

from campaigns import soak
from campaigns.scenario import GoldenPlayer, build_options, drawn_build
from lately.cli.filter_choice import with_ticks
from lately.golden import any_preset

AT = 40
"""Operation of each call whose answer is wrong."""


class GoldenUnit(GoldenPlayer):
    """Golden in the place of `lately.sim.compiled_unit`, less one fault.

    It answers as compiled hardware of any kind, which would have to be compiled first. The fault is
    a field of answers, the counter ``hits``, ``memory``, or a method that has no effect.
    """

    def __init__(self, spec, fault=""):
        self._fault = fault
        super().__init__(spec)
        if callable(getattr(self, fault, None)):
            setattr(self, fault, lambda *_: None)

    @property
    def statistics(self):
        return super().statistics | {"hits": super().statistics["hits"] + (self._fault == "hits")}

    @property
    def memory(self):
        memory = super().memory
        memory.flat[0] ^= self._fault == "memory"
        return memory

    def _wrong(self, answers):
        if self._fault in answers._fields and len(answers.seen) > AT:
            getattr(answers, self._fault)[AT] ^= 1
        return answers

    def perform(self, *operations, **options):
        return self._wrong(super().perform(*operations, **options))

    def perform_freely(self, *operations, **options):
        return self._wrong(super().perform_freely(*operations, **options))


SHOWS = {
    "seen": "verdicts", "age": "ages", "oldest": "oldest", "status": "statuses", "time": "times",
    "hits": "counters", "memory": "memory_", "set_generation": "ages", "_restart": "counters",
    "rekey": "verdicts", "decide_by": "verdicts",
}  # fmt: skip
"""Faults, and the beginning of the difference that each shows as."""


@dataclass(frozen=True)
class Kind:
    """A kind of units, the faults that its course finds, and what the course varies."""

    spec: object
    faults: str
    varies: str = ""
    ticks: str | None = None


GENERATIONS = "generation: below the minimum,generation: longest,generation: minimum," \
    "generation: one more,generation: own,reset"  # fmt: skip
TIMED, TIMING = any_preset("timed-tiny"), any_preset("timing-tiny")
DICTIONARY = any_preset("dictionary-tiny")
KINDS = {
    "ring": Kind(any_preset("tiny"), "seen age hits set_generation _restart memory", GENERATIONS),
    "lanes": Kind(any_preset("two-lanes-tiny"), "seen age set_generation",
                  f"{GENERATIONS},holes,skips"),
    "secrets of lanes": Kind(replace(any_preset("two-lanes-tiny"), hash="siphash"), "rekey",
                             "secret"),
    "secrets": Kind(any_preset("siphash-tiny"), "rekey", "secret"),
    "time": Kind(TIMED, "seen age status hits memory", GENERATIONS),
    "time, tick": Kind(TIMED, "seen age status time memory", f"{GENERATIONS},period", "tick"),
    "time, period": Kind(TIMED, "seen status time memory", f"{GENERATIONS},period", "period"),
    "ticks": Kind(TIMING, "seen age oldest time hits memory", "period,reset", "tick"),
    "insertions": Kind(any_preset("timing-counted-tiny"), "seen age oldest hits memory", "reset"),
    "tables": Kind(replace(TIMING, classes=2), "decide_by", ticks="tick"),
    "dictionary": Kind(DICTIONARY, "seen age status hits _restart memory", "reset"),
    "secrets of a dictionary": Kind(replace(DICTIONARY, hash="siphash"), "rekey", "secret"),
}  # fmt: skip


@pytest.fixture
def perform(monkeypatch):
    """Run a soak of a kind beside golden with a fault; return its figures."""
    monkeypatch.setattr(soak, "CHUNK", 100)
    monkeypatch.setattr("campaigns.scenario.SHORT_SHARE", 3)
    monkeypatch.setattr(soak, "MEMORY_CHUNKS", 4)
    monkeypatch.setattr("campaigns.scenario.SILENCE", 2_000)

    def run(kind, fault="", *, chunks, seed=3):
        monkeypatch.setattr(
            "lately.sim.compiled_unit", lambda spec, **_: nullcontext(GoldenUnit(spec, fault))
        )
        build = {"memory": "portable"} | ({"ticks": kind.ticks} if kind.ticks else {})
        monkeypatch.setattr(soak, "drawn_build", lambda *_: build)
        return soak.soak(kind.spec, operations=100 * chunks, seed=seed)

    return run


@pytest.mark.parametrize("name", KINDS)
def test_golden_beside_itself_differs_in_nothing(name, perform):
    """And all that may vary does, within a few chunks."""
    kind = KINDS[name]
    figures = perform(kind, chunks=24)
    print(figures["course"])
    assert set(figures["mismatches"].values()) == {0}
    assert {name for name in kind.varies.split(",") if name} <= {*figures["course"]}
    assert figures["course"]["stalls"]
    assert figures["operations"] == 2_400


@pytest.mark.parametrize(
    ("name", "fault"),
    [(name, fault) for name, kind in KINDS.items() for fault in kind.faults.split()],
)
def test_each_fault_shows(name, fault, perform):
    # A reset comes in every fourth chunk, and a new length in every second.
    chunks = 16 if callable(getattr(GoldenUnit, fault, None)) else 4
    wrong = perform(KINDS[name], fault, chunks=chunks)["mismatches"]
    print(wrong)
    assert any(count for kind, count in wrong.items() if kind.startswith(SHOWS[fault]))


SPECS = {name: any_preset(name) for name in ("tiny", "gebf-tiny", "two-lanes-tiny", "timed-tiny",
         "timing-tiny", "dictionary-tiny")}  # fmt: skip
# With stamps of a width that all memories take.
SPECS["counted"] = replace(any_preset("timing-counted-tiny"), stamp_bits=8)


@pytest.mark.parametrize("name", SPECS)
def test_every_value_of_every_option_is_drawn(name):
    spec = SPECS[name]
    builds = [drawn_build(spec, np.random.default_rng(seed)) for seed in range(80)]
    for option, values in build_options(spec).items():
        assert {build[option] for build in builds} == {*values}, option
    assert drawn_build(spec, np.random.default_rng(5)) == builds[5]


def test_options_are_of_the_seed(monkeypatch):
    """Unless the memory is given, with which the others have their defaults."""
    built = []

    def opened(spec, **build):
        built.append(build)
        return nullcontext(GoldenUnit(spec))

    monkeypatch.setattr("lately.sim.compiled_unit", opened)
    spec = any_preset("tiny")
    for seed, memory in ((1, None), (1, None), (2, None), (1, "ecp5")):
        figures = soak.soak(spec, operations=50, seed=seed, memory=memory)
        assert figures["build"] == built[-1]
    assert built[0] == built[1] != built[2]
    assert built[3] == {"memory": "ecp5"}


def test_spans_are_built_with_each_source_of_ticks():
    spec = with_ticks(any_preset("default"), span=1000)
    assert build_options(spec)["ticks"] == ("tick", "period", "time")
