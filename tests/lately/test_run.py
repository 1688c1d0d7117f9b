"""Runs: figures against known streams for every kind of filter, injected faults, and the report."""

import json
import os
import re
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from cases import daily
from click.testing import CliRunner
from run_unit import engine, repeats_within

from lately.cli.app import main
from lately.golden import (
    DecisionTable,
    FilterSpec,
    Operation,
    PartitionedTimingSpec,
    SpecificationError,
    TimedTimingSpec,
    WindowDictionarySpec,
    any_preset,
    from_spec,
    preset,
)
from lately.golden.hash.keys import KeyDigest, check_keys
from lately.hdl.ring.profile import RingProfile
from lately.replay import run as run_module
from lately.replay.formatting import rate_text
from lately.replay.oracle import FRESH, GUARANTEED, SLACK, Oracle
from lately.replay.report import class_rows, html, picture
from lately.replay.run import RunOptions, distance_edges, run
from lately.replay.traces import TraceError, open_trace
from lately.sim import compiled_unit

EXAMPLES = Path(__file__).parents[2] / "examples"
MS = 10**6
SMALL = FilterSpec(family="apbbf", k=2, l=4, block_bits=64, hashes_per_block=4, blocks=16)
TIMED = replace(SMALL, span=100)
OVERFILLED = replace(TIMED, when_full="overfill")
ROOMY = WindowDictionarySpec(window=40, columns=4, rows=64, digest_bits=30)
TIGHT = replace(ROOMY, columns=1, rows=16, stash=2)
COUNTED = PartitionedTimingSpec(window=40, hashes=3, cells=512)
CELLS = TimedTimingSpec(span=30, hashes=3, cells=512)
BLOCKS = replace(COUNTED, block=8)
KINDS = {
    "ring": SMALL, "span": TIMED, "overfilled span": OVERFILLED, "dictionary": ROOMY,
    "counted": COUNTED, "blocks": BLOCKS, "timed": CELLS,
}  # fmt: skip


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    """Two files of keys of which about half are repeats, some far apart; the second has times, of
    bursts, spells and silences."""
    folder, paths = tmp_path_factory.mktemp("streams"), []
    for seed, few in ((3, 400), (5, 300)):
        random = np.random.default_rng(seed)
        if seed == 5:
            steps = random.choice([0, 0, 0, 1, 2, 60], 6000, p=[0.3, 0.3, 0.25, 0.1, 0.045, 0.005])
            steps = steps * np.repeat(random.choice([0.1, 0.3, 1, 5], 60), 100)
        keys = np.where(
            random.random(6000) < 0.5, random.integers(0, few, 6000), np.arange(6000) + 400
        )
        keys[5990:] = keys[:10]
        paths.append(folder / ("keys" if seed == 3 else "keys.csv"))
        paths[-1].write_text("".join(f"{key}\n" for key in keys))
    times = 1.7e9 + np.cumsum(steps) * 0.01
    rows = zip(times.tolist(), keys.tolist(), strict=True)
    paths[1].write_text("time,key\n" + "".join(f"{time:.9f},{key}\n" for time, key in rows))
    return paths


@pytest.fixture
def stream(streams):
    return streams[0]


@pytest.fixture
def timed_stream(streams):
    return streams[1]


