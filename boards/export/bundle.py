"""Files of an exported unit, written together or not at all."""

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ...golden.operations import Operation
from ...hdl.bus.flat import FlatUnit
from ...hdl.registers import REGISTERS
from ...hdl.target_clocks import limit_mhz
from .design import Design
from .names import ExportError
from .vectors import vectors

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

OPERATIONS = 200
"""Transfers of the test bench."""

_SEED = 1
_MEANINGS = {
    "aclk": "clock",
    "clk": "clock",
    "aresetn": "reset, active low, synchronous to the clock",
    "rst": "reset, synchronous to the clock",
    "key": "key",
    "operation": "operation",
    "alone": "operation that is performed before those of the lanes: SHIFT or CLEAR",
    "valid": "the lane has a request, or a result",
    "tag": "word of the user's, which comes back with the result",
    "last": "TLAST, which comes back with the result",
    "window": "window that the query asks for",
    "seen": "whether the key was reported",
    "age": "youngest age that the key can have; 0 if it was not reported",
    "oldest": "cells of the key that are as old as its oldest",
    "status": "0 unless the window is shortened (1) or the false-positive rate exceeded (2)",
    "time": "time, in ticks",
    "tick": "a tick, when it is high for a cycle",
    "covered": "ticks, the present one included, of which every key is still reported",
    "in_valid": "a request comes",
    "in_ready": "it is taken",
    "out_valid": "a result leaves",
    "out_ready": "it is taken",
    "out_refused": "the request was not performed",
    "overrun": "a request was refused since reset",
}
_MEANINGS |= {
    f"{side}_axis_{part}": meaning
    for side, stream in (("s", "of requests"), ("m", "of results"))
    for part, meaning in (
        ("tdata", f"fields {stream}, see below"),
        ("tuser", f"fields {stream}, see below"),
        ("tlast", "comes back with the result"),
        ("tvalid", f"handshake {stream}"),
        ("tready", f"handshake {stream}"),
    )
}
_MEANINGS |= {register.name: register.meaning for register in REGISTERS}


def write(design: Design, directory: str | os.PathLike[str]) -> list[str]:
    """Write all files of an exported unit into a folder; return their names.

    Parameters
    ----------
    design : Design
    directory : path
        Must not exist, or be empty.

    Raises
    ------
    ExportError
        If the folder is not empty, or a file.
    OSError
        If it cannot be written.
    """
    folder = Path(directory)
    _check_folder(folder)
    files = texts(design)
    parent = folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(dir=parent, prefix=f".{folder.name}."))
    try:
        staged.chmod(0o777 & ~_umask())
        for name, text in files.items():
            (staged / name).write_text(text, "utf-8")
        # A folder takes the place of an empty one whole.
        staged.replace(folder)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return sorted(files)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"out: must be a directory, not the file {folder}")
    if folder.is_dir() and any(folder.iterdir()):
        raise ExportError(f"out: must be an empty directory, but {folder} holds files")


def texts(design: Design) -> dict[str, str]:
    """Return the texts of all files of an exported unit, by their names.

    Parameters
    ----------
    design : Design
    """
    values = _values(design)
    render = _templates()
    found = {f"{design.name}.v": render("head.v.j2", **values) + design.verilog}
    for name, template in FILES.items():
        found[name.format(name=design.name)] = render(template, **values)
    found[f"{design.name}.toml"] = design.spec.toml()
    if design.models:
        head = render("head.v.j2", **values)
        found[f"{design.name}_models.v"] = "\n".join([head, *design.models])
    return found


