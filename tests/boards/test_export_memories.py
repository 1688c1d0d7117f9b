"""Memories of exports as vendors infer them, and exports without initial values."""

import re
from functools import cache

import pytest
from cases import daily
from exports import CASES, check_verilator, icarus

from lately.boards.export.bundle import write
from lately.boards.export.design import Design
from lately.boards.export.memories import RAM_STYLES, with_wide_words
from lately.boards.flow.devices import device
from lately.golden import any_preset
from lately.golden.spec import GEBFSpec
from lately.golden.spec.presets import ALL_PRESETS
from lately.sim.toolchain import run_yosys

pytestmark = pytest.mark.rtl

FLOWS = {
    "xc7a35t": "synth_xilinx -family xc7 -top seen -flatten",
    "mpf100t": "synth_microchip -family polarfire -top seen",
    "5ceba4": "synth_intel_alm -family cyclonev -top seen",
    "lifcl-40": "synth_nexus -family lifcl -top seen",
    "ccgm1a1": "synth_gatemate -top seen",
}
"""Scripts of yosys by device."""

COUNTS = {
    # Block RAMs, flip-flops, and LUTs.
    ("tiny", "ccgm1a1"): (11, 801, 1041),
    ("small", "xc7a35t"): (28, 1169, 1434),
    ("small", "mpf100t"): (28, 1267, 1884),
    ("small", "5ceba4"): (28, 1437, 1971),
    ("small", "lifcl-40"): (28, 1269, 1758),
    ("small", "ccgm1a1"): (29, 1410, 2158),
    ("timing-small", "xc7a35t"): (4, 2545, 1419),
    ("timing-small", "mpf100t"): (4, 2618, 1764),
    ("timing-small", "5ceba4"): (16, 3418, 1717),
    ("dictionary-tiny", "xc7a35t"): (3, 1544, 1019),
    ("dictionary-tiny", "mpf100t"): (3, 1849, 1335),
}


@cache
def design(preset, **options):
    return Design(spec=any_preset(preset), name="seen", **options)


def memories(text):
    """Return the declarations of memories of segments and cells, with what follows them."""
    return re.findall(r"\(\* (rw_addr.*) \*\)\n  reg .*words .*;\n((?:.*\n)+?)  assign", text)


@pytest.mark.parametrize("style", daily(1, RAM_STYLES))
def test_memory_has_the_attributes_of_every_vendor(style):
    texts = memories(design("tiny", ram_style=style).verilog)
    assert texts
    for attributes, _ in texts:
        values = dict(re.findall(r'(\w+) = "(.+?)"', attributes))
        assert values == {"rw_addr_collision": "no"} | RAM_STYLES[style]


def test_port_that_writes_reads_in_its_process():
    """The template of a true dual-port memory: a process for each port."""
    ((_, text),) = memories(design("timing-tiny").verilog)
    processes = re.split(r"always @\(posedge clk\)", text)[1:]
    assert [process.count("<= words[") for process in processes] == [1, 1]
    assert [process.count("  words[") for process in processes] == [1, 0]


def test_segment_reads_in_a_process_of_its_own():
    """The template of a simple dual-port memory: neither reset nor enable of the read."""
    for _, text in memories(design("tiny").verilog):
        write, read = re.split(r"always @\(posedge clk\)", text)[1:]
        assert re.fullmatch(r" begin\n    if \(.*\)\n      words\[.*\] <= .*;\n  end\n  ", write)
        assert re.fullmatch(r"\n    \S+ <= words\[.*\];\n", read)


SHORT = ("timing",)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case not in SHORT)) for case in CASES]
)
def test_without_initial_values_the_bench_agrees(case, tmp_path):
    """Registers are X at first in Icarus Verilog, and memories stay so until they are cleared."""
    spec, options = CASES[case]
    if options.get("memory", "portable") != "portable":
        options = options | {"memory": "portable"}
    design = Design(spec=spec, name="seen", **options, initial_values=False)
    assert not re.search(r"^ *initial ", design.verilog, re.M)
    assert "_start_" not in design.verilog
    write(design, tmp_path / "ip")
    *_, last = icarus(tmp_path / "ip", "seen.v", "seen_tb.v")
    assert re.fullmatch(r"PASS: 200 results in \d+ cycles", last)


@pytest.mark.slow
@pytest.mark.parametrize("preset", [name for name in ALL_PRESETS if "00" not in name])
def test_without_initial_values_every_preset_agrees(preset, tmp_path):
    """Verilator gives registers and memories random values at first."""
    write(design(preset, initial_values=False), tmp_path / "ip")
    line = check_verilator(
        "verilator", tmp_path / "ip", "--x-initial", "unique", "--x-assign", "unique",
        "seen.v", "seen_tb.v", run=["+verilator+rand+reset+2", "+verilator+seed+7"],
    )  # fmt: skip
    assert line.startswith("PASS: 200 results")


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["portable", "portable-registered"])
def test_yosys_infers_an_ultraram_for_each_memory(memory, tmp_path):
    """Words of 64 bits fill it: 4,096 of them are one UltraRAM."""
    narrow = GEBFSpec(window=40_000, epochs=2, hashes=2, bits=6 << 18, key_bits=64)
    spec = with_wide_words(narrow, "ultra")
    made = Design(spec=spec, name="seen", memory=memory, ram_style="ultra", initial_values=False)
    (tmp_path / "seen.v").write_text(made.verilog)
    script = "read_verilog seen.v; synth_xilinx -family xcup -uram -top seen -flatten; stat"
    text = run_yosys("-Q", "-p", script, directory=tmp_path).stdout
    blocks = {cell: int(n) for n, cell in re.findall(r"^ +(\d+) +(URAM288|RAMB\d+E2)$", text, re.M)}
    assert blocks == {"URAM288": made.profile.segments * spec.parts}


def test_words_of_other_memories_stay():
    assert with_wide_words(any_preset("tiny"), "block") == any_preset("tiny")
    assert with_wide_words(any_preset("timing-tiny"), "ultra") == any_preset("timing-tiny")
    # A part has 16 bits.
    assert with_wide_words(any_preset("tiny"), "ultra").clear == 16


@pytest.mark.parametrize(
    ("preset", "name"),
    [pytest.param(*row, marks=[pytest.mark.slow] * (row[0] != "tiny")) for row in COUNTS],
)
def test_yosys_infers_block_rams(preset, name, tmp_path):
    """No memory is in flip-flops; PolarFire accepts no initial values."""
    made = design(preset, ram_style="block", initial_values=False)
    (tmp_path / "seen.v").write_text(made.verilog)
    script = f"read_verilog seen.v; {FLOWS[name]}; flatten; tee -q -o stat.txt stat"
    run_yosys("-q", "-p", script, directory=tmp_path)
    cells = re.findall(r"^ +(\d+) +(\S+)$", (tmp_path / "stat.txt").read_text(), re.M)
    bram, ff, lut = (
        sum(int(number) * device(name).count(kind, cell) for number, cell in cells)
        for kind in ("bram", "ff", "lut")
    )
    print(preset, name, bram, ff, lut)
    assert bram == COUNTS[preset, name][0]
    assert (ff, lut) == pytest.approx(COUNTS[preset, name][1:], rel=0.03)