def perform(path, spec=SMALL, progress=None, sink=None, **extra):
    """Run a stream; for a filter in time, with ticks of 10 ms."""
    extra = {"tick": 10 * MS if spec.timed else None} | extra
    with open_trace(path) as trace:
        return run(trace, spec, RunOptions(**extra), progress=progress, sink=sink)


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without their plots, which take a second each."""
    monkeypatch.setattr("lately.replay.report.page_drawing", lambda *_: "")


def operations(path, spec):
    """Keys of a stream, and their ticks if the filter is one in time."""
    with open_trace(path) as trace:
        texts, times = zip(*trace, strict=True)
    keys = check_keys([*texts], KeyDigest(spec.key_bits))
    return (keys, (np.array(times) - times[0]) // (10 * MS)) if spec.timed else (keys,)


def expected(path, spec):
    """What the oracle and the model say of a stream."""
    known = operations(path, spec)
    whole = (None, np.full(len(known[0]), spec.window)) if spec.kind == "dictionary" else ()
    model = from_spec(spec)
    codes = np.full(len(known[0]), Operation.CHECK_AND_INSERT)
    return Oracle(spec).check_and_insert(*known, *whole), model, model.perform(codes, *known)


# Figures


@pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)
def test_figures_against_a_plain_count(streams, spec):
    path = streams[spec.timed]
    result = perform(path, spec, engine=engine())
    truth, model, report = expected(path, spec)
    figures = result.figures()
    for name, kind in (("guaranteed", GUARANTEED), ("stale", SLACK), ("fresh", FRESH)):
        assert figures[f"{name}_queries"] == (truth.kind == kind).sum(), name
    assert min(figures["guaranteed_queries"], figures["fresh_queries"]) > 0
    assert (figures["stale_queries"] > 0) == (spec not in (ROOMY, COUNTED, CELLS))
    assert figures["false_positives"] == report.seen[truth.kind == FRESH].sum()
    assert figures["stale_positives"] == report.seen[truth.kind == SLACK].sum()
    assert figures["false_negatives"] == 0
    assert figures["repeats"] == truth.repeat.sum() > 100
    assert figures["repeats_found"] == report.seen[truth.repeat].sum()
    # Not the oracle's: a dictionary of the last places or times.
    window = spec.span if spec.timed else spec.window
    assert figures["repeats"] == repeats_within(path, window, 100)
    assert (figures["operations"], figures["engine"]) == (6000, "rtl")
    assert figures["distinct_keys"] == len(np.unique(operations(path, spec)[0]))
    # One call, which drains the pipeline; some more for times that are far apart.
    assert figures["cycles"] == 6020 or (spec is CELLS and 6020 < figures["cycles"] < 6200)
    assert figures["cycles_per_operation"] == figures["cycles"] / 6000
    assert figures["mismatches"] == figures["memory_mismatches"] == 0
    assert figures["first_mismatch"] is None
    assert result.failures() == []
    if spec.kind == "ring":
        assert figures["shifts"] == model.shifts
        assert figures["false_positives"] > 0
    assert result.series()["distance_unit"] == ("ticks" if spec.timed else "insertions")
    again = truth.elapsed >= 0 if spec.timed else truth.distance > 0
    assert result.distances.sum() == again.sum()
    json.dumps(figures | result.series(), allow_nan=False)
    golden = perform(path, spec, engine="golden").figures()
    for name in ("cycles", "cycles_per_operation", "mismatches"):
        assert golden[name] is None
    assert golden["repeats_found"] == figures["repeats_found"]


@pytest.mark.parametrize("spec", [TIMED, OVERFILLED], ids=["shorten", "overfill"])
def test_figures_of_a_span(timed_stream, spec):
    result = perform(timed_stream, spec, engine=engine())
    truth, model, report = expected(timed_stream, spec)
    figures = result.figures()
    span = figures["span"]
    assert (span["ticks"], span["tick_seconds"], span["seconds"]) == (100, 0.01, 1)
    assert span["when_full"] == spec.when_full
    assert list(span["statuses"].values()) == np.bincount(report.status, minlength=3).tolist()
    assert span["statuses"]["ok"] > 0
    assert span["least_covered_ticks"] == report.covered.min() - 1
    assert (span["shortened"], span["overfilled"]) == (model.shortened, model.overfilled)
    status, counter = (
        ("window shortened", "shortened") if spec == TIMED else ("rate exceeded", "overfilled")
    )
    assert min(span[counter], span["statuses"][status]) > 0
    assert (figures["repeats_found"] < figures["repeats"]) == (spec == TIMED)
    assert (span["late_times"], span["missing_times"], span["status_mismatches"]) == (0, 0, 0)
    assert result.distances[0].sum() == (truth.elapsed == 0).sum() > 0
    assert 101 in {row["from"] for row in result.series()["distances"]}


def test_figures_of_cells(streams):
    figures = perform(streams[0], COUNTED, engine=engine()).figures()
    assert (figures["timing"]["age_mismatches"], figures["span"]) == (0, None)
    fresh = figures["fresh_queries"]
    assert 0.98 * fresh < figures["timing"]["expired"] <= fresh
    assert perform(streams[1], CELLS, engine=engine()).figures()["span"] == {
        "ticks": 30, "tick_seconds": 0.01, "seconds": 0.3, "late_times": 0, "latest_seconds": 0.0,
        "missing_times": 0,
    }  # fmt: skip
    assert perform(streams[0], ROOMY, engine=engine()).figures()["dictionary"] == {
        "lost": 0, "least_guaranteed": 40, "uncertain": 0, "stash_peak": 0, "age_mismatches": 0,
    }  # fmt: skip


def test_entries_that_are_given_up_are_told(stream):
    """No false negative, as the promise goes no further; misses of the window are counted."""
    result = perform(stream, TIGHT, engine=engine())
    figures = result.figures()
    report = figures["dictionary"]
    assert result.failures() == []
    assert min(report["lost"], report["uncertain"]) > 100
    assert report["least_guaranteed"] < 40
    assert report["stash_peak"] == 2
    assert figures["repeats_found"] < figures["repeats"]
    assert figures["stale_queries"] > figures["stale_positives"]
    assert class_rows(result)[SLACK]["meaning"] == "past the window, after entries were given up"


def test_distances_split_at_window_and_slack(stream):
    result = perform(stream, engine="golden")
    window, end = SMALL.guaranteed_window, SMALL.guaranteed_window + SMALL.slack
    bins = result.series()["distances"]
    assert {row["from"] for row in bins} >= {window + 1}
    assert not any(row["not_seen"] for row in bins if row["below"] <= window + 1)
    assert sum(row["seen"] + row["not_seen"] for row in bins if row["from"] > end) >= 10
    for window in (1, 2, 3, 100, 27_490, 10**7):
        shape = {"k": 2, "l": 1, "block_bits": 64, "hashes_per_block": 4, "blocks": 1}
        spec = FilterSpec(family="apbbf", window=window, **shape)
        edges = distance_edges(spec)
        assert edges[0] == 1
        assert (np.diff(edges) > 0).all()
        assert {spec.guaranteed_window + 1, spec.guaranteed_window + spec.slack + 1} <= set(edges)


@pytest.mark.parametrize("spec", [SMALL, TIMED], ids=["ring", "span"])
def test_independent_of_chunks(streams, spec, monkeypatch):
    whole = perform(streams[spec.timed], spec, engine=engine())
    monkeypatch.setattr(run_module, "_CHUNK", 37)
    parts = perform(streams[spec.timed], spec, engine=engine())
    assert parts.series() == whole.series()
    ignored = dict.fromkeys(("seconds", "operations_per_second", "cycles", "cycles_per_operation"))
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
    """They are no keys of the window: of 8 bits, random ones often are."""
    figures = perform(stream, engine="golden").figures()
    low, high = figures["probe_false_positive_interval"]
    print(figures["probe_false_positive_rate"], figures["estimated_false_positive_rate"])
    assert figures["probes"] > 100_000
    assert low <= figures["estimated_false_positive_rate"] <= high
    low, high = figures["false_positive_interval"]
    assert low < figures["false_positive_rate"] < high
    figures = perform(stream, preset("tiny"), engine="golden").figures()
    assert 0 < figures["probes"] < figures["operations"] * run_module.PROBES
    assert figures["distinct_keys"] == 256
    assert figures["colliding_keys"] == len(set(stream.read_text().split())) - 256


def test_limit_progress_and_sink(stream, monkeypatch):
    monkeypatch.setattr(run_module, "_CHUNK", 1000)
    calls, verdicts = [], []

    def progress(result, share):
        calls.append((result.operations, share))
        assert result.repeats == result.reported_repeats > 0
        assert result.checkpoints[-1].operations <= result.operations
        assert result.seconds > 0

    result = perform(stream, engine="golden", limit=2500, progress=progress, sink=verdicts.append)
    assert result.operations == 2500
    assert [done for done, _ in calls] == [1000, 2000, 2500]
    assert [share for _, share in calls] == sorted(share for _, share in calls)
    assert calls[-1][1] == 1
    sizes = [len(part.records) for part in verdicts]
    assert [part.start for part in verdicts] == [*np.cumsum([0, *sizes[:-1]])]
    assert sum(sizes) == 2500
    keys = from_spec(SMALL).key_words([text for part in verdicts for text, _ in part.records])
    seen = np.concatenate([part.results.seen for part in verdicts])
    assert (seen == from_spec(SMALL).check_and_insert(keys)).all()
    assert sum(part.truth.repeat.sum() for part in verdicts) == result.repeats


def test_progress_of_a_pipe(stream, monkeypatch):
    """Nothing is known of its length, so the limit says how far a run is."""
    monkeypatch.setattr(run_module, "_CHUNK", 1000)
    source, sink = os.pipe()
    os.write(sink, stream.read_bytes())
    os.close(sink)
    shares = []
    extra = {"engine": "golden", "limit": 2500, "progress": lambda _, share: shares.append(share)}
    perform(f"/dev/fd/{source}", **extra)
    os.close(source)
    assert shares == [0.4, 0.8, 1]


@pytest.mark.parametrize("key_bits", [5, 64, 100])
def test_key_widths(stream, key_bits):
    result = perform(stream, replace(SMALL, key_bits=key_bits), engine=engine())
    assert result.failures() == []
    assert result.distinct_keys == min(1 << key_bits, len(set(stream.read_text().split())))


@pytest.mark.parametrize("name", daily(1, ["default", "apbf-default", "gebf-default"]))
def test_real_stream(name):
    path = EXAMPLES / "flights_2013.csv.gz"
    result = perform(path, preset(name), engine="golden", limit=20_000)
    assert result.failures() == []
    assert result.repeats > 15_000


@pytest.mark.slow
@pytest.mark.parametrize("when_full", ["shorten", "overfill"])
def test_real_stream_in_time(when_full):
    spec = replace(preset("small"), span=1441, when_full=when_full)
    path = EXAMPLES / "flights_2013.csv.gz"
    result = perform(path, spec, engine="golden", tick=60_000 * MS, limit=40_000)
    assert result.failures() == []
    assert result.reported_repeats == result.repeats > 10_000


# Edges of windows


@pytest.mark.parametrize("when_full", ["shorten", "overfill"])
@pytest.mark.parametrize(("after", "kind"), [(0.999, 0), (1.0, 0), (1.01, 0), (1.02, 2)])
def test_a_key_at_the_edge_of_the_span(tmp_path, when_full, after, kind):
    path = tmp_path / "keys.csv"
    # 101 ticks of 10 ms; the first begins with the first key.
    path.write_text(f"time,key\n5,a\n{5 + after},a\n")
    spec = replace(SMALL, span=101, when_full=when_full)
    counts = perform(path, spec, engine=engine()).counts
    assert counts[kind].sum() == 1 + (kind == FRESH)
    assert counts[GUARANTEED, 1] == (kind == GUARANTEED)


@pytest.mark.parametrize(
    ("spec", "between", "kind"),
    [(COUNTED, 39, GUARANTEED), (COUNTED, 40, FRESH), (BLOCKS, 39, GUARANTEED), (BLOCKS, 40, SLACK),
     (BLOCKS, 46, SLACK), (BLOCKS, 47, FRESH), (ROOMY, 39, GUARANTEED), (ROOMY, 40, FRESH)],
)  # fmt: skip
def test_oracle_by_insertions(spec, between, kind):
    """The key is the first of a block, which it leaves up to 7 insertions late, or none."""
    keys = np.array([7, *range(100, 100 + between), 7], np.uint64)
    whole = (None, np.full(len(keys), 40)) if spec is ROOMY else ()
    truth = Oracle(spec).check_and_insert(keys, *whole)
    assert (truth.kind[-1], truth.distance[-1]) == (kind, between + 1)
    assert truth.repeat[-1] == (kind == GUARANTEED)
    assert (truth.kind[:-1] == FRESH).all()
    report = from_spec(spec).perform(np.full(len(keys), 3), keys)
    assert report.seen[-1] == (kind != FRESH)
    assert truth.age[-1] == (between + 1) // getattr(spec, "block", 1)


@pytest.mark.parametrize(("distance", "kind"), [(12, GUARANTEED), (13, SLACK)])
def test_what_was_given_up_may_be_missed(distance, kind):
    keys = np.array([7, *range(100, 99 + distance), 7], np.uint64)
    truth = Oracle(ROOMY).check_and_insert(keys, None, np.full(len(keys), 12))
    assert truth.kind[-1] == kind


@pytest.mark.parametrize(
    ("period", "after", "kind"),
    [(1, 30, GUARANTEED), (1, 31, FRESH), (5, 30, GUARANTEED), (5, 34, SLACK), (5, 35, FRESH)],
)
def test_oracle_by_time(period, after, kind):
    keys, times = np.array([7, 9, 7], np.uint64), np.array([100, 105, 100 + after])
    spec = replace(CELLS, period=period)
    oracle = Oracle(spec)
    truth = oracle.check_and_insert(keys, times)
    assert (truth.kind[-1], truth.elapsed[-1], truth.distance[-1]) == (kind, after, 2)
    report = from_spec(spec).perform(np.full(3, 3), keys, times)
    assert report.seen[-1] == (kind != FRESH)
    assert oracle.traceless(np.array([7, 8], np.uint64)).tolist() == [False, True]
    assert oracle.present == (100 + after,)


@pytest.mark.usefixtures("undrawn")
def test_times_that_go_back_or_are_missing(tmp_path):
    path = tmp_path / "keys.csv"
    path.write_text("time,key\n,a\n2,a\n1.5,b\n2.2,b\n,c\n2.1,c\n")
    result = perform(path, TIMED, engine=engine())
    span = result.figures()["span"]
    assert (span["late_times"], span["latest_seconds"], span["missing_times"]) == (2, 0.5, 2)
    # All come at the latest time: b after 0.2 s, c and a at once.
    assert [bin["from"] for bin in result.series()["distances"]] == [0, 19]
    assert "2 times before the latest, by 500 ms at most, and 2 keys without a time" in html(result)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("spec", [COUNTED, CELLS, ROOMY], ids=["counted", "timed", "dictionary"])
def test_query_window(streams, spec):
    """The window of the queries is judged, and the rate is predicted for it."""
    path, window = streams[spec.timed], 4 if spec.timed else 7
    whole = perform(path, spec, engine=engine()).figures()
    result = perform(path, spec, engine=engine(), query_window=window)
    figures = result.figures()
    assert result.failures() == []
    near = repeats_within(path, window, 100)
    assert figures["guaranteed_queries"] == figures["repeats_found"] == near > 20
    assert figures["query_window"] == window
    assert figures["timing"] == whole["timing"]
    page = html(result)
    if spec.timed:
        assert figures["span"]["seconds"] == 0.04
        assert '<td>query window</td><td class="left">4 ticks</td>' in page
    else:
        assert figures["spec"]["window"] == 40
        for name in ("predicted_false_positive_rate", "estimated_false_positive_rate"):
            assert figures[name] < whole[name] / (20 if spec is COUNTED else 4)
        assert figures["probe_false_positives"] <= whole["probe_false_positives"]
        assert "in the last 7<" in page


# Faults


DIFFER = "RTL and golden model differ in"
ANSWERS = "of 1 results; the first is at operation"
COUNTER = r"counter {} is \d+ in the RTL, but \d+ in the golden model"
KEPT, STAMPS = ROOMY, COUNTED
FAULTS = [
    (SMALL, {"cells": [(0, 1, 2), (3, 0, 7)]},
     ["RTL and golden model differ in 2 bits of memory"]),
    *((TIMED, {"counters": {name: 1}}, [COUNTER.format(name)])
      for name in ("operations", "insertions", "hits", "shifts", "shortened", "overfilled")),
    (TIMED, {"status": [70, 4000], "seen": [71], "cells": [(0, 1, 2)]},
     ["RTL and golden model differ in 1 verdicts; the first is at operation 71.*",
      "RTL and golden model differ in the statuses of 2 results; the first is at operation 70",
      "RTL and golden model differ in 1 bits of memory"]),
    *((KEPT, {field: [17]}, [f"{DIFFER} the ages and statuses {ANSWERS} 17"])
      for field in ("age", "status")),
    *((STAMPS, {field: [17]}, [f"{DIFFER} the ages and oldest cells {ANSWERS} 17"])
      for field in ("age", "oldest")),
    *((spec, {"cells": [cell]}, ["RTL and golden model differ in 1 cells of memory"])
      for spec, cell in ((KEPT, (0, 1, 3)), (STAMPS, (1, 3)))),
    *((spec, {"counters": {"hits": 2}}, [COUNTER.format("hits")]) for spec in (KEPT, STAMPS)),
]  # fmt: skip
"""Filters, faults of their hardware, and the failures that are reported."""


def test_each_fault_is_told(streams):
    for spec, faults, patterns in FAULTS:
        failures = perform(streams[spec.timed], spec, engine=engine(**faults)).failures()
        assert len(failures) == len(patterns), (spec, faults, failures)
        for pattern, failure in zip(patterns, failures, strict=True):
            assert re.fullmatch(pattern, failure), (spec, faults)


def test_hardware_that_differs(stream):
    lines = stream.read_text().split()
    result = perform(stream, engine=engine(seen=[4321, 5000]))
    assert result.mismatches == 2
    first = result.first_mismatch
    assert (first.index, first.text) == (4321, lines[4321])
    assert first.key == int(from_spec(SMALL).key_words(lines[4321])[0])
    assert first.rtl is not first.golden
    text = r"RTL and golden model differ in 2 verdicts; the first is at operation 4321, key '\d+' "
    assert re.match(text, result.failures()[0])


@pytest.mark.parametrize("spec", [SMALL, TIMED, ROOMY, COUNTED], ids=lambda spec: spec.family)
def test_false_negative_fails(streams, spec):
    path = streams[spec.timed]
    missed = int(np.flatnonzero(expected(path, spec)[0].kind == GUARANTEED)[-7])
    result = perform(path, spec, engine=engine(seen=[missed]))
    assert result.false_negatives == 1
    assert result.reported_repeats == perform(path, spec, engine="golden").reported_repeats - 1
    assert "1 keys within the guaranteed window were not reported" in result.failures()


# Secrets and tables


KEYED = [replace(SMALL, hash="siphash"), replace(any_preset("timed-tiny"), hash="siphash"),
         replace(any_preset("dictionary-tiny"), hash="siphash")]  # fmt: skip
SECRET = 0x00112233445566778899AABBCCDDEEFF


@pytest.mark.parametrize("spec", KEYED, ids=["ring", "span", "dictionary"])
def test_keys_are_hashed_under_the_secret(timed_stream, spec):
    """That which is given; else one of the system's generator, not that of a filter after reset."""
    verdicts = []
    for secret in (SECRET, SECRET, SECRET + 1, None, None):
        report = []
        perform(timed_stream, spec, engine="golden", secret=secret,
                sink=lambda part, report=report: report.extend(part.results.seen))  # fmt: skip
        verdicts.append(report)
    first, same, *others = verdicts
    assert first == same
    model = from_spec(spec)
    model.rekey(SECRET)
    model.clear()
    codes = np.full(len(first), Operation.CHECK_AND_INSERT)
    assert first == list(model.perform(codes, *operations(timed_stream, spec)).seen)
    assert all(first != other for other in others)
    assert len({tuple(other) for other in others}) == 3


