"""Exported units: their files as other tools read them, and their results beside golden."""

import os
import random
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from cases import daily
from exports import CASES, TIMED, check_verilator, icarus
from simulation import simulate
from verilators import VERILATORS

from lately.boards.export import bundle
from lately.boards.export.bundle import descriptions, texts, write
from lately.boards.export.design import TOOLS, Design, ExportError, check_name
from lately.boards.export.interfaces import labels
from lately.golden import SpecificationError, any_preset, from_spec
from lately.golden.spec import GEBFSpec
from lately.hdl.interface import Operation
from lately.sim.toolchain import (
    models,
    run_yosys,
    verilator_environment,
)

pytestmark = pytest.mark.rtl


@cache
def design(case, name="seen_lately"):
    spec, options = CASES[case]
    cells = [path.read_text() for path in models(options.get("memory", "portable"))]
    return Design(spec=spec, name=name, models=cells, **options)


# One of each kind; tests of their own have AXI4-Stream, and lanes take long.
EACH_KIND = ("covered", "table", "ecp5")


@pytest.fixture(
    params=[
        pytest.param(case, marks=[pytest.mark.slow] * (case not in EACH_KIND)) for case in CASES
    ]
)
def exported(request, tmp_path):
    """A folder, the case that was exported into it, and its files."""
    return tmp_path / "ip", request.param, write(design(request.param), tmp_path / "ip")


def test_bench_agrees_with_golden(exported):
    """With the sources of the commands on the page of the unit."""
    folder, *_ = exported
    page = (folder / "seen_lately.md").read_text()
    first, second = re.findall(r"`(?:iverilog|verilator) .*?(seen_lately\.v [\w. ]+?) && ", page)
    assert first == second
    *_, last = icarus(folder, *first.split())
    assert re.fullmatch(r"PASS: 200 results in \d+ cycles", last)


def test_bench_writes_the_signals_of_the_save_file(tmp_path):
    """Each port that the file for GTKWave names is in the waveforms."""
    write(design("extern"), tmp_path / "ip")
    icarus(tmp_path / "ip", "-DVCD", "seen_lately.v", "seen_lately_tb.v")
    scopes, there = [], set()
    for line in (tmp_path / "ip" / "seen_lately.vcd").read_text().splitlines():
        words = line.split()
        if words[:1] == ["$scope"]:
            scopes.append(words[2])
        elif words[:1] == ["$upscope"]:
            scopes.pop()
        elif words[:1] == ["$var"]:
            there.add(".".join([*scopes, "".join(words[4:-1])]))
        elif words[:1] == ["$enddefinitions"]:
            break
    text = (tmp_path / "ip" / "seen_lately.gtkw").read_text()
    named = {line for line in text.splitlines() if line.startswith("seen_lately_tb.")}
    assert len(named) > 50
    assert named <= there


def test_bench_notices_a_wrong_result_and_counts_results(tmp_path):
    """One result is wrong; one result is surplus at the end, or one is missing."""
    write(design("axis"), tmp_path / "ip")
    bench = tmp_path / "ip" / "seen_lately_tb.v"
    text = bench.read_text()
    match = re.search(r"results\[150\] = (\d+)'h(\w+);", text)
    wrong = int(match[2], 16) ^ 1
    bench.write_text(text.replace(match[0], f"results[150] = {match[1]}'h{wrong:x};"))
    lines = icarus(tmp_path / "ip", "seen_lately.v", "seen_lately_tb.v")
    assert lines[-1] == "FAIL: 200 of 200 results, 1 wrong"
    assert lines[-2].startswith("operation 150: expected ")
    text = re.sub(r"MAX_CYCLES = \d+", "MAX_CYCLES = 800", text)
    text = text.replace("requests[next]", "requests[next % COUNT]")
    assert text.count("next < COUNT ") == 1
    for sent, count in (
        ("COUNT + 1", "201 of 200 results, 1"),
        ("COUNT - 1", "199 of 200 results, 0"),
    ):
        bench.write_text(text.replace("next < COUNT ", f"next < {sent} "))
        lines = icarus(tmp_path / "ip", "seen_lately.v", "seen_lately_tb.v")
        assert lines[-1] == f"FAIL: {count} wrong"


