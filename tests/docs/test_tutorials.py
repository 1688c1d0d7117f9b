"""Tutorials print what they say, from an empty folder."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from command_runs import run_command

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TUTORIALS = (
    "getting-started", "first-filter", "first-litex", "first-board", "first-capture",
    "first-script", "choose", "deduplicator",
)  # fmt: skip

BLOCK = re.compile(r"(?:<!-- (file \S+|slow) -->\n)?```(\w+)\n(.*?)```", re.DOTALL)
"""A block of code, with the name of the file that it is written to, or a mark that it is slow."""


def commands(text):
    """Return the commands of a block, each with the lines that it prints."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2].splitlines()) for part in parts]


def agrees(expected, printed):
    """Whether lines are as expected; "..." fits any number of lines, or the rest of a line."""
    if not expected:
        return not printed
    if expected[0] == "...":
        return any(agrees(expected[1:], printed[at:]) for at in range(len(printed) + 1))
    pattern = ".*".join(map(re.escape, expected[0].split("...")))
    if not printed or not re.fullmatch(pattern, printed[0]):
        return False
    return agrees(expected[1:], printed[1:])


def run_page(text, folder, *, slow=False):
    """Write the files of a page and run its commands in a folder, with or without slow ones."""
    for mark, kind, body in BLOCK.findall(text):
        if mark.startswith("file "):
            (folder / mark.removeprefix("file ")).write_text(body, "utf-8")
        run = kind == "console" and (slow or mark != "slow")
        for command, expected in commands(body) if run else ():
            output = run_command(command, folder, in_process=not slow)
            printed = [line.rstrip() for line in output.splitlines() if line.strip()]
            assert agrees(expected, printed), f"{command} printed:\n{output}"


@pytest.mark.rtl
@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorial_prints_what_it_says(name, slow, tmp_path):
    run_page((DOCS / f"{name}.md").read_text("utf-8"), tmp_path, slow=slow)


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gallery_prints_what_it_says(slow):
    run_page((DOCS / "gallery.md").read_text("utf-8"), ROOT, slow=slow)


# Those of README are run, with all that they write, by its own test.
PLANNING = [page for page in sorted(DOCS.glob("*.md"))
            if re.search(r"lately plan .* --out ", page.read_text("utf-8"))]  # fmt: skip


@pytest.mark.rtl
@pytest.mark.parametrize("page", PLANNING, ids=lambda page: page.stem)
def test_what_a_page_plans_can_be_exported(page, tmp_path, monkeypatch):
    """As the page says, and with the ports for which it is synthesised; nothing is written."""
    monkeypatch.setattr("lately.boards.export.bundle.write", lambda design, *_, **__: [design.unit])
    monkeypatch.setattr("lately.cli.export_commands.show", lambda *_: None)
    files = set()
    for line in re.findall(r"^(?:\$ | {4})?(lately .*)", page.read_text("utf-8"), re.MULTILINE):
        words = shlex.split(line, comments=True)
        option = {name: value for name, value in pairwise(words) if name.startswith("--")}
        if words[1] == "synth":
            names = ["--name", "x", "--wrap", option.get("--wrap", "axis")]
            words = ["lately", "export", "--spec", option.get("--spec", ""), *names]
        if "--out" in option or (words[1] == "export" and option.get("--spec") in files):
            run_command(shlex.join(words), tmp_path, in_process=True)
            files.add(option.get("--out", page))
    assert page in files or page.stem == "planner"


def test_wrong_output_is_found(tmp_path):
    with pytest.raises(AssertionError, match="echo 2 printed"):
        run_page("```console\n$ echo 1\n1\n$ echo 2\n3\n```\n", tmp_path)


def test_ellipsis_fits_lines_and_rests():
    assert agrees(["a", "...", "d 1..."], ["a", "b", "c", "d 12"])
    assert not agrees(["a", "...", "d"], ["a", "b"])
