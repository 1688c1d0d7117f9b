"""Pages of reports in a real browser: values of the mark that is nearest to the pointer."""

import html
import re
import subprocess

import pytest
from browser import browser
from click.testing import CliRunner

from lately.cli.app import main
from lately.golden.spec.presets import preset
from lately.replay.report import html as page_of
from lately.replay.run import RunOptions, run
from lately.replay.traces import open_trace

# For each plot a pointer at two marks and off them, and what the page shows then.
PROBE = """
<script>
const said = [];
for (const figure of document.querySelectorAll("figure")) {
  const tip = figure.querySelector(".tip");
  const at = (kind, x, y) => figure.dispatchEvent(
    new PointerEvent(kind, {clientX: x, clientY: y, bubbles: true}));
  const marks = [...figure.querySelectorAll(".marks circle")];
  for (const mark of [marks[0], marks[marks.length - 1]]) {
    const box = mark.getBoundingClientRect(), frame = figure.getBoundingClientRect();
    at("pointermove", (box.left + box.right) / 2 + 1, box.top + 40);
    const tipBox = tip.getBoundingClientRect();
    const within = tipBox.left >= frame.left - 1 && tipBox.right <= frame.right + 1;
    said.push([mark.querySelector("title").textContent, tip.textContent, !tip.hidden && within,
               figure.querySelectorAll(".near").length]);
  }
  at("pointerleave", 0, 0);
  said.push([null, null, tip.hidden, figure.querySelectorAll(".near").length]);
}
const told = document.createElement("pre");
told.id = "told";
told.textContent = said.map(row => row.join("|")).join("\\n");
document.body.append(told);
</script>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    trace = tmp_path_factory.mktemp("trace") / "keys.txt"
    trace.write_text("".join(f"key {number * number % 997}\n" for number in range(3000)))
    with open_trace(str(trace)) as records:
        return page_of(run(records, preset("tiny"), RunOptions(engine="golden")))


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """The page of a deduplication of two taps."""
    taps = tmp_path_factory.mktemp("taps") / "taps.pcap"
    repeats = ["--repeats", "0.1", "--repeat-after", "200ms", "--hops", "1", "--vlan", "7"]
    for words in (
        ["tap", "generator", taps, "--packets", 500, *repeats],
        ["dedup", taps, "--dry-run", "--report", taps.with_name("page.html"), "--span", "1ms"],
    ):
        done = CliRunner().invoke(main, [*map(str, words)])
        assert done.exit_code == 0, done.output
    assert {path.name for path in taps.parent.iterdir()} == {"taps.pcap", "page.html"}
    return taps.with_name("page.html").read_text("utf-8")


@pytest.fixture(params=["page", "copies"])
def either(request):
    return request.getfixturevalue(request.param)


def test_page_needs_nothing_but_itself(either):
    page = either
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!#)", page)
    assert not re.search(r"@import|url\((?!#)", page)
    assert page.count("<figure") == page.count('<g class="marks">') == page.count('"tip"') > 1


def test_each_mark_tells_its_values(page):
    titles = [html.unescape(title) for title in re.findall(r"<circle[^>]*><title>([^<]*)", page)]
    assert re.fullmatch(
        r"operations 1 to \d+: \S+% measured \(.*% to .*%\), .*% computed; .*% repeats", titles[0]
    )
    assert any(
        re.match(r"segment 0: .*% at the end; .*% to .*% in the run", entry) for entry in titles
    )
    assert re.match(r".* operations since the key was last inserted: .* seen", titles[-1])


def test_page_of_copies(copies):
    """Distances, and pairs of tags and TTLs, are in it."""
    titles = [html.unescape(title) for title in re.findall(r"<circle[^>]*><title>([^<]*)", copies)]
    assert re.fullmatch(r"4.\d us to 5.6 us: \d+ repeats, \d+ dropped", titles[0])
    assert any(
        re.fullmatch(r"from 0 \w+: .* packets/s, .* of them dropped", entry) for entry in titles
    )
    rows = re.findall(r"<tr><td>(.*?)</td><td class=\"left\">(.*?)</td><td>(.*?)</td></tr>", copies)
    copied = re.search(r"<dt>dropped</dt><dd>(\d+)<small>50%", copies)[1]
    assert {("none", "7", copied), ("64", "63", copied)} <= set(rows)


def test_pointer_shows_the_nearest_mark(either, tmp_path):
    page = either
    file = tmp_path / "report.html"
    file.write_text(page.replace("</body>", PROBE + "</body>"))
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu",
               f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    report = html.unescape(re.search(r'<pre id="told">([^<]*)', shown)[1]).splitlines()
    assert len(report) == 3 * page.count("<figure")
    for line in report:
        title, tip, visible, near = line.split("|")
        assert (tip, visible, near) == (title, "true", "1" if title else "0")
