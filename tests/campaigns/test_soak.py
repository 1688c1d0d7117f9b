"""The long run beside golden: what it compares, and that it would notice."""

import json
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from campaigns import scenario, soak
from campaigns.options import UnknownNameError
from campaigns.scenario import STALLS
from lately.cli.filter_choice import with_ticks
from lately.golden import FilterSpec, any_preset, preset
from lately.sim import CompiledUnit, compiled_unit
from lately.sim.replay.driven import DrivenModel


def wrong(point):
    return [*soak.wrong(soak.run(point))]


def test_points():
    assert [point["case"] for point in soak.points()] == [*soak.CASES]
    assert [point["seed"] for point in soak.points(case=("default",), seeds="1-3")] == [1, 2, 3]
    (point,) = soak.points(preset=("tiny",), operations=100)
    assert (point["case"], point["operations"]) == ("tiny", 100)
    with pytest.raises(UnknownNameError, match=r"^'x' matches none of default, "):
        soak.points(case=("x",))


@dataclass(frozen=True)
class Run:
    """A unit, and what a soak of three chunks of it compares and counts at least."""

    spec: object
    kinds: str  # of differences
    minimum: dict[str, int]
    memory: str = "portable"


DICTIONARY = "verdicts ages statuses counters memory_cells"
TIMING = "verdicts ages oldest counters memory_cells"
TABLES = replace(any_preset("timing-counted-tiny"), block=4, stamp_bits=6, classes=2, phase_bits=2)
RUNS = {
    "ring": Run(any_preset("tiny"), "verdicts ages counters memory_bits", {"ring_turns": 100}),
    "lanes": Run(any_preset("two-lanes-tiny"), "verdicts ages counters memory_bits",
                 {"ring_turns": 3}),
    "dictionary": Run(any_preset("dictionary-tiny"), DICTIONARY, {"lost": 1}),
    "ticks": Run(any_preset("timing-tiny"), f"{TIMING} times",
                 {"expired": 1000, "rounds_of_stamps": 21}, "ecp5"),
    "insertions": Run(any_preset("timing-counted-tiny"), TIMING,
                      {"expired": 1000, "rounds_of_stamps": 61}, "ecp5"),
    "tables": Run(TABLES, TIMING, {"tables": 3}),
    "tables of ticks": Run(replace(any_preset("timing-tiny"), classes=3), f"{TIMING} times",
                           {"tables": 3}),
}  # fmt: skip
DAILY = {"ring", "dictionary", "ticks"}


