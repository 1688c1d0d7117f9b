"""Writes program output into README.md and docs/baselines.md, and generates whole files.

`python -m campaigns.pages README NAME` reruns the command NAME of `LONG`. The whole files are the
planner's measured units, the pages of the reproduction, and the import graph.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from campaigns import engine
from lately.boards.flow.devices import device
from lately.golden.spec.presets import ALL_PRESETS
from papers.registry import STUDIES
from papers.studies import page
from papers.studies.report import Report

from ..hardware import summarise
from .blocks import DOCS, IMAGES, RESULTS, ROOT, Page, fill, records, render, write

sys.path.append(str(ROOT / "tests" / "helpers"))

from import_graph import scan

README = ROOT / "README.md"
BASELINES = DOCS / "baselines.md"
LONG = {"demo": "make demo"}

COLUMNS = 108  # width of command output
UNITS = ("apbbf/ecp5-25k-8",)  # cases that the page mentions, with their latest results

COMPARED = {
    "Bloom": "Bloom filter, never cleared",
    "double buffering": "two Bloom filters in turn",
    "stable": "stable Bloom filter",
    "GEBF": "`GEBF` of Lately",
}
"""Filters compared in docs/baselines.md, and their names in README.md."""

SHOWN = ("operations", "mismatches", "false negatives", "repeats found")
"""Beginnings of the lines of the demo output that the page shows."""


def example_output(source: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "README.md", "exec"), {})
    return _fenced(printed.getvalue())


def examples(text: str) -> dict[str, str]:
    pairs = re.findall(r"```python\n([^`]*)```\n+<!-- begin (\S+) -->", text)
    return {name: source for source, name in pairs}


def command_output(command: str) -> str:
    environment = os.environ | {"COLUMNS": str(COLUMNS)}
    result = subprocess.run(
        command.split(), cwd=ROOT, capture_output=True, text=True, env=environment
    )
    if result.returncode:
        sys.exit(result.stderr)
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    shown = [line for line in lines if line.strip().startswith(SHOWN)]
    body = "\n".join([*shown, lines[-1]])
    return _fenced(f"$ {command}\n{body}\n")


def _fenced(text: str) -> str:
    return f"```text\n{text}```"


def printed(page: Path) -> dict[str, str]:
    sources = examples(page.read_text("utf-8"))
    return {name: example_output(source) for name, source in sources.items()}


def figures() -> dict[str, str]:
    rows = re.findall(
        r"^(\S.*?) +fresh (\S+)  missed (\S+)", BASELINES.read_text("utf-8"), re.MULTILINE
    )
    return render(
        "readme",
        compared=COMPARED,
        rates={name: rates for name, *rates in rows},
        units=[summary for summary in summarise(records("hardware")) if summary.case.name in UNITS],
    )


def renew(names: list[Path]) -> None:
    renewed = {name: command_output(LONG[name]) for name in map(str, names)}
    write(README, fill(README.read_text("utf-8"), renewed))


def measured_units() -> str:
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


DATA = RESULTS / page.DATA


@dataclass(frozen=True)
class _Reproduction(Page):
    def texts(self) -> dict[Path, str]:
        pages = page.pages(_report(), f"../results/{page.DATA}")
        return {DOCS / name: text for name, text in pages.items()}

    def stale(self) -> list[Path]:
        images = [DOCS / page.image(chart) for chart in _report().charts]
        return super().stale() + [path for path in images if not path.exists()]

    def write(self) -> None:
        super().write()
        page.draw_all(_report(), DOCS)


def _report() -> Report:
    return Report.of(engine.read(DATA), STUDIES)


def take(paths: list[Path]) -> None:
    known = {
        record.point["study"]: record for path in (DATA, *paths) for record in engine.read(path)
    }
    records = [known[study.name] for study in STUDIES if study.name in known]
    Report.of(records, STUDIES)  # Rejects studies of the quick form.
    engine.write(DATA, records)


PARTS = (
    "golden", "hdl", "sim/replay", "sim/bench", "sim/proofs", "boards", "lately", "campaigns",
    "papers", "campaigns/pages",
)  # fmt: skip

WIDTH, HEIGHT, GAP = 118, 34, 44


def part(name: str) -> str:
    """Return the source folder of a module; top-level modules of `sim` belong to "sim/replay"."""
    words = name.split(".")
    words = words[1:] if words[0] == "lately" and len(words) > 1 else words
    if words[0] == "sim":
        return "/".join(words[:2]) if words[1:2] in (["bench"], ["proofs"]) else "sim/replay"
    if words[:2] == ["campaigns", "pages"]:
        return "campaigns/pages"
    return words[0] if words[0] in PARTS else "lately"


def imports() -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {name: set() for name in PARTS}
    for name, module in scan(ROOT).items():
        others = {part(other) for other in module.imports - {"lately"}}
        if name != "lately":
            graph[part(name)] |= others - {part(name)}
    return graph


def picture() -> str:
    graph = imports()
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    rows = []
    while sorter.is_active():
        ready = sorter.get_ready()
        sorter.done(*ready)
        rows.append([name for name in PARTS if name in ready])
    wide = max(map(len, rows)) * (WIDTH + GAP)
    center = {
        name: (wide * (number + 1) / (len(row) + 1), (len(rows) - index) * (HEIGHT + GAP) - GAP)
        for index, row in enumerate(rows)
        for number, name in enumerate(row)
    }
    lines = [
        f'<path d="M{center[name][0]:.0f} {center[name][1]:.0f}'
        f'L{center[other][0]:.0f} {center[other][1]:.0f}" stroke="#8899aa" fill="none"/>'
        for name in PARTS
        # Imports that are implied by those of another folder are not drawn.
        for other in sorted(graph[name] - {far for near in graph[name] for far in graph[near]})
    ]
    boxes = [
        f'<rect x="{x - WIDTH / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{WIDTH}" height="{HEIGHT}" '
        f'rx="6" fill="#eef3f8" stroke="#33567a"/><text x="{x:.0f}" y="{y + 5:.0f}" '
        f'text-anchor="middle" font-size="14" fill="#16283a">{name}</text>'
        for name, (x, y) in center.items()
    ]
    high = len(rows) * (HEIGHT + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
        f'viewBox="0 0 {wide} {high}" font-family="sans-serif">'
        f"{''.join(lines)}{''.join(boxes)}</svg>\n"
    )


_PLANNER, _IMPORTS = ROOT / "lately" / "planner" / "measured.json", IMAGES / "imports.svg"

PAGES = (
    Page(BASELINES, partial(printed, BASELINES)),
    Page(README, lambda: printed(README) | figures(), take=renew),
    Page(_PLANNER, files=lambda: {_PLANNER: measured_units()}),
    Page(DOCS / "development.md", files=lambda: {_IMPORTS: picture()}),
    _Reproduction(DOCS / page.PAGE, take=take),
)
