"""Runs: figures against known streams, injected faults, sizing and the report."""

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from cases import daily
from run_unit import engine

from lately.golden import (
    FilterSpec,
    Operation,
    SpecificationError,
    any_preset,
    from_spec,
    preset,
)
from lately.golden.hash.digests import KeyDigest
from lately.golden.hash.keys import check_keys
from lately.hdl.ring.profile import RingProfile
from lately.replay import run as run_module
from lately.replay.formatting import rate_text
from lately.replay.oracle import FRESH, GUARANTEED, Oracle
from lately.replay.plots import picture
from lately.replay.report import html
from lately.replay.result import distance_edges
from lately.replay.run import RunOptions, run
from lately.replay.traces import TraceError, open_trace

DATA = Path(__file__).parents[3] / "shared" / "data"
EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = FilterSpec(family="apbbf", k=2, l=4, block_bits=64, hashes_per_block=4, blocks=16)
MS = 10**6
TIMED = replace(SMALL, span=100)
OVERFILLED = replace(TIMED, when_full="overfill")


@pytest.fixture
def stream(tmp_path):
    """Lines of keys of which about half are repeats, some far apart."""
    random = np.random.default_rng(3)
    keys = np.where(random.random(6000) < 0.5, random.integers(0, 400, 6000), np.arange(6000) + 400)
    keys[5990:] = keys[:10]
    path = tmp_path / "keys"
    path.write_text("".join(f"{key}\n" for key in keys))
    return path


def perform(path, spec=SMALL, progress=None, sink=None, **how):
    with open_trace(path) as trace:
        return run(trace, spec, RunOptions(**how), progress=progress, sink=sink)


def test_figures_against_a_plain_count(stream):
    result = perform(stream, engine="golden")
    keys = from_spec(SMALL).key_words(stream.read_text().split())
    truth = Oracle(SMALL).check_and_insert(keys)
    model = from_spec(SMALL)
    seen = model.check_and_insert(keys)
    figures = result.figures()
    for name, kind in (("guaranteed", 0), ("stale", 1), ("fresh", 2)):
        assert figures[f"{name}_queries"] == (truth.kind == kind).sum() > 0
    assert figures["false_positives"] == seen[truth.kind == 2].sum() > 0
    assert figures["stale_positives"] == seen[truth.kind == 1].sum() > 0
    assert figures["false_negatives"] == 0
    assert figures["repeats"] == figures["repeats_found"] == truth.repeat.sum()
    assert figures["operations"] == 6000
    assert figures["shifts"] == model.shifts == 5999 // SMALL.generation
    assert figures["distinct_keys"] == len(set(keys.tolist()))
    assert figures["cycles"] is figures["cycles_per_operation"] is figures["mismatches"] is None
    assert result.failures() == []
    low, high = figures["false_positive_interval"]
    assert low < figures["false_positive_rate"] < high
    assert result.distances.sum() == (truth.distance > 0).sum()
    json.dumps(figures | result.series(), allow_nan=False)


def test_distances_split_at_window_and_slack(stream):
    result = perform(stream, engine="golden")
    window, end = SMALL.guaranteed_window, SMALL.guaranteed_window + SMALL.slack
    bins = result.series()["distances"]
    assert {row["from"] for row in bins} >= {window + 1}
    assert not any(row["not_seen"] for row in bins if row["below"] <= window + 1)
    assert sum(row["seen"] + row["not_seen"] for row in bins if row["from"] > end) >= 10


@pytest.mark.parametrize("window", [1, 2, 3, 100, 27_490, 10**7])
def test_distance_edges(window):
    spec = FilterSpec(
        family="apbbf", window=window, k=2, l=1, block_bits=64, hashes_per_block=4, blocks=1
    )
    edges = distance_edges(spec)
    assert edges[0] == 1
    assert (np.diff(edges) > 0).all()
    assert {spec.guaranteed_window + 1, spec.guaranteed_window + spec.slack + 1} <= set(edges)