def table_of(spec, minimum):
    """The same threshold everywhere, but for another in the last class."""
    thresholds = np.full(spec.table_shape, minimum, np.uint8)
    thresholds[-1] = spec.hashes + 1
    return DecisionTable(thresholds, spec.hashes, spec.block_units, spec.phase_bits)


DECIDED = [replace(BLOCKS, cells=64, classes=2, phase_bits=1), replace(CELLS, cells=64, classes=2)]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("spec", DECIDED, ids=["counted", "timed"])
def test_table_answers(streams, spec):
    """By its class, and what it misses is told but fails nothing."""
    path = streams[spec.timed]
    asked = partial(perform, path, spec, table=table_of(spec, 2))
    result, none = asked(engine=engine()), asked(engine=engine(), query_class=1)
    assert result.failures() == none.failures() == []
    assert 0 < result.false_negatives < none.false_negatives == int(none.counts[GUARANTEED].sum())
    figures = result.figures()
    low, high = figures["probe_false_positive_interval"]
    assert (
        low
        <= np.mean([entry.estimated_false_positive_rate for entry in result.checkpoints])
        <= high
    )
    assert figures["predicted_false_positive_rate"] is None
    assert none.figures()["probe_false_positive_rate"] == 0
    assert "in the window that the table reports" in html(result)
    assert len(asked(engine=engine(seen=[5])).failures()) == 1


