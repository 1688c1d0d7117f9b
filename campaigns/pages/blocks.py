"""Blocks of a page: finding them, filling them, and telling whether they are current."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lately.golden.files import replace_file
from papers.studies.markdown import table

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
RESULTS = ROOT / "results"

NOTHING = "\N{EN DASH}"
"""Stands in a table where there is no value."""

_BLOCK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """Return a text with the named blocks filled, and all others as they are.

    Raises
    ------
    ValueError
        If the text has no place for one of them.
    """
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
    """Return what the blocks of a text hold."""
    return {match[2]: match[0].split("\n", 1)[1].rpartition("\n<")[0].strip("\n")
            for match in _BLOCK.finditer(text)}  # fmt: skip


@dataclass(frozen=True)
class Page:
    """A page, what its blocks hold, and what else goes with it.

    Attributes
    ----------
    path : Path
    blocks : callable
        Returns the text of each block by its name.
    drawings : callable
        Returns, by the path of each drawing, the words that must stand in it.
    draw : callable
        Writes the drawings.
    take : callable or None
        Takes new measurements, given as paths, into `RESULTS`.
    """

    path: Path
    blocks: Callable[[], dict[str, str]]
    drawings: Callable[[], dict[Path, str]] = dict
    draw: Callable[[], None] = lambda: None
    take: Callable[[list[Path]], None] | None = None

    def stale(self) -> list[Path]:
        """Return the files that are not what they should be."""
        text = self.path.read_text("utf-8")
        wrong = [] if fill(text, self.blocks()) == text else [self.path]
        for path, words in self.drawings().items():
            if not path.exists() or words not in path.read_text("utf-8"):
                wrong.append(path)
        return wrong

    def write(self) -> None:
        """Fill the blocks and draw the drawings."""
        write(self.path, fill(self.path.read_text("utf-8"), self.blocks()))
        self.draw()


def write(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replace_file(path) as file:
        file.write(text.encode())


def load(name: str) -> Any:
    """Return the measurements of a file in `RESULTS`."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def save(name: str, values: Any) -> None:
    """Write measurements to a file in `RESULTS`."""
    write(RESULTS / name, json.dumps(values, indent=1) + "\n")


def read(paths: Iterable[Path]) -> list[Any]:
    """Return what files in JSON hold."""
    return [json.loads(path.read_text("utf-8")) for path in paths]


def counts(values: Iterable[int]) -> list[str]:
    """Write counts for the cells of a table."""
    return [f"{value:,}" for value in values]


def versions(reports: Iterable[Mapping[str, str]]) -> str:
    """Name every tool once, for each version that was at work."""
    pairs = sorted({pair for report in reports for pair in report.items()})
    return f"Versions: {', '.join(f'{tool} {version}' for tool, version in pairs)}."


__all__ = [
    "DOCS", "IMAGES", "NOTHING", "RESULTS", "ROOT", "Page", "content", "counts", "fill", "load",
    "read", "save", "table", "versions", "write",
]  # fmt: skip
