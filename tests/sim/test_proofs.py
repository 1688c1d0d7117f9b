"""The prover: what it proves, refutes, and says about what it cannot decide.

`make prove` runs the proofs, and the table of defects shows that they find broken hardware.
"""

import gc
import json
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial

import pytest
from cases import daily
from click.testing import CliRunner

from campaigns.__main__ import main
from lately.hdl.memory.segment import VARIANTS
from lately.sim.proofs import catalogue as proofs
from lately.sim.proofs.formal import Bounded, Induction, Proof, Reachable, Unbounded, run_proof
from lately.sim.proofs.frontend import WindowInInsertions
from lately.sim.proofs.results import QueueOrder
from lately.sim.proofs.segments import RingContents, SegmentAnswers
from lately.sim.toolchain import models

pytestmark = pytest.mark.rtl


def record(build, method, **others):
    done = run_proof(Proof("name", "statement", "design", build, method, **others))
    print(done.status, done.depth, f"{done.seconds:.1f} s", done.advice)
    return done


@pytest.mark.parametrize("name", ["result queue", "free entries", "addition by digits"])
def test_holds(name):
    (proof,) = proofs.select([name])
    assert run_proof(proof).proven


@pytest.mark.parametrize("variant", daily(1, ["ecp5", "ice40", "gowin"]))
def test_only_strict_variants_do_without_the_rest_of_a_word(variant):
    build = partial(SegmentAnswers, depth=16, clear_bits=16, memory=VARIANTS[variant])
    strict = models(f"{variant}-strict")
    assert record(build, Bounded(20), models=strict).status == "failed"


class Wrong(WindowInInsertions):
    """Requires that there are no shifts."""

    def __init__(self, **others):
        super().__init__(generation=5, window=3, **others)

    def build(self, m):
        super().build(m)
        self.require(~self.shift)


class Distant(QueueOrder):
    """Requires that no word is reused, which takes longer than the base of an induction."""

    def build(self, m):
        super().build(m)
        self.require(~self.goals["a word is reused"])


def test_failed_induction_finds_the_counterexample():
    done = record(partial(Distant, depth=4), Induction(3))
    assert done.status == "failed"
    assert done.depth > 4
    assert done.advice == ""


RING = partial(RingContents, segments=4, run=2, depth=16, clear_bits=2, segment=0)
WITHOUT_INVARIANTS = partial(QueueOrder, depth=4, inside=False)


@pytest.mark.parametrize(
    ("build", "method", "advice"),
    [
        # Without invariants, the step starts from states that never occur.
        (WITHOUT_INVARIANTS, Induction(2), "the induction step fails: add an invariant"),
        (RING, Unbounded(1), "no invariant was found in time"),
        (RING, Bounded(60, seconds=1), "the time limit was reached: use fewer cycles"),
    ],
)
def test_unknown_tells_what_to_do_next(build, method, advice, monkeypatch):
    monkeypatch.setattr("lately.sim.proofs.formal.SEARCH", 8)
    done = record(build, method)
    assert done.status == "unknown"
    assert advice in done.advice


def test_goal_out_of_reach_is_unknown():
    (proof,) = proofs.select(["window in insertions"])
    (near,) = proof.covers()
    assert run_proof(near).proven
    done = run_proof(replace(near, method=Reachable(3)))
    assert done.status == "unknown"
    assert "the state was not reached: allow more cycles" in done.advice


def test_search_is_in_the_smaller_design_and_ends_where_a_proof_ends():
    queue, ages = (proofs.select([name])[0] for name in ("result queue", "ages of cells"))
    assert queue.search().design == "8 entries"
    assert ages.search().method.clocks == ages.method.clocks


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
    assert {cover.design for cover in covers} == {"8 entries"}


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
    assert [outcome["status"] for outcome in outcomes] == ["proven", "proven"]


@pytest.mark.slow
def test_command_is_silent_about_what_a_proof_leaves():
    """One that takes a part out of a unit has no use for the others."""
    command = [sys.executable, "-m", "campaigns", "prove", "spare in time, unit"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert all(line.endswith(": proven") for line in done.stderr.splitlines())


@pytest.mark.parametrize(
    ("build", "method", "message"),
    [
        (Wrong, Unbounded(), "failed\n"),
        (
            WITHOUT_INVARIANTS,
            Induction(2),
            "unknown: no failure in 8 cycles; the induction step fails: ",
        ),
    ],
)
def test_command_fails(build, method, message, monkeypatch):
    monkeypatch.setattr("lately.sim.proofs.formal.SEARCH", 8)
    monkeypatch.setattr(proofs, "PROOFS", (Proof("name", "", "", build, method, goals=()),))
    result = CliRunner().invoke(main, ["prove"])
    assert result.exit_code == 1
    status = message.partition(":")[0].strip()
    assert result.stderr.startswith(f"name: {status}\nlately: error: name: {message}")
    assert status in result.stdout


def test_command_refuses():
    result = CliRunner().invoke(main, ["prove", "x"])
    assert result.exit_code == 2
    assert result.stderr == ("lately: error: no proof matches 'x'; --list shows their names\n")
