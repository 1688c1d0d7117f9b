"""Scripts for the tools of vendors; tclsh runs them with commands that only report their words."""

import re
import shutil
import subprocess
from collections import Counter
from functools import cache
from xml.etree import ElementTree

import pytest

from lately.boards.export.bundle import descriptions
from lately.boards.export.design import TOOLS, Design
from lately.boards.flow.devices import DEVICES
from lately.golden import any_preset
from lately.golden.spec import GEBFSpec
from lately.hdl.target_clocks import target_mhz

FRAMES = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)

STUBS = """
proc stub {name options} {
    proc $name {args} "
        foreach word \\$args {
            if {\\[string match -* \\$word\\] && \\$word ni {$options}} {
                error \\"$name: no option \\$word\\"
            }
        }
        puts \\[list $name {*}\\$args\\]
    "
}
"""

ARGUMENTS = {
    "vivado": "set argc [llength {%s}]\nset argv {%s}\n",
    "quartus": "set quartus(args) {%s}\n",
}
"""Variables with the arguments of a script, as each tool documents them."""

COMMANDS = {
    # Commands and their options, from the manuals of the tools.
    "vivado": {
        "read_verilog": "", "read_xdc": "-mode", "synth_design": "-top -part -mode",
        "opt_design": "", "place_design": "", "route_design": "",
        "report_utilization": "-file", "report_timing_summary": "-file -append",
        "write_checkpoint": "-force",
    },
    "quartus": {
        "load_package": "", "project_new": "-overwrite", "set_global_assignment": "-name",
        "set_instance_assignment": "-name -to", "execute_flow": "-compile", "project_close": "",
    },
    "radiant": {
        "prj_create": "-name -impl -dev -synthesis", "prj_add_source": "",
        "prj_set_impl_opt": "-impl", "prj_set_strategy_value": "-strategy", "prj_save": "",
        "prj_run": "-impl", "prj_close": "",
    },
    "diamond": {
        "prj_project": "-name -impl -dev -synthesis", "prj_src": "", "prj_impl": "",
        "prj_run": "-impl -task",
    },
    "gowin": {
        "set_device": "-name", "add_file": "-type", "set_option": "-top_module -output_base_name",
        "run": "",
    },
    "libero": {
        "new_project": "-location -name -hdl -family -die -package -speed",
        "import_files": "-hdl_source -sdc", "build_design_hierarchy": "", "set_root": "-module",
        "organize_tool_files": "-tool -file -module -input_type", "run_tool": "-name",
        "close_project": "-save",
    },
    "hw": {
        "set_module_property": "", "add_fileset": "", "set_fileset_property": "",
        "add_fileset_file": "", "add_interface": "", "set_interface_property": "",
        "add_interface_port": "",
    },
}  # fmt: skip

REPORTS = {
    "vivado": ["seen_vivado.rpt"],
    "quartus": ["output_files/seen.fit.summary", "output_files/seen.sta.rpt"],
    "radiant": ["impl_1/seen_impl_1.mrp", "impl_1/seen_impl_1.twr"],
    "diamond": ["impl1/seen_impl1.mrp", "impl1/seen_impl1.tw1"],
    "gowin": ["impl/gwsynthesis/seen_syn.rpt.html"],
    "libero": ["seen_libero/synthesis/seen.srr"],
}
"""Reports that the tools write, from their manuals."""


@cache
def design(*tools, **options):
    return Design(spec=any_preset("tiny"), name="seen", tools=[*tools], **options)


@cache
def described(*tools, **options):
    return descriptions(design(*tools, **options))


SCRIPTS = [tool for tool in TOOLS if tool != "efinity"]


def run_tcl(tool, script, *arguments):
    """Run a script with the commands of a tool; return what it prints."""
    assert shutil.which("tclsh"), "tclsh is needed for this test; install tcl"
    stubs = "".join(f"stub {name} {{{options}}}\n" for name, options in COMMANDS[tool].items())
    package = "package provide qsys 16.1\n"
    given = ARGUMENTS.get(tool, "").replace("%s", " ".join(arguments))
    text = STUBS + stubs + package + given + f"source {script}\n"
    return subprocess.run(
        ["tclsh"], input=text, cwd=script.parent, capture_output=True, text=True, check=False
    )