@pytest.mark.slow
@pytest.mark.parametrize("program", VERILATORS)
def test_bench_runs_in_verilator(program, exported):
    """It takes as many cycles as in Icarus Verilog."""
    folder, _, files = exported
    cells = [name for name in files if name.endswith("_models.v")]
    sources = ["seen_lately.v", *cells, "seen_lately_tb.v"]
    line = check_verilator(program, folder, *sources)
    assert line.startswith("PASS: 200 results")
    assert icarus(folder, *sources)[-1] == line


@pytest.mark.parametrize("case", daily(1, ["extern", "time", "axis", "lanes"]))
def test_names_are_those_of_every_language(case):
    asked = design(case)
    ports = [port.name for port in asked.ports]
    for name in ports:
        check_name(name)
    files = texts(asked)
    vhdl = re.findall(r"^      (\w+) : (in|out) std_logic", files["seen_lately_pkg.vhd"], re.M)
    assert [name for name, _ in vhdl] == ports
    compile(files["seen_lately_litex.py"], "seen_lately_litex.py", "exec")
    instance = re.findall(r"^            [io]_(\w+)=", files["seen_lately_litex.py"], re.M)
    assert instance == ports
    modules = re.findall(r"^module (\S+?)[ (]", files["seen_lately.v"], re.M)
    assert all(re.fullmatch(r"seen_lately(__\w+)?", name) for name in modules)


VHDL = """\
library ieee;
use ieee.std_logic_1164.all;
use work.seen_lately_pkg.all;

entity top is end entity;

architecture uses of top is
begin
  seen : seen_lately port map (
    {ports}
  );
end architecture;
"""


