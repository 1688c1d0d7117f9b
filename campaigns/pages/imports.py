"""docs/development.md: picture of the folders of the sources, from the import graph."""

import sys
from collections.abc import Mapping

from .blocks import DOCS, IMAGES, ROOT, Drawing, Page, write

sys.path.append(str(ROOT / "tests" / "helpers"))

from import_graph import scan

PARTS = (
    "golden", "hdl", "sim/replay", "sim/bench", "sim/proofs", "boards", "lately", "campaigns",
    "papers", "campaigns/pages",
)  # fmt: skip
"""Folders that the page describes."""

WIDTH, HEIGHT, GAP = 118, 34, 44


def part(name: str) -> str:
    """Return the folder that a module belongs to; modules of `sim` itself belong to its replay."""
    words = name.split(".")
    words = words[1:] if words[0] == "lately" and len(words) > 1 else words
    if words[0] == "sim":
        return "/".join(words[:2]) if words[1:2] in (["bench"], ["proofs"]) else "sim/replay"
    if words[:2] == ["campaigns", "pages"]:
        return "campaigns/pages"
    return words[0] if words[0] in PARTS else "lately"


def imports() -> dict[str, set[str]]:
    """Return the folders that each folder imports. The package itself imports none of them."""
    found: dict[str, set[str]] = {name: set() for name in PARTS}
    for name, module in scan(ROOT).items():
        others = {part(other) for other in module.imports - {"lately"}}
        if name != "lately":
            found[part(name)] |= others - {part(name)}
    return found


def levels(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """Return how many folders are below each, on the longest way."""
    found = dict.fromkeys(graph, 0)
    for _ in graph:
        for name, below in graph.items():
            found[name] = max([found[one] + 1 for one in below], default=0)
    return found


def direct(graph: Mapping[str, set[str]], name: str) -> set[str]:
    """Return the imports of a folder that no other import implies."""
    below = graph[name]
    return below - {far for near in below for far in graph[near]}


def picture() -> str:
    """Return the picture as SVG."""
    graph = imports()
    level = levels(graph)
    rows = [
        [name for name in PARTS if level[name] == one] for one in range(max(level.values()) + 1)
    ]
    wide = max(map(len, rows)) * (WIDTH + GAP)
    place = {
        name: (wide * (number + 1) / (len(row) + 1), (len(rows) - index) * (HEIGHT + GAP) - GAP)
        for index, row in enumerate(rows)
        for number, name in enumerate(row)
    }
    lines = [
        f'<path d="M{place[name][0]:.0f} {place[name][1]:.0f}'
        f'L{place[other][0]:.0f} {place[other][1]:.0f}" stroke="#8899aa" fill="none"/>'
        for name in PARTS
        for other in sorted(direct(graph, name))
    ]
    boxes = [
        f'<rect x="{x - WIDTH / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{WIDTH}" height="{HEIGHT}" '
        f'rx="6" fill="#eef3f8" stroke="#33567a"/><text x="{x:.0f}" y="{y + 5:.0f}" '
        f'text-anchor="middle" font-size="14" fill="#16283a">{name}</text>'
        for name, (x, y) in place.items()
    ]
    high = len(rows) * (HEIGHT + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
        f'viewBox="0 0 {wide} {high}" font-family="sans-serif">'
        f"{''.join(lines)}{''.join(boxes)}</svg>\n"
    )


class _Written(Drawing):
    """A drawing whose words are the whole file."""

    def stale(self) -> bool:
        return not self.path.exists() or self.words() != self.path.read_text("utf-8")

    def write(self) -> None:
        write(self.path, self.words())


PAGE = Page(
    DOCS / "development.md",
    drawings=[_Written(IMAGES / "imports.svg", picture, picture)],
)
