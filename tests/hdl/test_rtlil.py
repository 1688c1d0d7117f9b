"""RTLIL of all units, which is compared before and after a change."""

import hashlib
import runpy
import sys

from lately.golden import any_preset
from lately.golden.spec import presets
from lately.hdl import rtlil
from lately.hdl.statistics import EventCounter


def test_units_of_every_memory(monkeypatch):
    gebf, lanes = any_preset("gebf-tiny"), any_preset("two-lanes-tiny")
    # Equal specifications are built once, under the first name.
    monkeypatch.setattr(rtlil, "ALL_PRESETS", {"one": gebf, "two": lanes, "same": gebf})
    kinds = ["ecp5", "ice40", "gowin"]
    memories = ["portable", "portable-registered", *kinds, *(f"{kind}-strict" for kind in kinds)]
    assert [name for name, _ in rtlil.units()] == [
        *(f"one.{memory}" for memory in memories),
        *(f"two.{memory}" for memory in memories),
    ]


def test_files_and_their_digests(monkeypatch, tmp_path, capsys):
    counters = {f"counter{width}": EventCounter(width=width) for width in (3, 4)}
    monkeypatch.setattr(rtlil, "units", counters.items)
    # Also in a folder with earlier files.
    for _ in range(2):
        rtlil.write(tmp_path / "new" / "folder")
    report = f"2 units in {tmp_path / 'new' / 'folder'}\n"
    assert capsys.readouterr().out == 2 * report
    lines = (tmp_path / "new" / "folder" / "SHA256SUMS").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["counter3.il", "counter4.il"]
    for line in lines:
        digest, name = line.split("  ")
        text = (tmp_path / "new" / "folder" / name).read_bytes()
        assert digest == hashlib.sha256(text).hexdigest()
        assert b"src" not in text


def test_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(presets, "ALL_PRESETS", {})
    monkeypatch.setattr(sys, "argv", ["rtlil", str(tmp_path)])
    monkeypatch.delitem(sys.modules, "lately.hdl.rtlil")
    runpy.run_module("lately.hdl.rtlil", run_name="__main__")
    assert capsys.readouterr().out == f"0 units in {tmp_path}\n"
