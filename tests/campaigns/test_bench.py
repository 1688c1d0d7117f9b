"""Benchmarks: what they count, not how fast things are."""

import json

import pytest
from click.testing import CliRunner

from campaigns.__main__ import main
from campaigns.replay_speed import replay
from lately.golden import preset

pytestmark = pytest.mark.rtl


def test_replay_compares_verdicts():
    figures = replay(preset("tiny"), operations=2000, rounds=3)
    assert figures["mismatches"] == 0
    assert 1 < figures["cycles_per_operation"] < 1.1
    assert figures["ratio"] == pytest.approx(
        figures["replay_operations_per_second"] / figures["golden_operations_per_second"]
    )


def test_command():
    arguments = ["replay", "--preset", "tiny", "--operations", "1000", "--rounds", "1"]
    table = CliRunner().invoke(main, arguments)
    assert table.exit_code == 0, table.output
    assert "replay to golden" in table.stdout
    figures = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert set(figures["versions"]) == {"lately", "numpy", "python", "verilator"}
