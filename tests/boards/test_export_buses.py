"""Exported units with registers behind a bus, as other tools read them."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from combinational import assert_registered
from systemrdl import RDLCompiler

from lately.boards.export.bundle import descriptions, write
from lately.boards.export.design import Design, check_name
from lately.golden import any_preset
from lately.golden.spec import GEBFSpec
from lately.golden.spec.presets import ALL_PRESETS
from lately.hdl.bus.controlled import BUSES
from lately.hdl.registers import REGISTERS, Access, Block
from lately.hdl.verilog import TOP
from lately.sim.bench.runner import SIMULATORS, run_bench
from lately.sim.toolchain import run_yosys, verilator_environment

pytestmark = pytest.mark.rtl

ROOT = Path(__file__).parents[2]
TICKS = {"options": {"ticks": "period"}}
FRAMES = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)


@cache
def design(preset="tiny", bus="axi4-lite", wrap="axis", name="seen_lately"):
    options = TICKS if preset == "timed-tiny" else {}
    return Design(spec=any_preset(preset), name=name, bus=bus, wrap=wrap, **options)


def check_with_tools(folder):
    """Read the Verilog with Icarus and yosys; run the bench beside golden."""
    sources = ["seen_lately.v", "seen_lately_tb.v"]
    done = subprocess.run(
        ["iverilog", "-g2005", "-Wall", "-o", "bench", *sources],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    script = "read_verilog seen_lately.v; hierarchy -check -top seen_lately; proc; check -assert"
    assert run_yosys("-q", "-e", ".", "-p", script, directory=folder).stdout == ""
    run = subprocess.run(["vvp", "bench"], cwd=folder, capture_output=True, text=True, check=True)
    assert re.search(r"^PASS: 200 results", run.stdout, re.M), run.stdout


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with a unit behind AXI4-Lite."""
    folder = tmp_path_factory.mktemp("exported")
    write(design(), folder / "ip")
    return folder


def test_tools_read_it_without_warnings(exported):
    """Vivado also knows the bus, by attributes."""
    check_with_tools(exported / "ip")
    text = (exported / "ip" / "seen_lately.v").read_text()
    # What the bench compares was computed from memories full of "x" that the unit has zeroed.
    assert "reg [7:0] words [" in text
    assert "words[0] = " not in text
    for part in ("AWADDR", "WSTRB", "BRESP", "RVALID"):
        assert f'X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil {part}"' in text
    assert "ASSOCIATED_BUSIF s_axis:m_axis:s_axil, ASSOCIATED_RESET aresetn" in text


def test_example_to_be_copied(exported):
    shutil.copy(ROOT / "examples" / "verilog" / "seen_lately_bench.v", exported)
    sources = ["ip/seen_lately.v", "seen_lately_bench.v"]
    built = subprocess.run(
        ["iverilog", "-g2005", "-Wall", "-o", "bench", *sources],
        cwd=exported, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    run = subprocess.run(["vvp", "bench"], cwd=exported, capture_output=True, text=True, check=True)
    *_, counted, last = run.stdout.splitlines()
    assert (counted, last) == ("22 operations, 10 hits", "PASS")


def run_all(folder, *commands):
    """Run commands in a folder; return the lines of the last one that name a value."""
    for command in commands:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": " in line]


@pytest.mark.slow
def test_litex_system_with_axi4_lite(tmp_path):
    """LiteX connects the bus; its own bridge does not settle in Icarus Verilog."""
    page = (ROOT / "docs" / "first-litex.md").read_text("utf-8")
    write(design(bus="axi4-lite"), tmp_path / "ip")
    (tmp_path / "soc.py").write_text(page.split("```python\n")[1].split("```")[0])
    build = ["iverilog", "-g2005", "-o", "bench", "ip/seen_lately.v", "soc.v"]
    run_all(tmp_path, [sys.executable, "soc.py"], build)


