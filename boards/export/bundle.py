"""Files of an exported unit, written together or not at all."""

import errno
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ... import __version__
from ...golden.files import named, temporary_name
from ...golden.models import model_of
from ...hdl.bus.flat import FlatUnit
from ...hdl.interface import fields
from ...hdl.target_clocks import target_mhz
from .bench_values import bench_values
from .contract import contract
from .design import NO_BUS, Design
from .fields import labels
from .interfaces import platform_interfaces, vivado_interfaces
from .litex_values import litex_values
from .meanings import MEANINGS, field_meanings, frame_meanings
from .names import ExportError
from .registers import c_header
from .waves import save_file

FILES = {
    "{name}_template.v": "template.v.j2",
    "{name}_tb.v": "tb.v.j2",
    "{name}.core": "core.j2",
    "{name}_pkg.vhd": "pkg.vhd.j2",
    "{name}_litex.py": "litex.py.j2",
    "{name}.sdc": "constraints.sdc.j2",
    "{name}.md": "page.md.j2",
}
"""Names of the files beside the Verilog, and their templates."""

FIELD_FILES = {"{name}_records.vhd": "records.vhd.j2"}
"""Further files for a unit whose ports have fields."""

REGISTER_FILES = {
    "{name}.rdl": "registers.rdl.j2",
    "{name}_registers.py": "registers.py.j2",
}
"""Further files for a unit behind a bus."""

TOOL_FILES = {
    "vivado": {
        "{name}_vivado.tcl": "vivado.tcl.j2",
        "{name}_vivado.xdc": "vivado.xdc.j2",
        "component.xml": "component.xml.j2",
    },
    "quartus": {"{name}_quartus.tcl": "script.tcl.j2", "{name}_hw.tcl": "hw.tcl.j2"},
    "efinity": {"{name}_efinity.sh": "efinity.sh.j2", "{name}_efinity.xml": "efinity.xml.j2"},
}
"""Names of the files for a vendor's tool, and their templates. Other tools have one script."""

WAIVERS = {
    "DECLFILENAME": "one file has all modules",
    "UNUSEDSIGNAL": "unused signals are kept so that waveforms show them",
    "UNUSEDPARAM": "models of block RAMs have all parameters of the vendor's primitive",
    "PINMISSING": "unused outputs of an instance are left open",
    "WIDTH": "operands are extended implicitly",
    "LITENDIAN": "a memory of one word has the range [0:0]",
    "INITIALDLY": "_start_ must change after all processes wait for it",
    "SYMRSVDWORD": "a name is a keyword of C++",
    "CASEINCOMPLETE": "missing cases cannot occur",
    "CMPCONST": "a comparison may be constant for the sizes of this unit",
    "UNSIGNED": "likewise",
    "VARHIDDEN": "a signal and an instance share a name",
}
"""Warnings of Verilator that the Verilog causes, and their reasons."""

EXAMPLE_MHZ = 100
"""Clock of the constraint if no device is named."""


def write(design: Design, directory: str | os.PathLike[str], *, force: bool = False) -> list[str]:
    """Write all files of an exported unit into a folder; return their names.

    The folder must be new or empty, unless `force` replaces files of the same names. An interrupt
    leaves the files of one export.
    """
    folder = Path(directory).resolve()
    _check_folder(folder, force)
    files = texts(design)
    staged = Path(temporary_name(str(folder / "new" if folder.exists() else folder)))
    try:
        with named(folder):  # The user does not know the temporary name.
            staged.mkdir(parents=True)
            for name, text in files.items():
                (staged / name).write_text(text, "utf-8")
        if staged.parent == folder:
            _move_files(staged, folder, [*files])
        else:
            staged.rename(folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return sorted(files)


def _move_files(staged: Path, folder: Path, names: list[str]) -> None:
    """Move files into a folder; after an interrupt, the earlier files return."""
    earlier = staged / "earlier"
    earlier.mkdir()
    try:
        for name in names:
            if (folder / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), folder / name)
            if os.path.lexists(folder / name):
                (folder / name).rename(earlier / name)
            (staged / name).rename(folder / name)
    except BaseException:
        for name in names:
            if os.path.lexists(earlier / name):
                (earlier / name).replace(folder / name)
            elif not (staged / name).exists():
                (folder / name).unlink()
        raise