def commands(tool, folder, *arguments, file="seen_{tool}.tcl", **options):
    """Return what a script prints, without the folder of the files."""
    for name, text in described("quartus" if tool == "hw" else tool, **options).items():
        (folder / name).write_text(text)
    for report in REPORTS.get(tool, []):
        (folder / report).parent.mkdir(parents=True, exist_ok=True)
        (folder / report).write_text(f"content of {report}\n")
    done = run_tcl(tool, folder / file.format(tool=tool), *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.replace(f"{folder}/", "").splitlines()


@pytest.mark.parametrize("tool", SCRIPTS)
def test_script_reads_file_and_constraint_and_prints_reports(tool, tmp_path):
    lines = commands(tool, tmp_path)
    assert len([line for line in lines if "seen.v" in line.split()]) == 1
    constraint = "seen_vivado.xdc" if tool == "vivado" else "seen.sdc"
    assert any(constraint in line for line in lines)
    assert (tmp_path / constraint).exists()
    part = next(iter(TOOLS[tool].values()))
    assert any(part in line for line in lines)
    for report in REPORTS[tool]:
        assert lines.count(f"content of {report}") == 1
    assert {
        name for name in COMMANDS[tool] if not any(line.startswith(name) for line in lines)
    } == (set())


@pytest.mark.parametrize("tool", SCRIPTS)
@pytest.mark.parametrize("old", ["name", "command", "option"])
def test_typing_error_in_a_script_is_found(tool, old, tmp_path):
    """Each command and each option with a letter too many stops the script."""
    commands(tool, tmp_path)
    text = (tmp_path / f"seen_{tool}.tcl").read_text()
    if old == "name":
        wrong = text.replace("$here", "$hear", 1)
    elif old == "command":
        first = max(COMMANDS[tool], key=len)
        wrong = re.sub(rf"^{first}\b", f"{first}x", text, count=1, flags=re.M)
    else:
        option = next(word for words in COMMANDS[tool].values() for word in words.split())
        wrong = re.sub(rf"^([^#\n]*) {option}\b", rf"\1 {option}x", text, count=1, flags=re.M)
    assert wrong != text
    (tmp_path / "wrong.tcl").write_text(wrong)
    done = run_tcl(tool, tmp_path / "wrong.tcl")
    assert re.search("no such variable|invalid command name|no option", done.stderr)


def test_project_of_efinity_names_the_files(tmp_path):
    files = described("efinity")
    project = ElementTree.fromstring(files["seen_efinity.xml"])
    space = {"efx": "http://www.efinixinc.com/enf_proj"}
    names = {
        kind: project.find(f".//efx:{kind}", space).get("name")
        for kind in ("design_file", "sdc_file", "top_module", "device")
    }
    expected = {"design_file": "seen.v", "sdc_file": "seen.sdc", "top_module": "seen"}
    assert names == expected | {"device": "T20F256"}
    assert "seen.sdc" in files
    (tmp_path / "efx_run.py").write_text(
        "#!/bin/sh\nmkdir outflow\necho $@ > outflow/seen.map.rpt\n"
    )
    (tmp_path / "efx_run.py").chmod(0o755)
    (tmp_path / "seen_efinity.sh").write_text(files["seen_efinity.sh"])
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", tmp_path / "seen_efinity.sh"], env=path, capture_output=True,
                          text=True, check=True)  # fmt: skip
    assert done.stdout.startswith("seen_efinity.xml --prj --flow map")


def test_every_device_of_a_vendor_has_a_part():
    """Only Yosys and nextpnr support the other devices, or the old tools of iCE40."""
    supported = {name for parts in TOOLS.values() for name in parts}
    assert {known.family for name, known in DEVICES.items() if name not in supported} == {
        "gatemate", "ice40",
    }  # fmt: skip


