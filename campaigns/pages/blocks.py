"""Fills the generated blocks of a page, and checks whether they are up to date."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from campaigns import engine
from campaigns.engine import Record
from campaigns.registry import CAMPAIGNS
from lately.golden.files import replace_file
from lately.replay import drawing
from lately.replay.drawing import blank_figure, style
from lately.replay.formatting import rate_text

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
RESULTS = ROOT / "results"

NOTHING = "\N{EN DASH}"  # table cell without a value

_BLOCK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def fill(text: str, blocks: Mapping[str, str]) -> str:
    missing = blocks.keys() - {match[2] for match in _BLOCK.finditer(text)}
    if missing:
        raise ValueError(f"the page has no block for {', '.join(sorted(missing))}")

    def filled(match: "re.Match[str]") -> str:
        name = match[2]
        if name not in blocks:
            return match[0]
        block = blocks[name].strip()
        gap = "" if block.startswith("```text") else "\n"
        return f"{match[1]}{gap}{block}\n{gap}{match[3]}"

    return _BLOCK.sub(filled, text)


def content(text: str) -> dict[str, str]:
    return {
        match[2]: match[0].split("\n", 1)[1].rpartition("\n<")[0].strip("\n")
        for match in _BLOCK.finditer(text)
    }


@dataclass(frozen=True)
class Drawing:
    name: str  # of the file in `IMAGES`, without suffix
    data: Callable[[], Any]  # what the figure shows; the file contains this as JSON
    figure: Callable[[Any], Any]  # draws the data

    @property
    def path(self) -> Path:
        return IMAGES / f"{self.name}.svg"

    def stale(self) -> bool:
        return not self.path.exists() or _json(self.data()) not in self.path.read_text("utf-8")

    def write(self) -> None:
        data = self.data()
        with style():
            drawing.save(self.figure(data), self.path, _json(data))


def _json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def bare_axes(width: float, height: float, **limits: tuple[float, float]) -> tuple[Any, Any]:
    figure = blank_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(**limits)
    return figure, axes


@dataclass(frozen=True)
class Page:
    path: Path
    blocks: Callable[[], dict[str, str]] = dict  # contents of the blocks, by name
    drawings: Sequence[Drawing] = ()
    take: Callable[[list[Path]], None] | None = None  # stores new measurements in `RESULTS`
    files: Callable[[], Mapping[Path, str]] = dict

    def texts(self) -> dict[Path, str]:
        if blocks := self.blocks():
            return {self.path: fill(self.path.read_text("utf-8"), blocks), **self.files()}
        return {**self.files()}

    def stale(self) -> list[Path]:
        wrong = [
            path
            for path, text in self.texts().items()
            if not path.exists() or path.read_text("utf-8") != text
        ]
        return wrong + [each.path for each in self.drawings if each.stale()]

    def write(self) -> None:
        for path, text in self.texts().items():
            write(path, text)
        for each in self.drawings:
            each.write()


def write(path: Path, text: str) -> None:
    with replace_file(path) as file:
        file.write(text.encode())


def records(name: str) -> list[Record]:
    path, campaign = RESULTS / f"{name}.jsonl", CAMPAIGNS[name]
    recorded = engine.read(path) if path.exists() else []
    order = {campaign.label(point): number for number, point in enumerate(campaign.points())}
    return sorted(recorded, key=lambda record: order.get(campaign.label(record.point), len(order)))


def load(name: str) -> list[Any]:
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def save(name: str, lines: Iterable[Any]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write(RESULTS / f"{name}.jsonl", text)


def table(rows: Sequence[Mapping[str, object]]) -> str:
    if not rows:
        return ""
    return "\n".join([head(*rows[0]), *(line(*map(row.get, rows[0])) for row in rows), ""])


def cell(value: object) -> str:
    if value is None or value == "":
        return NOTHING if value is None else ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def code(text: str) -> str:
    return f"`{text}`"


def line(*cells: object) -> str:
    """Format a table row; a list or tuple becomes one cell for each of its values."""
    values = [
        value for some in cells for value in (some if isinstance(some, list | tuple) else [some])
    ]
    return f"| {' | '.join(map(cell, values))} |"


def head(*names: object) -> str:
    first = line(*names)
    return f"{first}\n{line(['---'] * (first.count('|') - 1))}"


def render(name: str, **values: Any) -> dict[str, str]:
    return content(_TEMPLATES.get_template(f"{name}.md").render(values))


def pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def versions(tools: Iterable[Mapping[str, str]]) -> str:
    pairs = sorted({pair for pairs_of in tools for pair in pairs_of.items()})
    return f"Versions: {', '.join(f'{tool} {version}' for tool, version in pairs)}."


def earlier(measured: Iterable[Record], noun: str = "results") -> str:
    marked = [record.earlier for record in measured]
    count = "All" if all(marked) else f"{sum(marked):,} of {len(marked):,}"
    return f"{count} {noun} are from an earlier state of the sources.\n" * any(marked)


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    extensions=["jinja2.ext.do"],
    keep_trailing_newline=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
    finalize=cell,
)
_TEMPLATES.globals |= {"code": code, "line": line, "head": head, "earlier": earlier, "pairs": pairs}
_TEMPLATES.filters |= {"code": code, "rate": rate_text}
