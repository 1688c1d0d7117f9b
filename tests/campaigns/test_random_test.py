"""The random course of long runs: it has all that a user can vary, and each fault shows in it."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from golden_unit import GoldenUnit

from campaigns import soak
from campaigns.random_test import RandomTest, build_options, drawn_build
from lately.golden import any_preset
from lately.planner.choice import with_ticks


@dataclass(frozen=True)
class Kind:
    """A kind of units, the differences that its course finds, and what the course varies."""

    spec: object
    fields: str = "verdicts:seen ages:age"
    others: str = ""
    varies: str = ""
    ticks: str | None = None


GENERATIONS = "generation: below the minimum,generation: longest,generation: minimum," \
    "generation: one more,generation: own,reset"  # fmt: skip
TIMING = "verdicts:seen ages:age oldest:oldest"
KINDS = {
    "ring": Kind(any_preset("tiny"), others="counter no:generation no:reset memory_bits",
                 varies=GENERATIONS),
    "lanes": Kind(any_preset("two-lanes-tiny"), others="no:generation",
                  varies=f"{GENERATIONS},holes,skips"),
    "secrets of lanes": Kind(replace(any_preset("two-lanes-tiny"), hash="siphash"), "",
                             "no:secret", "secret"),
    "secrets": Kind(any_preset("siphash-tiny"), "", "no:secret", "secret"),
    "time": Kind(any_preset("timed-tiny"), "verdicts:seen ages:age statuses:status",
                 "counter memory_bits", GENERATIONS),
    "time, tick": Kind(any_preset("timed-tiny"),
                       "verdicts:seen ages:age statuses:status times:time", "memory_bits",
                       f"{GENERATIONS},period", "tick"),
    "time, period": Kind(any_preset("timed-tiny"), "verdicts:seen statuses:status times:time",
                         "memory_bits", f"{GENERATIONS},period", "period"),
    "ticks": Kind(any_preset("timing-tiny"), f"{TIMING} times:time",
                  "counter memory_cells", "period,reset", "tick"),
    "insertions": Kind(any_preset("timing-counted-tiny"), TIMING, "counter memory_cells", "reset"),
    "tables": Kind(replace(any_preset("timing-tiny"), classes=2), "", "no:table", "", "tick"),
    "dictionary": Kind(any_preset("dictionary-tiny"), "verdicts:seen ages:age statuses:status",
                       "counter no:reset memory_cells", "reset"),
    "secrets of a dictionary": Kind(replace(any_preset("dictionary-tiny"), hash="siphash"), "",
                                    "no:secret", "secret"),
}  # fmt: skip


@pytest.fixture
def perform(monkeypatch):
    """Run a soak of a kind beside golden with a fault; return its figures."""
    monkeypatch.setattr(soak, "CHUNK", 100)
    monkeypatch.setattr("campaigns.random_test.SHORT_SHARE", 3)
    monkeypatch.setattr(soak, "MEMORY_CHUNKS", 4)
    monkeypatch.setattr("campaigns.random_test.SILENCE", 2_000)

    def run(kind, fault="", *, chunks, seed=3):
        opened = partial(GoldenUnit, fault=fault, ticks=kind.ticks)
        monkeypatch.setattr("lately.sim.compiled_unit", lambda spec, **_build: opened(spec))
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


def faults(kind):
    """Return faults and the difference that each shows as."""
    for pair in kind.fields.split():
        difference, _, field = pair.partition(":")
        yield f"field {field}", difference
    for other in kind.others.split():
        if other == "counter":
            yield "counter hits", "counters"
        elif other.startswith("memory"):
            yield "memory", other
        else:
            shows = {"no:reset": "counters", "no:generation": "ages"}
            yield other.replace(":", " "), shows.get(other, "verdicts")


@pytest.mark.parametrize(
    ("name", "fault", "difference"),
    [(name, *one) for name, kind in KINDS.items() for one in faults(kind)],
)
def test_each_fault_shows(name, fault, difference, perform):
    # A reset comes in every fourth chunk, and a new length in every second.
    chunks = 16 if fault.startswith("no ") else 4
    wrong = perform(KINDS[name], fault, chunks=chunks)["mismatches"]
    print(wrong)
    assert wrong[difference]


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
        return GoldenUnit(spec)

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


@pytest.mark.parametrize("fault", ["", "memory", "field seen", "counter hits"])
def test_a_family_without_events_of_its_own(fault):
    """`RandomTest` itself tests a filter of any family."""
    spec = any_preset("tiny")
    test = RandomTest(GoldenUnit(spec, fault=fault), spec, seed=1)
    for _ in range(4):
        test.perform(100)
    test.compare_memory()
    assert any(test.mismatches.values()) == bool(fault)
    assert test.figures()["operations"] == 400