@pytest.mark.slow
@pytest.mark.parametrize("open_inputs", [False, True])
@pytest.mark.parametrize("case", ["axis", "raw", "lanes", "table behind a bus", "secret", "time"])
def test_ghdl_reads_the_component(case, open_inputs, tmp_path):
    """An instance may name each port, or leave out the inputs that have a default."""
    assert shutil.which("ghdl"), "ghdl is needed for this test; install ghdl-mcode"
    asked = design(case)
    write(asked, tmp_path / "ip")
    signals = {port.name: port.width for port in asked.ports}
    declared = [f"  signal {name} : std_logic{f'_vector({width - 1} downto 0)' * (width > 1)};\n"
                for name, width in signals.items()]  # fmt: skip
    defaults = re.findall(
        r"^      (\w+) : in .* := ", (tmp_path / "ip" / "seen_lately_pkg.vhd").read_text(), re.M
    )
    assert defaults
    used = [name for name in signals if not open_inputs or name not in defaults]
    ports = ",\n    ".join(f"{name} => {name}" for name in used)
    text = VHDL.format(ports=ports).replace("begin\n", f"{''.join(declared)}begin\n")
    (tmp_path / "top.vhd").write_text(text)
    for standard in ("93", "08"):
        command = ["ghdl", "-a", f"--std={standard}", "ip/seen_lately_pkg.vhd", "top.vhd"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


RECORDS = """\
library ieee;
use ieee.std_logic_1164.all;

entity seen_lately is
  port (
{ports}
  );
end entity;

architecture stub of seen_lately is
begin
  {assignments}
end architecture;
-- Top
library ieee;
use ieee.std_logic_1164.all;
use work.seen_lately_pkg.all;
entity top is end entity;

architecture test of top is
  signal request : seen_lately_request;
  signal result : seen_lately_result;
{signals}
begin
  dut : entity work.seen_lately_records port map (
    request => request, result => result{connections}
  );
  process begin
    {drives}
    wait for 1 ns;
    {checks}
    wait;
  end process;
end architecture;
"""


@pytest.mark.parametrize("case", ["axis", pytest.param("lanes", marks=pytest.mark.slow),
                                  pytest.param("raw", marks=pytest.mark.slow)])  # fmt: skip
def test_records_of_vhdl_are_the_fields(case, tmp_path):
    """A stub in place of the unit gives results that are its requests, bit by bit."""
    assert shutil.which("ghdl"), "ghdl is needed for this test; install ghdl-mcode"
    asked = design(case)
    files = descriptions(asked)
    for name in ("seen_lately_pkg.vhd", "seen_lately_records.vhd"):
        (tmp_path / name).write_text(files[name])
    component = re.search(r"port \(\n(.*?)\n    \);", files["seen_lately_pkg.vhd"], re.S)[1]
    every = labels(asked.component)
    requests = {field.port for field in every if field.side == "in"}
    results = [field for field in every if field.side == "out"]
    given = {name: "".join(random.Random(name).choices("01", k=port.width))
             for name, port in ((port.name, port) for port in asked.ports)}  # fmt: skip

    widths = {port.name: port.width for port in asked.ports}

    def literal(bits):
        return f"'{bits}'" if len(bits) == 1 else f'"{bits}"'

    def bits(field):
        if widths[field.port] == 1:
            return ""
        high = field.offset + field.width - 1
        return f"({high})" if field.width == 1 else f"({high} downto {field.offset})"

    def part(field):
        top = len(given[field.port]) - field.offset
        return literal(given[field.port][top - field.width : top])

    stub = [
        f"{name} <= {literal(given[name])};" for name in sorted({field.port for field in results})
    ]
    checks = [
        f'assert {field.port}{bits(field)} = {part(field)} report "{field.label}" severity failure;'
        for field in every
        if field.side == "in"
    ]
    stub.append(
        "process begin wait for 1 ns;\n    " + "\n    ".join(checks) + " wait; end process;"
    )
    bits_of = ("", "_vector({} downto 0)")
    others = [port for port in asked.ports
              if port.name not in requests | {field.port for field in results}]  # fmt: skip
    text = RECORDS.format(
        ports=component, assignments="\n  ".join(stub),
        signals="\n".join(
            f"  signal {port.name} : std_logic{bits_of[port.width > 1].format(port.width - 1)};"
            for port in others
        ),
        connections="".join(f", {port.name} => {port.name}" for port in others),
        drives="\n    ".join(f"request.{field.label} <= {part(field)};" for field in every
                             if field.side == "in"),
        checks="\n    ".join(
            f'assert result.{field.label} = {part(field)} report "{field.label}" severity failure;'
            for field in results
        ),
    )  # fmt: skip
    stub, _, top = text.partition("-- Top")
    (tmp_path / "stub.vhd").write_text(stub)
    (tmp_path / "top.vhd").write_text(top)
    sources = ["seen_lately_pkg.vhd", "stub.vhd", "seen_lately_records.vhd", "top.vhd"]
    for words in (["-a", *sources], ["-e", "top"], ["-r", "top", "--stop-time=2ns"]):  # fmt: skip
        done = subprocess.run(["ghdl", words[0], "--std=08", *words[1:]], cwd=tmp_path,
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), words


@pytest.mark.parametrize("bus", ["none", "axi4-lite", "wishbone"])
def test_inputs_of_the_component_that_may_be_open(bus):
    """A VHDL instance names clock, reset, streams and ticks; the rest has its value after reset."""
    asked = Design(spec=TIMED, name="seen_lately", bus=bus)
    text = descriptions(asked)["seen_lately_pkg.vhd"]
    inputs = dict(
        re.findall(r"^      (\w+) : in std_logic(?:_vector\(.*?\))?(?: := (.*?))?;?$", text, re.M)
    )
    needed = {name for name, value in inputs.items() if not value}
    streams = {"s_axis_tdata", "s_axis_tuser", "s_axis_tvalid", "m_axis_tready"}
    assert needed == {"aclk", "aresetn", "tick", *streams}
    if bus == "none":
        width = len(asked.component.generation)
        assert inputs["generation"] == f'"{16:0{width}b}"'
    else:
        assert {value for value in inputs.values() if value} <= {"'0'", "(others => '0')"}


@pytest.mark.slow
def test_two_units_in_one_design(tmp_path):
    for name in ("first", "second"):
        write(design("axis", name), tmp_path / name)
    script = "read_verilog first/first.v second/second.v top.v; hierarchy -check -top top"
    (tmp_path / "top.v").write_text("module top; first a (); second b (); endmodule\n")
    assert run_yosys("-q", "-e", ".", "-p", script, directory=tmp_path).stdout == ""


def test_same_input_same_bytes(tmp_path):
    """Also in a process whose sets have another order."""
    program = "from lately.cli.app import main; main()"
    command = [sys.executable, "-c", program, "export", "--preset=tiny", "--name=seen",
               "--bus=axi4-lite", *(f"--tool={tool}" for tool in TOOLS)]  # fmt: skip
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([*command, f"--out-dir={tmp_path / seed}"], env=environment, check=True)
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / seed).iterdir()} for seed in "12"
    )
    assert first == second
    assert not [name for name, text in first.items() if bytes(tmp_path) in text]


