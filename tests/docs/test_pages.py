"""Blocks of the pages: how they are filled, and that all of them are current."""

import math
import re

import numpy as np
import pytest

from campaigns.pages import blocks, drawings
from campaigns.pages.__main__ import PAGES, main
from campaigns.pages.blocks import Drawing, Page, content, fill
from campaigns.pages.pictures import PICTURES
from lately.golden import from_spec
from lately.replay.drawing import blank_figure
from papers.gebf import closed_form_rate

FILTERS = blocks.DOCS / "filters.md"

TEXT = "Before.\n\n<!-- begin one -->\n\nold\n\n<!-- end -->\n\nAfter.\n"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "deduplicator" else [])
        for name in sorted(PAGES.keys() - {"README"})
    ],
)
def test_page_is_current(name):
    assert PAGES[name].stale() == []


def test_bits_per_key_are_those_of_the_analysis():
    """The floor by counting sets, and the GEBF by the rate that the analysis gives its bits."""
    window, epochs = 10**6, range(1, 60)

    def labelled(rate, r):
        n = window * (1 + 1 / r)
        sets = math.lgamma(n / rate) - math.lgamma(n) - math.lgamma(n / rate - n)
        return (sets / math.log(2) + n * math.log2(r + 1)) / window

    def lowest(bits, spare):
        sizes = {r: round(bits * window * (r + 1) / (r + 1 + spare)) for r in epochs}
        rates = (closed_form_rate(sizes[r], window, r, k) for r in epochs for k in range(4, 30))
        return min(rates)

    rows = re.findall(r"(?m)^\| (\d.*) \|$", content(FILTERS.read_text("utf-8"))["bound"])
    assert len(rows) == 3
    for row in rows:
        rate, floor, gebf, spared, planned, sized = map(float, row.split(" | "))
        assert floor == pytest.approx(min(labelled(rate, r) for r in epochs), abs=0.06)
        for bits, spare in ((gebf, 0), (spared, 1)):
            assert lowest(bits + 0.06, spare) <= rate < lowest(bits - 0.06, spare)
        assert spared <= planned <= sized < 1.1 * spared


def test_block_is_filled():
    filled = fill(TEXT, {"one": "\nnew\n\ntwo lines\n"})
    assert filled == TEXT.replace("old", "new\n\ntwo lines")
    assert content(filled) == {"one": "new\n\ntwo lines"}
    assert fill(filled, {"one": "old"}) == TEXT
    assert fill(TEXT, {}) == TEXT


def test_block_may_be_empty():
    empty = fill(TEXT, {"one": ""})
    assert content(empty) == {"one": ""}
    assert fill(empty, {"one": "old"}) == TEXT


