"""Proofs of window dictionaries, and that one without one of its cures is found out."""

from functools import partial

import pytest
from mutants import broken

from lately.hdl.dictionary import column, core, stash
from lately.hdl.dictionary.column import Column
from lately.hdl.dictionary.moves import Crowd
from lately.hdl.dictionary.placement import Placement
from lately.hdl.dictionary.places import SparePlace
from lately.hdl.dictionary.stash import Stash
from lately.hdl.dictionary.sweep import Sweep
from lately.hdl.dictionary.visitor import Visitor
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
        "stalls for the stash of a ring",
        "stalls for the sweep of a ring",
    ],
)
def test_holds(name):
    (proof,) = proofs.select([name])
    assert run_proof(proof).proven
    assert all(run_proof(cover).proven for cover in proof.covers())


def status(build, clocks):
    record = run_proof(Proof("name", "statement", "design", build, Bounded(clocks)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status


def without(monkeypatch, home, component, old, new):
    """Have a module build a component with a defect."""
    monkeypatch.setattr(home, component.__name__, broken(component, old, new))


@pytest.mark.parametrize(
    ("component", "old", "new"),
    [
        # What a memory gives that is written while it is read.
        (Column, 'cell.used & ~met, "used")', 'cell.used, "used")'),
        # An operation that cancels an erasure.
        (Sweep, "pending & ~self._elaborate_cancelled(m, start)", "pending"),
        # The sweep.
        (Sweep, "self.writes.eq(flight[-1] & pending &", "self.writes.eq(0 & pending &"),
    ],
)
def test_column_without_a_cure_is_found_out(monkeypatch, component, old, new):
    defect = broken(component, old, new)
    monkeypatch.setattr(column, component.__name__, defect)
    column_kind = defect if component is Column else Column
    assert status(partial(ColumnAnswers, column=column_kind), 62) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A cell that is in doubt.
        ("self.match.eq(held & young & ~self.doubted)", "self.match.eq(held & young)"),
        # One that the sweep writes while it is read.
        ("swept & self.sweep.repairs", "swept & 0"),
        # What the sweep makes of it.
        ("renews = repairs & repair.lost", "renews = Const(0)"),
    ],
)
def test_parity_without_a_cure_is_found_out(old, new):
    assert status(partial(UpsetAnswers, column=broken(Column, old, new)), 48) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # An operation that has read the cell, or reads it in that very clock.
        ("spoiled | (self.hold & (reads | leaves))", "spoiled | (self.hold & reads)"),
        ("spoiled | (self.hold & (reads | leaves))", "spoiled | (self.hold & leaves)"),
        ("may & ~reads & ~self.busy", "may & ~self.busy"),
        # An entry whose place has changed, or is about to.
        ("spoiled | (self.hold & (reads | leaves))", "self.hold & (reads | leaves)"),
        ("~self.busy & ~visit.pushes", "~self.busy"),
        # The last insertion of the window.
        ("distance < self._spec.window + 1", "distance < self._spec.window"),
        ("distance < self._spec.window + 1", "distance < self._spec.window + 2"),
    ],
)
def test_column_of_a_ring_without_a_cure_is_found_out(monkeypatch, old, new):
    without(monkeypatch, column, Visitor, old, new)
    assert status(ExchangeAnswers, 32) == "failed"


@pytest.mark.parametrize(
    ("component", "old", "new"),
    [
        # The digest of an operation in flight.
        (Placement, "mine = acts & self._same.at(stage).value[distance - 1]", "mine = acts & 0"),
        # What was read of a cell that was written since.
        (Placement, "(self.free & ~state.written)", "self.free"),
        # An entry that is displaced, and not reported.
        (Stash, "self.lost.eq(displaces & (gone < self._spec.window))", "self.lost.eq(0)"),
    ],
)
def test_core_without_a_cure_is_found_out(monkeypatch, component, old, new):
    without(monkeypatch, core, component, old, new)
    assert status(DictionaryAnswers, 48) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # What an entry that gives way becomes.
        ("exchanged & exchange.evicted_valid.replicate(places)", "Const(0, places)"),
        # The digest that comes from a cell.
        ("Mux(exchange.exchanges, exchange.evicted.as_value(), own)", "own"),
        # An entry that changed after it was looked at, and is taken for expired.
        (
            'at{cycle}")\n        gone = place & expired',
            'at{cycle}")\n        gone = place | expired',
        ),
    ],
)
def test_ring_without_a_cure_is_found_out(monkeypatch, old, new):
    without(monkeypatch, core, Stash, old, new)
    assert status(RingAnswers, 32) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # While there is no room, or a clock too long.
        ("full & (since < MAX_STALL)", "full"),
        ("full & (since < MAX_STALL)", "full & (since <= MAX_STALL)"),
    ],
)
def test_ring_that_rests_too_long_for_its_stash_is_found_out(monkeypatch, old, new):
    without(monkeypatch, stash, Crowd, old, new)
    assert status(RestsForStash, 150) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Entries come however far the sweep is behind.
        ("visit.closed.eq(busy | self.behind)", "visit.closed.eq(busy)"),
        # An entry waits until no operation reads its row.
        ("spoiled | (self.hold & (reads | leaves))", "spoiled"),
    ],
)
def test_ring_that_rests_too_long_for_its_sweep_is_found_out(monkeypatch, old, new):
    without(monkeypatch, column, Visitor, old, new)
    assert status(RestsForSweep, 120) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The entry of a full stash goes without a word, or is none of the stash.
        ("(self.valid & spare & ~self.match).any()", "0"),
        ("spare.eq(other)", "spare.eq(other | spare)"),
        ("following.eq(lowest(unused))", "following.eq(unused)"),
        # Two pushes in a row go to the same place.
        ("unused = self.unused & ~following", "unused = self.unused"),
    ],
)
def test_broken_places_are_found_out(monkeypatch, old, new):
    without(monkeypatch, stash, SparePlace, old, new)
    assert status(PushesFindPlaces, 20) == "failed"


def test_offer_of_an_entry_that_the_next_push_displaces_is_found_out():
    defect = broken(Stash, "stale.eq(changed | place.candidate)", "stale.eq(changed)")
    assert status(partial(PushesFindPlaces, stash=defect), 20) == "failed"