@pytest.mark.slow
def test_fusesoc_runs_lint_and_sim(tmp_path):
    write(design("ecp5"), tmp_path / "ip")
    for target in ("lint", "sim"):
        done = subprocess.run(
            [sys.executable, "-m", "fusesoc.main", "--cores-root", "ip", "run",
             "--target", target, "lately:filters:seen_lately:0.1.0"],
            cwd=tmp_path, env=verilator_environment() | {"XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "deprecat" not in (done.stdout + done.stderr).lower()
    assert "PASS: 200 results" in done.stdout + done.stderr


# Without ready


def test_fixed_latency():
    """Each request has its result after the same time; refused ones say so, and stay told."""
    spec = any_preset("tiny")
    unit = Design(spec=spec, name="x", wrap="extern").component
    model, seed = from_spec(spec), 7
    print("seed", seed)
    choose = random.Random(seed)
    sent, came = [], []

    async def bench(ctx):
        for cycle in range(400):
            busy = 200 < cycle < 300
            code = Operation.CLEAR if cycle == 250 else Operation.CHECK_AND_INSERT
            request = (cycle > 60 and choose.random() < 0.7) or busy
            key = choose.randrange(20)
            ctx.set(unit.in_valid, request)
            ctx.set(unit.in_operation, code)
            ctx.set(unit.in_key, key)
            ctx.set(unit.in_tag, cycle % 256)
            sent.append((request, code, key, cycle))
            for level in (1, 0):
                ctx.set(unit.clk, level)
                await ctx.delay(1e-7)
            names = ("out_valid", "out_refused", "out_seen", "out_age", "out_tag", "overrun")
            came.append([ctx.get(getattr(unit, name)) for name in names])

    simulate(unit, bench, period=None)
    late = unit.latency - 1
    refusals = 0
    for (request, code, key, cycle), result in zip(sent, came[late:], strict=False):
        valid, refused, seen, age, tag, _ = result
        assert valid == request
        if not request:
            continue
        if refused:
            refusals += 1
            assert (seen, age, tag) == (0, 0, 0)
        elif code == Operation.CLEAR:
            model.clear()
            assert (seen, age, tag) == (0, 0, 0)
        else:
            expected = model.perform([code.value], [key])
            assert (seen, age, tag) == (expected.seen[0], max(0, expected.age[0]), cycle % 256)
    assert refusals > 3
    assert [result[-1] for result in came][:249].count(1) == 0
    assert came[-1][-1] == 1


# Bad input


def test_name_wrong():
    for name in ("", "1st", "a__b", "_a", "a_", "a-b", "módulo", "module", "Signal", "entity",
                 "class"):  # fmt: skip
        with pytest.raises(ExportError, match=r"^name: "):
            check_name(name)


LANES = {"spec": any_preset("two-lanes-tiny")}
FRAMES = {
    "spec": GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20),
    "wrap": "frames-64",
}
WRONG = [
    ({"wrap": "wishbone"},
     "wrap: must be one of axis, avalon-st, raw, extern, frames-8, frames-64, frames-128, "
     "frames-256, frames-512, not 'wishbone'"),
    ({"bus": "avalon"}, "bus: must be one of axi4-lite, wishbone, avalon-mm, none, not 'avalon'"),
    ({"tools": ["ise"]},
     "tool: must be one of vivado, quartus, radiant, diamond, gowin, efinity, libero, not 'ise'"),
    ({"wrap": "raw", "tlast": True}, "tlast cannot be combined with wrap 'raw'"),
    ({**FRAMES, "tlast": True}, "tlast cannot be combined with wrap 'frames-64'"),
    ({**FRAMES, "options": {"ticks": "time"}},
     "ticks: must be 'tick' or 'period' for a deduplicator, not 'time'"),
    ({"tag_bits": 65}, "tag_bits: must be at most 64, not 65"),
    ({"memory": "ecp5-strict", "target": "ice40-up5k"},
     "memory: must be 'portable' or 'ice40' for ice40-up5k, not 'ecp5-strict'"),
    *(({"memory": memory, "ram_style": "block"},
       f"ram_style 'block' cannot be combined with memory '{memory}'")
      for memory in ("ecp5", "ice40")),
    ({"ram_style": "M9K"},
     "ram_style: must be one of auto, block, distributed, ultra, not 'M9K'"),
    ({**LANES, "tlast": True}, "last: TLAST needs one lane; this unit has 2"),
    ({**LANES, "wrap": "extern"}, "lanes: must be 1 for ports without ready, not 2"),
    ({"spec": TIMED, "wrap": "extern", "options": {"ticks": "time"}},
     "ticks: must be 'tick' or 'period' for ports without ready, not 'time', because the latency "
     "of a request with a later time varies"),
]  # fmt: skip


def test_design_wrong():
    for options, message in WRONG:
        with pytest.raises((ExportError, SpecificationError)) as caught:
            _ = Design(**{"spec": any_preset("tiny"), "name": "x"} | options).component
        assert str(caught.value) == message


def test_widest_tag():
    assert len(Design(spec=any_preset("tiny"), name="x", tag_bits=64).component.m_axis_tuser) == 64


@pytest.mark.parametrize(
    ("target", "period"),
    [("ecp5-25k-6", "4.717"), ("ecp5-85k-8", "3.690"), ("gowin-gw2ar-18c", "2.632")],
)
def test_constraint_is_for_the_device(target, period):
    files = descriptions(Design(spec=any_preset("tiny"), name="x", target=target))
    assert f" for {target}.\n" in files["x.sdc"]
    assert f"-period {period} [get_ports aclk]" in files["x.sdc"]
    assert f"arch: {target.split('-')[0]}\n" in files["x.core"]


@pytest.mark.parametrize(("memory", "family"), [("portable", "ecp5"), ("ice40", "ice40")])
def test_constraint_without_a_device_is_an_example(memory, family):
    files = descriptions(Design(spec=any_preset("tiny"), name="x", memory=memory))
    assert "100.0 MHz, an example, because the export named no device.\n" in files["x.sdc"]
    assert "-period 10.000 [get_ports aclk]" in files["x.sdc"]
    assert f"arch: {family}\n" in files["x.core"]


def test_folder_has_the_usual_mode_or_keeps_its_own(tmp_path, monkeypatch):
    (tmp_path / "usual").mkdir()
    (tmp_path / "closed").mkdir(0o700)
    (tmp_path / "link").symlink_to("closed")
    monkeypatch.setattr(bundle, "texts", lambda design: {"a": "text"})
    monkeypatch.delattr(os, "umask")
    for name in ("new", "link"):
        write(design("axis"), tmp_path / name)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("usual", "new", "closed")]
    assert modes == [modes[0], modes[0], 0o700]
    assert (tmp_path / "link").is_symlink()


