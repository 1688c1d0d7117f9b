"""Benchmarks of the golden models: what they count, not how fast things are."""

from dataclasses import replace

import numpy as np
import pytest

from campaigns import golden_speed as speed
from campaigns import speed as product
from campaigns.engine import Record
from campaigns.pages import blocks
from campaigns.speed import peak_bytes


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


def test_keys_of_a_step_do_not_matter():
    stream = speed.draw_stream(2_000, 500, seed=1)
    for contestant in [*speed.ours(500, 7_000), *speed.peers(500, 7_000)]:
        whole = replace(contestant, share=1)
        results = [speed.take(whole, stream, batch) for batch in (7, speed.BATCH)]
        assert len({tuple(sorted((r | {"seconds": 0}).items())) for r in results}) == 1


def test_exact_windows_are_exact():
    stream = speed.draw_stream(20_000, 1_000, seed=1)
    for contestant in speed.peers(1_000, 14_000):
        result = speed.take(replace(contestant, share=1), stream)
        assert result["false_negatives"] == 0
        assert (result["false_positives"] > 0) == (result["memory_bits"] is not None)


def test_a_filter_that_forgets_is_found_out():
    """Two generations of half a window."""
    stream = speed.draw_stream(20_000, 1_000, seed=1)
    contestant = next(peer for peer in speed.peers(500, 7_000) if peer.name == "rbloom, two")
    result = speed.take(replace(contestant, share=1), stream)
    assert result["false_negatives"] > 0.1 * result["repeated"]


def test_windows_beside_boost():
    """All that is there answers alike but for the hash, and misses nothing."""
    for point in speed.rolling_points(rounds=1, keys=2_000)[:2]:
        run = speed.run_rolling(point | {"window": 500})
        rates = {(row["filter"], row["call"]): row["false_positive_rate"] for row in run["filters"]}
        assert len(rates) == 3 + (speed.boost_include() is not None)
        assert list(speed.ROLLING.wrong(run)) == []
        blocked = {rate for (name, _), rate in rates.items() if "B = 256" in name}
        assert len(blocked) == 1


# Long streams


def stream_point(**values):
    (point,) = speed.stream_points(**values)
    return point


def test_long_stream(monkeypatch):
    monkeypatch.setattr(speed, "CHUNK", 1_000)
    model = "APBBF k=2 l=7 B=64 b=4"
    result = speed.run_stream(
        stream_point(model=(model,), window=700, insertions=25_003, queries=5_001)
    )
    parts = result["parts"]
    assert sum(part["insertions"] for part in parts) == 25_003
    queries = sum(part["queries_of_the_window"] + part["queries_of_others"] for part in parts)
    assert queries == 5_001
    assert len(parts) == speed.PARTS
    assert result["false_negatives"] == 0
    assert result["peak_bytes"] >= result["peak_bytes_before"] > 1 << 20
    assert peak_bytes() >= result["peak_bytes"]


def test_long_stream_finds_what_is_forgotten(monkeypatch):
    """A model of less than the window."""
    small = speed.models(100, 1_400)["GEBF r=6 k=8"]
    monkeypatch.setattr(speed, "models", lambda window, bits: {"small": small})
    result = speed.run_stream(
        stream_point(model=("small",), window=500, insertions=5_000, queries=1_000)
    )
    assert 0 < result["false_negatives"] < 500
    assert speed.STREAM.wrong(result) == [
        f"false negatives: must be 0, not {result['false_negatives']}"
    ]


# Filters beside others

OURS = ("GEBF", "BlockedGEBF", "APBF", "APBBF", "WindowDictionary", "PartitionedTimingFilter")


def test_runs(monkeypatch, capsys):
    monkeypatch.setattr(speed, "find_spec", lambda name: None if name == "cachetools" else name)
    (point,) = speed.points(window=500, keys=40_000, rounds=2, turning=20_000)
    result = speed.run(point)
    assert result["missing"] == ["cachetools"]
    assert 0 < result["turn"]["median_ms"] <= result["turn"]["longest_ms"]
    assert len(speed.rows([Record(point, {}, result)])) == len(result["filters"])
    assert capsys.readouterr().err == "cachetools is not installed; it is in the extra bench\n"
    assert {row["call"] for row in result["filters"]} == set(speed.FORMS)
    for row in result["filters"]:
        assert row["false_negatives"] == 0
        full = " for " not in row["filter"]
        assert (row["touched"] is not None) == row["filter"].startswith(OURS)
        assert row["false_positive_rate"] < 0.15 if full else row["false_positive_rate"] is None
        assert row["range"][0] <= row["keys_per_second"] <= row["range"][1]


# Hardware and captures


def test_programs(monkeypatch):
    """A program that keeps all packets, and a program that is not installed."""
    programs = {"copy": ("cp", "IN", "OUT"), "other": ("no-such-program",)}
    monkeypatch.setattr(product, "PROGRAMS", programs)
    points = product.dedup_points(packets=100)
    assert [point["program"] for point in points] == ["copy"] * len(product.STREAMS)
    for point in points:
        run = product.run_dedup(point)
        assert (run["packets"], run["copies"], run["dropped"]) == (200, 100, 0)


@pytest.mark.slow
def test_deduplication_beside_editcap():
    for point in product.dedup_points(packets=2000):
        run = product.run_dedup(point)
        name, routed = point["program"], point["stream"] != "equal frames"
        whole = name.startswith("editcap") or "frame" in name
        blind = name.startswith("tcpdump") or (routed and whole)
        # The last 100 packets may not have the copy.
        assert run["dropped"] == (0 if blind else 2000) or name == "editcap -D 100"


# The page


def test_page_has_a_run_without_false_negatives():
    (record,) = blocks.records("golden")
    filters = record.result["filters"]
    assert {"batch", "int", "str"} <= {row["call"] for row in filters} <= set(speed.FORMS)
    assert not any(row["false_negatives"] for row in filters)
    assert record.result["missing"] == []


def test_page_of_a_stream_ends_where_it_began():
    (record,) = blocks.records("stream")
    parts = record.result["parts"]
    assert sum(part["insertions"] for part in parts) == 200_000_000
    assert not any(part["false_negatives"] for part in parts)
