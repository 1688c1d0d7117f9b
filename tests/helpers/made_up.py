"""Measurements that nobody made."""

from campaigns.cases import select
from campaigns.measurements import Measurement
from lately.boards.flow.synthesis import SynthesisReport

(CASE,) = select(["apbbf/ecp5-25k-6"])


def measurement(case=CASE, *, seed=1, rtlil="0", versions=None, **figures):
    """Make up a measurement."""
    values = {
        "timing_mhz": 330.0,
        "limit_mhz": 400.0,
        "limit": "clock tree",
        "lut": 1600,
        "ff": 1900,
        "bram": 32,
        "latency_cycles": 24,
        "critical_path": f"from here to there, seed {seed}",
    }
    report = SynthesisReport(
        device=case.device,
        seed=seed,
        harness_lut=48,
        harness_ff=400,
        utilisation={},
        lanes=1,
        versions=versions or {"yosys": "1", "nextpnr-ecp5": "1", "amaranth": "1"},
        **values | figures,
    )
    return Measurement(spec=case.spec, rtlil=rtlil, flow="synth", report=report)
