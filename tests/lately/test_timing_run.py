"""Runs of timing filters: the exact oracle at its edges, windows in time, and faults."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from cases import daily
from click.testing import CliRunner
from run_unit import engine, repeats_within

from lately.cli.app import main
from lately.golden import (
    DecisionTable,
    PartitionedTimingSpec,
    SpecificationError,
    TimedTimingSpec,
    WindowDictionarySpec,
    from_spec,
    timing_preset,
)
from lately.replay.oracle import FRESH, GUARANTEED, SLACK, Oracle
from lately.replay.report import class_rows, html
from lately.replay.run import RunOptions, run
from lately.replay.traces import open_trace
from lately.sim import compiled_unit

COUNTED = PartitionedTimingSpec(window=40, hashes=3, cells=512)
TIMED = TimedTimingSpec(span=30, hashes=3, cells=512)
SECOND = 10**9


def drawn(count=3000, some=60):
    """Keys of which about half are repeats, some far apart."""
    random = np.random.default_rng(3)
    few = random.integers(0, some, count)
    return np.where(random.random(count) < 0.5, few, np.arange(count) + some)


@pytest.fixture
def stream(tmp_path):
    path = tmp_path / "keys"
    path.write_text("".join(f"{key}\n" for key in drawn()))
    return path


@pytest.fixture
def timed_stream(tmp_path):
    """With a few operations a second, and pauses of about the span."""
    random = np.random.default_rng(4)
    gaps = random.choice([0, 0.25, 1, 29, 31], 3000, p=[0.5, 0.38, 0.1, 0.01, 0.01])
    path = tmp_path / "keys.csv"
    rows = zip(1e9 + np.cumsum(gaps), drawn(), strict=True)
    path.write_text("time,key\n" + "".join(f"{time:.2f},{key}\n" for time, key in rows))
    return path


def perform(path, spec=COUNTED, progress=None, sink=None, **how):
    trace = {"key": "key", "time": "time"} if path.suffix == ".csv" else {}
    with open_trace(path, **trace) as records:
        return run(records, spec, RunOptions(**how), progress=progress, sink=sink)


@pytest.mark.parametrize(
    ("block", "between", "kind"),
    [(1, 39, GUARANTEED), (1, 40, FRESH), (8, 39, GUARANTEED), (8, 40, SLACK), (8, 46, SLACK),
     (8, 47, FRESH)],
)  # fmt: skip
def test_oracle_by_insertions(block, between, kind):
    """The key is the first of a block, which it leaves up to 7 insertions late, or none."""
    keys = np.array([7, *range(100, 100 + between), 7], np.uint64)
    spec = replace(COUNTED, block=block)
    truth = Oracle(spec).check_and_insert(keys)
    assert (truth.kind[-1], truth.distance[-1]) == (kind, between + 1)
    assert truth.repeat[-1] == (kind == GUARANTEED)
    assert (truth.kind[:-1] == FRESH).all()
    told = from_spec(spec).perform(np.full(len(keys), 3), keys)
    assert told.seen[-1] == (kind != FRESH)
    assert truth.age[-1] == (between + 1) // block


@pytest.mark.parametrize(
    ("period", "after", "kind"),
    [(1, 30, GUARANTEED), (1, 31, FRESH), (5, 30, GUARANTEED), (5, 34, SLACK), (5, 35, FRESH)],
)
def test_oracle_by_time(period, after, kind):
    keys, times = np.array([7, 9, 7], np.uint64), np.array([100, 105, 100 + after])
    spec = replace(TIMED, period=period)
    oracle = Oracle(spec)
    truth = oracle.check_and_insert(keys, times)
    assert (truth.kind[-1], truth.elapsed[-1], truth.distance[-1]) == (kind, after, 2)
    told = from_spec(spec).perform(np.full(3, 3), keys, times)
    assert told.seen[-1] == (kind != FRESH)
    assert oracle.traceless(np.array([7, 8], np.uint64)).tolist() == [False, True]
    assert oracle.present == (100 + after,)


def test_figures_against_an_exact_list(stream):
    result = perform(stream, engine=engine())
    figures = result.figures()
    near = repeats_within(stream, 40)
    assert figures["guaranteed_queries"] == figures["repeats_found"] == near > 400
    assert figures["stale_queries"] == figures["false_negatives"] == 0
    assert figures["fresh_queries"] == 3000 - near
    assert figures["timing"]["age_mismatches"] == figures["memory_mismatches"] == 0
    assert 3000 - near - 20 < figures["timing"]["expired"] <= 3000 - near
    assert (figures["cycles"], figures["span"]) == (3020, None)
    assert result.failures() == []
    json.dumps(figures | result.series(), allow_nan=False)


def test_times_of_the_stream(timed_stream):
    result = perform(timed_stream, TIMED, engine=engine(), tick=SECOND)
    figures = result.figures()
    near = repeats_within(timed_stream, 30)
    assert figures["guaranteed_queries"] == figures["repeats_found"] == near > 400
    assert figures["span"] == {
        "ticks": 30, "tick_seconds": 1.0, "seconds": 30.0, "late_times": 0, "latest_seconds": 0.0,
        "missing_times": 0,
    }  # fmt: skip
    assert result.failures() == []
    assert result.series()["distance_unit"] == "ticks"


@pytest.mark.parametrize(
    "spec", daily(1, [COUNTED, WindowDictionarySpec(window=40, columns=4, rows=64, digest_bits=12)])
)
def test_query_window_by_insertions(stream, spec):
    """The window of the queries is judged, and the rate is predicted for it."""
    whole = perform(stream, spec, engine=engine()).figures()
    result = perform(stream, spec, engine=engine(), query_window=7)
    figures = result.figures()
    near = repeats_within(stream, 7)
    assert result.failures() == []
    assert figures["guaranteed_queries"] == figures["repeats_found"] == near > 60
    assert figures["query_window"] == 7
    assert figures["spec"]["window"] == 40
    for name in ("predicted_false_positive_rate", "estimated_false_positive_rate"):
        assert figures[name] < whole[name] / (20 if spec == COUNTED else 4)
    assert figures["probe_false_positives"] < whole["probe_false_positives"]
    assert figures["timing"] == whole["timing"]
    assert "in the last 7<" in html(result)


def test_query_window_by_time(timed_stream):
    result = perform(timed_stream, TIMED, engine=engine(), tick=SECOND, query_window=4)
    figures = result.figures()
    near = repeats_within(timed_stream, 4)
    assert result.failures() == []
    assert figures["guaranteed_queries"] == figures["repeats_found"] == near > 60
    assert figures["span"]["seconds"] == 4
    assert '<td>window of queries</td><td class="left">4 ticks</td>' in html(result)


@pytest.mark.slow
def test_report(stream, timed_stream):
    blocks = replace(COUNTED, block=8)
    for path, spec, tick in ((stream, blocks, None), (timed_stream, TIMED, SECOND)):
        result = perform(path, spec, engine=engine(), tick=tick)
        page = html(result)
        assert "ages or numbers of cells that differ" in page
        assert "keys with an expired cell" in page
        assert "Fill ratios per part" in page
        assert "shifts" not in page
        assert ("40 insertions, then 7 of slack" in page) == (spec is blocks)
        assert class_rows(result)[SLACK]["meaning"] == "past it, a trace may be left"


def test_command(stream, timed_stream, tmp_path):
    arguments = ["run", str(stream), "--engine", "golden", "--preset"]
    result = CliRunner().invoke(main, [*arguments, "timing-counted-tiny"])
    assert result.exit_code == 0, result.output
    assert "expired cells" in result.stdout
    assert "shifts" not in result.stdout
    path = tmp_path / "filter.toml"
    TIMED.to_toml(path)
    arguments = ["run", str(timed_stream), "--key", "key", "--time", "time", "--engine", "golden"]
    result = CliRunner().invoke(main, [*arguments, "--spec", str(path), "--span", "29s", "--json"])
    figures = json.loads(result.stdout)
    assert figures["spec"] == TIMED.to_dict()
    # The least tick of which 30 are enough.
    assert figures["span"]["tick_seconds"] == pytest.approx(29 / 30, abs=1e-8)
    assert figures["false_negatives"] == 0
    # 5 s are as many as floor(5 / (29 / 30)) + 1 ticks.
    arguments += ["--spec", str(path), "--span", "29s", "--query-window", "5s", "--json"]
    figures = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert figures["query_window"] == figures["span"]["ticks"] == 6


@pytest.mark.rtl
@pytest.mark.parametrize("name", daily(1, ["tiny", "counted-tiny"]))
def test_compiled(name, stream, timed_stream):
    compiled = partial(compiled_unit, memory="ecp5", optimisation=0)
    path, tick = (stream, None) if name == "counted-tiny" else (timed_stream, SECOND)
    result = perform(path, timing_preset(name), engine=compiled, tick=tick)
    assert result.failures() == []
    assert result.reported.expired > 1000
    assert result.repeats_found == result.repeats > 200


# Answers by tables of thresholds


def table_of(spec, least):
    """The same threshold everywhere, but for another in the last class."""
    thresholds = np.full(spec.table_shape, least, np.uint8)
    thresholds[-1] = spec.hashes + 1
    return DecisionTable(thresholds, spec.hashes, spec.block_units, spec.phase_bits)


@pytest.mark.parametrize(
    "spec", daily(1, [replace(COUNTED, cells=64, block=8, classes=2, phase_bits=1),
                      replace(TIMED, cells=64, classes=2)]), ids=["counted", "timed"]
)  # fmt: skip
def test_table_answers(spec, stream, timed_stream):
    """By its class, and what it misses is told but fails nothing."""
    path, tick = (timed_stream, {"tick": SECOND}) if spec.timed else (stream, {})
    asked = partial(perform, path, spec, engine=engine(), table=table_of(spec, 2), **tick)
    result, none = asked(), asked(query_class=1)
    assert result.failures() == none.failures() == []
    assert 0 < result.false_negatives < none.false_negatives == int(none.counts[GUARANTEED].sum())
    figures = result.figures()
    low, high = figures["probe_false_positive_interval"]
    assert low <= np.mean([one.estimated_false_positive_rate for one in result.checkpoints]) <= high
    assert figures["predicted_false_positive_rate"] is None
    assert none.figures()["probe_false_positive_rate"] == 0
    assert "in the window, where the table decides so" in html(result)
    faulty = perform(path, spec, engine=engine(seen=[5]), table=table_of(spec, 2), **tick)
    assert len(faulty.failures()) == 1


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (COUNTED, {"table": 2}, "table: must not be given for a filter without classes"),
        (replace(COUNTED, classes=2), {},
         "table: must be given for a filter whose classes are 2"),
        (replace(COUNTED, classes=2), {"table": 1, "query_window": 20},
         "query_window: must not be given for a filter whose queries have classes, not 20"),
        (replace(COUNTED, classes=2), {"table": 1, "query_class": 2},
         "query_class: must be below 2, not 2"),
        (replace(COUNTED, classes=1), {"table": 1},
         r"table: must have shape \(1, 42, 1\) for this filter, not \(2, 42, 1\)"),
        (replace(COUNTED, classes=2, hashes=2), {"table": 1},
         "table: must have hashes 2 for this filter, not 3"),
        (replace(COUNTED, classes=2, block=2, phase_bits=1), {"table": 1},
         "table: must have digits 1 for this filter, not 0"),
    ],
)  # fmt: skip
def test_table_wrong(spec, options, message, stream):
    if "table" in options:
        options = options | {"table": table_of(replace(COUNTED, classes=2), 1)}
    with pytest.raises(SpecificationError, match=f"^{message}$"):
        perform(stream, spec, engine="golden", **options)


def test_command_with_a_table(stream, tmp_path):
    spec = replace(COUNTED, classes=2)
    spec.to_toml(tmp_path / "spec.toml")
    table_of(spec, 1).save(tmp_path / "table.json")
    arguments = ["run", str(stream), "--spec", str(tmp_path / "spec.toml"), "--engine", "golden"]
    table = ["--table", str(tmp_path / "table.json")]
    result = CliRunner().invoke(main, [*arguments, *table, "--query-class", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["repeats_found"] == 0
    told = CliRunner().invoke(main, [*arguments, *table])
    assert "in the window, where the table decides so" in " ".join(told.stdout.split())
