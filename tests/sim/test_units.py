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


# Icarus starts at once, and is slow where much changes in a clock; Verilator takes long to compile.
# Small units run under the one that takes less; in a long run, all run under both.
SHORT = {("apbbf-tiny", "verilator"), ("gebf-tiny", "icarus")}


def check(outcomes, count):
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == count
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.parametrize(
    ("name", "simulator"),
    [
        pytest.param(name, simulator, marks=() if (name, simulator) in SHORT else pytest.mark.slow)
        for name in SPECS
        for simulator in SIMULATORS
    ],
)
def test_bench(name, simulator, tmp_path, capfd):
    outcomes = run_filter_bench(SPECS[name], simulator, tmp_path, seed=SEED)
    keyed, rekeying = SPECS[name].hash == "siphash", SPECS[name].rekey
    check(outcomes, 30 + 2 * keyed + 5 * rekeying)


@pytest.mark.parametrize(("name", "count"), [("gebf-rekey", 4), ("blocked-gebf-siphash", 3)])
def test_secrets_under_icarus(name, count, tmp_path, capfd):
    """Values that are unknown at first, which Verilator does not have."""
    outcomes = run_filter_bench(
        SPECS[name],
        "icarus",
        tmp_path,
        seed=SEED,
        testcase="secret_(c|at)|same_key_back_to_back",
    )
    check(outcomes, count)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["ecp5", "ice40", "gowin"])
def test_bench_with_block_rams(memory, tmp_path, capfd):
    outcomes = run_filter_bench(PRESETS["tiny"], "icarus", tmp_path, seed=SEED, memory=memory)
    check(outcomes, 30)
