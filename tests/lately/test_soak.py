"""The long run beside golden: what it compares, and that it would notice."""

import json

import pytest
from click.testing import CliRunner

from lately.cli.app import main
from lately.golden import SpecificationError, any_preset, preset
from lately.replay import soak
from lately.sim import CompiledUnit


@pytest.mark.rtl
def test_soak_compares_everything(monkeypatch):
    monkeypatch.setattr(soak, "CHUNK", 5_000)
    monkeypatch.setattr(soak, "MEMORY_CHUNKS", 2)
    done = []
    figures = soak.soak(preset("tiny"), operations=22_000, progress=done.append)
    assert figures["mismatches"] == {"verdicts": 0, "ages": 0, "counters": 0, "memory_bits": 0}
    assert figures["operations"] == sum(done) == 22_000
    assert figures["memory_comparisons"] == 3
    assert figures["clears"] == 5
    assert figures["ring_turns"] > 100
    assert all(figures["hits_by_age"])
    assert figures["hits"] == sum(figures["hits_by_age"])


@pytest.mark.rtl
def test_soak_of_lanes(monkeypatch):
    monkeypatch.setattr(soak, "CHUNK", 3_000)
    figures = soak.soak(preset("two-lanes-tiny"), operations=6_000)
    assert figures["mismatches"] == {"verdicts": 0, "ages": 0, "counters": 0, "memory_bits": 0}
    assert figures["ring_turns"] > 3
    with pytest.raises(SpecificationError, match="lanes: must be 1 for CompiledUnit, not 2"):
        CompiledUnit(preset("two-lanes-tiny"))


@pytest.mark.rtl
def test_soak_notices(monkeypatch):
    """One verdict, one age and one bit that differ are each reported, and the command fails."""

    class Faulty(CompiledUnit):
        def apply(self, operations, keys):
            verdicts = super().apply(operations, keys)
            verdicts.seen[100] ^= True
            verdicts.age[101] += 1
            return verdicts

        @property
        def memory(self):
            bits = super().memory.copy()
            bits[0, 0, 0] ^= True
            return bits

    monkeypatch.setattr("lately.sim.compiled_unit", Faulty)
    arguments = ["bench", "soak", "--preset", "tiny", "--operations", "3000"]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 1
    figures = json.loads(result.stdout)
    assert figures["mismatches"] == {"verdicts": 1, "ages": 1, "counters": 0, "memory_bits": 1}
    assert (
        "mismatches: must be 0, not {'verdicts': 1, 'ages': 1, 'memory_bits': 1}" in result.stderr
    )


@pytest.mark.rtl
def test_soak_interrupted(monkeypatch):
    monkeypatch.setattr(soak, "CHUNK", 1_000)
    done = []

    def stop(count):
        done.append(count)
        if len(done) == 2:
            raise KeyboardInterrupt

    figures = soak.soak(preset("tiny"), operations=10_000, progress=stop)
    assert (figures["operations"], figures["interrupted"]) == (2_000, True)


@pytest.mark.rtl
def test_soak_of_a_dictionary(monkeypatch):
    monkeypatch.setattr(soak, "CHUNK", 4_000)
    figures = soak.soak(any_preset("dictionary-tiny"), operations=10_000)
    kinds = ("verdicts", "ages", "statuses", "counters", "memory_cells")
    assert figures["mismatches"] == dict.fromkeys(kinds, 0)
    assert (figures["operations"], figures["clears"]) == (10_000, 3)
    assert figures["hits"] > 1000
    assert figures["uncertain"] > 0
    json.dumps(figures)
