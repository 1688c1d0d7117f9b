"""The deduplicator of frames under two simulators, against its golden model."""

import pytest
from capture_bench import DATA
from capture_files import CAPTURES

from lately.golden.spec import GEBFSpec
from lately.hdl.packets.axis_frames import AxisFrames
from lately.sim.bench import runner
from lately.sim.bench.runner import SIMULATORS, run_frame_bench

pytestmark = [pytest.mark.rtl, pytest.mark.slow]

SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
LARGE = GEBFSpec(window=240, epochs=3, hashes=4, bits=32768, key_bits=64, span=20)
RATE = ("random_frames", "line_rate")
EVERY = (*RATE, "full_store", "lengths", "fields", "span", "closed_input", "registers")
SMALL = {"longest": 198, "store": 1024, "frames": 32}


def check(cases, simulator, folder, *, spec=SPEC, **how):
    found = run_frame_bench(
        spec, simulator, folder, testcase="|".join(cases), seed=7, **SMALL | how
    )
    told = (folder / f"{simulator}.log").read_text()[-6000:]
    assert found == dict.fromkeys(cases, True), told


@pytest.mark.parametrize("memory", ["portable", "ecp5"])
@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_frames(simulator, width, memory, tmp_path):
    check(EVERY, simulator, tmp_path, width=width, memory=memory, count=60)


@pytest.mark.parametrize(("port", "test"), [("tdata", "lengths"), ("tuser", "fields")])
def test_unit_with_a_fault_fails(port, test, monkeypatch, tmp_path):
    class Faulty(AxisFrames):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            m.d.comb += getattr(self, f"m_axis_{port}")[0].eq(0)
            return m

    monkeypatch.setattr(runner, "AxisFrames", Faulty)
    found = run_frame_bench(SPEC, "icarus", tmp_path, testcase=f"{test}|registers", **SMALL)
    assert found == {test: False, "registers": True}


@pytest.mark.parametrize("width", [128, 256, 512])
def test_wide_frames(width, tmp_path):
    """Frames of 9,600 bytes pass unrecorded, and frames of 64 bytes come and go in every cycle."""
    sizes = {"longest": 1518, "store": 32768, "frames": 256, "oversize": "pass"}
    check([*RATE, "jumbo_frames"], "verilator", tmp_path, width=width,
          count=40, **sizes)  # fmt: skip


@pytest.mark.parametrize("width", [8, 64, 512])
def test_inner_packets(width, tmp_path):
    """Innermost packets are compared, and frames of 60 bytes and more lose no cycle."""
    sizes = {"longest": 1518, "store": 32768, "frames": 256, "inner": True}
    check(RATE, "verilator", tmp_path, width=width, count=40, **sizes)


@pytest.mark.parametrize("width", [8, 64])
def test_full_store_drops(width, tmp_path):
    check(["full_store", "line_rate"], "icarus", tmp_path, width=width, when_full="drop")


@pytest.mark.parametrize(("width", "cases"), [(8, ()), (64, EVERY), (128, ()), (512, ())])
def test_input_without_tready(width, cases, tmp_path):
    sizes = {"longest": 180, "store": 1024 if width <= 64 else 4096, "ready": False}
    # More frames would leave the window before they come again.
    sizes["count"] = 60 if cases else 200
    check([*cases, "no_waiting"], "verilator", tmp_path, width=width, when_full="drop", **sizes)


@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_captures(simulator, width, tmp_path):
    if not DATA.is_dir():
        pytest.skip(f"{CAPTURES} is absent")
    how = {"longest": 2000, "store": 8192, "frames": 64, "modules": ["capture_bench"]}
    check(["captures"], simulator, tmp_path, spec=LARGE, width=width, **how)
