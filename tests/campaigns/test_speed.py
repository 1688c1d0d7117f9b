"""Benchmarks of the golden models: what they count, not how fast things are."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from campaigns import endless
from campaigns import golden_speed as speed
from campaigns.__main__ import main
from campaigns.machine import peak_bytes, processor
from campaigns.pages import blocks
from lately.golden import GEBF
from lately.golden.files import write_json

FIRST_ANSWERS = speed.first_answers
SMALL = ["--window", "500", "--keys", "6000", "--rounds", "1"]


@pytest.fixture(autouse=True)
def without_first_answers(monkeypatch):
    """Do not compile everything anew for each test."""
    monkeypatch.setattr(speed, "first_answers", lambda: {"numpy": [0.1, 0.2]})


def test_stream():
    stream = speed.draw_stream(20_000, 700, seed=3)
    last = {}
    for position, (key, repeated) in enumerate(zip(stream.keys, stream.repeated, strict=True)):
        assert repeated == (key in last)
        if repeated:
            assert position - last[key] <= 700
        last[key] = position
    assert 0.09 < stream.repeated.mean() < 0.11
    assert np.array_equal(stream.keys, speed.draw_stream(20_000, 700, seed=3).keys)
    assert not np.array_equal(stream.keys, speed.draw_stream(20_000, 700, seed=4).keys)


def test_models_have_the_memory_and_the_window():
    for build in speed.models(20_000, 280_000).values():
        spec = build().spec
        assert 0.99 < spec.memory_bits / 280_000 <= 1
        assert spec.guaranteed_window >= 20_000


@pytest.fixture(scope="module")
def figures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "first_answers", lambda: {"numpy": [0.1, 0.2]})
        return speed.measure(window=500, keys=40_000, rounds=2, seed=1)


def test_runs(figures):
    runs = {(run["name"], run["runs"]): run for run in figures["runs"]}
    assert {path for _, path in runs} == {
        "compiled",
        "numpy",
        "rbloom",
        "fastbloom-rs",
        "pyprobables",
    }
    for run in runs.values():
        assert run["false_negatives"] == 0
        assert run["repeated"] > 0.08 * run["keys"]
        # Few blocks of 512 bits do not use all of so little memory.
        assert 0.7 < run["memory_bits"] / 7000 < 1.03
        assert run["false_positive_rate"] < 0.15
        assert run["range"][0] <= run["keys_per_second"] <= run["range"][1]
    assert runs["GEBF r=6 k=8", "compiled"]["keys"] == 40_000
    assert runs["GEBF r=6 k=8", "numpy"]["keys"] == 5_000


def test_both_paths_are_measured():
    stream = speed.draw_stream(4_000, 500, seed=1)
    found = {}
    for contestant in speed.ours(500, 14, 4_000):
        whole = replace(contestant, keys=4_000)
        result = speed.run(whole, stream)
        result.pop("seconds")
        found.setdefault(contestant.name, {})[contestant.runs] = result
    for results in found.values():
        assert results["compiled"] == results["numpy"]
    with speed.taking("numpy"):
        assert not GEBF(window=100, epochs=4, hashes=3, bits=1000).compiled
    assert GEBF(window=100, epochs=4, hashes=3, bits=1000).compiled


def test_a_key_in_a_call():
    stream = speed.draw_stream(1_500, 200, seed=1)
    for contestant in [*speed.ours(200, 14, 1_500)[:1], *speed.peers(200, 14, 1_500)]:
        whole = replace(contestant, keys=1_500)
        results = [speed.run(whole, stream, batch) for batch in (1, 7, speed.BATCH)]
        assert len({tuple(sorted((r | {"seconds": 0}).items())) for r in results}) == 1


def test_a_filter_that_forgets_is_found_out():
    """Two generations of half a window."""
    stream = speed.draw_stream(20_000, 1_000, seed=1)
    contestant = next(each for each in speed.peers(500, 14, 20_000) if each.runs == "rbloom")
    result = speed.run(replace(contestant, keys=20_000), stream)
    assert result["false_negatives"] > 0.1 * result["repeated"]


def test_command(tmp_path):
    out = tmp_path / "speed.json"
    table = CliRunner().invoke(main, ["golden", *SMALL, "--out", str(out)])
    assert table.exit_code == 0, table.output
    assert "false negatives" in table.stdout
    written = json.loads(out.read_text())
    printed = json.loads(CliRunner().invoke(main, ["golden", *SMALL, "--json"]).stdout)
    assert [run["name"] for run in printed["runs"]] == [run["name"] for run in written["runs"]]
    assert written["seed"] == 1
    assert written["processor"] == processor()


def test_first_answers(monkeypatch):
    monkeypatch.setattr(speed.compilation, "importable", lambda: False)
    ((name, seconds),) = FIRST_ANSWERS().items()
    assert name == "numpy"
    assert len(seconds) == 2
    assert min(seconds) > 0


def test_missing_libraries(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rbloom", None)
    result = CliRunner().invoke(main, ["golden", *SMALL])
    assert result.exit_code == 1
    assert "needs rbloom: pip install '.[bench]'" in result.stderr


def test_false_negatives_fail(monkeypatch):
    monkeypatch.setattr(speed, "REPEATED", 0.5)
    forgetful = speed.models(100, 7_000)["GEBF r=6 k=8"]
    monkeypatch.setattr(speed, "models", lambda window, bits: {"forgets": forgetful})
    result = CliRunner().invoke(main, ["golden", *SMALL])
    assert result.exit_code == 1
    assert "false negatives: must be 0, not" in result.stderr


# Long streams


def test_long_stream(monkeypatch):
    monkeypatch.setattr(endless, "CHUNK", 1_000)
    told = []
    found = endless.measure(
        model="APBBF k=2 l=7 B=64 b=4",
        window=700,
        insertions=25_003,
        queries=5_001,
        progress=told.append,
    )
    parts = found["parts"]
    assert sum(told) == sum(part["insertions"] for part in parts) == 25_003
    asked = sum(part["queries_of_the_window"] + part["queries_of_others"] for part in parts)
    assert asked == 5_001
    assert len(parts) == endless.PARTS
    assert found["false_negatives"] == 0
    assert found["shifts"] == 250
    assert found["peak_bytes"] >= found["peak_bytes_before"] > 1 << 20
    assert peak_bytes() >= found["peak_bytes"]


def test_long_stream_finds_what_is_forgotten(monkeypatch):
    """A model of less than the window that is asked for."""
    small = speed.models(100, 1_400)["GEBF r=6 k=8"]
    monkeypatch.setattr(endless, "models", lambda window, bits: {"small": small})
    found = endless.measure(model="small", window=500, insertions=5_000, queries=1_000)
    assert 0 < found["false_negatives"] < 500


def test_stream_command(tmp_path):
    out = tmp_path / "stream.json"
    arguments = ["stream", "--window", "500", "--insertions", "5000", "--queries", "500"]
    table = CliRunner().invoke(main, [*arguments, "--out", str(out)])
    assert table.exit_code == 0, table.output
    assert "peak memory" in table.stdout
    assert json.loads(out.read_text())["insertions"] == 5000
    printed = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert printed["false_negatives"] == 0
    wrong = CliRunner().invoke(main, [*arguments, "--model", "GEBF"])
    assert wrong.exit_code == 1
    assert "model: must be one of GEBF r=6 k=8, GEBF r=8 k=4," in wrong.stderr


# The page


def test_page_tells_the_targets():
    """What the page says is met: 20 million keys per second compiled, one million in numpy."""
    runs = blocks.load("speed.json")["runs"]
    rates = {(run["name"], run["runs"]): run["keys_per_second"] for run in runs}
    for name in ("GEBF r=6 k=8", "APBBF k=2 l=7 B=64 b=4"):
        assert rates[name, "compiled"] > 20e6
        assert rates[name, "numpy"] > 1e6
    assert not any(run["false_negatives"] for run in runs)


def test_page_of_a_stream_ends_where_it_began():
    parts = blocks.load("stream.json")["parts"]
    assert sum(part["insertions"] for part in parts) == 200_000_000
    assert sum(p["queries_of_the_window"] + p["queries_of_others"] for p in parts) == 20_000_000
    assert not any(part["false_negatives"] for part in parts)


@pytest.mark.parametrize("command", ["golden", "stream", "lanes"])
def test_folder_is_missed_before_the_work(command, tmp_path, monkeypatch):
    """A mistyped --out must not cost the whole measurement."""
    for module in ("golden_speed", "endless", "lane_rates"):
        monkeypatch.setattr(f"campaigns.{module}.measure", None)
    out = tmp_path / "absent" / "figures.json"
    done = CliRunner().invoke(main, [command, "--out", str(out)])
    assert done.exit_code == 1
    assert done.stderr == f"lately: error: {out}: No such file or directory\n"


def test_error_names_the_file_and_not_the_temporary_one(tmp_path):
    path = tmp_path / "absent" / "figures.json"
    with pytest.raises(FileNotFoundError) as caught:
        write_json({}, path)
    assert caught.value.filename == str(path)
