"""Exported deduplicators of frames, as other tools read them and run them."""

import re
import subprocess

import pytest
from combinational import assert_registered
from systemrdl import RDLCompiler

from lately.boards.export.bench import frame_vectors
from lately.boards.export.bundle import descriptions, write
from lately.boards.export.design import FRAMES, Design
from lately.golden.packets.comparison import Field
from lately.golden.spec import GEBFSpec
from lately.hdl.bus.controlled import BUSES
from lately.sim.toolchain import run_yosys, verilator_environment

pytestmark = pytest.mark.rtl

SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
BESIDE = {"user_bits": 9, "id_bits": 3, "dest_bits": 4, "bad_bit": 8, "mark_bit": 9}
NO_TREADY = {"on_overflow": "drop", "tready": False, "on_oversize": "pass"}


def design(wrap="frames-64", bus="axi4-lite", **options):
    return Design(spec=SPEC, name="dedup", wrap=wrap, bus=bus, **options)


def run(command, folder):
    done = subprocess.run(
        command, cwd=folder, env=verilator_environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def check_bench(folder, says="PASS"):
    """Run the test bench that comes with it: what leaves is what leaves the golden model."""
    run(["iverilog", "-g2005", "-Wall", "-o", "bench", "dedup.v", "dedup_tb.v"], folder)
    done = subprocess.run(["vvp", "bench"], cwd=folder, capture_output=True, text=True, check=True)
    assert re.search(rf"^{says}: \d+ ", done.stdout, re.M), done.stdout


@pytest.mark.slow
def test_inner_packets(tmp_path):
    """The bench fails for a module that compares outermost packets."""
    write(design(bus="none", options={"inner": True}), tmp_path / "ip")
    check_bench(tmp_path / "ip")
    write(design(bus="none"), tmp_path / "outer")
    (tmp_path / "outer" / "dedup.v").replace(tmp_path / "ip" / "dedup.v")
    check_bench(tmp_path / "ip", "FAIL")


@pytest.mark.slow
def test_bench_depends_on_the_fields(tmp_path):
    """The bench fails for a module that compares whole frames: copies have another TTL."""
    write(design(bus="none"), tmp_path / "ip")
    bench = tmp_path / "ip" / "dedup_tb.v"
    default, frame = (f".fields(5'd{fields:d})" for fields in (Field.TOS, Field.FRAME))
    assert default in bench.read_text()
    bench.write_text(bench.read_text().replace(default, frame))
    check_bench(tmp_path / "ip", "FAIL")


@pytest.mark.parametrize(
    "options",
    [
        {"max_frame": 1},
        {"max_frame": 13, "on_oversize": "pass"},
        {"max_frame": 59, "tready": False, "on_overflow": "drop"},
    ],
)
def test_vectors_of_a_small_maximum(options):
    """At least one frame leaves."""
    vectors = frame_vectors(design(bus="none", options=options), seed=1)
    sizes, size = [], 0
    for transfer in vectors.results:
        size += transfer["m_axis_tkeep"].bit_count()
        if transfer["m_axis_tlast"]:
            sizes, size = [*sizes, size], 0
    assert sizes[0] == options["max_frame"]
    assert (max(sizes) > options["max_frame"]) == (options.get("on_oversize") == "pass")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrap", "options"),
    [
        ("frames-64", {"on_overflow": "wait", "on_oversize": "drop"}),
        ("frames-64", {"on_overflow": "wait", "on_oversize": "pass"}),
        ("frames-8", {"buffer": 128}),
        ("frames-64", {"buffer": 128, "on_oversize": "pass"}),
        ("frames-512", {"buffer": 512, "tready": False}),
        ("frames-64", {"frames": 4}),
        ("frames-64", {"max_frame": 1, "tready": False}),
    ],
)
def test_frames_above_the_maximum(wrap, options, tmp_path):
    """The bench has frames of more than 40 bytes, which a small buffer that drops cannot hold."""
    asked = design(wrap, bus="none", options={"max_frame": 40, "on_overflow": "drop"} | options)
    write(asked, tmp_path / "ip")
    check_bench(tmp_path / "ip")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "lifcl-40"}, 16),
        ({"target": "xc7a35t"}, 32),
        ({"memory": "ecp5"}, 16),
        ({}, 32),
    ],
)
def test_tables_fill_lut_memories(options, words):
    text = design("frames-128", "none", **options).verilog
    module = text.partition("module dedup__unit__digest__polynomials__polynomials(")[2]
    depths = re.findall(r"reg .* power\S+ \[(\d+):0\];", module.partition("endmodule")[0])
    assert max(int(depth) + 1 for depth in depths) == words


