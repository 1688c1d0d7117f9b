"""Blocks of a page: how they are found and filled, and whether they are current."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from campaigns import engine
from campaigns.engine import Record
from campaigns.registry import CAMPAIGNS
from lately.golden.files import replace_file
from lately.replay import drawing
from lately.replay.formatting import rate_text
from lately.replay.plots import blank_figure, style
from papers.studies import markdown

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
RESULTS = ROOT / "results"

NOTHING = "\N{EN DASH}"  # cell of a table without a value

_BLOCK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """Return a text with the named blocks filled, and all others as they are."""
    missing = blocks.keys() - {match[2] for match in _BLOCK.finditer(text)}
    if missing:
        raise ValueError(f"there is no place for {', '.join(sorted(missing))}")

    def filled(match: "re.Match[str]") -> str:
        name = match[2]
        if name not in blocks:
            return match[0]
        block = blocks[name].strip()
        gap = "" if block.startswith("```text") else "\n"
        return f"{match[1]}{gap}{block}\n{gap}{match[3]}"

    return _BLOCK.sub(filled, text)


def content(text: str) -> dict[str, str]:
    """Return the content of the blocks of a text."""
    return {
        match[2]: match[0].split("\n", 1)[1].rpartition("\n<")[0].strip("\n")
        for match in _BLOCK.finditer(text)
    }


@dataclass(frozen=True)
class Drawing:
    """A drawing of a page."""

    path: Path
    words: Callable[[], str]  # description, which must be in the file
    figure: Callable[[], Any]

    def stale(self) -> bool:
        """Return whether the file is not current."""
        return not self.path.exists() or self.words() not in self.path.read_text("utf-8")

    def write(self) -> None:
        """Draw, in the style of the pages."""
        with style():
            drawing.save(self.figure(), self.path, self.words())


def bare_axes(width: float, height: float, **limits: tuple[float, float]) -> tuple[Any, Any]:
    """Return a figure of so many inches and its bare axes, with limits `xlim` and `ylim`."""
    figure = blank_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(**limits)
    return figure, axes


@dataclass(frozen=True)
class Page:
    """A page with its blocks and drawings."""

    path: Path
    blocks: Callable[[], dict[str, str]] = dict  # texts by name
    drawings: Sequence[Drawing] = ()
    take: Callable[[list[Path]], None] | None = None  # new measurements into `RESULTS`

    def stale(self) -> list[Path]:
        """Return the files that are not current."""
        text = self.path.read_text("utf-8")
        wrong = [] if fill(text, self.blocks()) == text else [self.path]
        return wrong + [one.path for one in self.drawings if one.stale()]

    def write(self) -> None:
        """Fill the blocks and draw the drawings."""
        write(self.path, fill(self.path.read_text("utf-8"), self.blocks()))
        for one in self.drawings:
            one.write()


def write(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replace_file(path) as file:
        file.write(text.encode())


def records(name: str) -> list[Record]:
    """Return the recorded results of a campaign, in the order of its points."""
    path, campaign = RESULTS / f"{name}.jsonl", CAMPAIGNS[name]
    found = engine.read(path) if path.exists() else []
    order = {campaign.label(point): number for number, point in enumerate(campaign.points())}
    return sorted(found, key=lambda one: order.get(campaign.label(one.point), len(order)))


def load(name: str) -> list[Any]:
    """Return the lines of a file in `RESULTS` that is not of a campaign."""
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def save(name: str, lines: Iterable[Any]) -> None:
    """Write lines of JSON to a file in `RESULTS`."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write(RESULTS / f"{name}.jsonl", text)


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Lay out rows by their columns. Numbers get separators of thousands."""
    if not rows:
        return ""
    head = list(rows[0])
    return markdown.table(head, [[cell(row[name]) for name in head] for row in rows])


def cell(value: object) -> str:
    """Write a value for a cell of a table, or for a text."""
    if value is None or value == "":
        return NOTHING if value is None else ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def code(text: str) -> str:
    """Write a text as code in a cell."""
    return f"`{text}`"


def line(*cells: object) -> str:
    """Return a row of a table. A sequence stands for a cell for each of its values."""
    values = [one for some in cells for one in (some if isinstance(some, list | tuple) else [some])]
    return f"| {' | '.join(map(cell, values))} |"


def head(*names: object) -> str:
    """Return the head of a table."""
    first = line(*names)
    return f"{first}\n{line(['---'] * (first.count('|') - 1))}"


@cache
def _templates() -> jinja2.Environment:
    folder = Path(__file__).with_name("templates")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        extensions=["jinja2.ext.do"],
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=cell,
    )
    environment.globals |= {
        "code": code,
        "line": line,
        "head": head,
        "earlier": earlier,
        "pairs": pairs,
    }
    environment.filters |= {"code": code, "rate": rate_text}
    return environment


def render(name: str, **values: Any) -> dict[str, str]:
    """Return the blocks of a template, filled with values. Numbers are as in `cell`."""
    return content(_templates().get_template(f"{name}.md").render(values))


def pairs(values: Mapping[str, object]) -> str:
    """Name each value."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def versions(found: Iterable[Mapping[str, str]]) -> str:
    """Name every tool once for each of its versions."""
    pairs = sorted({pair for one in found for pair in one.items()})
    return f"Versions: {', '.join(f'{tool} {version}' for tool, version in pairs)}."


def earlier(found: Iterable[Record], what: str = "results") -> str:
    """Say how many results are from an earlier state of the sources; nothing if none are."""
    marked = [record.earlier for record in found]
    count = "All" if all(marked) else f"{sum(marked):,} of {len(marked):,}"
    return f"{count} {what} are from an earlier state of the sources.\n" * any(marked)
