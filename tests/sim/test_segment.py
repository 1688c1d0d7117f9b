"""Segment memories: one bench for every variant, and the constructor's rules."""

import os

import cocotb_tools.config
import pytest

from lately.hdl.memory.segment import PortableSegmentMemory
from lately.hdl.memory.variants import VARIANTS, segment_memory
from lately.sim import toolchain
from lately.sim.bench.runner import SIMULATORS, run_segment_bench

SEED = 1977
SHAPES = [
    ("portable", 16, 8),
    ("portable", 256, 1),
    ("portable", 1024, 1024),
    ("portable", 4096, 16),
    ("ecp5", 16, 8),
    ("ecp5", 4096, 16),
    # Two columns, and two rows of two columns.
    ("ecp5", 4096, 32),
    ("ecp5", 65536, 32),
    ("ice40", 16, 8),
    ("ice40", 4096, 16),
    ("ice40", 16384, 32),
    ("gowin", 16, 8),
    ("gowin", 256, 1),
    ("gowin", 4096, 16),
    ("gowin", 65536, 32),
    ("ecp5-strict", 64, 4),
    ("ice40-strict", 64, 8),
    ("gowin-strict", 64, 16),
]


@pytest.mark.slow
@pytest.mark.rtl
def test_packages_in_a_path_with_spaces(tmp_path, monkeypatch, capfd):
    """Makefiles cannot hold such a path; the bench builds and runs nevertheless."""
    spaced = tmp_path / "with spaces"
    spaced.mkdir()
    for name in ("libs_dir", "share_dir"):
        link = spaced / name
        link.symlink_to(getattr(cocotb_tools.config, name))
        monkeypatch.setattr(cocotb_tools.config, name, link)
    link = spaced / "verilator"
    link.symlink_to(toolchain.verilator_root())
    monkeypatch.setattr(toolchain, "verilator_root", lambda: link)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    outcomes = run_segment_bench(
        "portable", "verilator", tmp_path, depth=16, clear_bits=8, seed=SEED
    )
    assert outcomes
    assert all(outcomes.values())


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("memory", "depth", "clear_bits", "simulator"),
    [
        pytest.param(
            *shape,
            simulator,
            # Verilator takes long to compile, and many words to simulate: but for a long run one
            # shape of the one, and none of the other.
            marks=pytest.mark.slow
            if shape[1] > 4096 or (simulator == "verilator" and shape != ("ecp5", 4096, 16))
            else (),
        )
        for shape in SHAPES
        for simulator in SIMULATORS
    ],
)
def test_bench(memory, depth, clear_bits, simulator, tmp_path):
    if simulator == "verilator" and depth == 65536:
        depth = 32768
    outcomes = run_segment_bench(
        memory, simulator, tmp_path, depth=depth, clear_bits=clear_bits, seed=SEED
    )
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    assert len(outcomes) == 4
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("memory", "clear_bits", "address_registers"),
    [("portable", 16, 2), ("ecp5", 16, 2), ("ecp5", 64, 3), ("gowin", 64, 3), ("ice40", 32, 3)],
)
def test_bench_with_more_address_registers(memory, clear_bits, address_registers, tmp_path):
    outcomes = run_segment_bench(
        memory,
        "icarus",
        tmp_path,
        depth=1024,
        clear_bits=clear_bits,
        address_registers=address_registers,
        seed=SEED,
    )
    assert len(outcomes) == 4
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


SHARED = [("ecp5", 12, 4, 8), ("ice40", 12, 16, 9), ("gowin", 12, 4, 7)]
"""Memories and shapes of the default run: each kind once."""


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("memory", "address_bits", "clear_bits", "shared_bits"),
    [
        *SHARED,
        # Of several block RAMs each.
        *(
            pytest.param(memory, 14, *shape, marks=pytest.mark.slow)
            for memory in ("ecp5", "ice40", "gowin")
            for shape in ((4, 10), (4, 9), (16, 10), (16, 11))
        ),
    ],
)
def test_bench_with_shared_bits(memory, address_bits, clear_bits, shared_bits, tmp_path):
    """Flags of the part's own bits, and resets of them by those that it shares."""
    outcomes = run_segment_bench(
        memory,
        "icarus",
        tmp_path,
        depth=1 << address_bits,
        clear_bits=clear_bits,
        shared_bits=shared_bits,
        seed=SEED,
    )
    assert len(outcomes) == 4
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.rtl
@pytest.mark.parametrize("memory", ["ecp5", "ice40", "gowin"])
def test_bench_with_inverted_garbage(memory, tmp_path):
    outcomes = run_segment_bench(
        memory, "icarus", tmp_path, depth=64, clear_bits=8, inverted=True, seed=SEED
    )
    assert len(outcomes) == 4
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("depth", [0, 3, -4, 4.0, "8"])
def test_depth_wrong(variant, depth):
    with pytest.raises(ValueError, match=r"^Depth must be a power of two, not "):
        segment_memory(variant, depth=depth, clear_bits=1)


def test_depth_too_small():
    with pytest.raises(ValueError, match=r"^Depth must be at least 2, not 1$"):
        PortableSegmentMemory(depth=1, clear_bits=1)


@pytest.mark.parametrize("clear_bits", [0, 3, 0.5])
def test_clear_bits_wrong(clear_bits):
    with pytest.raises(ValueError, match=r"^Clear width must be a power of two, not "):
        PortableSegmentMemory(depth=16, clear_bits=clear_bits)


def test_clear_bits_above_depth():
    with pytest.raises(ValueError, match=r"^Clear width must be at most the depth of 16, not 32$"):
        PortableSegmentMemory(depth=16, clear_bits=32)


def test_variant_wrong():
    with pytest.raises(
        ValueError,
        match=r"^Memory must be one of portable, ecp5, ice40, gowin, ecp5-strict, .*, not 'x'$",
    ):
        segment_memory("x", depth=16, clear_bits=8)