def test_folder_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "texts", lambda design: {"a": "text", "c": "text"})
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ExportError, match=r"^out-dir: must be a directory, not the file"):
        write(design("axis"), file)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    with pytest.raises(ExportError, match=r"^out-dir: .*full is not empty; --force"):
        write(design("axis"), tmp_path / "full")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ExportError, match=r"^out-dir: .*here is the current directory; "):
        write(design("axis"), ".")
    with pytest.raises(ExportError, match=r"^out-dir: must be a directory, not the file .*/file$"):
        write(design("axis"), file / "ip")
    with pytest.raises(OSError, match=r"'/proc/none/ip'$"):
        write(design("axis"), "/proc/none/ip")
    files = write(design("axis"), tmp_path / "full", force=True)
    assert sorted(os.listdir(tmp_path / "full")) == sorted([*files, "mine"])
    assert (tmp_path / "full" / "mine").read_text() == "mine"
    (tmp_path / "full" / files[0]).write_text("old")
    write(design("axis"), tmp_path / "full", force=True)
    assert (tmp_path / "full" / files[0]).read_text() != "old"
    write(design("axis"), tmp_path / "new" / "ip")
    (tmp_path / "empty").mkdir()
    before = sorted(os.listdir(tmp_path))

    def fail(design):
        return {"a": "text", "b": 1}

    monkeypatch.setattr(bundle, "texts", fail)
    with pytest.raises(TypeError):
        write(design("axis"), tmp_path / "empty")
    assert sorted(os.listdir(tmp_path)) == before
    assert not os.listdir(tmp_path / "empty")


