"""The commands of `python -m campaigns`, on a campaign of squares."""

import json

import pytest
from click.testing import CliRunner
from study_points import squares

from campaigns import __main__ as commands
from campaigns.engine import Campaign, Record, read, write
from lately.cli.options import parse_seeds


def points(*, case: tuple[str, ...] = (), seeds: str = "1-3", large: bool = False):
    """Return a point for each seed."""
    return [{"number": seed, "log": points.log} for seed in parse_seeds(seeds)]


def wrong(result):
    """Refuse the square of 5."""
    return ["must not be 25"] if result["square"] == 25 else []


SQUARES = Campaign(
    name="squares",
    about="Square numbers.\n\nMore words.",
    packages=("campaigns",),
    points=points,
    run=squares,
    label=lambda point: f"square {point['number']}",
    wrong=wrong,
    worse=lambda now, before: (
        [f"square is {now['square']}, baseline {before['square']}"] * (now != before)
    ),
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    points.log = str(tmp_path / "log")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(commands, "RESULTS", tmp_path / "results")
    monkeypatch.setitem(commands.CAMPAIGNS, "squares", SQUARES)
    for group in (commands.run, commands.check):
        command = commands.command(SQUARES, checked=group is commands.check)
        monkeypatch.setitem(group.commands, "squares", command)

    def call(*arguments, code=0):
        done = CliRunner().invoke(commands.main, [*arguments])
        assert done.exit_code == code, done.output
        return done

    return call


def test_campaigns_are_listed(run):
    assert "Square numbers." in run("run", "--help").stdout


def test_options_are_those_of_the_points(run):
    text = run("run", "squares", "--help").stdout
    for name in ("--case", "--seeds", "--large", "--jobs", "--scheduler", "--anew", "--out"):
        assert name in text


def test_run_keeps_own_points_in_results(run, tmp_path):
    shown = run("run", "squares", "--jobs", "1")
    assert "square 3" in shown.stdout
    kept = tmp_path / "results" / "squares.jsonl"
    assert [record.result["square"] for record in read(kept)] == [1, 4, 9]
    before = kept.read_bytes()
    run("run", "squares", "--seeds", "4", "--jobs", "1")
    assert kept.read_bytes() == before
    assert len(read(tmp_path / "build" / "campaigns" / "squares.jsonl")) == 1
    run("run", "squares", "--seeds", "4", "--jobs", "1", "--out", "other.jsonl")
    assert len(read(tmp_path / "other.jsonl")) == 1


def test_a_wrong_result_fails(run):
    done = run("run", "squares", "--seeds", "5", "--jobs", "1", "--json", code=1)
    assert json.loads(done.stdout)[0]["result"]["square"] == 25
    assert done.stderr == "lately: error: square 5: must not be 25\n"


def test_check(run, tmp_path):
    run("run", "squares", "--jobs", "1")
    run("check", "squares", "--jobs", "1")
    path = tmp_path / "results" / "squares.jsonl"
    first, second, third = read(path)
    other = Record(second.point, second.identity, {"square": 5, "pair": [1, 2]})
    write(path, [Record(first.point, {"versions": {"numpy": "0"}}, first.result), other])
    lines = run("check", "squares", "--jobs", "1", code=1).stderr.splitlines()
    assert any("square 1: numpy is " in line and "the baseline has 0" in line for line in lines)
    assert "lately: error: square 2: square is 4, baseline 5" in lines
    assert f"lately: error: square {third.point['number']}: the baseline has no result" in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "x"], "--seeds: must be a list such as 1-5 or 1,3, not 'x'"),
        (["--seeds", "1-1000"], "--seeds: the range '1-1000' does not have 1 to 100 seeds"),
        (["--jobs", "2", "--scheduler", "a"], "--jobs cannot be combined with --scheduler"),
    ],
)
def test_options_wrong(run, arguments, message):
    assert message in run("run", "squares", *arguments, code=2).stderr


def test_missing_baseline(run):
    assert "squares.jsonl: No such file" in run("check", "squares", code=2).stderr