@pytest.mark.parametrize("tool", SCRIPTS)
def test_part_of_the_device(tool, tmp_path):
    """A device of another vendor leaves the example."""
    *_, (name, part) = TOOLS[tool].items()
    lines = commands(tool, tmp_path, target=name)
    assert any(part in line for line in lines)
    assert design(tool, target="ice40-up5k").part(tool) == next(iter(TOOLS[tool].values()))


def test_page_lists_every_file():
    files = described(*TOOLS)
    assert not [name for name in files if f"`{name}`" not in files["seen.md"] and name != "seen.md"]


@pytest.mark.parametrize("target", [None, *DEVICES])
def test_constraint_states_the_origin_of_its_clock(target):
    reason = "100.0 MHz, an example, because the export named no device"
    if target and DEVICES[target].placed:
        reason = f"{target_mhz(target):.1f} MHz, the highest target clock of Lately for {target}"
    elif target:
        reason = f"100.0 MHz, an example, because Lately does not place units on {target}"
    files = described(target=target)
    assert files["seen.sdc"].startswith(f"# Clock of seen: {reason}.\n")


def test_part_by_argument(tmp_path):
    lines = commands("vivado", tmp_path, "xcku5p-ffvb676-2-e")
    assert "synth_design -top seen -part xcku5p-ffvb676-2-e -mode out_of_context" in lines
    lines = commands("quartus", tmp_path, "Arria10", "10AX115S2F45I1SG")
    assert "set_global_assignment -name FAMILY Arria10" in lines


def test_all_ports_but_the_clock_are_virtual_pins(tmp_path):
    lines = commands("quartus", tmp_path)
    pins = {line.split()[-1] for line in lines if "VIRTUAL_PIN" in line}
    assert pins == {port.name for port in design().ports} - {design().component.CLOCK}


CONSTRAINT = """
proc get_ports {name} { if {$name ni {%s}} {error "no port $name"}; return $name }
proc create_clock {args} {puts $args}
source %s
"""


@pytest.mark.parametrize("file", ["seen.sdc", "seen_vivado.xdc"])
def test_constraint_is_for_a_unit_that_is_the_top(file, tmp_path):
    """In a design around the unit there is no such port, and no description reads the file."""
    files = described("vivado", "quartus")
    (tmp_path / file).write_text(files[file])
    clock = design().component.CLOCK

    def read(*ports):
        text = CONSTRAINT % (" ".join(ports), tmp_path / file)
        return subprocess.run(["tclsh"], input=text, capture_output=True, text=True, check=False)

    alone = read(*(port.name for port in design().ports))
    assert (alone.stdout, alone.stderr) == (f"-name seen_{clock} -period 10.000 {clock}\n", "")
    assert read("board_clk", "led").stderr.startswith(f"no port {clock}\n")
    assert not [name for name in ("seen.core", "seen_hw.tcl") if re.search("sdc|xdc", files[name])]


SPIRIT = "{http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009}"


def texts_of(element, *path):
    return [child.text for child in element.iterfind("/".join(SPIRIT + name for name in path))]


