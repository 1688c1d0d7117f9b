"""lately/planner/measured.json: figures of placed units that `lately plan` prints."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lately.boards.flow.devices import device
from lately.golden.spec.all_presets import ALL_PRESETS

from ..hardware import summarise
from .blocks import ROOT, Page, records, write


def text() -> str:
    """Return the content of the file: a line for each unit of one lane on each device."""
    presets = {spec: name for name, spec in ALL_PRESETS.items()}
    lines = {}
    for summary in summarise(records("hardware")):
        case, report = summary.case, summary.median
        spec: Any = case.spec
        if getattr(spec, "lanes", 1) > 1:
            continue
        figures = {
            "unit": presets.get(spec, spec.shape),
            "family": spec.family,
            "timed": spec.timed,
            "moves": bool(getattr(spec, "moves", None)),
            "bits": spec.storage_bits,
            "device": case.device,
            "device_family": device(case.device).family,
            "block_rams": report.bram,
            "luts": report.lut,
            "flip_flops": report.ff,
            "clock_mhz": round(report.fmax_mhz, 1),
        }
        lines[spec, case.device] = json.dumps(figures)
    return "[\n" + ",\n".join(lines.values()) + "\n]\n"


@dataclass(frozen=True)
class Figures(Page):
    """A file that is written as a whole."""

    def stale(self) -> list[Path]:
        """Return the file if it is not current."""
        return [] if self.path.read_text("utf-8") == text() else [self.path]

    def write(self) -> None:
        """Write the file."""
        write(self.path, text())


PAGE = Figures(ROOT / "lately" / "planner" / "measured.json")
