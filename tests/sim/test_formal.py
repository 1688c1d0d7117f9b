"""Proofs of the parts, and that a broken part is found out."""

import gc
import inspect
import json
import subprocess
import sys
import warnings
from functools import partial

import pytest
from amaranth.hdl import Module
from cases import daily
from click.testing import CliRunner
from mutants import broken

from campaigns.__main__ import main
from lately.golden import preset
from lately.hdl.frontend import front
from lately.hdl.frontend.front import FrontEnd
from lately.hdl.frontend.gate import Gate
from lately.hdl.frontend.schedule import GenerationCounter
from lately.hdl.hash import secrets
from lately.hdl.memory.blocks import DualPortSegmentMemory
from lately.hdl.memory.segment import PortableSegmentMemory, RegisteredSegmentMemory
from lately.hdl.memory.variants import VARIANTS
from lately.hdl.ring.detector import RingDetector
from lately.hdl.ring.ring import Ring
from lately.hdl.unit import Unit
from lately.sim.proofs import catalogue as proofs
from lately.sim.proofs.core import GuaranteeOfCore, TrackingCore
from lately.sim.proofs.formal import Bounded, Proof, Unbounded, run_proof
from lately.sim.proofs.frontend import (
    SWEPT,
    ExactCount,
    NoAlarm,
    SpareInTime,
    SpareOfUnitInTime,
    WindowInInsertions,
)
from lately.sim.proofs.segments import RingContents, SegmentAnswers, Undefined
from lately.sim.toolchain import models

pytestmark = pytest.mark.rtl


class Forgetful(PortableSegmentMemory):
    """Answers 0 to everything."""

    def elaborate(self, platform):
        return Module()


class Impatient(FrontEnd):
    """Thinks that a generation as long as a sweep is long enough."""

    def __init__(self, *, minimum_generation, **others):
        super().__init__(minimum_generation=minimum_generation - 1, **others)


class Miscounting(FrontEnd):
    """Does not count the insertion that begins a generation."""

    def __init__(self, **others):
        super().__init__(**others)
        first = 'turns & ~registered(m, self.fill, "filled")'
        counter = broken(GenerationCounter, first, "Signal()")
        self.schedule.counter = counter(width=others["generation_bits"])


class Nearsighted(RingDetector):
    """Overlooks the oldest run."""

    def _elaborate_runs(self, pipe, spans):
        runs = super()._elaborate_runs(pipe, spans)
        younger = (1 << self.starts - 1) - 1
        return pipe.combine("younger", lambda flags: flags & younger, runs)


Overlooking = partial(TrackingCore, detector=Nearsighted)


class Oversweeping(Ring):
    """Sweeps for twice as many cycles as there are words."""

    def __init__(self, *, clear_words, **others):
        super().__init__(clear_words=2 * clear_words, **others)


class Underwriting(Ring):
    """Writes one segment less than a run is long."""

    def __init__(self, *, run, **others):
        super().__init__(run=run - 1, **others)


def outcome(build, method):
    record = run_proof(Proof("name", "statement", "design", build, method))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status


# `make prove` has them.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["segment answers", "window in insertions", "guarantee, preset gebf-tiny"]
)
def test_holds(name):
    """The rest takes longer: all of `python -m campaigns prove`."""
    (proof,) = proofs.select([name])
    assert run_proof(proof).proven
    assert all(run_proof(cover).proven for cover in proof.covers())


