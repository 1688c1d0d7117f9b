"""Area and clock of a unit from the reports that the scripts of an export print."""

import re
from collections.abc import Callable
from typing import NamedTuple

from ...golden.errors import LatelyError

REPORTED = "reported by users"
"""Kind of figures that no test of Lately reproduces."""


_Find = Callable[[str, str], str]
"""Takes the name of a figure and its regular expression; returns the figure."""


class ReportError(LatelyError, ValueError):
    """A text is not a report of a known vendor's tool, or lacks a figure."""


class _Format(NamedTuple):
    """How to find the figures in the report of a tool.

    Attributes
    ----------
    mark : str
        Regular expression that matches only reports of this tool.
    version, device, luts, ff, bram : str
        Regular expressions, each with one group.
    script : str
        Exported script that writes the report.
    lut_name : str
        The tool's name for `luts`.
    blocks : int
        Block RAMs of `lately plan` in one block RAM of the report.
    """

    mark: str
    version: str
    device: str
    luts: str
    ff: str
    bram: str
    script: str
    lut_name: str = "LUTs"
    blocks: int = 1


FORMATS = {
    "vivado": _Format(
        mark=r"Tool Version : Vivado",
        version=r"Tool Version : Vivado v\.(\S+)",
        device=r"\| Device +: (\S+)",
        luts=r"\| (?:Slice|CLB) LUTs\*? +\| +([\d,.]+)",
        ff=r"\| (?:Slice|CLB) Registers +\| +([\d,.]+)",
        # A tile holds two blocks of 18 kbit.
        bram=r"\| Block RAM Tile +\| +([\d,.]+)",
        script="X_vivado.tcl",
        blocks=2,
    ),
    "quartus": _Format(
        mark=r"Fitter Status :",
        version=r"Quartus Prime Version : (\S+)",
        device=r"^Device : (\S+)",
        luts=r"Logic utilization \(in ALMs\) : ([\d,]+)",
        ff=r"Total registers : ([\d,]+)",
        bram=r"Total RAM Blocks : ([\d,]+)",
        script="X_quartus.tcl",
        lut_name="ALMs",
    ),
    "radiant": _Format(
        mark=r"Radiant Software",
        version=r"Radiant Software \(64-bit\) (\S+)",
        device=r"Target Device: +(\S+)",
        luts=r"Number of LUT4s: +([\d,]+)",
        ff=r"Number of (?:slice )?registers: +([\d,]+)",
        bram=r"Number of (?:EBRs|Block RAMs): +([\d,]+)",
        script="X_radiant.tcl",
    ),
}  # fmt: skip
"""Formats by tool, from the vendors' documents and public reports."""


def read_report(text: str) -> dict[str, str | int | float]:
    """Return the tool, version, device, area and clock of a report.

    Parameters
    ----------
    text : str

    Raises
    ------
    ReportError
        If no tool of `FORMATS` wrote the text, or a figure is missing.
    """
    tool = next((name for name, one in FORMATS.items() if re.search(one.mark, text)), None)
    if tool is None:
        raise ReportError(f"report: must be of {', '.join(FORMATS)}; the text names none of them")
    form = FORMATS[tool]

    def find(figure: str, pattern: str) -> str:
        match = re.search(pattern, text, re.M)
        if match is None:
            raise ReportError(
                f"report: must state the {figure}, which {form.script} prints; "
                f"this report of {tool} does not"
            )
        return match[1].replace(",", "")

    return {
        "tool": tool,
        "version": find("version", form.version),
        "device": find("device", form.device),
        "luts": int(find(form.lut_name, form.luts)),
        "lut_name": form.lut_name,
        "ff": int(find("registers", form.ff)),
        "bram": round(form.blocks * float(find("block RAMs", form.bram))),
        "timing_mhz": round(_TIMING[tool](text, find), 1),
        "kind": REPORTED,
    }


def _vivado_mhz(text: str, find: _Find) -> float:
    """Return the clock frequency from the worst slack after routing."""
    if find("design state", r"Design State : (\w.*?) *$") != "Routed":
        raise ReportError("report: must be of a routed design; see X_vivado.tcl")
    period = float(find("period", r"^\S+ +\{[\d. ]+\} +([\d.]+) +[\d.]+ *$"))
    slack = float(find("slack", r"WNS\(ns\).*\n[ -]+\n +(-?[\d.]+)"))
    return 1000 / (period - slack)


def _lowest(pattern: str) -> Callable[[str, _Find], float]:
    """Return a function that returns the lowest matching clock frequency."""

    def lowest(text: str, find: _Find) -> float:
        find("clock", pattern)
        return min(float(mhz) for mhz in re.findall(pattern, text, re.M))

    return lowest


_TIMING: dict[str, Callable[[str, _Find], float]] = {
    "vivado": _vivado_mhz,
    "quartus": _lowest(r"^; [\d.]+ MHz +; ([\d.]+) MHz"),
    "radiant": _lowest(r"Actual \(all paths\) +\| +[\d.]+ ns +\| +([\d.]+) MHz"),
}
