"""The page of a run in a real browser: values of the mark that is nearest to the pointer."""

import html
import re
import shutil
import subprocess

import pytest

from lately.golden.spec import preset
from lately.replay.report import html as page_of
from lately.replay.run import run
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


def browser():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium is absent; Debian has it as the package chromium")
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    trace = tmp_path_factory.mktemp("trace") / "keys.txt"
    trace.write_text("".join(f"key {number * number % 997}\n" for number in range(3000)))
    with open_trace(str(trace)) as records:
        return page_of(run(records, preset("tiny"), engine="golden"))


def test_page_needs_nothing_but_itself(page):
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!#)", page)
    assert not re.search(r"@import|url\((?!#)", page)
    assert page.count("<figure") == page.count('<g class="marks">') == page.count('"tip"') == 3


def test_each_mark_tells_its_values(page):
    titles = [html.unescape(title) for title in re.findall(r"<circle[^>]*><title>([^<]*)", page)]
    assert re.fullmatch(
        r"operations 1 to \d+: \S+% measured \(.*% to .*%\), .*% computed; .*% repeats", titles[0]
    )
    assert any(re.match(r"segment 0: .*% at the end; .*% to .*% in the run", one) for one in titles)
    assert re.match(r".* operations since the key was last inserted: .* seen", titles[-1])


def test_pointer_shows_the_nearest_mark(page, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(page.replace("</body>", PROBE + "</body>"))
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu",
               f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    told = html.unescape(re.search(r'<pre id="told">([^<]*)', shown)[1]).splitlines()
    assert len(told) == 9
    for line in told:
        title, tip, visible, near = line.split("|")
        assert (tip, visible, near) == (title, "true", "1" if title else "0")
