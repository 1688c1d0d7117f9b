"""The proof of windows in time, and that a window with a defect is found out."""

from functools import partial

import pytest
from cases import daily
from mutants import broken

from lately.hdl.frontend.time_window import TimeWindow
from lately.hdl.ring.core import FilterCore
from lately.hdl.ring.detector import RingDetector
from lately.sim.proofs import catalogue as proofs
from lately.sim.proofs.expiry import Counted, WithinLimit
from lately.sim.proofs.formal import Bounded, Proof, run_proof
from lately.sim.proofs.frontend import SpareOfAgesInTime

pytestmark = pytest.mark.rtl


# `make prove` has them.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["window in time, times read with the clock", "limit of a window in time, k = 4, l = 8"]
)
def test_holds(name):
    """Other limits take as long: all of `python -m campaigns prove`."""
    (proof,) = proofs.select([name])
    assert run_proof(proof).proven
    assert all(run_proof(cover).proven for cover in proof.covers())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Time goes on before it is known what expires.
        ("~self.idle & self._known & ~self._change", "~self.idle & ~self._change"),
        # The look at the oldest ends before its age is there.
        ("settled = settling[-1]", "settled = settling[1]"),
        # An insertion of this tick does not keep the youngest.
        ("(self._inserted | ~self._known | ~expired)", "(~self._known | ~expired)"),
        # What expired counts again after a turn.
        ("Mux(self._turn, Mux(young, more, 0), count)", "Mux(self._turn, more, count)"),
        # A clear leaves what settled.
        ("self._young.eq(0), self._settled.eq(0), self._remaining.eq(0)",
         "self._young.eq(0), self._remaining.eq(0)"),
        # A loss is not told while it lasts.
        ("shortened & ~(window._tick & expired)", "shortened & ~window._tick"),
    ],
)  # fmt: skip
def test_window_with_a_defect_is_found_out(old, new):
    window = broken(TimeWindow, old, new)
    proof = Proof("name", "statement", "design", partial(Counted, window=window), Bounded(40))
    record = run_proof(proof)
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    assert record.status == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("synchronous_read", [False, True])
def test_look_at_another_generation_than_the_one_that_retires_is_found_out(synchronous_read):
    window = broken(TimeWindow, "Mux(self._turn, self._generations, self._remaining)",
                    "self._remaining")  # fmt: skip
    build = partial(Counted, window=window, synchronous_read=synchronous_read)
    record = run_proof(Proof("name", "statement", "design", build, Bounded(40)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    assert record.status == "failed"


@pytest.mark.slow
def test_tick_that_does_not_wait_for_the_spare_is_found_out():
    window = broken(TimeWindow, "ready & (self.clean | ~ages)", "ready")
    build = partial(SpareOfAgesInTime, when_full="shorten", window=window)
    record = run_proof(Proof("name", "statement", "design", build, Bounded(80)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    assert record.status == "failed"


@pytest.mark.parametrize(
    ("component", "old", "new"),
    daily(
        1,
        [
            # The first run that does not count, or the last that does.
            (FilterCore, "verdict.age < limit", "verdict.age <= limit"),
            (FilterCore, "verdict.age < limit", "verdict.age + 1 < limit"),
            # An older run in place of the youngest, which alone is compared.
            (RingDetector, "Mux(young[0], young[1:], old[1:])", "Mux(old[0], old[1:], young[1:])"),
        ],
    ),
)
def test_limit_with_a_defect_is_found_out(component, old, new):
    name = "core" if component is FilterCore else "detector"
    build = partial(WithinLimit, run=2, generations=4, **{name: broken(component, old, new)})
    record = run_proof(Proof("name", "statement", "design", build, Bounded(20)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    assert record.status == "failed"