@pytest.mark.parametrize("wrap", ["axis", "raw", "frames-64"])
def test_component_of_vivado_agrees_with_the_verilog(wrap):
    """Its ports are those of the module; its interfaces those of the attributes."""
    spec = FRAMES if wrap == "frames-64" else any_preset("tiny")
    asked = Design(spec=spec, name="seen", wrap=wrap, bus="axi4-lite", tools=["vivado"])
    component = ElementTree.fromstring(descriptions(asked)["component.xml"])
    ports = {}
    for port in component.iter(f"{SPIRIT}port"):
        (left,) = texts_of(port, "wire", "vector", "left") or ["0"]
        (direction,) = texts_of(port, "wire", "direction")
        ports[texts_of(port, "name")[0]] = (direction == "in", int(left) + 1)
    assert ports == {port.name: (port.inward, port.width) for port in asked.ports}
    info = (
        r'X_INTERFACE_INFO = "xilinx.com:(\w+:\w+):1.0 (\w+) (\w+)" \*\)(?:\s*\(\*.*\*\))?'
        r"\s*(?:input|output) +(?:\[.*?\] )?(\w+);"
    )
    attributes = set(re.findall(info, asked.verilog))
    named = set()
    for interface in component.iter(f"{SPIRIT}busInterface"):
        kind = interface.find(f"{SPIRIT}busType")
        vlnv = f"{kind.get(SPIRIT + 'library')}:{kind.get(SPIRIT + 'name')}"
        (name,) = texts_of(interface, "name")
        maps = list(interface.iter(f"{SPIRIT}portMap"))
        named |= {
            (vlnv, name, texts_of(entry, "logicalPort", "name")[0],
             texts_of(entry, "physicalPort", "name")[0])
            for entry in maps
        }  # fmt: skip
        data = [port for _, entry, part, port in named if entry == name and part == "TVALID"]
        assert (interface.find(f"{SPIRIT}slave") is None) == (bool(data) and not ports[data[0]][0])
    assert named == attributes
    assert bool(named) == (wrap != "raw")


def test_component_of_vivado_has_the_registers_and_the_constraint():
    spec = any_preset("siphash-tiny")
    asked = Design(spec=spec, name="seen", bus="axi4-lite", tools=["vivado"])
    files = descriptions(asked)
    component = ElementTree.fromstring(files["component.xml"])
    words = {
        texts_of(element, "name")[0]: int(texts_of(element, "addressOffset")[0])
        for element in component.iter(f"{SPIRIT}register")
    }
    assert words == {word.name: word.address for word in asked.registers.words}
    (reference,) = component.iter(f"{SPIRIT}memoryMapRef")
    assert texts_of(component, "memoryMaps", "memoryMap", "name") == [
        reference.get(f"{SPIRIT}memoryMapRef")
    ]
    files = texts_of(component, "fileSets", "fileSet", "file", "name")
    assert set(files) == {"seen.v", "seen_vivado.xdc"}
    assert "seen_vivado.xdc" in files
    # In a design around the unit the constraint is not read.
    assert "USED_IN_out_of_context" in texts_of(
        component, "fileSets", "fileSet", "file", "userFileType"
    )
    # The order that the schema of IEEE 1685-2009 demands.
    assert [element.tag.removeprefix(SPIRIT) for element in component] == [
        "vendor", "library", "name", "version", "busInterfaces", "memoryMaps", "model", "fileSets",
        "description", "vendorExtensions",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrap", "bus", "kinds"),
    [
        ("axis", "axi4-lite", {"axi4stream": 2, "axi4lite": 1}),
        ("avalon-st", "avalon-mm", {"avalon_streaming": 2, "avalon": 1}),
        ("raw", "none", {}),
    ],
)
def test_component_of_platform_designer(wrap, bus, kinds, tmp_path):
    """Each port is in one interface; clock and reset are those of all others."""
    lines = commands("hw", tmp_path, file="seen_hw.tcl", wrap=wrap, bus=bus)
    words = [line.split() for line in lines]
    interfaces = {entry[1]: entry[2] for entry in words if entry[0] == "add_interface"}
    counted = Counter(interfaces.values())
    assert {
        kind: n for kind, n in counted.items() if kind not in ("clock", "reset", "conduit")
    } == (kinds)
    added = [entry[1:] for entry in words if entry[0] == "add_interface_port"]
    assert {interface for interface, *_ in added} == set(interfaces)
    assert sorted((name, direction == "Input", int(width)) for _, name, _, direction, width in added
                  ) == sorted(design(wrap=wrap, bus=bus).ports)  # fmt: skip
    associated = {entry[1] for entry in words if entry[2:] == ["associatedReset", "reset"]}
    assert associated == set(interfaces) - {"clock", "reset"}
    for interface, name, _, _, width in added:
        beat = ["set_interface_property", interface, "symbolsPerBeat", str(int(width) // 8)]
        if name in ("in_data", "out_data") and wrap == "avalon-st":
            assert beat in words
