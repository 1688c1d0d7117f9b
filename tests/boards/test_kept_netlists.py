"""Netlists that are kept for further seeds."""

import os

from lately.boards.flow import kept_netlists
from lately.boards.flow.kept_netlists import KeptNetlist, cache_directory


def test_found_by_all_texts(tmp_path):
    kept = KeptNetlist(tmp_path / "new", "a", "b")
    assert kept.read() is None
    kept.write(b"netlist")
    assert KeptNetlist(tmp_path / "new", "a", "b").read() == b"netlist"
    assert KeptNetlist(tmp_path / "new", "a", "c").read() is None
    assert KeptNetlist(tmp_path / "new", "ab").read() is None


def test_damaged_is_not_there(tmp_path):
    kept = KeptNetlist(tmp_path, "a")
    kept.write(b"netlist" * 100)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"netlist", whole[:-5] + b"12345"):
        path.write_bytes(damaged)
        assert kept.read() is None
    kept.write(b"again")
    assert kept.read() == b"again"


def test_first_goes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_netlists, "MAX_NETLISTS", 2)
    for second, name in enumerate("abc"):
        KeptNetlist(tmp_path, name).write(name.encode())
        for path in tmp_path.iterdir():
            if path.stat().st_mtime > 10:
                os.utime(path, (second, second))
    netlists = [KeptNetlist(tmp_path, name).read() for name in "abc"]
    assert netlists == [None, b"b", b"c"]


def test_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    kept = KeptNetlist(tmp_path / "file", "a")
    kept.write(b"netlist")
    assert kept.read() is None


def test_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LATELY_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path / "netlists"