def test_independent_of_chunks(stream, monkeypatch):
    whole = perform(stream, engine="golden")
    monkeypatch.setattr(run_module, "_CHUNK", 37)
    parts = perform(stream, engine="golden")
    assert parts.series() == whole.series()
    ignored = {"seconds": 0, "operations_per_second": 0}
    assert parts.figures() | ignored == whole.figures() | ignored


def test_checkpoints_are_few_and_even(stream, monkeypatch):
    monkeypatch.setattr(run_module, "_FIRST_SPACING", 4)
    result = perform(stream, engine="golden")
    ends = [point.operations for point in result.checkpoints]
    assert 100 <= len(ends) <= 256
    assert set(np.diff(ends[:-1])) == {ends[0]}
    assert ends[-1] == 6000
    assert result.checkpoints[-1].repeats == result.repeats
    assert len(result.checkpoints[-1].fill_ratios) == SMALL.ring_segments


@pytest.mark.statistics
def test_probes_agree_with_the_bits_that_are_set(stream):
    figures = perform(stream, engine="golden").figures()
    low, high = figures["probe_false_positive_interval"]
    print(figures["probe_false_positive_rate"], figures["estimated_false_positive_rate"])
    assert figures["probes"] > 100_000
    assert low <= figures["estimated_false_positive_rate"] <= high


def test_probes_are_not_keys_of_the_window(stream):
    spec = preset("tiny")
    figures = perform(stream, spec, engine="golden").figures()
    # 8-bit keys: random ones are often in the window, and must not count as false positives.
    assert 0 < figures["probes"] < figures["operations"] * run_module.PROBES
    assert figures["distinct_keys"] == 256
    assert figures["colliding_keys"] == len(set(stream.read_text().split())) - 256


def test_rates_of_nothing_are_none(tmp_path):
    path = tmp_path / "keys"
    path.write_text("a\n")
    figures = perform(path, engine="golden").figures()
    assert figures["stale_positive_rate"] is None
    assert figures["stale_positive_interval"] is None
    assert figures["false_positive_rate"] == 0


def test_limit_and_progress(stream, monkeypatch):
    monkeypatch.setattr(run_module, "_CHUNK", 1000)
    calls = []

    def progress(result, share):
        calls.append((result.operations, share))
        assert result.repeats == result.repeats_found > 0
        assert result.checkpoints[-1].operations <= result.operations
        assert result.seconds > 0

    result = perform(stream, engine="golden", limit=2500, progress=progress)
    assert result.operations == 2500
    assert [done for done, _ in calls] == [1000, 2000, 2500]
    assert [share for _, share in calls] == sorted(share for _, share in calls)
    assert calls[-1][1] == 1


def test_limit_wrong(stream):
    with pytest.raises(ValueError, match="limit: must be at least 1, not 0"):
        perform(stream, limit=0)


def test_engine_wrong(stream):
    with pytest.raises(ValueError, match="engine: must be one of rtl, golden, not 'fpga'"):
        perform(stream, engine="fpga")


def test_unbuildable(stream):
    spec = FilterSpec(family="apbf", k=3, l=2, slice_bits=100)
    with pytest.raises(SpecificationError, match=r"hardware needs .* a power of two bits, not 100"):
        perform(stream, spec, engine="rtl")


def test_nothing_parses(tmp_path):
    path = tmp_path / "keys"
    path.write_text("\n")
    with pytest.raises(TraceError, match="must hold text lines, but holds none"):
        perform(path, engine="golden")


def test_sink_gets_every_verdict(stream):
    verdicts = []
    result = perform(stream, engine="golden", sink=verdicts.append)
    assert [part.start for part in verdicts] == list(
        np.cumsum([0] + [len(part.records) for part in verdicts[:-1]])
    )
    keys = from_spec(SMALL).key_words([text for part in verdicts for text, _ in part.records])
    seen = np.concatenate([part.results.seen for part in verdicts])
    assert (seen == from_spec(SMALL).check_and_insert(keys)).all()
    assert sum(part.truth.repeat.sum() for part in verdicts) == result.repeats


