"""A deduplicator between two lines, with PHYs of another project."""

from dataclasses import replace

import pytest
from amaranth.back import verilog

from lately.golden import preset
from lately.hdl.packets.deduplicator import Deduplicator
from lately.hdl.packets.line_deduplicator import LineDeduplicator
from lately.hdl.verilog import TOP
from lately.sim.bench.runner import SIMULATORS, run_bench

pytestmark = pytest.mark.rtl

SPEC = replace(preset("timed-tiny"), key_bits=64, blocks=256, window=None, generation=None)


@pytest.mark.parametrize(
    "simulator", [one if one == "icarus" else pytest.param(one, marks=pytest.mark.slow)
                  for one in SIMULATORS]
)  # fmt: skip
def test_frames_pass_once(simulator, tmp_path):
    deduplicator = Deduplicator(SPEC, width=8, when_full="drop")
    SPEC.to_toml(tmp_path / "spec.toml")
    passed = run_bench(
        verilog.convert(LineDeduplicator(deduplicator), name=TOP, emit_src=False),
        ["line_bench"],
        simulator,
        tmp_path,
        environment={"LATELY_SPEC": str(tmp_path / "spec.toml"), "LATELY_SEED": "3"},
        models=[],
    )
    assert passed == {"frames_pass_once": True}
