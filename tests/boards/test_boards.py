# amaranth: UnusedElaboratable=no
"""Clocks, pins, bitstreams and the commands that make and load them."""

import json
import os
import random
import re
import warnings
from dataclasses import replace
from fractions import Fraction

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cases import daily
from click.testing import CliRunner
from simulation import simulate

from campaigns.pages import blocks, tables
from lately.boards.flow import tools
from lately.boards.flow.limits import LimitError
from lately.boards.flow.pll import LIMITS, TOLERANCE, ClockError, filter_range, find_setting
from lately.boards.link.bridge import BaudError
from lately.boards.targets import build as building
from lately.boards.targets.build import TimingError, build, plan_files
from lately.boards.targets.catalogue import BOARDS, PINS_FILE, UnknownBoardError, board
from lately.boards.targets.top import Startup
from lately.cli.app import main
from lately.golden import FilterSpec, any_preset, preset
from lately.golden.spec import GEBFSpec
from lately.hdl.ring.profile import RingProfile

BITSTREAM_STARTS = {
    # A comment, which names the device, and the preamble; the synchronisation word; ones as text.
    "ecp5": re.compile(rb"\xff\x00.*?\xff\xff\xbd\xb3", re.DOTALL),
    "ice40": re.compile(rb".{0,64}?\x7e\xaa\x99\x7e", re.DOTALL),
    "gowin": re.compile(rb"(//[^\n]*\n)*[01]{8}"),
}
FRAMES = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
"""Of a deduplicator between two PHYs."""


class Echo(wiring.Component):
    """What a board needs of a link, and no more."""

    def __init__(
        self,
        spec,
        *,
        clock_hz,
        baud,
        memory,
        protect="none",
        self_check=False,
        levels=2,
        version=None,
    ):
        self.arguments = {"spec": spec, "clock_hz": clock_hz, "baud": baud, "memory": memory}
        self.arguments |= {"protect": protect, "self_check": self_check}
        self.levels = levels
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "alive": Out(1),
                "hit": Out(1),
                "fault": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [self.tx.eq(self.rx), self.alive.eq(~self.alive), self.hit.eq(self.tx)]
        return m