def test_hardware_that_agrees(stream):
    result = perform(stream, engine=engine())
    figures = result.figures()
    assert figures["engine"] == "rtl"
    assert figures["mismatches"] == 0
    assert figures["first_mismatch"] is None
    # One call: each one drains the pipeline.
    assert figures["cycles"] == 6020
    assert figures["cycles_per_operation"] == pytest.approx(6020 / 6000)
    assert result.failures() == []


def test_hardware_that_differs(stream):
    lines = stream.read_text().split()
    result = perform(stream, engine=engine(seen=[4321, 5000]))
    assert result.mismatches == 2
    first = result.first_mismatch
    assert (first.index, first.text) == (4321, lines[4321])
    assert first.key == int(from_spec(SMALL).key_words(lines[4321])[0])
    assert first.rtl is not first.golden
    assert re.match(
        r"mismatches: must be 0, not 2; the first is operation 4321, key '\d+' \(0x",
        result.failures()[0],
    )


def test_false_negative_fails(stream):
    truth = Oracle(SMALL).check_and_insert(from_spec(SMALL).key_words(stream.read_text().split()))
    missed = int(np.flatnonzero(truth.repeat)[7])
    result = perform(stream, engine=engine(seen=[missed]))
    assert result.false_negatives == 1
    assert result.repeats_found == result.repeats - 1
    assert "false negatives: must be 0, not 1" in result.failures()


@pytest.mark.parametrize("key_bits", [5, 64, 100])
def test_key_widths(stream, key_bits):
    spec = FilterSpec(
        family="apbbf", k=2, l=4, block_bits=64, hashes_per_block=4, blocks=16, key_bits=key_bits
    )
    result = perform(stream, spec, engine=engine())
    assert result.failures() == []
    assert result.distinct_keys == min(1 << key_bits, len(set(stream.read_text().split())))


@pytest.mark.parametrize("name", daily(1, ["default", "apbf-default", "gebf-default"]))
def test_real_stream(name):
    path = EXAMPLES / "flights_2013.csv.gz"
    result = perform(path, preset(name), engine="golden", limit=20_000)
    assert result.failures() == []
    assert result.repeats > 15_000


STREAMS = [
    "apache_access.log.gz",
    "product_page_requests.csv.gz",
    "dns_queries.csv.gz",
]


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_real_stream_through_the_hardware(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"shared/data/{name} is absent")
    check_through_the_hardware(path)


@pytest.mark.slow
@pytest.mark.rtl
def test_sample_through_the_hardware():
    check_through_the_hardware(EXAMPLES / "flights_2013.csv.gz")