@pytest.mark.slow
@pytest.mark.parametrize("bus", [*BUSES, "none"])
@pytest.mark.parametrize("wrap", FRAMES)
def test_tools_read_it_without_warnings(wrap, bus, tmp_path):
    write(design(wrap, bus, options={"on_overflow": "drop"}), tmp_path / "ip")
    check_bench(tmp_path / "ip")
    script = "read_verilog dedup.v; hierarchy -check -top dedup; proc; check -assert"
    assert run_yosys("-q", "-e", ".", "-p", script, directory=tmp_path / "ip").stdout == ""


@pytest.mark.parametrize(
    "wrap",
    [
        "frames-64",
        *(pytest.param(wrap, marks=pytest.mark.slow) for wrap in FRAMES if wrap != "frames-64"),
    ],
)
def test_signals_beside_frames_and_no_tready(wrap, tmp_path):
    """Its bench compares TUSER, TID and TDEST, and offers a frame without looking at TREADY.

    Some frames are above the maximum of 40 bytes.
    """
    asked = design(wrap, "none", options=BESIDE | NO_TREADY | {"max_frame": 40})
    write(asked, tmp_path / "ip")
    check_bench(tmp_path / "ip")
    ports = {port.name: port.width for port in asked.ports}
    assert "s_axis_tready" not in ports
    assert (ports["s_axis_tuser"], ports["m_axis_tuser"]) == (9, 10)
    assert (ports["m_axis_tid"], ports["m_axis_tdest"]) == (3, 4)
    page = (tmp_path / "ip" / "dedup.md").read_text()
    assert "bit 8, with TLAST: the frame is damaged and will be discarded; every other bit" in page
    assert "bit 9: the frame was seen lately (`action` = 1); every other bit" in page
    assert "self.sink.ready.eq(1)" in (tmp_path / "ip" / "dedup_litex.py").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("wrap", FRAMES)
def test_no_output_depends_on_an_input_of_the_same_clock(wrap, tmp_path):
    sizes = {"buffer": 256 if FRAMES[wrap] <= 64 else 512, "max_frame": 100}
    write(design(wrap, "axi4-lite", options=sizes), tmp_path / "ip")
    assert_registered(tmp_path / "ip", "dedup")


@pytest.mark.parametrize("wrap", FRAMES)
def test_ports(wrap):
    ports = {port.name: port.width for port in design(wrap).ports}
    streams = {name: width for name, width in ports.items() if "_axis_" in name}
    width = FRAMES[wrap]
    parts = {"tdata": width, "tlast": 1, "tuser": 1, "tvalid": 1, "tready": 1}
    parts |= {"tkeep": width // 8} if width > 8 else {}
    assert streams == {f"{side}_axis_{name}": bits for side in "sm" for name, bits in parts.items()}
    assert len(ports) == 2 + len(streams) + 20
    page = descriptions(design(wrap))["dedup.md"]
    assert all(f"| `{name}` |" in page for name in ports)
    assert not re.search(r"^\| `\w+` \| \w+ \| \d+ \|  \|", page, re.M)
    # Without a bus, what is a register is a port that has a meaning.
    page = descriptions(design(wrap, "none"))["dedup.md"]
    assert not re.search(r"^\| `\w+` \| \w+ \| \d+ \|  \|", page, re.M)


def test_registers(tmp_path):
    """What other tools read of the registers is what the deduplicator needs to work at once."""
    asked = design(options={"period": 1250})
    (tmp_path / "dedup.rdl").write_text(descriptions(asked)["dedup.rdl"])
    compiler = RDLCompiler()
    compiler.compile_file(str(tmp_path / "dedup.rdl"))
    resets = {
        (register.inst_name, field.inst_name): field.get_property("reset")
        for register in compiler.elaborate().top.registers()
        for field in register.fields()
    }
    assert resets["period", "value"] == 1250
    assert (resets["frames", "action"], resets["frames", "fields"]) == (2, 1)
    assert resets["control", "enable"] == 1
    counted = {word.register.name for word in asked.registers.words if word.register.event}
    assert {"hits", "frames_in", "bytes_out", "frames_no_room"} <= counted