# What cannot be run


TWO = replace(COUNTED, classes=2)
WRONG = [
    (SMALL, {"limit": 0}, "limit: must be at least 1, not 0"),
    (SMALL, {"engine": "fpga"}, "engine: must be one of rtl, golden, not 'fpga'"),
    (FilterSpec(family="apbf", k=3, l=2, slice_bits=100), {"engine": "rtl"},
     "apbf: block and part sizes must be powers of two in hardware, not 100"),
    (replace(ROOMY, window=8), {"engine": "rtl"}, "window: must be at least 16 in hardware"),
    (TIMED, {"tick": None}, "tick: must be at least 1 ns for a span, not None$"),
    (TIMED, {"tick": 0}, "tick: must be at least 1 ns for a span, not 0$"),
    (SMALL, {"tick": 5}, "tick: the filter's window counts insertions, not time$"),
    *((any_preset(name), {"secret": SECRET},
       "secret: the filter uses no secret; its hash is not siphash$")
      for name in ("tiny", "timing-counted-tiny")),
    (COUNTED, {"table": 2}, "table: the filter has no classes$"),
    (TWO, {}, "the filter has 2 classes and needs a table$"),
    (TWO, {"table": 1, "query_window": 20},
     "query_window: queries of this filter have a class, not a window$"),
    (TWO, {"table": 1, "query_class": 2}, "query_class: must be below 2, not 2$"),
    (replace(COUNTED, classes=1), {"table": 1},
     r"table: shape must be \(1, 42, 1\) for this filter, not \(2, 42, 1\)$"),
    (replace(TWO, hashes=2), {"table": 1}, "table: hashes must be 2 for this filter, not 3$"),
    (replace(TWO, block=2, phase_bits=1), {"table": 1},
     "table: bits must be 1 for this filter, not 0$"),
]  # fmt: skip