def _check_folder(folder: Path, force: bool) -> None:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise ExportError(f"out-dir: must be a directory, not the file {there}")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise ExportError(
            f"out-dir: must be an empty directory, but {folder} holds files; "
            "--force replaces the files of an export"
        )
    if folder == Path.cwd():
        raise ExportError(f"out-dir: must not be the current directory, {folder}")


def texts(design: Design) -> dict[str, str]:
    """Return the texts of all files of an exported unit, by their names."""
    found = descriptions(design)
    head = _templates()("head.v.j2", **_heading(design), waivers=WAIVERS)
    found[f"{design.name}.v"] = head + design.verilog
    found[f"{design.name}.gtkw"] = save_file(design.verilog, design.name)
    if design.models:
        found[f"{design.name}_models.v"] = "\n".join([head, *design.models])
    return found


def descriptions(design: Design) -> dict[str, str]:
    """Return the texts of all files except the unit's own Verilog, by their names."""
    render, values = _templates(), _values(design)
    templates = FILES | ({} if design.frames else FIELD_FILES)
    templates |= REGISTER_FILES if design.registers else {}
    found = {
        name.format(name=design.name): render(template, **values)
        for name, template in templates.items()
    }
    if design.registers:
        found[f"{design.name}.h"] = c_header(found[f"{design.name}.rdl"], design.name)
    for tool in design.tools:
        interfaces = vivado_interfaces if tool == "vivado" else platform_interfaces
        own = {"tool": tool, "part": design.part(tool), "interfaces": interfaces(design)}
        for file, template in _tool_files(tool).items():
            found[file.format(name=design.name)] = render(template, **values | own)
    return found | {f"{design.name}.toml": design.spec.toml()}


def _tool_files(tool: str) -> dict[str, str]:
    """Return the names of the files for a tool, and their templates."""
    return TOOL_FILES.get(tool, {f"{{name}}_{tool}.tcl": "script.tcl.j2"})


def _heading(design: Design) -> dict[str, str]:
    """Return the values that every file states about the unit."""
    return {
        "name": design.name,
        "version": __version__,
        "shape": _shape(design),
        "digest": design.digest,
    }


def _shape(design: Design) -> str:
    shape = design.spec.shape
    return f"deduplicator of frames, {shape}" if design.frames else shape


def _values(design: Design) -> dict[str, Any]:
    """Return the values for the templates."""
    component, device = design.component, design.device
    placed_on = device.name if design.target and device.placed else ""
    return (
        _heading(design)
        | {
            "ports": design.ports,
            "fields": labels(component),
            "field_meanings": field_meanings(design.spec),
            "meanings": frame_meanings(design.frame_options.side) if design.frames else MEANINGS,
            "clock": component.CLOCK,
            "reset": component.RESET,
            "active": 0 if component.ACTIVE_LOW else 1,
            "models": bool(design.models),
            "placed_on": placed_on,
            "device": design.target,
            "tools": {
                tool: [file.format(name=design.name) for file in _tool_files(tool)]
                for tool in design.tools
            },
            "architecture": device.family,
            "period": 1000 / (target_mhz(placed_on) if placed_on else EXAMPLE_MHZ),
            "frames": design.frames,
            "wrap": design.wrap,
            "operations": [] if design.frames else _operations(design),
            "contract": contract(design),
            "latency": "" if design.frames else _latency(design),
            "entry": [] if design.frames else _entry(component),
            "bus": "" if design.bus == NO_BUS else design.bus,
            "registers": design.registers,
        }
        | bench_values(design)
        | {"litex": litex_values(design)}
    )


def _latency(design: Design) -> str:
    if design.waits:
        return (
            f"The result leaves {design.component.unit.latency} cycles after the acceptance of its "
            "request, or later under back-pressure."
        )
    return f"The result leaves {design.component.unit.latency} cycles after its request."


def _operations(design: Design) -> list[str]:
    return [f"{one.name} = {one.value}" for one in sorted(model_of(design.spec).supported)]


def _entry(component: FlatUnit) -> list[tuple[str, int, int]]:
    """Return name, offset and width of the fields of an entry of the table, if there is one."""
    unit = component.unit
    registers = getattr(unit, "registers", None)
    table = getattr(unit if registers is None else unit.unit, "table", None)
    return [] if table is None else list(fields(table.p.shape()))


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

    def render(template: str, **values: Any) -> str:
        return environment.get_template(template).render(**values)

    return render