def check_through_the_hardware(path):
    figures = perform(path, preset("default"), engine="rtl").figures()
    print({name: figures[name] for name in ("operations", "cycles", "shifts", "repeats")})
    assert figures["mismatches"] == figures["memory_mismatches"] == 0
    assert figures["counter_mismatches"] == {}
    assert figures["false_negatives"] == 0
    assert figures["repeats_found"] == figures["repeats"] > 0
    # The clear after reset and the drained pipeline are all that is not an operation.
    clear = RingProfile.of(preset("default")).clear_cycles
    spare = clear + 64 * (1 + figures["operations"] // 65_536)
    assert figures["operations"] < figures["cycles"] <= figures["operations"] + spare


KEYED = [
    replace(SMALL, hash="siphash"),
    replace(any_preset("timed-tiny"), hash="siphash"),
    replace(any_preset("dictionary-tiny"), hash="siphash"),
]
SECRET = 0x00112233445566778899AABBCCDDEEFF


@pytest.mark.parametrize("spec", daily(1, KEYED), ids=["ring", "span", "dictionary"])
def test_keys_are_hashed_under_the_secret(timed_stream, spec):
    """That which is given; else one of the system's generator, not that of a filter after reset."""
    tick = MS if spec.timed else None
    verdicts = []
    for secret in (SECRET, SECRET, SECRET + 1, None, None):
        told = []
        perform(timed_stream, spec, tick=tick, engine="golden", secret=secret,
                sink=lambda part, told=told: told.extend(part.results.seen))  # fmt: skip
        verdicts.append(told)
    first, same, *others = verdicts
    assert first == same
    model = from_spec(spec)
    model.rekey(SECRET)
    model.clear()
    keys, times = operations(timed_stream, MS, key_bits=spec.key_bits)
    codes = np.full(len(keys), Operation.CHECK_AND_INSERT)
    assert first == list(model.perform(codes, keys, *([times] if spec.timed else [])).seen)
    assert all(first != other for other in others)
    assert len({tuple(other) for other in others}) == 3


@pytest.mark.rtl
def test_secret_through_the_hardware(stream):
    result = perform(stream, preset("siphash-tiny"), limit=2000)
    assert result.failures() == []
    assert result.mismatches == 0


@pytest.mark.parametrize("name", ["tiny", "timing-counted-tiny"])
def test_secret_wrong(stream, name):
    message = r"^secret: must not be given for a filter without siphash$"
    with pytest.raises(SpecificationError, match=message):
        perform(stream, any_preset(name), engine="golden", secret=SECRET)


def test_memory_that_differs_fails(stream):
    result = perform(stream, engine=engine(cells=[(0, 1, 2), (3, 0, 7)]))
    assert result.figures()["memory_mismatches"] == 2
    assert result.failures() == ["memory: must equal golden's, not differ in 2 bits"]


ANSWERS = "must equal golden's, not differ in 1 answers; the first is operation"


@pytest.mark.parametrize(
    ("name", "names", "fields"),
    [("dictionary-1000", "ages and statuses", ("age", "status")),
     ("timing-counted-default", "ages and oldest cells", ("age", "oldest"))],
)  # fmt: skip
def test_faults_of_cells_are_told(stream, name, names, fields):
    spec = any_preset(name)
    faults = {field: [17 + 1000 * at] for at, field in enumerate(fields)}
    for field, at in faults.items():
        (failure,) = perform(stream, spec, engine=engine(**{field: at})).failures()
        assert failure == f"{names}: {ANSWERS} {at[0]}"
    place = (0, 1, 3) if spec.kind == "dictionary" else (1, 3)
    (failure,) = perform(stream, spec, engine=engine(cells=[place])).failures()
    assert failure == "memory: must equal golden's, not differ in 1 cells"
    (failure,) = perform(stream, spec, engine=engine(counters={"hits": 2})).failures()
    assert re.fullmatch(r"counter hits: RTL must equal golden \d+, not \d+", failure)


# Windows in time


@pytest.fixture
def timed_stream(tmp_path):
    """Keys with times in seconds, of which about half are repeats: bursts, spells and silences."""
    random = np.random.default_rng(5)
    count = 6000
    steps = random.choice([0, 0, 0, 1, 2, 60], count, p=[0.3, 0.3, 0.25, 0.1, 0.045, 0.005])
    steps = steps * np.repeat(random.choice([0.1, 0.3, 1, 5], count // 100), 100)
    keys = np.where(
        random.random(count) < 0.5, random.integers(0, 300, count), np.arange(count) + 400
    )
    path = tmp_path / "keys.csv"
    rows = zip((1.7e9 + np.cumsum(steps) * 0.01).tolist(), keys.tolist(), strict=True)
    path.write_text("time,key\n" + "".join(f"{time:.9f},{key}\n" for time, key in rows))
    return path


def operations(path, tick, key_bits=64):
    """Keys and ticks of a stream."""
    with open_trace(path) as trace:
        texts, times = zip(*trace, strict=True)
    return check_keys([*texts], KeyDigest(key_bits)), (np.array(times) - times[0]) // tick


@pytest.mark.parametrize("spec", [TIMED, OVERFILLED])
def test_figures_of_a_span_against_a_plain_count(timed_stream, spec):
    result = perform(timed_stream, spec, engine="golden", tick=10 * MS)
    keys, ticks = operations(timed_stream, 10 * MS)
    truth, model = Oracle(spec).check_and_insert(keys, ticks), from_spec(spec)
    told = model.perform([3] * len(keys), keys, ticks)
    figures = result.figures()
    for name, kind in (("guaranteed", GUARANTEED), ("stale", 1), ("fresh", FRESH)):
        assert figures[f"{name}_queries"] == (truth.kind == kind).sum() > 0
    assert figures["false_positives"] == told.seen[truth.kind == FRESH].sum() > 0
    assert figures["false_negatives"] == 0
    assert figures["repeats"] == truth.repeat.sum()
    assert figures["repeats_found"] == told.seen[truth.repeat].sum()
    assert figures["shifts"] == model.shifts
    span = figures["span"]
    assert (span["ticks"], span["tick_seconds"], span["seconds"]) == (100, 0.01, 1)
    assert span["when_full"] == spec.when_full
    assert list(span["statuses"].values()) == np.bincount(told.status, minlength=3).tolist()
    assert span["statuses"]["ok"] > 0
    assert span["least_covered_ticks"] == told.covered.min() - 1
    assert (span["shortened"], span["overfilled"]) == (model.shortened, model.overfilled)
    if spec == TIMED:
        assert span["shortened"] > 0
        assert span["statuses"]["window shortened"] > 0
        assert figures["repeats_found"] < figures["repeats"]
    else:
        assert span["overfilled"] > 0
        assert span["statuses"]["rate exceeded"] > 0
        assert figures["repeats_found"] == figures["repeats"]
    assert (span["late_times"], span["missing_times"], span["status_mismatches"]) == (0, 0, None)
    assert result.distances.sum() == (truth.elapsed >= 0).sum()
    assert result.distances[0].sum() == (truth.elapsed == 0).sum() > 0
    assert result.failures() == []
    series = result.series()
    assert series["distance_unit"] == "ticks"
    assert {101} <= {row["from"] for row in series["distances"]}
    json.dumps(figures | series, allow_nan=False)


@pytest.mark.parametrize("when_full", ["shorten", "overfill"])
@pytest.mark.parametrize(("after", "kind"), [(0.999, 0), (1.0, 0), (1.01, 0), (1.02, 2)])
def test_a_key_at_the_edge_of_the_span(tmp_path, when_full, after, kind):
    path = tmp_path / "keys.csv"
    # 101 ticks of 10 ms; the first begins with the first key.
    path.write_text(f"time,key\n5,a\n{5 + after},a\n")
    spec = replace(SMALL, span=101, when_full=when_full)
    counts = perform(path, spec, engine=engine(), tick=10 * MS).counts
    assert counts[kind].sum() == 1 + (kind == FRESH)
    assert counts[GUARANTEED, 1] == (kind == GUARANTEED)


@pytest.mark.slow
def test_span_independent_of_chunks(timed_stream, monkeypatch):
    whole = perform(timed_stream, TIMED, engine=engine(), tick=10 * MS)
    monkeypatch.setattr(run_module, "_CHUNK", 37)
    parts = perform(timed_stream, TIMED, engine=engine(), tick=10 * MS)
    assert parts.series() == whole.series()
    ignored = dict.fromkeys(("seconds", "operations_per_second", "cycles", "cycles_per_operation"))
    assert parts.figures() | ignored == whole.figures() | ignored


def test_hardware_of_a_span_that_agrees(timed_stream):
    result = perform(timed_stream, TIMED, engine=engine(), tick=10 * MS)
    assert result.failures() == []
    assert result.figures()["span"]["status_mismatches"] == 0
    assert result.mismatches == result.memory_mismatches == 0


def test_hardware_of_a_span_that_differs(timed_stream):
    faults = {
        "status": [70, 4000],
        "seen": [71],
        "cells": [(0, 1, 2)],
        "counters": {"shortened": 1},
    }
    result = perform(timed_stream, TIMED, engine=engine(**faults), tick=10 * MS)
    shortened = result.counters["shortened"]
    assert result.failures()[1:4] == [
        "statuses: must equal golden's, not differ in 2 answers; the first is operation 70",
        "memory: must equal golden's, not differ in 1 bits",
        f"counter shortened: RTL must equal golden {shortened}, not {shortened + 1}",
    ]
    assert result.failures()[0].startswith(
        "mismatches: must be 0, not 1; the first is operation 71"
    )


@pytest.mark.parametrize(
    "name", ["operations", "insertions", "hits", "shifts", "shortened", "overfilled"]
)
def test_each_counter_is_compared(timed_stream, name):
    result = perform(timed_stream, TIMED, engine=engine(counters={name: 1}), tick=10 * MS)
    (message,) = result.failures()
    assert re.fullmatch(rf"counter {name}: RTL must equal golden \d+, not \d+", message)


def test_false_negative_within_the_span_fails(timed_stream):
    keys, ticks = operations(timed_stream, 10 * MS)
    truth = Oracle(TIMED).check_and_insert(keys, ticks)
    missed = int(np.flatnonzero(truth.kind == GUARANTEED)[-1])
    result = perform(timed_stream, TIMED, engine=engine(seen=[missed]), tick=10 * MS)
    assert result.false_negatives == 1
    assert "false negatives: must be 0, not 1" in result.failures()


def test_times_that_go_back_or_are_missing(tmp_path):
    path = tmp_path / "keys.csv"
    path.write_text("time,key\n,a\n2,a\n1.5,b\n2.2,b\n,c\n2.1,c\n")
    result = perform(path, TIMED, engine=engine(), tick=10 * MS)
    span = result.figures()["span"]
    assert (span["late_times"], span["latest_seconds"], span["missing_times"]) == (2, 0.5, 2)
    # All come at the latest time: b after 0.2 s, c and a at once.
    assert [bin["from"] for bin in result.series()["distances"]] == [0, 19]
    assert "2 times before the latest, by 500 ms at most, and 2 keys without a time" in html(result)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\nb\n", r"span: .* stream with times, but .* has only keys$"),
        ("key,n\na,1\n", r"span: .* stream with times, but .* has no column of times \(--time\)$"),
        ("key,time\na,\n", r"span: .* stream with times, but column 'time' of .* has none$"),
        ("key,time\na,soon\n", r".* none of 1 lines parses \(line 2: not a time: 'soon'\)$"),
    ],
)
def test_stream_without_times(tmp_path, content, message):
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(TraceError, match=message):
        perform(path, TIMED, engine="golden", tick=MS)


@pytest.mark.parametrize(
    ("spec", "tick", "message"),
    [
        (TIMED, None, "tick: must be at least 1 ns for a span, not None"),
        (TIMED, 0, "tick: must be at least 1 ns for a span, not 0"),
        (SMALL, 5, "tick: must not be given for a window of insertions, not 5"),
    ],
)
def test_tick_wrong(timed_stream, spec, tick, message):
    with pytest.raises(SpecificationError, match=f"^{message}$"):
        perform(timed_stream, spec, engine="golden", tick=tick)


@pytest.mark.slow
@pytest.mark.parametrize("spec", daily(1, [TIMED, OVERFILLED]))
def test_report_of_a_span(timed_stream, tmp_path, spec):
    result = perform(timed_stream, spec, engine=engine(), tick=10 * MS)
    page = html(result)
    assert "agree on every verdict and status" in page
    assert "<dt>span</dt><dd>1 s<small>100 ticks of 10 ms</small>" in page
    assert "ticks of 10 ms since the key was last inserted" in page
    shortened = "<dt>answers with a shortened window</dt>" in page
    exceeded = "<dt>answers with too many keys</dt>" in page
    assert (shortened, exceeded) == (spec == TIMED, spec == OVERFILLED)
    picture(result, tmp_path / "p.svg")


@pytest.mark.slow
@pytest.mark.parametrize("when_full", daily(1, ["shorten", "overfill"]))
def test_real_stream_in_time(when_full):
    path = EXAMPLES / "flights_2013.csv.gz"
    spec = replace(preset("small"), span=1441, when_full=when_full)
    result = perform(path, spec, engine="golden", tick=60_000 * MS, limit=40_000)
    assert result.failures() == []
    assert result.repeats_found == result.repeats > 10_000


@pytest.mark.rtl
@pytest.mark.parametrize("when_full", ["shorten", pytest.param("overfill", marks=pytest.mark.slow)])
def test_span_through_the_hardware(timed_stream, when_full):
    # Compiled once for this test and those of the soak.
    spec = FilterSpec(
        family="apbbf", k=2, l=2, block_bits=8, hashes_per_block=2, blocks=16, key_bits=8, clear=8,
        span=60, when_full=when_full,
    )  # fmt: skip
    figures = perform(timed_stream, spec, tick=10 * MS).figures()
    assert figures["mismatches"] == figures["memory_mismatches"] == 0
    assert figures["span"]["status_mismatches"] == 0
    assert (
        min(figures["span"]["statuses"].values())
        == 0
        < figures["span"]["shortened" if when_full == "shorten" else "overfilled"]
    )
    assert figures["counter_mismatches"] == {}
    assert figures["false_negatives"] == 0 < figures["guaranteed_queries"]


# Report


def test_report_is_self_contained(stream):
    page = html(perform(stream, engine=engine()))
    assert page.count("<svg") == 3
    assert not re.search(r'(src|href)="(?!#)', page)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    # The page's own colours, or the plots would be black on black at night.
    assert not re.search(r"#(0072b2|1c2430)", page[page.index("<svg") :])
    assert "RTL and golden model agree on every verdict" in page


def test_report_says_what_failed_and_escapes_names(tmp_path):
    path = tmp_path / "<b>keys"
    path.write_text("a\n" * 20)
    page = html(perform(path, engine=engine(seen=[10])))
    assert 'class="state bad">mismatches: must be 0, not 1' in page
    assert "<b>keys" not in page
    assert "&lt;b&gt;keys" in page


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "head"), daily(1, [("png", b"\x89PNG"), ("svg", b"<?xml")]))
def test_picture(stream, tmp_path, ending, head):
    path = tmp_path / f"picture.{ending}"
    picture(perform(stream, engine="golden"), path)
    assert path.read_bytes().startswith(head)