def test_block_without_a_place():
    with pytest.raises(ValueError, match=r"^the page has no block for three, two$"):
        fill(TEXT, {"two": "", "one": "", "three": ""})


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The only page, whose block is not current and whose drawing is missing."""
    path = tmp_path / "page.md"
    path.write_text(TEXT)
    drawing = Drawing("page", lambda: {"shown": 1}, lambda data: blank_figure(1, data["shown"]))
    page = Page(path, lambda: {"one": "new"}, drawings=[drawing])
    monkeypatch.setattr(blocks, "IMAGES", tmp_path)
    monkeypatch.setitem(main.__globals__, "PAGES", {"page": page})
    monkeypatch.setitem(main.__globals__, "ROOT", tmp_path)
    return page


def test_check_names_what_is_stale_and_writes_nothing(page):
    with pytest.raises(
        SystemExit, match=r"^out of date: page\.md, page\.svg; run python -m campaigns.pag"
    ):
        main(["--check"])
    assert page.path.read_text() == TEXT
    main(["page"])
    assert page.path.read_text() == TEXT.replace("old", "new")
    main(["--check"])


def test_files_for_a_page_that_takes_none(page, capsys):
    with pytest.raises(SystemExit):
        main(["page", "results.json"])
    assert "page does not accept files" in capsys.readouterr().err


def test_results_are_whole_files():
    suffixes = {path.suffix for path in blocks.RESULTS.iterdir()}
    assert suffixes == {".jsonl", ".md"}  # Of campaigns, and README.md.


def test_pages_are_whole_on_github():
    """GitHub knows neither substitutions nor directives; each source behind a link is there."""
    sources = []
    for path in [*blocks.DOCS.glob("*.md"), *blocks.DOCS.glob("reproduction/*.md")]:
        text = path.read_text("utf-8")
        assert re.findall(r"\{\{.*|^[`:]{3}\{.*", text, re.MULTILINE) == [], path
        for label, link in re.findall(r"(?m)^\[`(.+)`\]\((\.\./\S+\.py)\)$", text):
            source = (blocks.DOCS / link).resolve()
            sources.append(source)
            assert label == source.name or label in source.read_text("utf-8")
    assert len(sources) == 14


def test_links_between_pages():
    """Links are plain, as GitHub shows them, and each names a page and a heading."""
    pages = {path: path.read_text("utf-8") for path in blocks.DOCS.rglob("*.md")}
    headings = {
        path: {
            re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        for path, text in pages.items()
    }
    for path, text in pages.items():
        assert not re.search(r"\{(doc|ref|py:\w+)\}`", text), path
        for page, anchor in re.findall(
            r"\]\(((?:[\w-]+/|\.\./)?[\w-]+\.md)?(?:#([\w-]+))?\)", text
        ):
            target = (path.parent / page).resolve() if page else path
            if target.is_relative_to(blocks.DOCS):
                assert target in headings, f"{path.name}: {page}"
                assert not anchor or anchor in headings[target], f"{path.name}: {page}#{anchor}"


def test_generations_of_the_picture_count_as_long_as_golden_says():
    """The last of them before the silence, at its edge."""
    keys = np.arange(drawings.SILENCE.start, dtype=np.uint64)
    ring = from_spec(drawings.TIMED)
    ring.insert(keys, keys.astype(np.int64))
    first, last = drawings.generations()[3]
    assert (first, last) == (33, 33)
    edge = last + drawings.TIMED.span
    assert [ring.query(keys[-1:], [time])[0] for time in (edge, edge + 1)] == [True, False]


def test_sizes():
    images = [path.stat().st_size for path in blocks.IMAGES.rglob("*") if path.is_file()]
    assert sum(images) < 710_000
    # Of 36 studies: some 9,000 bytes for each, with its charts.
    assert (blocks.RESULTS / "reproduction.jsonl").stat().st_size < 330_000


def test_timing_is_that_of_a_simulation():
    """What the pages say of the diagrams: back to back, a shift at the fifth key, and a stall."""
    rows = {
        name: {row["name"]: row["wave"] for row in diagram.wave_json()["signal"]}
        for name, diagram in drawings.DIAGRAMS.items()
    }
    assert rows["operation"]["i.valid"].startswith("1..0")
    trace = drawings.record(drawings.DIAGRAMS["operation"].requests, range(0))
    first = next(cycle for cycle, row in enumerate(trace) if row["o.valid"])
    around = range(first - 3, first + 5)
    assert drawings.wave_json(trace, ["seen"], around)["signal"][1]["data"] == ["0", "1", "0"]
    assert rows["shift"]["i.ready"].replace(".", "").replace("|", "").strip("1") == ""
    assert rows["shift"]["shift"].count("1") == 1
    assert "0" in rows["stall"]["i.ready"]
    assert rows["stall"]["i.ready"].endswith("1.")


def test_gap_in_a_diagram():
    trace = [{"a": int(n in (5, 6)), "b": str(n)} for n in range(12)]
    cycles = drawings.shown(trace, ["a"], 1)
    assert cycles == [0, 1, 4, 5, 6, 7, 8]
    assert drawings.wave_json(trace, ["a"], cycles)["signal"] == [
        {"name": "cycle", "wave": "==|=====", "data": ["0", "1", "4", "5", "6", "7", "8"]},
        {"name": "a", "wave": "0.|01.0."},
    ]


def test_pictures_of_the_mechanisms_are_small():
    pictures = [*blocks.IMAGES.glob("how-*.svg")]
    assert {path.stem for path in pictures} == {f"how-{name}" for name in (*PICTURES, "spare")}
    assert all(path.stat().st_size < 10_000 for path in pictures)
    page = (blocks.DOCS / "how-it-works.md").read_text("utf-8")
    assert page.count("![") == len(pictures) + 1  # The ring is drawn for another page.


def test_ring_turns():
    roles = list(drawings.roles(drawings.RINGS["ring"]))
    for generation in range(drawings.GENERATIONS):
        ages = [age for number, _, age, _ in roles if number == generation]
        assert sorted(ages) == list(range(6))
    assert [role for _, segment, _, role in roles if segment == 5][:6] == [
        "spare", "written", "written", "read", "read", "read",
    ]  # fmt: skip


@pytest.mark.parametrize("cycle", [0, 2, 3])
def test_a_tick_counts_for_operations_of_later_cycles(cycle):
    """The diagram says the same, as its rows are those of a simulated unit."""
    before, *_ = times = drawings.tick_times(cycle)
    assert times == [before + (number > cycle) for number in range(drawings.SHOWN)]
    rows = drawings.tick_diagram(cycle).splitlines()
    marked = rows[3].index("^")
    assert rows[1][marked] == str(cycle)
    names = "ABCDE"
    assert rows[3].endswith(f"takes effect between {names[cycle]} and {names[cycle + 1]}")
