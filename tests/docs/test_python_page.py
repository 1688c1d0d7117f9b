"""The page for users of other libraries: its examples run, and so do theirs."""

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.parametrize("page", ["python.md", "in-a-service.md"])
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = PAGE.with_name(page)
    result = doctest.testfile(str(path), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 20
    assert result.failed == 0


def test_ten_things():
    text = PAGE.read_text()
    assert re.findall(r"^## (\d+)\.", text, re.MULTILINE) == [str(n) for n in range(1, 11)]
    assert "(python.md)" in (PAGE.parent / "index.md").read_text()


@pytest.mark.parametrize(("column", "library"), [(0, "rbloom"), (1, "probables")])
def test_other_libraries(column, library, tmp_path, monkeypatch):
    module = pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    names = {"Bloom": getattr(module, "Bloom", None), "path": "saved"}
    names["BloomFilter"] = getattr(module, "BloomFilter", None)
    rows = re.findall(r"^\| `[^|]*\| `.*\|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 10
    for row in rows:
        code = row.strip("| ").split(" | ")[column].split("`")[1]
        if "save(" not in code:
            exec(code, names)