def test_wrong_options(streams):
    for spec, options, message in WRONG:
        table = {"table": table_of(TWO, 1)} if "table" in options else {}
        with pytest.raises(ValueError, match=f"^{message}") as caught:
            perform(streams[spec.timed], spec, **{"engine": "golden"} | options | table)
        assert isinstance(caught.value, SpecificationError) or "limit" in options or (
            "engine" in options
        )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "spec", "message"),
    [
        ("\n", SMALL, "no text lines"),
        ("a\nb\n", TIMED, r"span: .* has no times, only keys$"),
        ("key,n\na,1\n", TIMED, r"span: .* has no time column; select it with --time$"),
        ("key,time\na,\n", TIMED, r"span: needs times, but column 'time' of .* has none$"),
        ("key,time\na,soon\n", TIMED, r".*; 1 lines were rejected \(line 2: not a time: 'soon'\)$"),
    ],
)
def test_wrong_stream(tmp_path, content, spec, message):
    (tmp_path / "keys").write_text(content)
    with pytest.raises(TraceError, match=message):
        perform(tmp_path / "keys", spec, engine="golden")


# The hardware


@pytest.mark.rtl
@pytest.mark.slow
def test_sample_through_the_hardware():
    path = EXAMPLES / "flights_2013.csv.gz"
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


