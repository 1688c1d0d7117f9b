"""Scripts for the tools of vendors, run by tclsh with commands that only report their words."""

import re
import shutil
import subprocess

import pytest

from lately.boards.export.bundle import descriptions
from lately.boards.export.design import TOOLS, Design
from lately.boards.export.names import ExportError
from lately.golden import any_preset

STUBS = """
proc unknown {args} { puts $args }
set argc %d
set argv {%s}
set quartus(args) $argv
source %s
"""

ENDS = {
    "vivado": "write_checkpoint -force seen.dcp",
    "quartus": "project_close",
    "radiant": "prj_close",
    "diamond": "prj_project close",
    "gowin": "run syn",
    "libero": "close_project -save 1",
}


def commands(tool, folder, *arguments, **how):
    """Return the commands of a script, without the folder of the files."""
    assert shutil.which("tclsh"), "tclsh is needed for this test; install tcl"
    design = Design(spec=any_preset("tiny"), name="seen", tools=[tool], **how)
    for name, text in descriptions(design).items():
        (folder / name).write_text(text)
    script = folder / f"seen_{tool}.tcl"
    stubs = STUBS % (len(arguments), " ".join(arguments), script)
    done = subprocess.run(["tclsh"], input=stubs, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.replace(f"{folder}/", "").splitlines()


@pytest.mark.parametrize("tool", TOOLS)
def test_script_reads_file_and_constraint_and_ends(tool, tmp_path):
    lines = commands(tool, tmp_path)
    assert lines[-1] == ENDS[tool]
    assert len([line for line in lines if "seen.v" in line.split()]) == 1
    constraint = "seen_vivado.xdc" if tool == "vivado" else "seen.sdc"
    assert any(constraint in line for line in lines)
    assert (tmp_path / constraint).exists()
    assert any(TOOLS[tool] in line for line in lines)


def test_part_by_argument(tmp_path):
    lines = commands("vivado", tmp_path, "xcku5p-ffvb676-2-e")
    assert "synth_design -top seen -part xcku5p-ffvb676-2-e -mode out_of_context" in lines
    lines = commands("quartus", tmp_path, "Arria10", "10AX115S2F45I1SG")
    assert "set_global_assignment -name FAMILY Arria10" in lines


def test_all_ports_but_the_clock_are_virtual_pins(tmp_path):
    lines = commands("quartus", tmp_path)
    pins = {line.split()[-1] for line in lines if "VIRTUAL_PIN" in line}
    design = Design(spec=any_preset("tiny"), name="seen")
    assert pins == {port.name for port in design.ports} - {design.component.CLOCK}


def test_typing_error_is_found(tmp_path):
    """The stubs find an open bracket; they cannot know whether a command exists."""
    (tmp_path / "wrong.tcl").write_text("read_verilog [file join $here seen.v\n")
    done = subprocess.run(["tclsh", "wrong.tcl"], cwd=tmp_path, capture_output=True, text=True)
    assert re.search("missing close-bracket", done.stderr)


def test_tool_unknown():
    with pytest.raises(ExportError, match=r"tool: must be one of vivado, .*, not 'ise'"):
        Design(spec=any_preset("tiny"), name="seen", tools=["ise"])
