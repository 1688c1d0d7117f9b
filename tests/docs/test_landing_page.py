"""A reader finds ten things from the landing page: a click to the page, one more to the section."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
LANDING = (DOCS / "index.md").read_text("utf-8")
LINKS = dict(re.findall(r"\[([^\]]+)\]\(([^)]+)\)", LANDING))
THINGS = {
    "install": "pip install",
    "ports": "s_axis_tdata",
    "registers": "snapshot",
    "which filter": "lately plan",
    "area on my device": "lately synth",
    "latency": "number of cycles",
    "Vivado": "--tool",
    "LiteX": "litex",
    "how it works": "segments",
    "status": "silicon",
}
"""Names of links, and a text of the section that each leads to."""


def section(text, anchor):
    """Return the section of a page whose heading has the anchor."""
    parts = re.split(r"(?m)^(?=#{1,3} )", text)
    matches = [part for part in parts if slug(part.partition("\n")[0]) == anchor]
    assert len(matches) == 1, f"{len(matches)} sections #{anchor}"
    return matches[0]


def slug(heading):
    """Return the anchor of a heading, as GitHub and MyST have it."""
    return re.sub(r"[^\w -]", "", heading.lstrip("# ").lower()).replace(" ", "-")


@pytest.mark.parametrize("thing", THINGS)
def test_thing_is_one_link_away(thing):
    page, _, anchor = LINKS[thing].partition("#")
    text = (DOCS / (page or "index.md")).read_text("utf-8")
    assert THINGS[thing] in (section(text, anchor) if anchor else text)


def test_every_page_is_one_click_away():
    listed = re.findall(r"(?m)^- \[[^\]]+\]\((\S+)\.md\):", LANDING)
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index", "README"}
    assert sorted([*pages, "api/index"]) == sorted(listed)