def _values(design: Design) -> dict[str, Any]:
    component, ports = design.component, design.ports
    members = component.signature.members
    stimuli = vectors(design, OPERATIONS, seed=_SEED)
    requests = [port for port in ports if port.name in stimuli.requests[0]]
    results = [port for port in ports if port.name in stimuli.results[0]]
    waits = design.wrap != "extern"
    resets = {port.name: members[port.name].init or 0 for port in ports if port.inward}
    # The longest, so that no more time passes in the test bench.
    resets |= {port.name: (1 << port.width) - 1 for port in ports if port.name == "period"}
    connections = _connections(component, ports, requests, results, resets)
    unit = component.unit
    return {
        "name": design.name,
        "version": metadata.version("lately"),
        "shape": getattr(design.spec, "shape", design.spec.family),
        "digest": design.digest,
        "ports": ports,
        "outputs": [
            port
            for port in ports
            if not port.inward
            and connections[port.name] == port.name
            and port.name not in ("in_ready", "out_valid")
        ],
        "fields": _fields(component),
        "meanings": _MEANINGS,
        "clock": component.CLOCK,
        "reset": component.RESET,
        "active": 0 if component.ACTIVE_LOW else 1,
        "resets": resets,
        "values": {
            port.name: f"{port.width}'d{resets[port.name]}"
            for port in ports[2:]
            if port.inward and port not in requests and not port.name.endswith(("valid", "ready"))
        },
        "waits": waits,
        "requests": [_word(requests, values) for values in stimuli.requests],
        "results": [_word(results, values) for values in stimuli.results],
        "request_bits": sum(port.width for port in requests),
        "result_bits": sum(port.width for port in results),
        "result_mask": _word(results, _compared(component, results)),
        "connections": connections,
        "models": bool(design.models),
        "settled": 8 if waits else design.profile.longest_pause + unit.latency,
        "most_cycles": 100 * OPERATIONS * (design.profile.longest_pause + 1),
        "architecture": {"ecp5": "ecp5", "ice40": "ice40", "gowin": "gowin"}.get(
            design.memory.split("-")[0], "ecp5"
        ),
        "period": 1000 / limit_mhz("ecp5-25k-6"),
        "operations": _operations(component),
        "latency": (
            f"Every request has its result {component.latency} cycles later."
            if design.wrap == "extern"
            else f"A result leaves {unit.latency} cycles after its request, or later if those "
            "before it wait."
        ),
    }


def _operations(component: FlatUnit) -> list[str]:
    width = next(one.width for one in component.requests if one.name == "operation")
    return [f"{one.name} = {one.value}" for one in Operation if one.value < 1 << width]


def _fields(component: FlatUnit) -> list[dict[str, Any]]:
    several = component.unit.signature.lanes > 1
    return [
        one._asdict()
        | {"label": f"{one.name}{one.lane}" if several and one.name != "alone" else one.name}
        | {"side": side}
        for side, found in (("in", component.requests), ("out", component.results))
        for one in found
    ]


def _compared(component: FlatUnit, results: list[Any]) -> dict[str, int]:
    """Return the bits of ports that are compared: not the time, if a period began before."""
    free = dict.fromkeys((port.name for port in results), 0)
    if "period" in component.signature.members:
        for one in component.results:
            if one.name == "time":
                free[one.port] |= (1 << one.width) - 1 << one.offset
    return {port.name: (1 << port.width) - 1 & ~free[port.name] for port in results}


def _word(ports: list[Any], values: dict[str, int]) -> int:
    """Return the values of ports, the first one in the highest bits."""
    word = 0
    for port in ports:
        word = word << port.width | values[port.name]
    return word


def _connections(
    component: FlatUnit,
    ports: list[Any],
    requests: list[Any],
    results: list[Any],
    resets: dict[str, int],
) -> dict[str, str]:
    """Return what the test bench connects to each port."""
    found = {port.name: port.name for port in ports}
    found |= {name: f"{len(getattr(component, name))}'d{value}" for name, value in resets.items()}
    found |= {name: name for name in (component.CLOCK, component.RESET)}
    for word, held in (("request", requests), ("result", results)):
        top = sum(port.width for port in held)
        for port in held:
            top -= port.width
            found[port.name] = f"{word}[{top + port.width - 1}:{top}]"
    prefixes = ("s_axis_t", "m_axis_t") if "s_axis_tvalid" in found else ("in_", "out_")
    for prefix, side in zip(prefixes, ("in", "out"), strict=True):
        for flag in ("valid", "ready"):
            if f"{prefix}{flag}" in found:
                found[f"{prefix}{flag}"] = f"{side}_{flag}"
    return found


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

    def render(template: str, **values: Any) -> str:
        return environment.get_template(template).render(**values)

    return render