@pytest.mark.parametrize(
    "build",
    daily(
        1,
        [
            partial(SegmentAnswers, memory=Forgetful),
            # Half of the spare is left as it was.
            partial(
                RingContents, segments=4, run=2, depth=8, clear_bits=2, clear_words=2, segment=0
            ),
            partial(SpareInTime, words=4, front=Impatient),
            partial(NoAlarm, words=4, front=Impatient),
            partial(ExactCount, words=2, front=Miscounting),
            pytest.param(
                partial(
                    SpareOfUnitInTime,
                    spec=SWEPT,
                    unit=broken(Unit, "core.clear_cycles,", "core.clear_cycles // 2,"),
                ),
                marks=pytest.mark.slow,
            ),
        ],
    ),
    ids=["segment", "ring", "spare", "monitor", "count", "spare of a unit"],
)
def test_broken_part_is_found_out(build):
    assert outcome(build, Bounded(80)) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        1,
        [
            ("Mux(met_last, last, ", "Mux(0, last, "),
            ("Mux(met_before, before, word2)", "word2"),
            ("write.addr.eq(place2)", "write.addr.eq(Mux(self.clear, self.clear_address, place2))"),
            ("write.en & (place2 == place1)", "set2 & (place2 == place1)"),
        ],
    ),
)
def test_broken_output_register_is_found_out(old, new):
    memory = type(
        "Broken", (broken(RegisteredSegmentMemory, old, new),), {"_read": Undefined._read}
    )
    assert outcome(partial(SegmentAnswers, memory=memory), Bounded(40)) == "failed"


def vendor(variant, old, new):
    """Return a segment memory of block RAMs, broken in a piece of what all vendors share."""
    whole = VARIANTS[variant]
    if old in inspect.getsource(whole):
        return broken(whole, old, new)
    own = {name: value for name, value in vars(whole).items() if not name.startswith("__")}
    return type("Broken", (broken(DualPortSegmentMemory, old, new),), own)


@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        1,
        [
            pytest.param("self.result.eq(go & held & ~silent)", "self.result.eq(0)", id="lost"),
            pytest.param("flows = accepted & ~bits.alone", "flows = accepted", id="twice"),
            pytest.param(
                "self.arrive | starting[0] | (go & rests)",
                "starting[0] | (go & rests)",
                id="for good",
            ),
        ],
    ),
)
def test_monitor_of_the_gate_tells(monkeypatch, old, new):
    """An operation that is lost, or comes twice, and a gate that stays closed."""
    monkeypatch.setattr(front, "Gate", broken(Gate, old, new))
    assert outcome(partial(NoAlarm, words=2), Bounded(60)) == "failed"


HAZARD = "self._same_bit(pipe, address, self._setting(pipe, set, clear))"
SETTING = "Mux(clearing, 0, set & Cat(chosen(address)).all())"


@pytest.mark.parametrize(
    ("variant", "old", "new"),
    daily(
        1,
        [
            # The read that meets the write of its bit is believed.
            ("ecp5", HAZARD, "None"),
            ("gowin", HAZARD, "None"),
            # So is one that meets a clear.
            ("ice40", "Mux(zeroed, 0, word)", "word"),
            # Both ports write one bit.
            ("ecp5", SETTING, "set & Cat(chosen(address)).all()"),
            ("gowin", SETTING, "set & Cat(chosen(address)).all()"),
        ],
    ),
)
def test_broken_block_ram_is_found_out(variant, old, new):
    memory = vendor(variant, old, new)
    build = partial(SegmentAnswers, depth=16, clear_bits=16, memory=memory)
    record = run_proof(Proof("", "", "", build, Bounded(20), models(variant)))
    assert record.status == "failed"


@pytest.mark.parametrize("variant", daily(1, ["ecp5", "ice40", "gowin"]))
def test_only_strict_variants_do_without_the_rest_of_a_word(variant):
    memory = VARIANTS[variant]
    build = partial(SegmentAnswers, depth=16, clear_bits=16, memory=memory)
    record = run_proof(Proof("", "", "", build, Bounded(20), models(f"{variant}-strict")))
    assert record.status == "failed"


@pytest.mark.parametrize("name", daily(0, ["ecp5, 16", "gowin, 16", "ice40, 32"]))
def test_vendors_hold(name):
    (proof,) = proofs.select([f"segment answers, {name} bits"])
    assert run_proof(proof).proven
    assert all(run_proof(cover).proven for cover in proof.covers())


