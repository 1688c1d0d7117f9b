"""The filter units against golden, under two simulators, sentence by sentence."""

import pytest

from lately.golden import PRESETS, FilterSpec
from lately.sim.benches import SIMULATORS, run_filter_bench

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
}
SEED = 20260807


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("name", SPECS)
def test_bench(name, simulator, tmp_path, capfd):
    outcomes = run_filter_bench(SPECS[name], simulator, tmp_path, seed=SEED)
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 23
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]
