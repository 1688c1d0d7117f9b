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
    ("simulator", "count"),
    [("icarus", 12), *(pytest.param(one, 200, marks=pytest.mark.slow) for one in SIMULATORS)],
)
def test_frames_pass_once(simulator, count, tmp_path):
    deduplicator = Deduplicator(SPEC, width=8, when_full="drop")
    SPEC.to_toml(tmp_path / "spec.toml")
    environment = {"LATELY_SPEC": str(tmp_path / "spec.toml"), "LATELY_COUNT": str(count)}
    passed = run_bench(
        verilog.convert(LineDeduplicator(deduplicator), name=TOP, emit_src=False),
        ["line_bench"],
        simulator,
        tmp_path,
        environment=environment | {"LATELY_SEED": "3"},
        models=[],
    )
    assert passed == {"frames_pass_once": True}
