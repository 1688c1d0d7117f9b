"""Read a unit's area and clock from the reports of an export's vendor tool scripts."""

import re

from ...golden.errors import LatelyError

# Kind of figures that no Lately test reproduces.
REPORTED = "reported by users"


class ReportError(LatelyError, ValueError):
    """The text is not a report of a known vendor tool, or a figure is missing."""


def _vivado_mhz(figures: dict[str, str]) -> float:
    """Compute the clock frequency from the worst slack after routing."""
    if figures["design state"] not in ("Routed", "Physopt postRoute"):
        raise ReportError("report: the design is not routed; X_vivado.tcl routes it")
    delay = float(figures["period"]) - float(figures["slack"])
    if delay <= 0:
        raise ReportError(
            f"report: the slack must be below the period of {figures['period']} ns, "
            f"not {figures['slack']} ns"
        )
    return 1000 / delay


# Regular expressions for the figures by tool, each with one group; based on vendor documents and
# public reports. If several clocks match, the lowest clock is used.
FORMATS: dict[str, dict[str, str]] = {
    "vivado": {
        "version": r"Tool Version : Vivado v\.(\S+)",
        "device": r"\| Device +: (\S+)",
        "LUTs": r"\| (?:Slice|CLB) LUTs\*? +\| +(\d[\d,]*) +\|",
        "registers": r"\| (?:Slice|CLB) Registers +\| +(\d[\d,]*) +\|",
        "block RAMs": r"\| Block RAM Tile +\| +(\d[\d,]*(?:\.\d+)?) +\|",
        "design state": r"Design State : (\w.*?) *$",
        "period": r"^\S+ +\{[\d. ]+\} +(\d+\.\d+) +[\d.]+ *$",
        "slack": r"WNS\(ns\).*\n[ -]+\n +(-?\d+\.\d+) ",
    },
    "quartus": {
        "version": r"Quartus Prime Version : (\S+)",
        "device": r"^Device : (\S+)",
        "ALMs": r"Logic utilization \(in ALMs\) : (\d[\d,]*)",
        "registers": r"Total (?:dedicated logic )?registers : (\d[\d,]*)",
        "block RAMs": r"Total RAM Blocks : (\d[\d,]*)",
        "clock": r"^; [\d.]+ MHz +; (\d+\.?\d*) MHz",
    },
    "radiant": {
        "version": r"Radiant Software \(64-bit\) (\S+)",
        "device": r"^ *(?:Target )?Device: +(\S+)",
        "LUTs": r"Number of LUT4s: +(\d[\d,]*)",
        "registers": r"Number of (?:slice )?registers: +(\d[\d,]*)",
        "block RAMs": r"Number of (?:EBRs|Block RAMs): +(\d[\d,]*)",
        "clock": r"Actual \(all paths\) +\| +[\d.]+ ns +\| +(\d+\.?\d*) MHz",
    },
}

# Text by which a report of a tool is recognised.
_MARKS = {"vivado": "Tool Version : Vivado", "quartus": "Fitter Status :",
          "radiant": "Radiant Software"}  # fmt: skip


def read_report(text: str) -> dict[str, str | int | float]:
    """Extract tool, version, device, area and clock from a report."""
    tool = next((name for name, mark in _MARKS.items() if mark in text), None)
    if tool is None:
        raise ReportError("report: not recognised as a report of Vivado, Quartus or Radiant")
    figures = {}
    for figure, pattern in FORMATS[tool].items():
        matches = re.findall(pattern, text, re.M)
        if not matches:
            raise ReportError(f"report: {figure} not found; X_{tool}.tcl writes a complete report")
        text_of_figure = min(matches, key=float) if figure == "clock" else matches[0]
        figures[figure] = text_of_figure.replace(",", "")
    lut_name = "ALMs" if "ALMs" in figures else "LUTs"
    uram = re.search(r"\| URAM +\| +(\d+)", text)  # Only some AMD devices have UltraRAM.
    mhz = float(figures["clock"]) if "clock" in figures else _vivado_mhz(figures)
    return {
        "tool": tool,
        "version": figures["version"],
        "device": figures["device"],
        "luts": int(figures[lut_name]),
        "lut_name": lut_name,
        "ff": int(figures["registers"]),
        # A tile of Vivado holds two of the block RAMs that `lately plan` counts.
        "bram": round((2 if tool == "vivado" else 1) * float(figures["block RAMs"])),
        "uram": int(uram[1]) if uram else 0,
        "timing_mhz": round(mhz, 1),
        "kind": REPORTED,
    }
