"""Proofs of the buses of exported units, and that broken ones are found out."""

from functools import partial

import pytest
from amaranth.hdl import Const
from cases import daily
from mutants import broken

from lately.hdl.bus.avalon_mm import AvalonMm
from lately.hdl.bus.axi4_lite import Axi4Lite
from lately.hdl.bus.controlled import ControlledUnit
from lately.hdl.bus.register_bank import RegisterBank
from lately.hdl.bus.wishbone import Wishbone
from lately.hdl.registers import Access
from lately.sim.proofs.buses import (
    PROOFS,
    AvalonMmRules,
    Axi4LiteRules,
    Faults,
    Orders,
    WishboneRules,
)
from lately.sim.proofs.formal import Bounded, Proof, run_proof

pytestmark = pytest.mark.rtl


def failed(build):
    record = run_proof(Proof("broken", "", "", build, Bounded(60)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_proven(proof):
    assert run_proof(proof).proven
    assert all(run_proof(cover).proven for cover in proof.covers())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('with m.If(self._port(channel, "ready")):', "with m.If(1):"),
        *(
            pytest.param(*change, marks=pytest.mark.slow)
            for change in (
                ('{"write": ~busy & may["write"]', '{"write": may["write"]'),
                ("ready.eq(~request.held)", "ready.eq(1)"),
                ('~busy & may["read"] & ~may["write"]', "0"),
                ("& ~self.s_axil_bvalid", ""),
                ('Mux(may["write"], to.value[low:], source.value[low:])', "source.value[low:]"),
            )
        ),
    ],
    ids=str,
)
def test_broken_axi4_lite_is_found_out(old, new):
    assert failed(partial(Axi4LiteRules, front=broken(Axi4Lite, old, new)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(waits | starts) & asks & ~access.done", "waits | starts"),
        ("asks & ~busy & ~answered", "asks & ~busy"),
        ("access.done & waits & asks & access.error", "0"),
        ("self.wb_stall_o.eq(~answered)", "self.wb_stall_o.eq(busy)"),
    ],
)
def test_broken_wishbone_is_found_out(old, new):
    assert failed(partial(WishboneRules, front=broken(Wishbone, old, new)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" & ~self.avs_waitrequest", ""),
        ("writes.eq(self.avs_write)", "writes.eq(0)"),
        ("self.avs_waitrequest.eq(0)", "self.avs_waitrequest.eq(access.error)"),
        ("Mux(access.error, SLAVEERROR, OKAY)", "OKAY"),
    ],
)
def test_broken_avalon_mm_is_found_out(old, new):
    assert failed(partial(AvalonMmRules, front=broken(AvalonMm, old, new)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("unit.o.valid & ~mark", "unit.o.valid"),
        ("self.o.ready | mark", "self.o.ready"),
        ("first.tag[-MARK_BITS:].eq(-1)", "first.tag[-MARK_BITS:].eq(0)"),
        ("(self.i.valid & ~closed) | order", "self.i.valid | order"),
        ("waits & (lead == 0) & ~taken", "waits & (lead == 0)"),
        ("given | (waits & ~taken)", "(waits & ~taken)"),
        # An order has the time of a request that waits.
        ("m.d.comb += unit.i.p.time.eq(last)", "pass"),
        ("m.If(self.i.valid & self.i.ready)", "m.If(self.i.valid)"),
    ],
)
def test_broken_orders_are_found_out(old, new):
    assert failed(partial(Orders, controlled=broken(ControlledUnit, old, new)))


class LosesEvents(RegisterBank):
    """An event that comes as its bit is cleared is lost."""

    def _elaborate_fault(self, m, name, event, written):
        ((word, field),) = self._fields(name)
        clears = written[word] & self._given(field)
        return super()._elaborate_fault(m, name, event & ~clears, written)


class ClearsAll(RegisterBank):
    """A write clears the bits where it has a 0, too."""

    def _given(self, field):
        return Const(1) if field.access is Access.STICKY else super()._given(field)


@pytest.mark.parametrize("bank", daily(1, [LosesEvents, ClearsAll]))
def test_broken_faults_are_found_out(bank, monkeypatch):
    monkeypatch.setattr("lately.hdl.bus.controlled.RegisterBank", bank)
    assert failed(Faults)