@pytest.mark.rtl
@pytest.mark.parametrize(
    "name", [name if name in DAILY else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_soak_compares_everything(name, monkeypatch):
    monkeypatch.setattr(soak, "CHUNK", 4_000)
    monkeypatch.setattr(soak, "MEMORY_CHUNKS", 2)
    monkeypatch.setattr("campaigns.scenario.SILENCE", 5_000)
    monkeypatch.setattr("lately.sim.compiled_unit", partial(compiled_unit, optimisation=0))
    given = RUNS[name]
    figures = soak.soak(given.spec, operations=10_000, memory=given.memory)
    assert figures["mismatches"] == dict.fromkeys(given.kinds.split(), 0)
    assert (figures["operations"], figures["memory_comparisons"]) == (10_000, 2)
    for kind, minimum in ({"hits": 1000} | given.minimum).items():
        assert figures[kind] >= minimum, kind
    assert name.startswith("tables") or figures["clears"] == 3
    if "hits_by_age" in figures:
        assert figures["hits"] == sum(figures["hits_by_age"])
        assert all(figures["hits_by_age"])
    json.dumps(figures)


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("name", "fields", "seed"),
    [("tiny", {}, 3),
     *(pytest.param(name, fields, seed, marks=pytest.mark.slow) for seed in range(1, 5)
       for name, fields in [
           ("tiny", {}), ("gebf-tiny", {}), ("siphash-tiny", {}), ("timed-tiny", {}),
           ("two-lanes-tiny", {}), ("two-lanes-tiny", {"hash": "siphash"}), ("timing-tiny", {}),
           ("timing-tiny", {"classes": 3}), ("timing-counted-tiny", {}), ("dictionary-tiny", {}),
           ("dictionary-tiny", {"hash": "siphash"}), ("dictionary-ring-tiny", {})])],
)  # fmt: skip
def test_soak_of_drawn_hardware(name, fields, seed, monkeypatch):
    """All options of the hardware, and all that a user can vary, are those of the seed."""
    monkeypatch.setattr(soak, "CHUNK", 1_000)
    monkeypatch.setattr("campaigns.scenario.SILENCE", 3_000)
    monkeypatch.setattr("lately.sim.compiled_unit", partial(compiled_unit, optimisation=0))
    spec = replace(any_preset(name), **fields)
    figures = soak.soak(spec, operations=6_000, seed=seed)
    print(f"seed {seed}:", figures["build"], figures["course"])
    assert set(figures["mismatches"].values()) == {0}


SAME = dict.fromkeys(("verdicts", "ages", "statuses", "counters", "memory_bits"), 0)

SMALL = {
    "apbbf": {"k": 2, "l": 2, "block_bits": 8, "hashes_per_block": 2, "blocks": 16},
    "apbf": {"k": 3, "l": 2, "slice_bits": 128},
    "gebf": {"window": 64, "epochs": 2, "hashes": 2, "bits": 384},
    "blocked-gebf": {"window": 64, "epochs": 2, "hashes": 2, "bits": 384, "block_bits": 8},
}
"""The least that may have a window in time."""


@pytest.mark.rtl
@pytest.mark.parametrize(
    "spec",
    [any_preset("tiny"), any_preset("dictionary-tiny"),
     *(pytest.param(spec, marks=pytest.mark.slow)
       for spec in [any_preset("two-lanes-tiny"), any_preset("timing-tiny"),
                    any_preset("timing-counted-tiny"),
                    FilterSpec(family="apbbf", **SMALL["apbbf"], span=40)])],
)  # fmt: skip
def test_soak_with_stalls(spec, monkeypatch):
    """Pauses come before operations and before results are taken, and change no answer."""
    monkeypatch.setattr(soak, "CHUNK", 500)
    monkeypatch.setattr("campaigns.scenario.SILENCE", 500)
    monkeypatch.setattr("lately.sim.compiled_unit", partial(compiled_unit, optimisation=0))
    paused, drive = set(), DrivenModel._drive

    def watched(unit, *beats, **pauses):
        paused.add((pauses.get("pause_before"), pauses.get("pause_after")))
        return drive(unit, *beats, **pauses)

    monkeypatch.setattr(DrivenModel, "_drive", watched)
    figures = soak.soak(spec, operations=6_000, memory="portable")
    assert figures["course"]["stalls"]
    assert set(figures["mismatches"].values()) == {0}
    # Operations that a reset interrupts have none.
    paused.discard((None, None))
    assert {share for shares in paused for share in shares} == set(STALLS)
    for shares in zip(*paused, strict=True):
        assert len(set(shares)) > 1


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("family", "when_full"),
    [
        ("apbbf", "shorten"),
        pytest.param("apbf", "overfill", marks=pytest.mark.slow),
        pytest.param("gebf", "overfill", marks=pytest.mark.slow),
        pytest.param("blocked-gebf", "shorten", marks=pytest.mark.slow),
    ],
)
def test_soak_in_time(family, when_full, monkeypatch):
    monkeypatch.setattr(soak, "CHUNK", 5_000)
    monkeypatch.setattr("lately.sim.compiled_unit", partial(compiled_unit, optimisation=0))
    spec = FilterSpec(family=family, key_bits=8, clear=8, **SMALL[family])
    spec = with_ticks(spec, span=60, when_full=when_full)
    figures = soak.soak(spec, operations=20_000, memory="portable")
    assert figures["mismatches"] == SAME
    assert figures["ring_turns"] > 100
    assert all(figures["hits_by_age"])
    statuses = figures["statuses"]
    assert sum(statuses) == 20_000
    assert all(statuses) == (when_full == "overfill")  # A SHIFT shortens the window in both.
    assert figures["shortened"] > 20
    assert (figures["overfilled"] > 100) == (when_full == "overfill")
    assert figures["ticks"] > 20 * spec.span


def test_times_of_a_soak():
    """Bursts and silences: no time, or longer than what expires, and the very ticks of that."""
    spec = with_ticks(preset("default"), span=1000)
    random = np.random.default_rng(1)
    times = np.concatenate(
        [scenario._times(random, spec, 10_000, now) for now in range(0, 10**7, 10**5)]
    )
    gaps = np.diff(times.reshape(-1, 10_000))
    assert (gaps >= 0).all()
    assert (gaps == 0).mean() > 0.5
    assert {199, 200, 201, 202, 203, 998, 999, 1000, 1001, 1002} <= set(gaps.flat)
    assert 3000 < gaps.max() < 4500
    assert (scenario._times(random, spec, 10, 5) >= 5).all()


@pytest.mark.rtl
def test_soak_notices(monkeypatch):
    """One verdict, one age and one bit that differ are each reported, and the command fails."""

    class Faulty(CompiledUnit):
        def perform(self, operations, keys, **options):
            verdicts = super().perform(operations, keys, **options)
            if len(keys) < 102:
                return verdicts
            verdicts.seen[100] ^= True
            verdicts.age[101] += 1
            return verdicts

        @property
        def memory(self):
            bits = super().memory.copy()
            bits[0, 0, 0] ^= True
            return bits

    monkeypatch.setattr("lately.sim.compiled_unit", partial(Faulty, optimisation=0))
    (point,) = soak.points(preset=("tiny",), operations=3000, memory="portable")
    assert wrong(point) == [
        "mismatches: must be 0, not {'verdicts': 1, 'ages': 1, 'memory_bits': 1}"
    ]