# Compiled once for this test and those of the soak.
SPAN = FilterSpec(family="apbbf", k=2, l=2, block_bits=8, hashes_per_block=2, blocks=16, key_bits=8,
                  clear=8, span=60)  # fmt: skip
ECP5 = {"engine": partial(compiled_unit, memory="ecp5", optimisation=0)}


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("spec", "options"),
    [(preset("siphash-tiny"), {"limit": 2000}), (any_preset("dictionary-tiny"), {}),
     (any_preset("timing-tiny"), ECP5), (SPAN, {}),
     *(pytest.param(spec, options, marks=pytest.mark.slow) for spec, options in (
         (any_preset("timing-counted-tiny"), ECP5),
         (replace(SPAN, when_full="overfill"), {})))],
    ids=["siphash", "dictionary", "timing", "span", "timing-counted", "overfill"],
)  # fmt: skip
def test_through_the_hardware(streams, spec, options):
    result = perform(streams[spec.timed], spec, **options)
    figures = result.figures()
    assert result.failures() == []
    assert figures["mismatches"] == figures["memory_mismatches"] == 0
    assert figures["counter_mismatches"] == {}
    assert figures["false_negatives"] == 0 < figures["guaranteed_queries"]
    if spec.kind == "dictionary":
        assert result.counters["lost"] > 0
    elif spec.kind == "timing":
        assert result.expired > 1000
        assert result.reported_repeats == result.repeats > 100
    elif spec.timed:
        span = figures["span"]
        assert (span["status_mismatches"], min(span["statuses"].values())) == (0, 0)
        assert span["shortened" if spec.when_full == "shorten" else "overfilled"] > 0


