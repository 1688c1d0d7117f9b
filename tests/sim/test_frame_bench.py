"""The deduplicator of frames under two simulators, against its golden twin."""

import json
from pathlib import Path

import pytest
from amaranth.back import verilog
from capture_files import CAPTURES

from lately.golden.spec import GEBFSpec
from lately.hdl.packets.axis_frames import AxisFrames, ControlledDeduplicator
from lately.hdl.packets.deduplicator import Deduplicator
from lately.hdl.verilog import TOP
from lately.sim.bench.runner import SIMULATORS, run_bench
from lately.sim.toolchain import models

pytestmark = [pytest.mark.rtl, pytest.mark.slow]

DATA = Path(__file__).parents[3] / CAPTURES
SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
LARGE = GEBFSpec(window=240, epochs=3, hashes=4, bits=32768, key_bits=64, span=20)
SMALL = {"longest": 198, "store": 1024, "frames": 32}


def outcomes(case, simulator, folder, *, spec=SPEC, width=64, count=20, memory="portable", **sizes):
    """Run cases of the bench; return whether they passed."""
    sizes = SMALL | sizes
    unit = Deduplicator(spec, width=width, ticks="tick", statistics_bits=64, memory=memory, **sizes)
    flat = AxisFrames(ControlledDeduplicator(unit, bus="axi4-lite", version=(1, 2, 3)))
    spec.to_toml(folder / "spec.toml")
    settings = {"width": width, "when_full": "wait", "oversize": "drop"} | sizes
    seed = 7
    print("seed", seed)
    return run_bench(
        verilog.convert(flat, name=TOP, emit_src=False),
        ["frame_bench"],
        simulator,
        folder / "bench",
        environment={
            "LATELY_SPEC": str(folder / "spec.toml"),
            "LATELY_SEED": str(seed),
            "LATELY_COUNT": str(count),
            "LATELY_FRAMES": json.dumps(settings),
            "LATELY_CAPTURES": str(DATA),
        },
        models=models(memory),
        testcase=case,
    )


def check(cases, simulator, folder, **how):
    found = outcomes("|".join(cases), simulator, folder, **how)
    told = (folder / "bench" / f"{simulator}.log").read_text()[-6000:]
    assert found == dict.fromkeys(cases, True), told


@pytest.mark.parametrize("memory", ["portable", "ecp5"])
@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_frames(simulator, width, memory, tmp_path):
    cases = ["random_frames", "line_rate", "full_store"]
    check(cases, simulator, tmp_path, width=width, memory=memory, count=60)


@pytest.mark.parametrize("width", [128, 256, 512])
def test_wide_frames(width, tmp_path):
    """Frames of 9,600 bytes pass unrecorded, and frames of 64 bytes come and go in every cycle."""
    sizes = {"longest": 1518, "store": 32768, "frames": 256, "oversize": "pass"}
    check(["random_frames", "line_rate", "jumbo_frames"], "verilator", tmp_path, width=width,
          count=40, **sizes)  # fmt: skip


@pytest.mark.parametrize("width", [8, 64, 512])
def test_inner_packets(width, tmp_path):
    """Innermost packets are compared, and frames of 60 bytes and more lose no cycle."""
    sizes = {"longest": 1518, "store": 32768, "frames": 256, "inner": True}
    check(["random_frames", "line_rate"], "verilator", tmp_path, width=width, count=40, **sizes)


@pytest.mark.parametrize("width", [8, 64])
def test_full_store_drops(width, tmp_path):
    check(["full_store", "line_rate"], "icarus", tmp_path, width=width, when_full="drop")


@pytest.mark.parametrize("width", [8, 64, 128, 512])
def test_input_without_tready(width, tmp_path):
    sizes = {"longest": 180, "store": 1024 if width <= 64 else 4096, "ready": False}
    check(["no_waiting"], "verilator", tmp_path, width=width, when_full="drop", count=200, **sizes)


@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_captures(simulator, width, tmp_path):
    if not DATA.is_dir():
        pytest.skip(f"{CAPTURES} is absent")
    sizes = {"longest": 2000, "store": 8192, "frames": 64}
    check(["captures"], simulator, tmp_path, spec=LARGE, width=width, **sizes)
