"""Benchmark of deduplication beside other programs."""

import json

import pytest
from click.testing import CliRunner

from campaigns import dedup_speed
from campaigns.__main__ import main
from campaigns.dedup_speed import Contestant, measure


def test_programs(monkeypatch):
    """One that keeps all, and one that is not there and is named."""
    several = Contestant("copy", ("cp",)), Contestant("other", ("no-such-program", "-D"))
    monkeypatch.setattr(dedup_speed, "CONTESTANTS", several)
    found = measure(packets=100)
    assert found["absent"] == ["no-such-program"]
    assert [run["name"] for run in found["runs"]] == ["copy"] * len(dedup_speed.STREAMS)
    for run, stream in zip(found["runs"], dedup_speed.STREAMS, strict=True):
        assert (run["stream"], run["packets"], run["copies"]) == (stream, 200, 100)
        assert run["dropped"] == 0


@pytest.mark.slow
def test_command(tmp_path):
    out = tmp_path / "figures"
    done = CliRunner().invoke(main, ["dedup", "--packets", "2000", "--out", str(out)])
    assert done.exit_code == 0, done.output
    for run in json.loads(out.read_text())["runs"]:
        blind = run["stream"] != "equal frames" and run["name"] != "lately dedup"
        assert run["dropped"] == (0 if blind else 2000)
        assert run["name"] in done.stdout
