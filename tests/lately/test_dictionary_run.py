"""Runs of a dictionary: the exact oracle at its edges, entries given up, and faults."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from run_unit import engine, repeats_within

from lately.cli.app import main
from lately.golden import SpecificationError, WindowDictionarySpec, dictionary_preset, from_spec
from lately.replay.oracle import FRESH, GUARANTEED, SLACK, Oracle
from lately.replay.plots import picture
from lately.replay.report import class_rows, html
from lately.replay.run import RunOptions, run
from lately.replay.traces import open_trace

ROOMY = WindowDictionarySpec(window=40, columns=4, rows=64, digest_bits=30)
TIGHT = replace(ROOMY, columns=1, rows=16, stash=2)


@pytest.fixture
def stream(tmp_path):
    """Lines of keys of which about half are repeats, some far apart."""
    random = np.random.default_rng(3)
    keys = np.where(random.random(3000) < 0.5, random.integers(0, 60, 3000), np.arange(3000) + 60)
    path = tmp_path / "keys"
    path.write_text("".join(f"{key}\n" for key in keys))
    return path


def perform(path, spec=ROOMY, progress=None, sink=None, **how):
    with open_trace(path) as trace:
        return run(trace, spec, RunOptions(**how), progress=progress, sink=sink)


@pytest.mark.parametrize(("between", "kind"), [(39, GUARANTEED), (40, FRESH)])
def test_no_slack(between, kind):
    """A key is guaranteed n - 1 insertions after its own, and fresh n after."""
    keys = np.array([7, *range(100, 100 + between), 7], np.uint64)
    truth = Oracle(ROOMY).check_and_insert(keys, None, np.full(len(keys), 40))
    assert truth.kind[-1] == kind
    assert truth.repeat[-1] == (kind == GUARANTEED)
    assert (truth.distance[-1], truth.age[-1]) == (between + 1, between + 1)
    told = from_spec(ROOMY).perform(np.full(len(keys), 3), keys)
    assert told.seen[-1] == (kind == GUARANTEED)


@pytest.mark.parametrize(("distance", "kind"), [(12, GUARANTEED), (13, SLACK)])
def test_what_was_given_up_may_be_missed(distance, kind):
    keys = np.array([7, *range(100, 99 + distance), 7], np.uint64)
    truth = Oracle(ROOMY).check_and_insert(keys, None, np.full(len(keys), 12))
    assert truth.kind[-1] == kind


def test_figures_against_an_exact_list(stream):
    result = perform(stream, engine=engine())
    figures = result.figures()
    near = repeats_within(stream, 40)
    assert figures["guaranteed_queries"] == figures["repeats_found"] == near > 400
    assert figures["stale_queries"] == figures["false_negatives"] == 0
    assert figures["fresh_queries"] == 3000 - near
    assert figures["dictionary"] == {
        "lost": 0, "least_guaranteed": 40, "uncertain": 0, "stash_peak": 0, "age_mismatches": 0,
    }  # fmt: skip
    assert figures["memory_mismatches"] == figures["mismatches"] == 0
    assert figures["cycles"] == 3020
    assert result.failures() == []
    json.dumps(figures | result.series(), allow_nan=False)


def test_entries_that_are_given_up_are_told(stream):
    """No false negative, as the promise goes no further; misses of the window are counted."""
    result = perform(stream, TIGHT, engine=engine())
    figures = result.figures()
    told = figures["dictionary"]
    assert result.failures() == []
    assert told["lost"] > 100
    assert told["least_guaranteed"] < 40
    assert told["uncertain"] > 100
    assert told["stash_peak"] == 2
    assert figures["repeats_found"] < figures["repeats"]
    assert figures["stale_queries"] > figures["stale_positives"]
    assert class_rows(result)[SLACK]["meaning"] == "past it, after entries were given up"


def test_missing_key_is_a_false_negative(stream):
    result = perform(stream, engine=engine(seen=range(0, 3000, 3)))
    assert any("false negatives: must be 0, not " in failure for failure in result.failures())


def test_report(stream, tmp_path):
    for spec in (ROOMY, TIGHT):
        result = perform(stream, spec, engine=engine())
        page = html(result)
        assert "ages or statuses that differ" in page
        assert "40 insertions unless an entry is given up, and no slack" in page
        assert "shifts" not in page
        assert ("windows of at least" in page) == (spec is TIGHT)
    picture(result, tmp_path / "report.png")


def test_command(stream, tmp_path):
    arguments = ["run", str(stream), "--preset", "dictionary-tiny", "--engine", "golden"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "entries given up" in result.stdout
    assert "shifts" not in result.stdout
    path = tmp_path / "filter.toml"
    ROOMY.to_toml(path)
    result = CliRunner().invoke(
        main, ["run", str(stream), "--spec", str(path), *arguments[4:], "--json"]
    )
    figures = json.loads(result.stdout)
    assert figures["spec"] == ROOMY.to_dict()
    assert figures["dictionary"]["lost"] == 0


def test_short_window_wrong(stream):
    short = replace(ROOMY, window=8)
    with pytest.raises(SpecificationError, match=r"^window: must be at least 16 in hardware"):
        perform(stream, short)


@pytest.mark.rtl
def test_compiled(stream):
    result = perform(stream, dictionary_preset("tiny"))
    assert result.failures() == []
    assert result.counters["lost"] > 0