LITEX_STREAMS = """\
import sys

from litex.build.generic_platform import GenericPlatform, Pins, Subsignal
from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from migen import ClockDomain, If

sys.path.insert(0, "ip")
from seen_lately_litex import SeenLately

PINS = [
    ("clk", 0, Pins(1)), ("rst", 0, Pins(1)), ("seen", 0, Pins(1)), ("result", 0, Pins(1)),
    ("tag", 0, Pins(8)),
]


class System(LiteXModule):
    def __init__(self, platform):
        self.cd_sys = ClockDomain()
        self.filter = SeenLately(platform)
        # A stream of LiteX on either side; keys are 0, 1, 2, 3, 0, 1, ...
        layout = self.filter.sink.description.payload_layout
        self.keys = stream.Buffer(layout)
        self.results = stream.Buffer(self.filter.source.description.payload_layout)
        source = self.keys.sink
        self.comb += [
            self.cd_sys.clk.eq(platform.request("clk")),
            self.cd_sys.rst.eq(platform.request("rst")),
            source.valid.eq(1),
            source.key.eq(source.tag[:2]),
            source.operation.eq(3),
            self.keys.source.connect(self.filter.sink),
            self.filter.source.connect(self.results.sink),
            self.results.source.ready.eq(1),
            platform.request("result").eq(self.results.source.valid),
            platform.request("seen").eq(self.results.source.seen),
            platform.request("tag").eq(self.results.source.tag),
        ]
        count = type(source.tag)(8)
        self.comb += source.tag.eq(count)
        self.sync += If(source.ready, count.eq(count + 1))


platform = GenericPlatform("", PINS)
platform.get_verilog(System(platform), name="system").write("system.v")
"""

LITEX_BENCH = """\
`timescale 1ns / 1ps
module bench;
  reg clk = 0, rst = 1;
  wire seen, result;
  wire [7:0] tag;
  always #5 clk = ~clk;
  system dut (.clk(clk), .rst(rst), .seen(seen), .result(result), .tag(tag));
  always @(posedge clk) begin
    if (result) $display("%0d: %b", tag, seen);
    if (result && tag == 7) $finish;
  end
  initial #55 rst = 0;
endmodule
"""


def test_litex_streams(tmp_path):
    """Streams of LiteX send keys into a filter and take its results."""
    write(design(bus="none"), tmp_path / "ip")
    (tmp_path / "system.py").write_text(LITEX_STREAMS)
    (tmp_path / "bench.v").write_text(LITEX_BENCH)
    sources = ["ip/seen_lately.v", "system.v", "bench.v"]
    lines = run_all(
        tmp_path,
        [sys.executable, "system.py"],
        ["iverilog", "-g2005", "-o", "bench", *sources],
        ["vvp", "-n", "bench"],
    )
    assert lines == [f"{tag}: {int(tag >= 4)}" for tag in range(8)]


@pytest.mark.parametrize(
    ("bus", "where", "origin"),
    [("axi4-lite", "", "0x40000000"), ("wishbone", ", origin=0xB000_0000", "0xb0000000")],
)
def test_litex_cpu_reads_uncached_registers_and_gets_the_interrupt(bus, where, origin, tmp_path):
    page = (ROOT / "docs" / "first-litex.md").read_text("utf-8")
    system = page.split("```python\n")[1].split("```")[0]
    clock = "clk_freq=100_000_000"
    system = system.replace(clock, f'{clock}, cpu_type="cortex_m3", integrated_rom_size=4096')
    system = system.replace(", origin=0xB000_0000", where).replace("(System", "(soc := System")
    system += """
one = soc.bus.regions["seen_lately"]
print(f"region: {one.origin:#x} {one.cached} {soc.bus.check_region_is_io(one)}")
"""
    write(design("timed-tiny", bus=bus), tmp_path / "ip")
    (tmp_path / "soc.py").write_text(system)
    assert f"region: {origin} False True" in run_all(tmp_path, [sys.executable, "soc.py"])
    text = (tmp_path / "soc.v").read_text()
    shared = re.search(r"interrupt\[0\] <= (\w+);", text)[1]
    irq = re.search(rf"assign {shared} = (\w+);", text)[1]
    assert re.search(rf"\.irq +\({irq}\)", text)


