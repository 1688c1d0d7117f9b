"""Proofs of the parts, and that a broken part is found out."""

import pytest
from amaranth.hdl import Module

from lately.hdl.segment import PortableSegmentMemory
from lately.sim.formal import Proof, Unbounded, run_proof
from lately.sim.proofs_segments import SegmentAnswers


class Forgetful(PortableSegmentMemory):
    """Answers 0 to everything."""

    def elaborate(self, platform):
        return Module()


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("memory", "status"), [(PortableSegmentMemory, "proven"), (Forgetful, "failed")]
)
def test_segment_answers_as_all_before_left_it(memory, status):
    proof = Proof(
        name="segment",
        statement="An access answers with the bit as all accesses and sweeps before it left it.",
        design="16 bits, 4 cleared per clock, portable",
        build=lambda: SegmentAnswers(memory=memory),
        method=Unbounded(120),
    )
    record = run_proof(proof)
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    assert record.status == status
