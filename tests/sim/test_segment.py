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


DAILY = [
    ("portable", "icarus", 16, 8, {}),
    # Two columns of block RAMs.
    ("ecp5", "icarus", 4096, 32, {}),
    ("gowin", "icarus", 64, 8, {"inverted": True}),
    ("gowin-strict", "icarus", 64, 16, {"address_registers": 4}),
    # Flags of the part's own bits, and resets of them by those that it shares.
    ("ice40", "icarus", 256, 16, {"shared_bits": 6}),
]  # fmt: skip
"""Memories, simulators, words, bits of a clear, and options."""
LONG = [
    # The fewest words, and a clear that takes one word for each bit.
    ("gowin", "icarus", 256, 1, {}),
    *((memory, "icarus", 64, 8, {"inverted": True}) for memory in ("ecp5", "ice40")),
    *((f"{memory}-strict", "icarus", 64, 4 * registers, {"address_registers": registers})
      for memory, registers in (("ecp5", 1), ("ice40", 2))),
    *((memory, "icarus", 256, 4, {"shared_bits": shared})
      for memory, shared in (("ecp5", 5), ("gowin", 4))),
    *((*shape[:1], simulator, *shape[1:], {}) for shape in SHAPES for simulator in SIMULATORS),
    *((memory, "icarus", 1024, clear_bits, {"address_registers": registers})
      for memory, clear_bits, registers in (("portable", 16, 2), ("ecp5", 16, 2), ("ecp5", 64, 3),
                                            ("gowin", 64, 3), ("ice40", 32, 3))),
    # Several block RAMs each.
    *((memory, "icarus", 1 << 14, clear_bits, {"shared_bits": shared})
      for memory in ("ecp5", "ice40", "gowin")
      for clear_bits, shared in ((4, 10), (4, 9), (16, 10), (16, 11))),
]  # fmt: skip


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("memory", "simulator", "depth", "clear_bits", "options"),
    [*DAILY, *(pytest.param(*one, marks=pytest.mark.slow) for one in LONG)],
)
def test_bench(memory, simulator, depth, clear_bits, options, tmp_path):
    if simulator == "verilator" and depth == 65536:
        depth = 32768
    shape = {"depth": depth, "clear_bits": clear_bits}
    outcomes = run_segment_bench(memory, simulator, tmp_path, seed=SEED, **shape, **options)
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
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