def test_picture_wrong(stream, tmp_path):
    with pytest.raises(ValueError, match=r"path: must end in .png or .svg, not 'x.bmp'"):
        picture(perform(stream, engine="golden"), "x.bmp")


def test_short_run_has_a_report(tmp_path):
    path = tmp_path / "keys"
    path.write_text("a\n")
    result = perform(path, preset("tiny"), engine="golden")
    html(result)
    picture(result, tmp_path / "p.png")


@pytest.mark.parametrize(
    ("rate", "text"),
    [(None, "\N{EN DASH}"), (0, "0%"), (0.0227, "2.27%"), (1, "100%"), (3e-6, "3.0e-04%")],
)
def test_rate_text(rate, text):
    assert rate_text(rate) == text


class Read(NamedTuple):
    """A stream of which so much has been read."""

    fraction: float | None


@pytest.mark.parametrize(
    ("fraction", "count", "limit", "short"),
    [
        (1.0, 10, None, True),
        # 2**20 operations are expected, and one more.
        (0.0625, 1 << 16, None, True),
        (0.0624, 1 << 16, None, False),
        (0.001, 1 << 16, 1 << 20, True),
        (0.001, 1 << 16, (1 << 20) + 1, False),
        # Of a pipe nothing is known but its limit.
        (None, 1 << 16, None, False),
        (None, 1 << 16, 1000, True),
        (0.0, 5, None, False),
    ],
)
def test_short_streams(fraction, count, limit, short):
    assert run_module._is_short(Read(fraction), count, limit) == short


@pytest.mark.parametrize("spec", [SMALL, TIMED])
def test_models_of_streams_in_time_are_always_optimised(stream, timed_stream, spec, monkeypatch):
    levels = []

    @contextmanager
    def compiled_unit(spec, *, optimisation):
        levels.append(optimisation)
        with engine()(spec) as unit:
            yield unit

    monkeypatch.setattr("lately.sim.compiled_unit", compiled_unit)
    perform(timed_stream if spec.timed else stream, spec, tick=10 * MS if spec.timed else None)
    assert levels == [3 if spec.timed else 0]
