"""README.md: the output of its examples and commands.

`python -m campaigns.pages README demo` runs a long command again, and likewise each of `LONG`.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lately import GEBF
from papers.models import BloomFilter, DoubleBuffering, StableBloomFilter

from ..hardware import summarise
from .blocks import ROOT, Page, fill, records, table, write
from .tables import MARK

README = ROOT / "README.md"
LONG = {"demo": "make demo"}

WIDTH = 108
"""Columns of the output of commands."""

UNITS = ("apbbf/ecp5-25k-8",)
"""Cases that the page names: as measured last."""

SHOWN = ("operations", "mismatches", "false negatives", "repeats found")
"""Figures of the demo that the page has."""


def example_output(source: str) -> str:
    """Run a Python example and return its output."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "README.md", "exec"), {})
    return _fenced(printed.getvalue())


def examples(text: str) -> dict[str, str]:
    """Return the Python examples by the name of the block that follows each."""
    found = re.findall(r"```python\n(.*?)```\n+<!-- begin (\S+) -->", text, re.DOTALL)
    return {name: source for source, name in found}


def command_output(command: str) -> str:
    """Run a replay in the repository and return it with its key figures, as a block."""
    environment = os.environ | {"COLUMNS": str(WIDTH)}
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


def area_lines() -> str:
    """Put the clock and area of a few units into words."""
    known = {summary.case.name: summary for summary in summarise(records("hardware"))}
    lines = []
    for name in UNITS:
        summary = known[name]
        spec: Any = summary.case.spec
        report, window = summary.median, spec.window
        mark = MARK if summary.earlier else ""
        lines.append(
            f"- `{name.split('/')[0]}`{mark}, window of {window:,}, on {report.device}:"
            f" {report.fmax_mhz:.0f} MHz, {report.lut:,} LUTs, {report.ff:,} flip-flops,"
            f" {report.bram} block RAMs"
        )
    return "\n".join(lines)


def why_table() -> str:
    """Compare filters of 14 bits for each of 20,000 keys, after 120,000 distinct keys."""
    window, bits = 20_000, 280_000
    filters = {
        "Bloom filter, never cleared": BloomFilter(bits=bits, hashes=10),
        "two Bloom filters in turn": DoubleBuffering(generation=window, bits=bits, hashes=2),
        "stable Bloom filter": StableBloomFilter(
            cells=bits // 2, hashes=5, decrements=10, cell_bits=2
        ),
        "`GEBF` of Lately": GEBF(window=window, epochs=8, hashes=9, bits=bits),
    }
    generator = np.random.default_rng(1)
    stream = generator.integers(0, 1 << 62, 6 * window)
    fresh = generator.integers(1 << 62, 1 << 63, 100_000)
    rows = []
    for name, model in filters.items():
        model.insert(stream)
        missed = 1 - model.query(stream[-window:]).mean()
        reported = f"{model.query(fresh).mean():.1%}"
        rows.append({"filter": name, "new keys reported": reported, "keys missed": f"{missed:.1%}"})
    return table(rows)


def blocks() -> dict[str, str]:
    """Return what takes no long time."""
    sources = examples(README.read_text("utf-8"))
    printed = {name: example_output(source) for name, source in sources.items()}
    return printed | {"why": why_table(), "area": area_lines()}


def take(names: list[Path]) -> None:
    """Run longer commands, by their names."""
    renewed = {name: command_output(LONG[name]) for name in map(str, names)}
    write(README, fill(README.read_text("utf-8"), renewed))


PAGE = Page(README, blocks, take=take)
