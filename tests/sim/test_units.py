"""The filter units against golden, under two simulators, sentence by sentence."""

import dataclasses

import pytest

from lately.golden import PRESETS, FilterSpec
from lately.sim.bench.runner import SIMULATORS, run_filter_bench

pytestmark = pytest.mark.rtl

SPECS = {
    name: PRESETS[name] for name in ("apbbf-tiny", "apbf-tiny", "gebf-tiny", "blocked-gebf-tiny")
} | {
    # Several words and parts, a key wider than the hash state, and a run of three.
    "apbbf-wide": FilterSpec(
        family="apbbf",
        k=3,
        l=4,
        block_bits=32,
        hashes_per_block=4,
        blocks=16,
        key_bits=104,
        seed=7,
        clear=16,
    ),
    # Re-keying with a run of two, a key of two words of the hash; and a secret without re-keying.
    "apbbf-rekey": PRESETS["siphash-tiny"],
    "gebf-rekey": dataclasses.replace(
        PRESETS["gebf-tiny"], hash="siphash", rekey=True, key_bits=70
    ),
    "blocked-gebf-siphash": dataclasses.replace(PRESETS["blocked-gebf-tiny"], hash="siphash"),
}
SEED = 20260807


LONG = {
    ("apbf-tiny", "verilator"),
    ("gebf-tiny", "verilator"),
    ("blocked-gebf-tiny", "icarus"),
    ("apbbf-wide", "icarus"),
    ("apbbf-rekey", "icarus"),
    ("gebf-rekey", "verilator"),
    ("blocked-gebf-siphash", "verilator"),
}
"""What is left to a long run: each is close to others, and runs under the other simulator."""


@pytest.mark.parametrize(
    ("name", "simulator"),
    [
        pytest.param(name, simulator, marks=pytest.mark.slow if (name, simulator) in LONG else ())
        for name in SPECS
        for simulator in SIMULATORS
    ],
)
def test_bench(name, simulator, tmp_path, capfd):
    outcomes = run_filter_bench(SPECS[name], simulator, tmp_path, seed=SEED)
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 30 + (SPECS[name].hash == "siphash") + 6 * SPECS[name].rekey
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.parametrize("memory", ["ecp5", "ice40", "gowin"])
def test_bench_with_block_rams(memory, tmp_path, capfd):
    outcomes = run_filter_bench(PRESETS["tiny"], "icarus", tmp_path, seed=SEED, memory=memory)
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 30
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]