@pytest.mark.parametrize("wrap", ["axis", "avalon-st", "raw", "extern", "frames-8", "frames-64"])
@pytest.mark.parametrize("bus", [*BUSES, "none"])
def test_litex_modules_name_every_port(wrap, bus):
    """Ports are those of endpoints, of the bus, or signals of the same name."""
    spec = FRAMES if wrap.startswith("frames") else any_preset("siphash-tiny")
    asked = Design(spec=spec, name="seen", wrap=wrap, bus=bus)
    text = descriptions(asked)["seen_litex.py"]
    compile(text, "seen_litex.py", "exec")
    assert re.findall(r"^            [io]_(\w+)=", text, re.M) == [
        port.name for port in asked.ports
    ]
    used = set(re.findall(r"self\.(\w+)", text.partition("Instance(")[2])) - {"specials"}
    made = set(re.findall(r"^        self\.(\w+) = ", text, re.M)) - {"ev"}
    assert used - {"sink", "source"} == made - {"sink", "source"}
    # Each port of AXI4-Lite is the signal of the same channel and name.
    for name, channel, part in re.findall(r"_s_axil_(\w+)=self\.bus\.(\w+)\.(\w+)", text):
        assert name == channel + part


@pytest.mark.slow
@pytest.mark.parametrize("bus", BUSES)
def test_no_output_depends_on_an_input_of_the_same_clock(bus, tmp_path):
    write(design(bus=bus), tmp_path / "ip")
    assert_registered(tmp_path / "ip", "seen_lately")


@pytest.mark.slow
@pytest.mark.parametrize("bus", [*BUSES, "none"])
@pytest.mark.parametrize("preset", ALL_PRESETS)
def test_tools_read_every_preset_and_bus(preset, bus, tmp_path):
    write(design(preset, bus), tmp_path / "ip")
    check_with_tools(tmp_path / "ip")


@pytest.mark.slow
@pytest.mark.parametrize(("wrap", "bus"), [*product(("raw", "extern"), BUSES)])
def test_tools_read_every_convention_and_bus(wrap, bus, tmp_path):
    write(design("tiny", bus, wrap), tmp_path / "ip")
    check_with_tools(tmp_path / "ip")


# What is copied


WISHBONE_BENCH = """\
`timescale 1ns / 1ps
module bench;
  reg clk = 0, rst = 1, cyc = 0;
  wire [31:0] word;
  wire ack, err;
  always #5 clk = ~clk;
  wrapper dut (
    .clk(clk), .rst(rst), .wb_cyc_i(cyc), .wb_stb_i(cyc), .wb_we_i(1'b0), .wb_adr_i(6'd0),
    .wb_sel_i(4'hf), .wb_dat_i(32'd0), .wb_dat_o(word), .wb_ack_o(ack), .wb_err_o(err),
    .in_valid(1'b0), .out_ready(1'b1)
  );
  always @(posedge clk) if (ack | err) begin
    $display("%h %b", word, err);
    $finish;
  end
  initial begin
    #55 rst = 0;
    #10 cyc = 1;
    #1000 $finish;
  end
endmodule
"""


def wrapper(asked, folder):
    """Write a module around the template, with a port for each name in it; return its ports."""
    template = (folder / "ip" / f"{asked.name}_template.v").read_text()
    named = set(re.findall(r"^    \.(\w+)\(\1\)", template, re.M))
    ports = [port for port in asked.ports if port.name in named]
    declared = ",\n".join(
        f"  {'input' if port.inward else 'output'} wire {port.range} {port.name}" for port in ports
    )
    (folder / "wrapper.v").write_text(
        "`timescale 1ns / 1ps\n`default_nettype none\n"
        f"module wrapper (\n{declared}\n);\n{template}endmodule\n"
        "`default_nettype wire\n"
    )
    return {port.name for port in ports}


