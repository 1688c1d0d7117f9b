"""Proofs of window dictionaries, and that one without one of its cures is found out."""

from functools import partial

import pytest
from mutants import broken

from lately.hdl.dictionary import cell_checks, column, core, ring_core
from lately.hdl.dictionary.column import Column
from lately.hdl.dictionary.placement import Placement
from lately.hdl.dictionary.ring_column import RingColumn
from lately.hdl.dictionary.ring_stash import RingStash
from lately.hdl.dictionary.stash import Stash
from lately.sim.proofs import catalogue as proofs
from lately.sim.proofs.dictionary import ColumnAnswers, DictionaryAnswers, UpsetAnswers
from lately.sim.proofs.formal import Bounded, Proof, run_proof
from lately.sim.proofs.ring_answers import RingAnswers
from lately.sim.proofs.ring_exchanges import ExchangeAnswers
from lately.sim.proofs.ring_rests import PushesFindPlaces, RestsForStash, RestsForSweep

pytestmark = [pytest.mark.rtl, pytest.mark.slow]


@pytest.mark.parametrize(
    "name",
    [
        "column of a dictionary",
        "column of a dictionary, upset",
        "dictionary, any digest",
        "column of a ring",
        "ring of columns, any digest",
        "places of a ring's stash",
        "rests for the stash of a ring",
        "rests for the sweep of a ring",
    ],
)
def test_holds(name):
    (proof,) = proofs.select([name])
    assert run_proof(proof).proven
    for goal in proof.goals:
        assert run_proof(proof.reaching(goal)).proven


def status(build, clocks):
    record = run_proof(Proof("name", "statement", "design", build, Bounded(clocks)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # What a memory gives that is written while it is read.
        ("used.eq(cell.used & ~met)", "used.eq(cell.used)"),
        # An operation that forestalls an erasure.
        ("erase.eq(flight[-1] & expired & ~touched)", "erase.eq(flight[-1] & expired)"),
        # The sweep.
        ("erase.eq(flight[-1] & expired & ~touched)", "erase.eq(0)"),
    ],
)
def test_column_without_a_cure_is_found_out(old, new):
    assert status(partial(ColumnAnswers, column=broken(Column, old, new)), 62) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A cell that is in doubt.
        ("return flag & ~self._column.doubted", "return flag"),
        # One that the sweep writes while it is read.
        ("(cell.used & cell.unknown & ~met) | renewed", "cell.used & cell.unknown & ~met"),
        # What the sweep makes of it.
        ("renews = swept & self._renews", "renews = swept & 0"),
    ],
)
def test_parity_without_a_cure_is_found_out(monkeypatch, old, new):
    parity = broken(cell_checks.Parity, old, new)
    monkeypatch.setattr(column, "CHECKS", {"parity": parity})
    assert status(UpsetAnswers, 48) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # An operation that has read the cell, or reads it in that very clock.
        ("spoiled | (self._wants & (reads | leaves))", "spoiled | (self._wants & reads)"),
        ("spoiled | (self._wants & (reads | leaves))", "spoiled | (self._wants & leaves)"),
        ("may & ~reads & ~self.write", "may & ~self.write"),
        # An entry whose place has changed, or is about to.
        ("spoiled | (self._wants & (reads | leaves))", "self._wants & (reads | leaves)"),
        ("~self.write & ~self.pushes", "~self.write"),
        # The last insertion of the window.
        ("distance < self._spec.window + 1", "distance < self._spec.window"),
        ("distance < self._spec.window + 1", "distance < self._spec.window + 2"),
    ],
)
def test_column_of_a_ring_without_a_cure_is_found_out(old, new):
    assert status(partial(ExchangeAnswers, column=broken(RingColumn, old, new)), 32) == "failed"


@pytest.mark.parametrize(
    ("component", "old", "new"),
    [
        # The digest of an operation under way.
        (Placement, "mine = acts & self.same[distance - 1]", "mine = acts & 0"),
        # What was read of a cell that was written since.
        (Placement, "(self.free & ~state.written)", "self.free"),
        # An entry that is displaced, and not told.
        (Stash, "self.lost.eq(later & (gone < self._spec.window))", "self.lost.eq(0)"),
    ],
)
def test_core_without_a_cure_is_found_out(monkeypatch, component, old, new):
    monkeypatch.setattr(core, component.__name__, broken(component, old, new))
    assert status(DictionaryAnswers, 48) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # What an entry that gives way becomes.
        ("| (exchanged & self.lives.replicate(places))", ""),
        # The digest of what came from a cell.
        ("Mux(self.exchanges, self.comer.digest, self.digest)", "self.digest"),
        # An entry that changed after it was looked at, and is taken for expired.
        (
            'at{clock}")\n        gone = place & expired',
            'at{clock}")\n        gone = place | expired',
        ),
    ],
)
def test_ring_without_a_cure_is_found_out(monkeypatch, old, new):
    monkeypatch.setattr(ring_core, "RingStash", broken(RingStash, old, new))
    assert status(RingAnswers, 32) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # While there is no room, or a clock too long.
        ("full & (since < PATIENCE)", "full"),
        ("full & (since < PATIENCE)", "full & (since <= PATIENCE)"),
    ],
)
def test_ring_that_rests_too_long_for_its_stash_is_found_out(old, new):
    assert status(partial(RestsForStash, stash=broken(RingStash, old, new)), 150) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Entries come however far the sweep is behind.
        ("self.closed.eq(self._busy | behind)", "self.closed.eq(self._busy)"),
        # An entry waits until no operation reads its row.
        ("spoiled | (self._wants & (reads | leaves))", "spoiled"),
    ],
)
def test_ring_that_rests_too_long_for_its_sweep_is_found_out(old, new):
    assert status(partial(RestsForSweep, column=broken(RingColumn, old, new)), 120) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The entry of a full stash goes without a word, or is none of the stash.
        ("(self._valid & oldest & ~self._match).any()", "0"),
        ("spare.eq(other)", "spare.eq(other | self._spare)"),
        ("first.eq(lowest(free))", "first.eq(free)"),
    ],
)
def test_broken_places_are_found_out(old, new):
    assert status(partial(PushesFindPlaces, stash=broken(RingStash, old, new)), 20) == "failed"
