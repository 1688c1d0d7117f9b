"""README.md: what its examples and commands print.

`python -m campaigns.pages README demo` runs a long command again, and likewise each of `LONG`.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from ..hardware import summarise
from . import tables
from .blocks import ROOT, Page, fill, records, write

README = ROOT / "README.md"
PLAN = "lately plan --window 20000 --fpr 0.01 --family gebf --candidates 1"
LONG = {"demo": "make demo", "test": "make test"}

WIDTH = 108
"""Columns of what commands print."""

UNITS = ("apbbf/ecp5-25k-6", "apbbf/ecp5-25k-8", "gebf/ecp5-85k-6", "small/ice40-hx8k")
"""Cases in the table of the page: as measured last."""


def example_output(source: str) -> str:
    """Run a Python example and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "README.md", "exec"), {})
    return _fenced(printed.getvalue())


def examples(text: str) -> dict[str, str]:
    """Return the Python examples by the name of the block that follows each."""
    found = re.findall(r"```python\n(.*?)```\n+<!-- begin (\S+) -->", text, re.DOTALL)
    return {name: source for source, name in found}


def command_output(command: str) -> str:
    """Run a command in the repository and return it with what it printed, as a block."""
    words = command.split()
    if words[0] == "lately":
        words[0] = str(Path(sys.executable).parent / "lately")
    environment = os.environ | {"COLUMNS": str(WIDTH)}
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=environment)
    if result.returncode:
        sys.exit(result.stderr)
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    if command == "make test":
        lines = re.findall(r"\d+ passed[^=\n]*(?= in )", result.stdout)[-1:]
    if command == "make demo":  # The key figures suffice, and where the report is.
        first = lines.index(next(filter(None, lines)))
        figures = lines[first : lines.index("", first)]
        # How long it takes depends on the machine.
        lines = [*(line for line in figures if not line.startswith(" time ")), lines[-1]]
    body = "\n".join(filter(None, lines))
    return _fenced(f"$ {command}\n{body}\n")


def _fenced(text: str) -> str:
    return f"```text\n{text}```"


def area_table() -> str:
    """Lay out the clock frequency and area of a few units."""
    known = {summary.case.name: summary for summary in summarise(records("hardware"))}
    return tables.layout("readme", [known[name] for name in UNITS])


def blocks() -> dict[str, str]:
    """Return what takes no long time."""
    sources = examples(README.read_text("utf-8"))
    printed = {name: example_output(source) for name, source in sources.items()}
    return printed | {"plan": command_output(PLAN), "area": area_table()}


def take(names: list[Path]) -> None:
    """Run longer commands, by their names."""
    renewed = {name: command_output(LONG[name]) for name in map(str, names)}
    write(README, fill(README.read_text("utf-8"), renewed))


PAGE = Page(README, blocks, take=take)