@pytest.mark.parametrize("interrupted", range(1, 6))
@pytest.mark.parametrize("before", [True, False])
def test_interrupt_leaves_the_files_of_one_export(tmp_path, monkeypatch, interrupted, before):
    """Before or after each rename: of "a" and "b" twice, because they exist, and of "c" once."""
    monkeypatch.setattr(bundle, "texts", lambda design: {"a": "old", "b": "old"})
    write(design("axis"), tmp_path / "ip")
    monkeypatch.setattr(bundle, "texts", lambda design: {"a": "new", "b": "new", "c": "new"})
    rename, count = Path.rename, iter(range(1, 9))

    def stop(path, target):
        now = next(count) == interrupted
        if not (now and before):
            rename(path, target)
        if now:
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", stop)
    with pytest.raises(KeyboardInterrupt):
        write(design("axis"), tmp_path / "ip", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["ip"]
    files = {path.name: path.read_text() for path in (tmp_path / "ip").iterdir()}
    assert files == {"a": "old", "b": "old"}


def test_an_export_changes_only_its_own_files(tmp_path, monkeypatch):
    """A mount point, or the current directory of a program, is a folder that must stay."""
    monkeypatch.setattr(bundle, "texts", lambda design: {"a": "new", "b": "new"})
    folder, outside = tmp_path / "ip", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("outside")
    (folder / "a").symlink_to(outside)
    (folder / "b").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    same = folder.stat().st_ino
    for _ in range(2):
        write(design("axis"), folder, force=True)
        assert folder.stat().st_ino == same
        assert outside.read_text() == "outside"
        assert sorted(os.listdir(folder)) == ["a", "b", "pipe"]
        assert (folder / "a").read_text() == (folder / "b").read_text() == "new"
    (folder / "b").unlink()
    (folder / "b").mkdir()
    monkeypatch.setattr(bundle, "texts", lambda design: {"a": "newer", "b": "newer"})
    with pytest.raises(IsADirectoryError, match="ip/b"):
        write(design("axis"), folder, force=True)
    assert (folder / "a").read_text() == "new"


# AXI4-Stream


@pytest.mark.parametrize("case", daily(1, ["time", "axis", "dictionary"]))
def test_rules_of_streams(case):
    """Nothing that leaves depends on what comes in the same cycle; what is offered stays."""
    unit = design(case).component
    seed = 11
    print("seed", seed)
    choose = random.Random(seed)
    given = ("s_axis_tready", "m_axis_tvalid", "m_axis_tdata", "m_axis_tuser")
    offered, transfers = None, 0

    async def bench(ctx):
        nonlocal offered, transfers
        ctx.set(unit.aresetn, 1)
        for cycle in range(600):
            seen = set()
            for ready in (0, 1):
                for valid in (0, 1):
                    ctx.set(unit.m_axis_tready, ready)
                    ctx.set(unit.s_axis_tvalid, valid)
                    ctx.set(unit.s_axis_tuser, choose.randrange(1 << len(unit.s_axis_tuser)))
                    await ctx.delay(1e-8)
                    seen.add(tuple(ctx.get(getattr(unit, name)) for name in given))
            (leaving,) = seen
            valid, payload = leaving[1], leaving[2:]
            if offered is not None:
                assert (valid, payload) == (1, offered)
            ready = choose.random() < 0.4
            offered = payload if valid and not ready else None
            transfers += valid and ready
            ctx.set(unit.m_axis_tready, ready)
            ctx.set(unit.s_axis_tvalid, choose.random() < 0.8)
            ctx.set(unit.s_axis_tuser, Operation.CHECK_AND_INSERT.value)
            ctx.set(unit.s_axis_tdata, cycle % 50)
            for level in (1, 0):
                ctx.set(unit.aclk, level)
                await ctx.delay(1e-8)

    simulate(unit, bench, period=None)
    assert transfers > 150


def test_needs_nothing_of_the_serial_line():
    program = "import lately.boards.export.bundle, sys; sys.exit('fastcrc' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