@pytest.mark.parametrize("spec", [SMALL, TIMED], ids=["ring", "span"])
def test_models_of_streams_in_time_are_always_optimised(streams, spec, monkeypatch):
    levels = []

    @contextmanager
    def compiled(spec, *, optimisation):
        levels.append(optimisation)
        with engine()(spec) as unit:
            yield unit

    monkeypatch.setattr("lately.sim.compiled_unit", compiled)
    perform(streams[spec.timed], spec)
    assert levels == [3 if spec.timed else 0]


class Read(NamedTuple):
    """A stream of which so much has been read."""

    fraction: float | None


def test_short_streams():
    for fraction, count, limit, short in (
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
    ):
        assert run_module._is_short(Read(fraction), count, limit) == short, (fraction, count, limit)


# Report


REPORTS = {
    "ring": (SMALL, ["RTL and golden model agree on every verdict"]),
    "span": (TIMED, ["agree on every verdict and status", "ticks of 10 ms since the key was last",
                     "<dt>span</dt><dd>1 s<small>100 ticks of 10 ms</small>",
                     "<dt>answers with a shortened window</dt>"]),
    "overfilled span": (OVERFILLED, ["<dt>answers with too many keys</dt>"]),
    "dictionary": (ROOMY, ["ages or statuses that differ",
                           "40 insertions unless an entry is given up, and no slack"]),
    "tight": (TIGHT, ["ages or statuses that differ", "windows of at least"]),
    "blocks": (BLOCKS, ["ages or numbers of cells that differ", "keys with an expired cell",
                        "40 insertions, then 7 of slack"]),
    "timed": (CELLS, ["ages or numbers of cells that differ", "keys with an expired cell",
                      "Fill ratios per part"]),
}  # fmt: skip
ONLY = {"<dt>answers with a shortened window</dt>", "<dt>answers with too many keys</dt>",
        "windows of at least", "40 insertions, then 7 of slack"}  # fmt: skip
