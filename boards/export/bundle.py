"""Generate all files of an exported unit."""

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ... import __version__
from ...hdl.target_clocks import target_mhz
from .bench import bench_values
from .design import NO_BUS, Design
from .folder import write_folder
from .interfaces import labels, litex_values, platform_interfaces, vivado_interfaces
from .page import page_values

# Templates of the files besides the Verilog; X stands for the name of the unit.
FILES = ["X_template.v", "X_tb.v", "X.core", "X_pkg.vhd", "X_litex.py", "X.sdc", "X.md"]
FIELD_FILES = ["X_records.vhd"]  # for a unit with ports that carry fields
REGISTER_FILES = ["X.rdl", "X_registers.py"]  # for a unit behind a bus

# Templates for vendor tools that need more than one script.
TOOL_FILES = {
    "vivado": ["X_vivado.tcl", "X_vivado.xdc", "component.xml"],
    "quartus": ["X_quartus.tcl", "X_hw.tcl"],
    "efinity": ["X_efinity.sh", "X_efinity.xml"],
}

EXAMPLE_MHZ = 100  # clock for the constraint if no device is given

_MODULE = re.compile(r"^module (\w+)\(.*?^endmodule$", re.M | re.S)
_PORT = re.compile(r"^  (?:input|output) (?:\[(\d+):0\] )?(\w+);$", re.M)
_INSTANCE = re.compile(r"^  (\w+) (\w+) \($", re.M)


def write(design: Design, directory: str | os.PathLike[str], *, force: bool = False) -> list[str]:
    return write_folder(texts(design), directory, force=force)


def texts(design: Design) -> dict[str, str]:
    files = descriptions(design)
    head = _templates()("head.v", **_heading(design))
    files[f"{design.name}.v"] = head + design.verilog
    files[f"{design.name}.gtkw"] = save_file(design.verilog, design.name)
    if design.models:
        files[f"{design.name}_models.v"] = "\n".join([head, *design.models])
    return files


def descriptions(design: Design) -> dict[str, str]:
    """Return the text of each file except the unit's own Verilog, by file name."""
    render, values = _templates(), _values(design)
    files = [*FILES, *([] if design.frames else FIELD_FILES)]
    files += REGISTER_FILES if design.registers else []
    contents = {_named(file, design): render(file, **values) for file in files}
    if design.registers:
        contents[f"{design.name}.h"] = _c_header(contents[f"{design.name}.rdl"], design.name)
    for tool in design.tools:
        interfaces = vivado_interfaces if tool == "vivado" else platform_interfaces
        values |= {"tool": tool, "part": design.part(tool), "interfaces": interfaces(design)}
        contents |= {_named(file, design): render(file, **values) for file in _tool_files(tool)}
    return contents | {f"{design.name}.toml": design.spec.toml()}


def _named(file: str, design: Design) -> str:
    return file.replace("X", design.name, 1)


def _tool_files(tool: str) -> list[str]:
    return TOOL_FILES.get(tool, [f"X_{tool}.tcl"])


def _c_header(rdl: str, name: str) -> str:
    from peakrdl_cheader.exporter import CHeaderExporter
    from systemrdl import RDLCompiler

    with TemporaryDirectory() as folder:
        source, header = (Path(folder, f"{name}{suffix}") for suffix in (".rdl", ".h"))
        source.write_text(rdl, "utf-8")
        compiler = RDLCompiler()
        compiler.compile_file(str(source))
        CHeaderExporter().export(compiler.elaborate(), str(header))
        return header.read_text("utf-8")


def _heading(design: Design) -> dict[str, str]:
    shape = f"{'frame deduplicator, ' if design.frames else ''}{design.spec.shape}"
    return {"name": design.name, "version": __version__, "shape": shape, "digest": design.digest}


def _values(design: Design) -> dict[str, Any]:
    component, device = design.component, design.device
    placed_on = device.name if design.target and device.placed else ""
    return {
        **_heading(design),
        "ports": design.ports,
        "fields": labels(component),
        "clock": component.CLOCK,
        "reset": component.RESET,
        "active": 0 if component.ACTIVE_LOW else 1,
        "models": bool(design.models),
        "placed_on": placed_on,
        "device": design.target,
        "tools": {
            tool: [_named(file, design) for file in _tool_files(tool)] for tool in design.tools
        },
        "architecture": device.family,
        "period": 1000 / (target_mhz(placed_on) if placed_on else EXAMPLE_MHZ),
        "frames": design.frames,
        "wrap": design.wrap,
        "bus": "" if design.bus == NO_BUS else design.bus,
        "registers": design.registers,
        **page_values(design),
        **bench_values(design),
        "litex": litex_values(design),
    }


@cache
def _templates() -> Callable[..., str]:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["camel"] = lambda name: name.title().replace("_", "")
    environment.filters["hexadecimal"] = hex
    environment.filters["binary"] = lambda value, width: f"{value:0{width}b}"

    def render(file: str, **values: Any) -> str:
        return environment.select_template([f"{file}.j2", "script.tcl.j2"]).render(**values)

    return render


# GTKWave


def save_file(text: str, name: str) -> str:
    lines = [f'[dumpfile] "{name}.vcd"', "[timestart] 0"]
    for path, ports in groups(text, name, f"{name}_tb.dut"):
        # Only the unit's own group is expanded.
        begin, end = ("800200", "1000200") if path.endswith("_tb.dut") else ("c00200", "1401200")
        lines += [f"@{begin}", f"-{path}"]
        for port in ports:
            lines += [f"@{22 if port.endswith(']') else 28}", port]
        lines += [f"@{end}", f"-{path}"]
    return "\n".join(lines) + "\n"


def groups(text: str, top: str, path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the paths of each module's first instance and of its ports, parents first."""
    modules = {match[1]: match[0] for match in _MODULE.finditer(text)}
    waiting = [(top, path)]
    shown = set()
    while waiting:
        module, instance = waiting.pop(0)
        if module in shown or module not in modules:
            continue
        shown.add(module)
        ports = _PORT.findall(modules[module])
        yield (
            instance,
            [f"{instance}.{name}" + (f"[{high}:0]" if high else "") for high, name in ports],
        )
        below = [
            (module, f"{instance}.{name}") for module, name in _INSTANCE.findall(modules[module])
        ]
        waiting = [*below, *waiting]