class EchoLines(wiring.Component):
    """What a board needs of a deduplicator between two PHYs, and no more."""

    def __init__(self):
        ways = {"data": 8, "valid": 1, "error": 1}
        ports = {f"rx_{name}": In(bits) for name, bits in ways.items()}
        ports |= {f"tx_{name}": Out(bits) for name, bits in ways.items()}
        super().__init__(ports | {"rx": In(1, init=1), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.tx.eq(self.rx)
        m.d.rx += [self.tx_data.eq(self.rx_data), self.tx_valid.eq(self.rx_valid ^ self.rx_error)]
        return m


@pytest.fixture(params=daily(5, BOARDS))
def target(request):
    return board(request.param)


# Clocks


@pytest.mark.parametrize(
    ("family", "input_mhz", "wanted_mhz", "divisors"),
    [
        # As ecppll and icepll have them, and for Gowin by hand.
        ("ecp5", 25, 200, (1, 8, 3)),
        ("ecp5", 48, 240, (1, 5, 2)),
        ("ice40", 12, 60, (1, 80, 16)),
        ("ice40", 12, 36, (1, 48, 16)),
        ("gowin", 27, 54, (1, 2, 16)),
        ("gowin", 27, 72, (3, 8, 8)),
    ],
)
def test_setting_exact(family, input_mhz, wanted_mhz, divisors):
    result = find_setting(family, input_hz=input_mhz * 10**6, wanted_hz=wanted_mhz * 10**6)
    assert (result.reference, result.feedback, result.output) == divisors
    assert result.output_hz == wanted_mhz * 10**6


@pytest.mark.parametrize("family", LIMITS)
def test_setting_nearest(family):
    """Against all settings there are, and the limits written out anew."""
    vco = {"ecp5": (400, 800), "ice40": (533, 1066), "gowin": (400, 1200)}[family]
    detector = {"ecp5": (10, 400), "ice40": (10, 133), "gowin": (3, 400)}[family]
    limits = LIMITS[family]
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    input_hz = chance.randrange(12, 50) * 10**6
    all_hz = {
        Fraction(input_hz * feedback, reference * (1 if limits.after else output))
        for reference in limits.reference
        if detector[0] * 10**6 <= input_hz / reference <= detector[1] * 10**6
        for feedback in limits.feedback
        for output in limits.output
        if vco[0] * 10**6
        <= input_hz * feedback * (output if limits.after else 1) / reference
        <= vco[1] * 10**6
    }
    for _ in range(2):
        wanted_hz = chance.randrange(20 * 10**6, 250 * 10**6)
        nearest = min(abs(hz - wanted_hz) for hz in all_hz)
        if nearest > TOLERANCE * wanted_hz:
            with pytest.raises(ClockError, match=r"^clock: must be close to a clock that a PLL"):
                find_setting(family, input_hz=input_hz, wanted_hz=wanted_hz)
            continue
        result = find_setting(family, input_hz=input_hz, wanted_hz=wanted_hz)
        assert abs(result.output_hz - wanted_hz) == nearest
        divided = result.reference * (1 if limits.after else result.output)
        assert result.output_hz == Fraction(input_hz * result.feedback, divided)
        assert result.oscillator_hz == result.output_hz * result.output
        assert vco[0] <= result.oscillator_hz / 10**6 <= vco[1]
        assert result.detector_hz == Fraction(input_hz, result.reference)


def test_filter_range():
    mhz = {12: 1, 17: 2, 26: 3, 43: 3, 44: 4, 66: 5, 101: 6, 133: 6}
    assert {at: filter_range(Fraction(at * 10**6)) for at in mhz} == mhz


# Reset


def test_startup_lasts_and_starts_anew():
    m = Module()
    m.domains.sync = ClockDomain(reset_less=True)
    m.submodules.startup = startup = Startup(clocks=5)
    lengths = []

    async def count(ctx):
        clocks = 0
        while ctx.get(startup.reset):
            await ctx.tick()
            clocks += 1
        lengths.append(clocks)

    async def bench(ctx):
        assert ctx.get(startup.reset)
        await count(ctx)
        await ctx.tick().repeat(10)
        assert not ctx.get(startup.reset)
        ctx.set(startup.cause, 1)
        await ctx.delay(1e-9)
        # Without a clock.
        assert ctx.get(startup.reset)
        await ctx.tick().repeat(10)
        assert ctx.get(startup.reset)
        ctx.set(startup.cause, 0)
        await count(ctx)

    simulate(m, bench)
    assert len(lengths) == 2
    assert all(5 <= clocks <= 9 for clocks in lengths)


# Boards


def _plan(target):
    platform = target.make_platform()
    setting = find_setting(
        target.family,
        input_hz=round(platform.default_clk_frequency),
        wanted_hz=round(target.clock_mhz * 1e6),
    )
    link = Echo(target.spec, clock_hz=1, baud=1, memory=target.family)
    if target.rgmii:
        link = EchoLines()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Components of other tests are collected here.
        warnings.filterwarnings("ignore", ".* created but never used")
        return setting, plan_files(link, board=target, setting=setting, platform=platform)


PINS = {
    "ulx3s-85f": {"G2", "R1", "M1", "L4", "B2", "C2", "H3", "L2"},
    "ulx3s-12f": {"G2", "R1", "M1", "L4", "B2", "C2", "H3", "L2"},
    "ulx3s-25f": {"G2", "R1", "M1", "L4", "B2", "C2", "H3", "L2"},
    "ulx3s-45f": {"G2", "R1", "M1", "L4", "B2", "C2", "H3", "L2"},
    "ecpix-5": {"K23", "AB1", "R26", "R24", "R21", "T22", "T23"},
    "icepi-zero": {"M1", "C4", "K16", "K15", "E13", "D14", "D13"},
    "icesugar": {"35", "4", "6", "41", "39", "40"},
    "upduino-v3": {"20", "28", "38", "39", "40", "41"},
    "tang-nano-20k": {"4", "88", "70", "69", "15", "16", "20"},
    "orangecrab-25f": {"A9", "J17", "N17", "M18", "M3", "J3", "K4"},
    "icebreaker": {"35", "10", "6", "9", "37", "27", "11"},
    "ice40-hx8k-b-evn": {"J3", "B10", "B12", "C3", "B3", "B5"},
    "tang-nano-9k": {"52", "4", "18", "17", "10", "11", "16"},
    "colorlight-5a-75b": {"P6", "P11", "M13", "P5", "M1", "N6", "N1", "M5", "N5", "M6",
                          "M12", "R15", "T14", "R12", "R13", "R14"},
}  # fmt: skip
"""As the boards' schematics have them: clock, button, serial port, lights, PHYs."""


def test_plan(target):
    """Pins, constraints and the loop; a board's device is one that units are timed for."""
    setting, plan = _plan(target)
    text, family = plan[PINS_FILE[target.family]], target.family
    pattern = {
        "ecp5": r'LOCATE COMP "[^"]+" SITE "(\w+)";',
        "ice40": r"set_io \w+ (\w+)",
        "gowin": r'IO_LOC "\w+" (\w+);',
    }[family]
    assert set(re.findall(pattern, text)) == PINS[target.name]
    hz = float(setting.output_hz)
    # For Gowin, nextpnr takes it as an option.
    clock = {
        "ecp5": f'FREQUENCY NET "pll.clk" {hz} HZ;',
        "ice40": f"set_frequency pll.clk {hz / 1e6}",
    }
    assert family == "gowin" or clock[family] in text.splitlines()
    received = 'FREQUENCY PORT "rgmii_0__rx_clk__io" 125000000.0 HZ;'
    assert (received in text.splitlines()) == bool(target.rgmii)
    cell, parameter, value, width = {
        "ECP5PLL": ("EHXPLLL", "CLKOP_DIV", setting.output, 32),
        "ICE40PLL": ("SB_PLL40_CORE", "DIVF", setting.feedback - 1, 7),
        "ICE40PadPLL": ("SB_PLL40_PAD", "DIVF", setting.feedback - 1, 7),
        "GowinPLL": ("rPLL", "FBDIV_SEL", setting.feedback - 1, 32),
        "GW2APLL": ("rPLL", "FBDIV_SEL", setting.feedback - 1, 32),
    }[target.pll]
    assert f"cell \\{cell} " in plan["top.il"]
    match = re.search(rf"parameter (?:signed )?\\{parameter} (\S+)", plan["top.il"])
    assert match[1] in (str(value), f"{width}'{value:0{width}b}"), match[0]
    RingProfile.of(target.spec).check_buildable()
    options = target.device.place_and_route
    assert not {"--lpf-allow-unconstrained", "--pcf-allow-unconstrained"} & {*options}
    assert any(PINS_FILE[family] in option for option in options)


# Building, with tools that are not there


class FakeFlow:
    """Tools that take no time; `fmax` by seed."""

    fmax = {1: 50.0, 2: 61.5, 3: 70.0}

    def __init__(self, folder, device, progress, programs, time_limit):
        self.folder, self.progress, self.device = folder, progress, device

    def synthesise(self, text):
        (self.folder / "yosys.log").write_text("log")
        return {"top": {"cells": {"a": {"type": "SB_LUT4"}, "b": {"type": "SB_DFF"}}}}

    def complete(self, modules):
        pass

    def report(self, stage, fraction):
        if self.progress is not None:
            self.progress(stage, fraction)

    def place_and_route(self, seed, target_mhz, option, routed):
        (self.folder / routed).write_text("routed")
        (self.folder / f"{self.device.place_and_route[0]}.log").write_text(f"seed {seed}")
        pin = {"cell": "link.unit.unit.a", "port": "O"}
        step = {"type": "routing", "delay": 1.0, "from": pin, "to": pin, "net": "n"}
        return {
            "fmax": {"clk": {"achieved": self.fmax[seed], "constraint": 60.0}},
            "utilization": {"ICESTORM_LC": {"used": 2, "available": 5280}},
            "critical_paths": [{"from": "posedge clk", "to": "posedge clk", "path": [step]}],
        }

    def run(self, program, *arguments):
        (self.folder / arguments[-1]).write_bytes(b"bits")


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(building, "Flow", FakeFlow)
    monkeypatch.setattr(building, "FilterLink", Echo)


def test_build_takes_the_first_seed_that_is_fast_enough(fake, tmp_path):
    out = tmp_path / "out"
    shares = []
    report = build(
        replace(board("icebreaker"), clock_mhz=60, seeds=(1, 2, 3)),
        directory=out,
        progress=lambda stage, fraction: shares.append(fraction),
    )
    assert (report.seed, report.fmax_mhz, report.clock_mhz) == (2, 61.5, 60.0)
    assert (report.limit_mhz, report.limit, report.limited_by) == (185, "clock tree", "timing")
    assert (report.lut, report.ff, report.bram) == (1, 1, 0)
    assert report.critical_path.startswith("from ")
    assert "outside" not in report.critical_path
    assert {path.name for path in out.iterdir()} == set(report.files)
    assert report.files[0] == "icebreaker.bin"
    assert FilterSpec.from_toml(out / "filter.toml") == board("icebreaker").spec
    assert (out / "icebreaker.bin").read_bytes() == b"bits"
    assert json.loads((out / "build.json").read_text()) == json.loads(json.dumps(report.to_dict()))
    assert shares[-1] == 1


def test_failure_leaves_what_was_there(fake, tmp_path):
    build(replace(board("icebreaker"), clock_mhz=48), directory=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(TimingError, match=r"at most 50 MHz, not 60 MHz \(icebreaker, seed 1\)$"):
        build(replace(board("icebreaker"), clock_mhz=60), directory=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("self_check", [False, True])
def test_link_is_told_of_its_board(fake, tmp_path, monkeypatch, self_check):
    made = []

    def record(*arguments, **options):
        made.append(Echo(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(building, "FilterLink", record)
    target = replace(board("icebreaker"), clock_mhz=48, spec=preset("tiny"), baud=3000000)
    build(target, directory=tmp_path, self_check=self_check)
    assert made[0].arguments == {
        "spec": preset("tiny"),
        "clock_hz": 48_000_000,
        "baud": 3_000_000,
        "memory": "ice40",
        "protect": "none",
        "self_check": self_check,
    }


class Enough(FakeFlow):
    """Keeps what it is given, which is fast enough."""

    fmax = {2: 125.0}

    def synthesise(self, text):
        (self.folder / "yosys.log").write_text(text)
        return {"top": {"cells": {}}}


def test_two_phys_and_a_serial_line(tmp_path, monkeypatch):
    """A deduplicator between two PHYs is built with its registers behind the serial port."""
    monkeypatch.setattr(building, "Flow", Enough)
    report = build(replace(board("colorlight-5a-75b"), spec=FRAMES), directory=tmp_path)
    assert (report.baud, report.seed) == (1_000_000, 2)
    text = (tmp_path / "yosys.log").read_text()
    for pin in ("input", "uart_0__rx"), ("output", "uart_0__tx"), ("input", "rgmii_0__rx_ctl"):
        assert re.search(r"^  wire width 1 {} \d+  \\{}__io$".format(*pin), text, re.M), pin
    inside = {"uart_receiver", "uart_transmitter", "queue", "bridge", "line.deduplicator.bank",
              "line.deduplicator.unit.unit"}  # fmt: skip
    assert inside <= set(re.findall(r"^module \\top\.link\.(\S+)$", text, re.M))


# The command line


def _error(*arguments):
    """Message of a command that must fail with one line."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code in (1, 2), done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("lately: error: ")
    return line.removeprefix("lately: error: ")


def test_command_lists_boards():
    run = CliRunner()
    assert [*json.loads(run.invoke(main, ["list", "boards", "--json"]).stdout)] == [*BOARDS]
    table = run.invoke(main, ["list", "boards"]).stdout
    assert all(name in table for name in BOARDS)


def test_command_builds(fake, tmp_path):
    arguments = ["build", "--board", "icebreaker", "--clock", "60", "--placement-seeds", "1-3"]
    run = CliRunner()
    done = run.invoke(main, [*arguments, "--out-dir", str(tmp_path), "--json"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads((tmp_path / "build.json").read_text())
    table = run.invoke(main, [*arguments, "--out-dir", str(tmp_path)]).stdout
    assert "60 MHz" in table
    assert "static timing allows 61.5" in table
    assert str(tmp_path / "icebreaker.bin") in table
    assert f"window of {board('icebreaker').spec.window:,} insertions" in table


@pytest.mark.parametrize(
    ("spec", "window"),
    [
        (any_preset("dictionary-tiny"), "window of 40 insertions"),
        (any_preset("timing-tiny"), "window of 20 ticks"),
        (replace(board("icebreaker").spec, span=1000), "window of 1,000 ticks"),
    ],
)
def test_command_builds_other_families(fake, tmp_path, spec, window):
    spec.to_toml(tmp_path / "filter.toml")
    arguments = ["build", "--board", "icebreaker", "--spec", str(tmp_path / "filter.toml")]
    done = CliRunner().invoke(main, [*arguments, "--out-dir", str(tmp_path / "out")])
    assert (done.exit_code, done.stderr) == (0, "")
    assert spec.family in done.stdout
    assert window in done.stdout


LINES = ["--board", "colorlight-5a-75b"]
SMALL = replace(board("icebreaker"), clock_mhz=18, spec=preset("tiny"))


def setting(family, input_mhz, wanted_mhz):
    return find_setting(family, input_hz=input_mhz * 10**6, wanted_hz=wanted_mhz * 10**6)


WRONG = [
    (lambda out: setting("ice40", 12, 15),
     "clock: must be between 16 and 275 MHz for a PLL of ice40, not 15 MHz"),
    (lambda out: setting("ecp5", 25, 401),
     "clock: must be between 3.125 and 400 MHz for a PLL of ecp5, not 401 MHz"),
    (lambda out: setting("ecp5", 5, 100),
     "oscillator: must be between 8 and 400 MHz for a PLL of ecp5, not 5 MHz"),
    (lambda out: setting("ecp5", 25, 4),
     "clock: must be close to a clock that a PLL of ecp5 can generate from 25 MHz, such as "
     "12.5 MHz, not 4 MHz"),
    (lambda out: board("arty"), "board: unknown 'arty'; see `lately list boards`"),
    (lambda out: build(replace(SMALL, baud=115_199), directory=out),
     "baud: must be between 115200 and 3000000, not 115199"),
    (lambda out: build(replace(SMALL, baud=0), directory=out),
     "baud: must be between 115200 and 3000000, not 0"),
    (lambda out: build(replace(SMALL, baud=3_000_000), directory=out),
     "clock: must be at least 24000000 Hz (8 cycles per bit at 3000000 baud), not 18000000 Hz"),
    (lambda out: build(replace(SMALL, clock_mhz=153), directory=out),
     "clock: must be at most 150 MHz on ice40-up5k (block RAM port, NORMAL: "
     "FPGA-DS-02008 1.4, 256x16 pseudo dual port RAM), not 153 MHz"),
    (lambda out: build(replace(SMALL, clock_mhz=72, seeds=(1, 3)), directory=out),
     "clock: static timing permits at most 70 MHz, not 72 MHz (icebreaker, seeds 1, 3)"),
]  # fmt: skip


def test_wrong(tmp_path, monkeypatch):
    """Each message is one line, and no folder is made."""
    monkeypatch.setattr(building, "Flow", FakeFlow)
    kinds = (BaudError, ClockError, LimitError, TimingError, UnknownBoardError)
    for call, message in WRONG:
        with pytest.raises(kinds) as caught:
            call(tmp_path / "out")
        assert str(caught.value) == message
        assert list(tmp_path.iterdir()) == []


def test_command_refuses(fake, tmp_path):
    """A board with PHYs has a clock, and needs a window in time."""
    small = ["--board", "icebreaker"]
    for arguments, message in (
        ([], "give --board; `lately list boards` lists the boards"),
        (["--board", "x"], "board: unknown 'x'; see `lately list boards`"),
        ([*small, "--clock", "300"], "clock: must be between 16 and 275 MHz"),
        ([*small, "--clock", "-1"], "-1"),
        ([*small, "--placement-seeds", "a"],
         "--placement-seeds: must be a list such as 1-5 or 1,3"),
        ([*small, "--spec", "/none"], "/none: No such file or directory"),
        ([*small, "--clock", "72"], "clock: static timing permits at most 50 MHz"),
        ([*LINES, "--self-check"], " processes frames and has no self-check"),
        ([*LINES, "--clock", "100"], "clock: must be 125 MHz for Ethernet, not 100 MHz"),
        ([*LINES, "--baud", "9600"], "baud: must be between 115200 and 3000000, not 9600"),
        ([*LINES, "--preset", "default"], "span: must be given for a frame deduplicator"),
    ):  # fmt: skip
        assert message in _error("build", *arguments, "--out-dir", tmp_path / "out")
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    message = _error("build", *small, "--out-dir", tmp_path / "file")
    assert message == f"out-dir: must be a directory, not the file {tmp_path / 'file'}"


@pytest.fixture
def loader(tmp_path, monkeypatch):
    """A program that writes what it was called with, and a bitstream."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "openFPGALoader"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexit "${{LOADER_STATUS:-0}}"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "bits").write_bytes(b"bits")
    return tmp_path


def test_program(loader):
    bits = loader / "bits"
    for name, called in (
        ("ulx3s-85f", "ulx3s"),
        ("orangecrab-25f", "orangeCrab"),
        ("icebreaker", "ice40_generic"),
        ("ice40-hx8k-b-evn", "ice40_generic"),
        ("tang-nano-9k", "tangnano9k"),
    ):
        done = CliRunner().invoke(main, ["program", "--board", name, "--file", str(bits)])
        assert (done.exit_code, done.stderr) == (0, "")
        assert (loader / "calls").read_text().splitlines()[-1] == f"-b {called} {bits}"


def test_program_takes_what_was_built(loader, monkeypatch):
    monkeypatch.chdir(loader)
    path = loader / "build" / "icebreaker" / "icebreaker.bin"
    message = _error("program", "--board", "icebreaker")
    assert message == (
        "bitstream build/icebreaker/icebreaker.bin not found; "
        "`lately build --board icebreaker` builds it"
    )
    path.parent.mkdir(parents=True)
    path.write_bytes(b"bits")
    assert CliRunner().invoke(main, ["program", "--board", "icebreaker"]).exit_code == 0
    assert (loader / "calls").read_text() == ("-b ice40_generic build/icebreaker/icebreaker.bin\n")


def test_program_wrong(loader, monkeypatch):
    arguments = "program", "--board", "icebreaker", "--file", loader / "bits"
    monkeypatch.setenv("LOADER_STATUS", "3")
    assert _error(*arguments) == "openFPGALoader failed with exit status 3"
    monkeypatch.setenv("PATH", str(loader))
    assert _error(*arguments) == ("openFPGALoader not found on PATH; install it to load bitstreams")


# Building, with the tools


def _build_tiny(target, directory):
    spec = FRAMES if target.rgmii else preset("tiny")
    report = build(replace(target, spec=spec), directory=directory)
    print(f"{target.name}: {report.fmax_mhz} MHz of {report.clock_mhz}")
    assert report.fmax_mhz >= report.clock_mhz
    bits = (directory / target.bitstream).read_bytes()
    assert BITSTREAM_STARTS[target.family].match(bits), bits[:80]
    return bits


@pytest.mark.slow
def test_bitstream(target, tmp_path):
    _build_tiny(target, tmp_path)


@pytest.mark.slow
def test_same_bitstream_again(tmp_path):
    target = board("icebreaker")
    assert _build_tiny(target, tmp_path / "a") == _build_tiny(target, tmp_path / "b")


def test_tool_missing(tmp_path, monkeypatch):
    which = tools.shutil.which
    monkeypatch.setattr(
        tools.shutil,
        "which",
        lambda name, path=None: None if "pack" in name else which(name, path=path),
    )
    message = _error("build", "--board", "tang-nano-9k", "--out-dir", tmp_path / "out")
    assert message == "gowin_pack is not installed: pip install '.[synth]'"
    assert list(tmp_path.iterdir()) == []


def test_too_large_for_the_board(tmp_path, monkeypatch):
    """Told by yosys' count, before anything is placed."""
    monkeypatch.setattr(building, "Flow", Crowded)
    monkeypatch.setattr(building, "FilterLink", Echo)
    message = _error("build", "--board", "icebreaker", "--out-dir", tmp_path / "out")
    assert message == "ice40-up5k: the design needs 31 block RAMs, the device has 30"
    assert list(tmp_path.iterdir()) == []


class Crowded(FakeFlow):
    def synthesise(self, text):
        return {"top": {"cells": {str(n): {"type": "SB_RAM40_4K"} for n in range(31)}}}


# The page


def test_page_has_every_board_as_it_is():
    reports = [report for report in blocks.load("boards") if tables.has_usual_family(report)]
    built = [report["board"] for report in reports]
    assert sorted(built) == sorted(BOARDS)
    page = tables.boards(reports)["bitstreams"]
    former = next((line for line in page.splitlines() if line.startswith("**Built before")), "")
    for report in reports:
        target = board(report["board"])
        assert report["fmax_mhz"] >= report["clock_mhz"] == pytest.approx(target.clock_mhz)
        present = FilterSpec.from_dict(report["spec"]) == target.spec
        assert present == (f"`{target.name}`" not in former)
        assert report["baud"] == target.baud


def test_page_takes_the_later_report(tmp_path, monkeypatch):
    measured = [report for report in blocks.load("boards") if tables.has_usual_family(report)]
    first, *others = measured
    other = first | {"spec": any_preset("timing-small").to_dict()}
    monkeypatch.setattr(blocks, "RESULTS", tmp_path)
    blocks.save("boards", [*others, first, other | {"timing_mhz": 200.0}])
    later, another = tmp_path / "build.json", tmp_path / "another.json"
    later.write_text(json.dumps(first | {"timing_mhz": 321.09}))
    another.write_text(json.dumps(other))
    tables.take_boards([later, another])
    reports = blocks.load("boards")
    assert [report["board"] for report in reports] == [
        *(report["board"] for report in measured), other["board"],
    ]  # fmt: skip
    assert reports[-1] == other
    page = tables.boards(reports)
    assert "| 321.1 |" in page["bitstreams"]
    assert "| timed-timing | 64 bits | 1,000 ticks |" in page["others"]