"""Texts that no other report has."""


@pytest.mark.parametrize("name", REPORTS)
def test_report(streams, name, request):
    spec, texts = REPORTS[name]
    drawn = name in ("span", "timed")
    if not drawn:
        request.getfixturevalue("undrawn")
    result = perform(streams[spec.timed], spec, engine=engine())
    page = html(result)
    assert [text for text in texts if text not in page] == []
    assert [text for text in ONLY if text in page] == [text for text in ONLY if text in texts]
    assert ("shifts" in page) == (spec.kind == "ring")
    # Self-contained, in the page's own colours, or the plots would be black on black at night.
    assert page.count("<svg") == 3 * drawn
    assert not re.search(r'(src|href)="(?!#)|@import|url\((?!#)', page)
    assert not drawn or not re.search(r"#(0072b2|1c2430)", page[page.index("<svg") :])
    if spec.kind == "timing":
        assert class_rows(result)[SLACK]["meaning"] == "past the window, a trace may be left"


@pytest.mark.usefixtures("undrawn")
def test_report_says_what_failed_and_escapes_names(tmp_path):
    path = tmp_path / "<b>keys"
    path.write_text("a\n" * 20)
    page = html(perform(path, engine=engine(seen=[10])))
    assert 'class="state bad">RTL and golden model differ in 1 verdicts' in page
    assert "<b>keys" not in page
    assert "&lt;b&gt;keys" in page


def test_pictures(stream, tmp_path):
    result = perform(stream, ROOMY, engine="golden")
    for ending, head in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        picture(result, tmp_path / f"picture.{ending}")
        assert (tmp_path / f"picture.{ending}").read_bytes().startswith(head)
    with pytest.raises(ValueError, match=r"path: must end in .png or .svg, not 'x.bmp'"):
        picture(result, "x.bmp")


def test_short_run_has_a_report_and_rates_of_nothing_are_none(tmp_path):
    path = tmp_path / "keys"
    path.write_text("a\n")
    result = perform(path, preset("tiny"), engine="golden")
    figures = result.figures()
    assert figures["stale_positive_rate"] is figures["stale_positive_interval"] is None
    assert figures["false_positive_rate"] == 0
    html(result)
    picture(result, tmp_path / "p.png")
    rates = {None: "\N{EN DASH}", 0: "0%", 0.0227: "2.27%", 1: "100%", 3e-6: "3.0e-04%"}
    assert {rate: rate_text(rate) for rate in rates} == rates


# The command


def command(*words):
    done = CliRunner().invoke(main, ["run", *map(str, words), "--engine", "golden"])
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


def test_command(streams, tmp_path):
    """Lines of the table for each kind, and what a file of a filter and its options mean."""
    for name, text in (("dictionary-tiny", "entries given up"), ("timing-counted-tiny", "expired")):
        shown = command(streams[0], "--preset", name)
        assert text in shown
        assert "shifts" not in shown
    spec = tmp_path / "filter.toml"
    ROOMY.to_toml(spec)
    figures = json.loads(command(streams[0], "--spec", spec, "--json"))
    assert (figures["spec"], figures["dictionary"]["lost"]) == (ROOMY.to_dict(), 0)
    CELLS.to_toml(spec)
    figures = json.loads(command(streams[1], "--spec", spec, "--span", "29s", "--json"))
    assert figures["spec"] == CELLS.to_dict()
    # The least tick of which 30 are enough.
    assert figures["span"]["tick_seconds"] == pytest.approx(29 / 30, abs=1e-8)
    assert figures["false_negatives"] == 0
    # 5 s are as many as floor(5 / (29 / 30)) + 1 ticks.
    window = ("--spec", spec, "--span", "29s", "--query-window", "5s")
    figures = json.loads(command(streams[1], *window, "--json"))
    assert figures["query_window"] == figures["span"]["ticks"] == 6
    TWO.to_toml(spec)
    table_of(TWO, 1).save(tmp_path / "table.json")
    words = (streams[0], "--spec", spec, "--table", tmp_path / "table.json")
    assert json.loads(command(*words, "--query-class", 1, "--json"))["repeats_found"] == 0
    assert "in the window that the table reports" in command(*words)