@pytest.mark.parametrize(
    "core",
    daily(
        1,
        [
            Overlooking,
            partial(TrackingCore, ring=Oversweeping),
            partial(TrackingCore, ring=Underwriting),
        ],
    ),
    ids=["overlooking", "oversweeping", "underwriting"],
)
def test_broken_promise_is_found_out(core):
    spec = preset("apbbf-tiny")
    build = partial(GuaranteeOfCore, spec=spec, core=core, strengthen=False)
    assert outcome(build, Bounded(60)) == "failed"


def test_promise_of_one_shift_more_is_found_out():
    """The window is as long as is said, and no longer."""

    class Wider(GuaranteeOfCore):
        def __init__(self, **others):
            super().__init__(strengthen=False, **others)
            self._window = self._spec.window_generations + 1

    assert outcome(partial(Wider, spec=preset("gebf-tiny")), Bounded(60)) == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        1,
        [
            pytest.param("& (older == 0)", "", id="the older secret is forgotten at once"),
            pytest.param("(self._ring_segments - 1)", "(self._ring_segments - 2)", id="too soon"),
            pytest.param("SipHash.HOLD + 2", "1", id="while keys are hashed"),
        ],
    ),
)
def test_secret_that_changes_too_soon_is_found_out(old, new):
    source = inspect.getsource(secrets)
    assert source.count(old) == 1
    namespace = {"__name__": secrets.__name__, "__package__": secrets.__package__}
    exec(source.replace(old, new), namespace)
    (proof,) = proofs.select(["guarantee with re-keying"])
    assert outcome(partial(proof.build, secrets=namespace["Secrets"]), proof.method) == "failed"


def test_too_little_time_is_unknown():
    build = partial(RingContents, segments=4, run=2, depth=16, clear_bits=2, segment=0)
    assert outcome(build, Unbounded(1)) == "unknown"


def test_goal_out_of_reach_is_unknown():
    (proof,) = proofs.select(["window in insertions"])
    (near,) = proof.covers()
    assert run_proof(near).proven
    record = run_proof(Proof("name", "", "", near.build, type(near.method)(3)))
    assert record.status == "unknown"


def test_names_of_goals_cause_no_warnings():
    (proof,) = proofs.select(["result queue"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Components that other tests dropped.
        gc.collect()
        caught.clear()
        covers = proof.covers()
        gc.collect()
    assert caught == []
    assert {cover.design for cover in covers} == {"8 places"}


def test_names_are_unique():
    names = [proof.name for proof in proofs.PROOFS]
    assert len(set(names)) == len(names)


def test_command_lists():
    result = CliRunner().invoke(main, ["prove", "--list", "--json"])
    assert json.loads(result.stdout) == [proof.name for proof in proofs.PROOFS]
    assert "segment answers" in CliRunner().invoke(main, ["prove", "--list"]).stdout


def test_command_proves():
    result = CliRunner().invoke(main, ["prove", "window in ins*", "--json"])
    assert result.exit_code == 0
    outcomes = json.loads(result.stdout)["proofs"]
    assert [one["status"] for one in outcomes] == ["proven", "proven"]


@pytest.mark.slow
def test_command_is_silent_about_what_a_proof_leaves():
    """One that takes a part out of a unit has no use for the others."""
    command = [sys.executable, "-m", "campaigns", "prove", "spare in time, unit"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_command_fails(monkeypatch):
    (proof,) = proofs.select(["window in ins*"])
    broken = Proof(proof.name, "", "", Wrong, proof.method)
    monkeypatch.setattr(proofs, "PROOFS", (broken,))
    result = CliRunner().invoke(main, ["prove"])
    assert result.exit_code == 1
    assert result.stderr == "lately: error: window in insertions: failed\n"
    assert "failed" in result.stdout


class Wrong(WindowInInsertions):
    """Says that there are no shifts."""

    def __init__(self, **others):
        super().__init__(generation=5, window=3, **others)

    def build(self, m):
        super().build(m)
        self.require(~self.shift)


def test_command_refuses():
    result = CliRunner().invoke(main, ["prove", "x"])
    assert result.exit_code == 2
    assert result.stderr == ("lately: error: proof: must be one that --list names, not 'x'\n")
