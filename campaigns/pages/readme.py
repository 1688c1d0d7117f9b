"""Fills README.md and docs/baselines.md with the output of their examples and commands.

`python -m campaigns.pages README NAME` runs the command NAME of `LONG` again.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

from ..hardware import summarise
from .blocks import DOCS, ROOT, Page, fill, records, render, write

README = ROOT / "README.md"
BASELINES = DOCS / "baselines.md"
LONG = {"demo": "make demo"}

WIDTH = 108  # width of command output
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


def take(names: list[Path]) -> None:
    renewed = {name: command_output(LONG[name]) for name in map(str, names)}
    write(README, fill(README.read_text("utf-8"), renewed))


PAGES = (
    Page(BASELINES, partial(printed, BASELINES)),
    Page(README, lambda: printed(README) | figures(), take=take),
)
