"""README.md prints what its examples print."""

from pathlib import Path

import pytest

from campaigns.pages import readme
from campaigns.pages.blocks import content

TEXT = readme.README.read_text("utf-8")


@pytest.mark.parametrize("name", readme.examples(TEXT))
def test_example_prints_what_it_says(name):
    source = readme.examples(TEXT)[name]
    assert content(TEXT)[name] == readme.example_output(source)
    assert len(source.splitlines()) <= 11


def test_every_block_is_filled():
    assert set(content(TEXT)) == {*readme.examples(TEXT), *readme.LONG, "plan", "area"}
    assert all(content(TEXT).values())


def test_plan_prints_what_it_says():
    assert content(TEXT)["plan"] == readme.command_output(readme.PLAN)


def test_area_is_what_was_measured():
    assert content(TEXT)["area"] == readme.area_table().strip()


def test_page_is_short():
    lines = TEXT.splitlines()
    assert len(lines) <= 130
    assert max(map(len, lines)) <= 110


def test_names_of_long_commands_are_checked(monkeypatch):
    monkeypatch.setattr(readme, "command_output", lambda command: command)
    monkeypatch.setattr(readme, "write", lambda path, text: written.append(content(text)))
    written = []
    readme.take([Path("test")])
    assert written == [content(TEXT) | {"test": "make test"}]
