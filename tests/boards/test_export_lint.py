"""Exported modules, benches and templates as linters read them: Verilator, slang and yosys."""

from itertools import product

import pytest
from exports import CASES, TIMED
from pyslang import DiagnosticEngine
from pyslang.ast import Compilation
from pyslang.syntax import SyntaxTree
from verilators import VERILATORS, verilator

from lately.boards.export.bench import bench_values
from lately.boards.export.bundle import write
from lately.boards.export.design import FRAMES, NO_BUS, WRAPS, Design
from lately.golden.spec import GEBFSpec
from lately.hdl.bus.controlled import BUSES
from lately.sim.toolchain import models, run_yosys

pytestmark = pytest.mark.rtl

BOTH = """`timescale 1ns / 1ps
/* verilator lint_off PINMISSING */
module both;
  unit_tb unit_tb();
  around around();
endmodule
"""
PACKETS = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)


def around(design, template):
    """A module that has the template of a unit in it, and the ports that the template names."""
    values = bench_values(design)["values"]
    ports = [port for port in design.ports if values.get(port.name, port.name) == port.name]
    names = [f"{'input' if port.inward else 'output'} {port.range} {port.name}" for port in ports]
    head = f"`timescale 1ns / 1ps\nmodule around({', '.join(names)});\n"
    return f"{head}{template}endmodule\n"


def lint(folder, spec, options):
    """Export a unit; module, bench and template have no warnings, and slang finds no error."""
    cells = [path.read_text() for path in models(options.get("memory", "portable"))]
    design = Design(spec=spec, name="unit", models=cells, **options)
    files = write(design, folder)
    module = ["unit.v", *(name for name in files if name == "unit_models.v")]
    (folder / "around.v").write_text(around(design, (folder / "unit_template.v").read_text()))
    # One module has both, so that the unit is read once.
    (folder / "both.v").write_text(BOTH)
    sources = [*module, "unit_tb.v", "around.v"]
    for program in VERILATORS:
        verilator(program, folder, "--lint-only", "-Wall", "--timing", "--top-module", "both",
                  *sources, "both.v")  # fmt: skip
    compilation = Compilation()
    for name in sources:
        compilation.addSyntaxTree(SyntaxTree.fromFile(str(folder / name)))
    errors = [diagnostic for diagnostic in compilation.getAllDiagnostics() if diagnostic.isError()]
    assert not errors, DiagnosticEngine.reportAll(compilation.sourceManager, errors)


# Wraps and buses do not share logic, nor do buses and the widths of frames. Frames without a bus
# are read by Icarus Verilog in test_export_frames.
DAILY = {
    "axis": (NO_BUS, *BUSES), "avalon-st": (NO_BUS, "axi4-lite"), "raw": (NO_BUS, "wishbone"),
    "extern": (NO_BUS, "avalon-mm"), "frames-8": ("wishbone",), "frames-64": ("avalon-mm",),
    "frames-128": ("axi4-lite",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("wrap", "bus"),
    [
        pytest.param(wrap, bus, marks=[pytest.mark.slow] * (bus not in DAILY.get(wrap, ())))
        for wrap, bus in product([*WRAPS, *FRAMES], (NO_BUS, *BUSES))
    ],
)
def test_every_wrap_and_bus(wrap, bus, tmp_path):
    lint(tmp_path / "ip", PACKETS if wrap in FRAMES else TIMED, {"wrap": wrap, "bus": bus})


EACH_KIND = ("secret", "dictionary", "table behind a bus", "ecp5")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] * (case not in EACH_KIND)) for case in CASES],
)
def test_every_kind(case, tmp_path):
    """Also yosys reads the module without a warning."""
    lint(tmp_path / "ip", *CASES[case])
    script = "read_verilog unit.v; hierarchy -top unit; proc; check -assert"
    done = run_yosys("-q", "-e", ".", "-p", script, directory=tmp_path / "ip")
    assert done.stdout == "" or CASES[case][1].get("memory", "portable") != "portable"
