"""The built site in a browser: nothing is cut off, nothing is broken, the search finds words."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from browser import answer_of

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
SITE = DOCS / "_build" / "html"
WIDTHS = (1440, 390)
WORDS = ("throughput", "duplicate", "AXI")

# For each page and width: the elements that are wider than the page and cannot be scrolled, and
# broken images. For each word: the pages that the search finds.
PROGRAM = """
const frame = document.body.appendChild(document.createElement("iframe"));
frame.style = "border:0;height:900px";
const load = url => new Promise(done => { frame.onload = done; frame.src = url; });
const pause = ms => new Promise(done => setTimeout(done, ms));
const scrolls = (element, root) => {
  for (let up = element; up && up !== root; up = up.parentElement)
    if (/auto|scroll/.test(frame.contentWindow.getComputedStyle(up).overflowX)) return true;
  return false;
};
const wide = () => {
  const page = frame.contentDocument, width = frame.contentWindow.innerWidth, problems = [];
  const all = page.documentElement.scrollWidth;
  if (all > width) problems.push("page " + all);
  const shown = "article :is(p, li, table, pre, img, h1, h2, h3, dt)";
  for (const element of page.querySelectorAll(shown)) {
    const box = element.getBoundingClientRect();
    if (box.right > width + 1 && !scrolls(element, page.body))
      problems.push(element.tagName + " " + element.textContent.slice(0, 40));
  }
  for (const element of page.querySelectorAll("img"))
    if (!element.complete || !element.naturalWidth) problems.push("image " + element.src);
  return problems;
};
(async () => {
  const wrong = [], links = {};
  for (const width of WIDTHS) {
    frame.style.width = width + "px";
    for (const page of PAGES) {
      await load("/" + page);
      for (const problem of wide()) wrong.push(width + " " + page + ": " + problem);
    }
  }
  for (const word of WORDS) {
    await load("/search.html?q=" + word);
    for (let tries = 0; tries < 100 && !/finished|found/i.test(
      frame.contentDocument.querySelector("#search-results p, .search-summary")?.textContent || "");
      tries++) await pause(100);
    links[word] = [...frame.contentDocument.querySelectorAll("#search-results li a")].map(
      link => link.textContent);
  }
  await fetch("/answer", {method: "POST", body: JSON.stringify({wrong, links})});
})();
"""


@pytest.fixture(scope="module")
def pages():
    """All pages of the site, which is built if it is not there."""
    if not (SITE / "index.html").exists():
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", DOCS, SITE]
        subprocess.run(command, check=True)
    return sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))


def test_pages_in_a_browser(pages):
    shown = [page for page in pages if not page.startswith(("_modules/", "genindex-"))]
    values = {"PAGES": shown, "WIDTHS": WIDTHS, "WORDS": WORDS}
    given = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
    answer = answer_of(given + PROGRAM, SITE, seconds=500)
    print(f"{len(shown)} pages at {WIDTHS} px; search: {answer['links']}")
    assert answer["wrong"] == []
    assert all(len(answer["links"][word]) > 1 for word in WORDS)


def test_links(pages):
    """Each link within the site names a page, and a place of it that exists."""
    texts = {page: (SITE / page).read_text("utf-8") for page in pages}
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    broken = []
    for page, text in texts.items():
        for link in set(map(html.unescape, re.findall(r'<a [^>]*href="([^"]+)"', text))):
            if re.match(r"[a-z]+:", link):
                continue
            path, anchor = map(unquote, urldefrag(link))
            target = (SITE / page).parent / path if path else SITE / page
            target = target.resolve()
            name = target.relative_to(SITE.resolve()).as_posix()
            if not target.exists() or (name in anchors and anchor and anchor not in anchors[name]):
                broken.append(f"{page}: {link}")
    assert broken == []


def test_sidebar_titles_name_their_subjects(pages):
    """No title is a single general word."""
    text = (SITE / "index.html").read_text("utf-8")
    titles = re.findall(r'toctree-l1"><a [^>]*>([^<]+)</a>', text)
    assert len(set(titles)) == len(titles) > 30
    single = {title for title in titles if " " not in title}
    assert single <= {"Glossary"}
