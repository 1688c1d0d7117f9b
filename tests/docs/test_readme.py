"""README.md prints what its examples print, and CHANGELOG.md is short."""

from pathlib import Path

import pytest
from cases import daily
from command_runs import run_command

from campaigns.pages import files
from campaigns.pages.blocks import content

TEXT = files.README.read_text("utf-8")


@pytest.mark.parametrize("name", files.examples(TEXT))
def test_example_prints_what_it_says(name):
    source = files.examples(TEXT)[name]
    assert content(TEXT)[name] == files.example_output(source)
    assert len(source.splitlines()) <= 11


def test_every_block_is_filled():
    assert set(content(TEXT)) == {*files.examples(TEXT), *files.LONG, "why", "area"}
    assert all(content(TEXT).values())


def test_figures_are_as_measured_and_compared_as_it_says():
    assert content(TEXT).items() >= files.figures().items()
    names = {}
    exec(files.examples(files.BASELINES.read_text("utf-8"))["side"], names)
    # With the spare segment, as in hardware.
    bits = {name: names["models"][name].storage_bits / names["window"] for name in files.COMPARED}
    assert all(13.9 < value <= 14 for value in bits.values()), bits


def test_page_is_short():
    lines = TEXT.splitlines()
    assert len(lines) <= 110
    assert max(map(len, lines)) <= 110


def test_names_of_long_commands_are_checked(monkeypatch):
    monkeypatch.setattr(files, "command_output", lambda command: command)
    monkeypatch.setattr(files, "write", lambda path, text: written.append(content(text)))
    written = []
    files.renew([Path("demo")])
    assert written == [content(TEXT) | {"demo": "make demo"}]


@pytest.mark.parametrize("in_process", daily(1, [True, False]))
def test_commands_write_a_filter(in_process, tmp_path):
    commands = [line for line in TEXT.splitlines() if line.startswith("lately ")]
    for command in commands:
        run_command(command, tmp_path, in_process=in_process)
    assert [command.split()[1] for command in commands] == ["plan", "export"]
    assert (tmp_path / "seen_lately" / "seen_lately.v").exists()


def test_changes_are_short():
    """A merge must not bring back changes between states that were never released."""
    changes = (files.README.parent / "CHANGELOG.md").read_text("utf-8")
    assert "### " not in changes.partition("[0.1.0], not yet released")[2].partition("\n## ")[0]
    assert len(changes.splitlines()) <= 60