def test_template_connects_axi4_lite(exported):
    """The example's bench works as well with a module that has the template inside."""
    ports = wrapper(design(), exported)
    assert {port.name for port in design().ports} - ports == {"s_axil_awprot", "s_axil_arprot"}
    bench = (ROOT / "examples" / "verilog" / "seen_lately_bench.v").read_text()
    bench = re.sub(r" *\.s_axil_a[wr]prot.*\n", "", bench).replace("seen_lately dut", "wrapper dut")
    (exported / "copied.v").write_text(bench)
    sources = ["ip/seen_lately.v", "wrapper.v", "copied.v"]
    build = ["iverilog", "-g2005", "-Wall", "-o", "copied", *sources]
    done = subprocess.run(build, cwd=exported, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    run = subprocess.run(
        ["vvp", "copied"], cwd=exported, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "PASS"


def test_template_connects_wishbone(tmp_path):
    """A register is read through a module that has the template inside."""
    asked = design(bus="wishbone", wrap="raw")
    write(asked, tmp_path / "ip")
    assert wrapper(asked, tmp_path) == {port.name for port in asked.ports}
    (tmp_path / "bench.v").write_text(WISHBONE_BENCH)
    sources = ["ip/seen_lately.v", "wrapper.v", "bench.v"]
    subprocess.run(["iverilog", "-g2005", "-o", "bench", *sources], cwd=tmp_path, check=True)
    run = subprocess.run(["vvp", "bench"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[0] == "4c41544c 0"


@pytest.mark.parametrize("wrap", ["axis", "raw"])
@pytest.mark.parametrize("preset", ["siphash-tiny", "timed-tiny", "dictionary-tiny"])
def test_template_ties_settings_only(preset, wrap):
    """Ticks, secrets and results are connected; a setting has its value after reset."""
    options = {} if preset != "timed-tiny" else {"options": {"ticks": "tick"}}
    asked = Design(spec=any_preset(preset), name="seen_lately", wrap=wrap, **options)
    template = descriptions(asked)["seen_lately_template.v"]
    tied = dict(re.findall(r"^    \.(\w+)\((\d+'d\d+)\)", template, re.M))
    settings = {"generation"} & {port.name for port in asked.ports}
    assert set(tied) == settings
    if settings:
        width = len(asked.component.generation)
        assert tied["generation"] == f"{width}'d{asked.spec.generation}"


@pytest.mark.slow
def test_two_units_in_one_design(tmp_path):
    for name, bus in zip(("first", "second"), BUSES, strict=False):
        write(design(bus=bus, name=name), tmp_path / name)
    script = "read_verilog first/first.v second/second.v top.v; hierarchy -check -top top"
    (tmp_path / "top.v").write_text("module top; first a (); second b (); endmodule\n")
    assert run_yosys("-q", "-e", ".", "-p", script, directory=tmp_path).stdout == ""


@pytest.mark.parametrize("bus", BUSES)
def test_ports(bus):
    """Names are those of every language; settings and counters are no ports any more."""
    asked = design(bus=bus)
    page = descriptions(asked)["seen_lately.md"]
    names = {port.name for port in asked.ports}
    for name in names:
        check_name(name)
    plain = {port.name for port in design(bus="none").ports}
    assert plain - names == {"generation", "operations", "insertions", "hits", "shifts"}
    prefix = {"axi4-lite": "s_axil_", "wishbone": "wb_", "avalon-mm": "avs_"}[bus]
    assert all(name.startswith(prefix) for name in names - plain)
    assert len(names - plain) == {"axi4-lite": 19, "wishbone": 10, "avalon-mm": 10}[bus]
    assert all(f"| `{name}` |" in page for name in names)
    assert not re.search(r"^\| `\w+` \| \w+ \| \d+ \|  \|", page, re.M)


# Descriptions of the registers


@pytest.fixture(scope="module", params=["siphash-tiny", "dictionary-tiny", "timed-tiny"])
def described(request, tmp_path_factory):
    """A unit's registers, and the folder of its files."""
    asked, folder = design(request.param), tmp_path_factory.mktemp("ip")
    for name, text in descriptions(asked).items():
        (folder / name).write_text(text)
    return asked.registers, folder


def compiled(folder):
    compiler = RDLCompiler()
    compiler.compile_file(str(folder / "seen_lately.rdl"))
    return compiler.elaborate()


def test_systemrdl(described):
    """systemrdl-compiler reads the same registers and fields."""
    registers, folder = described
    described = {}
    for register in compiled(folder).top.registers():
        fields = {(field.inst_name, field.low, field.width): field for field in register.fields()}
        described[register.inst_name] = register.absolute_address, fields
    assert list(described) == [word.name for word in registers.words]
    for word in registers.words:
        address, fields = described[word.name]
        assert address == word.address
        assert set(fields) == {(bits.name, bits.low, bits.width) for bits in word.fields}
        for bits in word.fields:
            field = fields[bits.name, bits.low, bits.width]
            assert field.get_property("reset") == bits.reset
            writable, readable = field.is_sw_writable, field.is_sw_readable
            assert writable == (bits.access is not Access.READ)
            assert readable == (bits.access not in (Access.WRITE, Access.PULSE))
            assert bool(field.get_property("singlepulse")) == (bits.access is Access.PULSE)
            assert field.implements_storage != bits.constant or not bits.constant


def test_header_compiles(described):
    """Offsets and masks are those of the unit, for C and for C++."""
    registers, folder = described
    checks = []
    for word in registers.words:
        checks.append(f"offsetof(seen_lately_t, {word.name}) == {word.address}")
        prefix = f"SEEN_LATELY__{word.name}".upper()
        for field in word.fields:
            name = f"{prefix}__{field.name}".upper()
            checks += [f"{name}_bm == {field.mask}u", f"{name}_bp == {field.low}"]
            checks += [f"{name}_reset == {field.reset}u"] if field.reset is not None else []
    asserts = "".join(f'static_assert({check}, "{check}");\n' for check in checks)
    text = f'#include "seen_lately.h"\n#include <stddef.h>\n{asserts}'
    for suffix, standard in (("c", "c11"), ("cpp", "c++11")):
        (folder / f"use.{suffix}").write_text(text)
        command = ["g++" if suffix == "cpp" else "gcc", f"-std={standard}", "-fsyntax-only"]
        subprocess.run([*command, "-Wall", "-Wextra", "-Werror", f"use.{suffix}"], cwd=folder,
                       check=True)  # fmt: skip


def test_python_map(described):
    registers, folder = described
    space = {}
    exec((folder / "seen_lately_registers.py").read_text(), space)
    memory = {word.address: number for number, word in enumerate(registers.words)}
    written = []
    ours = space["SeenLatelyRegisters"](memory.__getitem__, lambda *access: written.append(access))
    assert {name: width for name, (_, width) in space["REGISTERS"].items()} == registers.registers
    for name, width in registers.registers.items():
        words = [memory[word.address] for word in registers.find(name)]
        value = sum(word << 32 * number for number, word in enumerate(words))
        assert ours.get(name) == value
        ours.set(name, (1 << width) - 1)
        assert len(written) == -(-width // 32)
        assert written[0] == (registers.find(name)[0].address, min(2**width, 2**32) - 1)
        written.clear()
        with pytest.raises(ValueError, match=f"^{name} must be of {width} bits, not {1 << width}$"):
            ours.set(name, 1 << width)
    memory[0x14] = 1
    assert ours.get("control", "enable") == 1
    counted = ours.counters()
    assert written == [(0x14, 1 | 1 << 3)]
    assert set(counted) == {word.register.name for word in registers.words if word.register.event}
    assert counted["hits"] == memory[0x90] | memory[0x94] << 32


def test_page_has_a_row_for_each(described):
    registers, folder = described
    page = (folder / "seen_lately.md").read_text().partition("## Registers")[2]
    for word in registers.words:
        assert f"| `{word.address:#04x}` | `{word.name}` |" in page
    assert page.count("\n|") == 2 + sum(len(word.fields) for word in registers.words)


def test_without_a_bus_there_are_none():
    asked = design(bus="none")
    assert asked.registers is None
    assert not [
        name for name in descriptions(asked) if name.endswith((".rdl", ".h", "_registers.py"))
    ]


# With the models of other projects


@pytest.mark.parametrize(
    "simulator",
    [
        pytest.param(simulator, marks=[pytest.mark.slow] if simulator == "verilator" else [])
        for simulator in SIMULATORS
    ],
)
def test_axi_models_of_cocotb(simulator, tmp_path):
    spec = any_preset("tiny")
    spec.to_toml(tmp_path / "spec.toml")
    text = Design(spec=spec, name=TOP, tlast=True, bus="axi4-lite").verilog
    outcomes = run_bench(
        text, ["export_bench"], simulator, tmp_path / "bench",
        environment={"LATELY_SPEC": str(tmp_path / "spec.toml"), "LATELY_SEED": "9"},
    )  # fmt: skip
    assert outcomes == {"streams_and_registers": True}, (
        tmp_path / "bench" / f"{simulator}.log"
    ).read_text()[-4000:]


SMALL_FRAMES = {"max_frame": 198, "buffer": 1024, "frames": 32, "on_overflow": "drop"}
ON_WISHBONE = {
    "secret": (any_preset("siphash-tiny"), {"tlast": True, "options": {"self_check": True}}),
    "time": (any_preset("timed-tiny"), TICKS),
    "dictionary": (any_preset("dictionary-tiny"), {"protect": "parity"}),
    "overrun": (any_preset("tiny"), {"wrap": "extern"}),
    "table": (dataclasses.replace(any_preset("timing-tiny"), classes=2), {}),
    "frames": (FRAMES, {"wrap": "frames-8", "options": SMALL_FRAMES}),
}
"""Units that have all registers between them."""


def on_wishbone(case):
    spec, options = ON_WISHBONE[case]
    return Design(spec=spec, name=TOP, bus="wishbone", **options)


@pytest.mark.slow
def test_all_registers_are_on_wishbone():
    registers = [set(on_wishbone(case).registers.registers) for case in ON_WISHBONE]
    assert set.union(*registers) == {row.name for row in REGISTERS if row.holder is not Block.LINE}
    named = {field.name for case in ON_WISHBONE for word in on_wishbone(case).registers.words
             for field in word.fields}  # fmt: skip
    assert named == {"value", *(field.name for row in REGISTERS for field in row.fields)}


@pytest.mark.slow
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("case", ON_WISHBONE)
def test_registers_on_wishbone(case, simulator, tmp_path):
    """Every register is read and written, by a classic master and a pipelined one."""
    spec, options = ON_WISHBONE[case]
    spec.to_toml(tmp_path / "spec.toml")
    counted = ["counters"] if case in ("secret", "time", "dictionary") else []
    of_both = [f"{name}/pipelined={kind}" for name in ("every_address", "settings", "orders")
               for kind in (False, True)]  # fmt: skip
    outcomes = run_bench(
        on_wishbone(case).verilog, ["wishbone_bench"], simulator, tmp_path / "bench",
        environment={"LATELY_SPEC": str(tmp_path / "spec.toml"), "LATELY_SEED": "4",
                     "LATELY_DESIGN": json.dumps(options)},
        testcase="|".join(["every_address", "settings", "orders", *counted]),
    )  # fmt: skip
    log = (tmp_path / "bench" / f"{simulator}.log").read_text()[-4000:]
    assert outcomes == dict.fromkeys([*of_both, *counted], True), log


CORE = """\
CAPI=2:
name: example:designs:two_filters:0
filesets:
  rtl:
    files: [top.v]
    file_type: verilogSource-2005
  generator:
    depend: ["lately:tools:generator"]
generate:
  counted:
    generator: lately
    parameters: {name: counted, preset: tiny, bus: wishbone, tlast: true}
  timed:
    generator: lately
    parameters: {name: timed, spec: timed.toml, wrap: raw, ticks: period, tlast: false}
targets:
  default: &default
    filesets: [rtl, generator]
    generate: [counted, timed]
    toplevel: top
  lint:
    <<: *default
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wno-PINMISSING]
"""


def fusesoc(folder, core):
    """Run the target lint of a core whose filters are generated."""
    (folder / "two_filters.core").write_text(core)
    any_preset("timed-tiny").to_toml(folder / "timed.toml")
    (folder / "top.v").write_text(
        "`timescale 1ns / 1ps\nmodule top; counted a (); timed b (); endmodule\n"
    )
    home = {"XDG_CACHE_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    environment = verilator_environment() | home
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "fusesoc.main", "--cores-root", str(ROOT / "lately" / "fusesoc"),
         "--cores-root", str(folder), "run", "--target", "lint", "example:designs:two_filters"],
        cwd=folder, env=environment | {"PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_fusesoc_generates(tmp_path):
    """A core of one's own asks for filters; the generator calls `lately export` for each."""
    done = fusesoc(tmp_path, CORE)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("counted", "timed"):
        assert list(tmp_path.rglob(f"export/{name}.v")), name
    wrong = fusesoc(tmp_path, CORE.replace("preset: tiny", "preset: huge"))
    assert wrong.returncode != 0
    assert "lately: error: preset: unknown " in wrong.stdout + wrong.stderr
