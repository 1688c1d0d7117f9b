"""Studies as the command runs them: resumed, interrupted, with dying processes; and their page."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from local_cluster import TESTS, LocalCluster, wait_until
from squares_study import study
from study_points import failing

from campaigns.engine import Record, RecordError, read
from campaigns.options import UnknownNameError
from campaigns.pages import files
from lately.replay.drawing import Chart, Series
from papers import __main__ as commands
from papers.studies import page
from papers.studies.criteria import Verdict
from papers.studies.paper import Conclusion, Finding, Study
from papers.studies.report import Report, cache_directory, conclusion, reproduce, to_record

PAPERS = [sys.executable, "-m", "papers"]
DASH = "\N{EN DASH}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One worker for all tests that need not start processes of their own."""
    with LocalCluster(tmp_path_factory.mktemp("cluster")) as started:
        started.worker()
        yield started.address


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


# Running


def test_run_and_resume(log, tmp_path, cluster):
    records, done = reproduce([study(log)], tmp_path / "store", scheduler=cluster)
    (finding,) = conclusion(records[0]).findings
    assert (finding.ours, finding.verdict) == (14, Verdict.MET)
    assert (done.measured, done.known, done.failures) == (4, 0, [])
    begun = sorted(log.read_text().split())
    assert begun == ["0", "1", "2", "3"]
    again, done = reproduce([study(log)], tmp_path / "store")
    assert (done.measured, done.known) == (0, 4)
    assert again == records
    assert sorted(log.read_text().split()) == begun


def test_cache_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("LATELY_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path / "reproduction"
    monkeypatch.delenv("LATELY_CACHE")
    assert cache_directory().parts[-2:] == ("lately", "reproduction")


def test_select(log, monkeypatch):
    studies = tuple(study(log, name=name) for name in ("a-1", "a-2", "b-x"))
    monkeypatch.setattr(commands, "STUDIES", studies)
    names = [entry.name for entry in commands.chosen(["b-x", "a-*", "a-1"])]
    assert names == ["a-1", "a-2", "b-x"]
    assert commands.chosen(["all"]) == commands.chosen([]) == [*studies]
    for name in ("a-11", "zzz", "c*"):
        with pytest.raises(UnknownNameError, match=re.escape(f"{name!r} matches none of a-1, a-2")):
            commands.chosen(["a-1", name])


# Records

CHART = Chart(
    name="x-figure-1",
    title="Rates | of something",
    x="insertions",
    y="rate",
    series=[
        Series("a", [1, 2, 3], [0.1, 0.2, 0.3], [0.0, 0.1, 0.2], [0.2, 0.3, 0.4], marks=True),
        Series("b", [1, 2, 3], [0.1, 0.2, 0.3], [0.0, 0.1, 0.2], [0.2, 0.3, 0.4]),
        Series("b", range(1, 4), [3, 4, 5]),
    ],
    x_log=True,
    y_log=True,
)


def about(name="x-table-1", notes=()):
    """Return a study that is never measured."""
    return Study(
        name=name, about="Some x (X, Table 1)", points=list, run=dict, conclude=Conclusion,
        paper="Of X", source="Table 1", notes=notes, reason="X is drawn.",
    )  # fmt: skip


def shown(outcome, *, quick=False, notes=()):
    """Return the summary and the page of the paper."""
    return page.pages(Report(quick, [(about(notes=notes), outcome)])).values()


def test_record_holds_a_conclusion():
    """As many digits as the page shows of a computed value, and fewer of one that was measured."""
    computed = Finding("k: a", 1 / 3, Verdict.MET, paper="0.33", within=[0, 1])
    measured = Finding("b", 1 / 3, Verdict.OURS, low=0.0, high=1 / 3, note="n")
    kept = to_record(about(), False, Conclusion([computed, measured], [CHART], {"n": 1}, ["m"]))
    assert kept.point == {"study": "x-table-1", "quick": False}
    assert kept.result["findings"] == [
        {"what": "k: a", "ours": 0.3333333333, "verdict": "met", "paper": "0.33", "within": [0, 1]},
        {
            "what": "b", "ours": 0.333333, "verdict": "ours alone", "low": 0.0, "high": 0.333333,
            "note": "n",
        },
    ]  # fmt: skip
    restored = conclusion(Record(**json.loads(json.dumps(vars(kept)))))
    assert (restored.values, restored.missing) == ({"n": 1}, ["m"])
    assert restored.findings[0].within == [0, 1]
    assert to_record(about(), False, restored) == kept


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({}, "'findings'"),
        ({"findings": 3}, "'int' object is not iterable"),
        ({"findings": [{"what": "a", "ours": 1, "verdict": "good"}]}, "'good' is not a valid"),
    ],
)
def test_record_wrong(result, reason):
    with pytest.raises(RecordError, match=f"not a valid result of a study: {reason}"):
        conclusion(Record({"study": "x", "quick": False}, {}, result))


def test_quick_and_full_form_are_not_mixed(log):
    studies = [study(log, name=name) for name in ("full", "quick")]
    both = [to_record(study_, study_.name == "quick", Conclusion([])) for study_ in studies]
    with pytest.raises(RecordError, match=r"^records: cannot mix results of the quick and"):
        Report.of(both, studies)


def test_page_takes_over_studies_of_another_file(tmp_path, monkeypatch):
    def record(name, value):
        return to_record(about(name), False, Conclusion([Finding("a", value, Verdict.OURS)]))

    ours, other = tmp_path / "ours.jsonl", tmp_path / "other.jsonl"
    files.engine.write(ours, [record(name, 1.0) for name in ("c", "a", "gone")])
    files.engine.write(other, [record("c", 2.0), record("b", 2.0)])
    monkeypatch.setattr(files, "DATA", ours)
    monkeypatch.setattr(files, "STUDIES", [about(name) for name in "abcd"])
    files.take([other])
    kept = [
        (record_.point["study"], record_.result["findings"][0]["ours"]) for record_ in read(ours)
    ]
    assert kept == [("a", 1.0), ("b", 2.0), ("c", 2.0)]


# Page


def test_page_shows_deviations():
    findings = [
        Finding("rate | a", 0.123456, Verdict.NEAR, "0.10", 0.1, 0.15, note="why\nso"),
        Finding("share", 1.0, Verdict.OURS),
        Finding("order", 4, Verdict.MET, "all", within=[4, 4]),
        Finding("more", 20, Verdict.UNDECIDED, "much", 15, 25, within=[20, 1e5]),
        Finding("digits", 0.26, Verdict.NOT_MET, "0.2"),
        Finding("copy", 0.2, Verdict.COPIED, "0.2"),
    ]
    notes = ["A note on {things:,} things."]
    summary, text = shown(Conclusion(findings, [CHART], {"things": 1000}), notes=notes)
    link = "[x-table-1](#some-x-x-table-1)"
    rows = [line for line in text.splitlines() if line.startswith(f"| {link}")]
    assert rows == [
        f"| {link} | digits | 0.2 | 0.3 | {DASH} | {DASH} | not met |  |",
        f"| {link} | more | much | 20 | 15 to 25 | 20 to 100,000 | undecided |  |",
        f"| {link} | rate \\| a | 0.10 | 0.1235 | 0.1 to 0.15 | {DASH} | near | why so |",
    ]
    drawn = "![Rates \\| of something](../images/reproduction/x-figure-1.svg)"
    assert f"{drawn}\n\nA note on 1,000 things.\n" in text
    assert "compare 2 printed figures as numbers. They compare 2 claims in words" in summary
    assert "exclude an error of 10% in either direction" in summary
    assert "in enough trials to exclude a rate of 0.01%" in summary
    assert "| [Of X](reproduction/paper.md) | 1 | 1 | 1 | 1 | 1 | 1 |" in summary
    anchor = "[Some x (X, Table 1)](reproduction/paper.md#some-x-x-table-1)"
    assert f"| {anchor} | 1 | 1 | 1 | X is drawn. |" in summary
    assert "[reproduction.jsonl](reproduction.jsonl)" in summary
    assert "quick form" not in summary
    assert "Not measured" not in summary
    met = Conclusion(findings[1:3], missing=["the rows on x, as `x.gz` is not there."])
    summary, text = shown(met, quick=True)
    assert "Every printed figure is met.\n" in summary
    assert "Every printed figure is met.\n" in text
    assert "quick form" in summary
    assert "\nNot measured:\n\n- `x-table-1`: the rows on x, as `x.gz` is not there.\n" in summary


def test_page_has_printed_tables():
    values = {"a": (1.0, "1.00"), "b": (2.0, "2.5"), "c": (3.0, "")}
    findings = [
        Finding(f"k = {k}: {name}", value, Verdict.NOT_MET if name == "b" else Verdict.MET, paper)
        for k in (1, 2)
        for name, (value, paper) in values.items()
    ]
    table = "|  | a | b | c |\n| --- | --- | --- | --- |\n| k = 1 | 1.00 | 2.5 **2.0** | 3 |\n"
    _, text = shown(Conclusion(findings))
    assert table in text
    _, text = shown(Conclusion(findings[:-1]))
    assert "| k = 1 |" not in text


def test_written_files(tmp_path):
    outcome = Conclusion([Finding("k: a", 1.0, Verdict.MET, "1")], [CHART])
    records = [to_record(about(), False, outcome)]
    names = page.write_all(records, [about()], tmp_path)
    assert names == [
        "reproduction.md", "reproduction/paper.md", "reproduction.jsonl",
        "images/reproduction/x-figure-1.svg",
    ]  # fmt: skip
    before = {name: (tmp_path / name).read_bytes() for name in names}
    page.write_all(read(tmp_path / "reproduction.jsonl"), [about()], tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in names} == before
    assert sorted(os.listdir(tmp_path)) == [
        "images", "reproduction", "reproduction.jsonl", "reproduction.md"
    ]  # fmt: skip


# Command


@pytest.fixture
def command(log, tmp_path, monkeypatch, cluster):
    """Run the command on a study of its own, within this process but for the points."""
    monkeypatch.setenv("LATELY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(commands, "STUDIES", (study(log), study(log, failing, name="failing")))

    def run(*arguments):
        where = () if "--jobs" in arguments else ("--scheduler", cluster)
        return CliRunner().invoke(commands.reproduce, [*map(str, arguments), *where])

    return run


def test_command(command, tmp_path):
    done = command("squares", "--jobs", 1)
    assert (done.exit_code, done.stderr) == (0, "")
    assert re.search(f"numbers: sum of squares +14 +14 +{DASH} +met", done.stdout)
    assert "1 met, 0 near, 0 undecided, 0 not met, 0 copied, 0 ours alone\n" in done.stdout
    assert os.listdir(tmp_path / "cache") == ["reproduction"]
    # Failures come after the findings.
    done = command("all")
    assert done.exit_code == 1
    assert "1 met" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line == "lately: error: failing at 2: no such stream"


def test_command_json(command, tmp_path):
    # Whatever the verdicts are, the status is 0.
    done = command("squares", "--quick", "--json", "--out", tmp_path / "out")
    assert (done.exit_code, done.stderr) == (0, "")
    finding = {"what": "numbers: sum of squares", "ours": 1.0, "verdict": "not met", "paper": "14"}
    result = {"findings": [finding], "charts": [], "values": {}, "missing": []}
    assert json.loads(done.stdout) == {
        "counts": {"not met": 1},
        "studies": [{"study": "squares", "quick": True, **result}],
        "failures": [],
        "measured": 2,
        "found": 0,
    }
    (record,) = read(tmp_path / "out" / "reproduction.jsonl")
    assert (record.point, record.result) == ({"study": "squares", "quick": True}, result)
    assert (tmp_path / "out" / "reproduction.md").exists()


def test_command_list(command):
    done = command("--list")
    assert done.exit_code == 0
    assert re.search(r"squares +Squares +Nobody's paper, None", done.stdout)
    listed = json.loads(command("--list", "--json").stdout)
    assert [entry["name"] for entry in listed] == ["squares", "failing"]


def test_what_could_not_be_measured_is_reported(capsys):
    outcome = Conclusion([], missing=["the rows on x, as `x.gz` is not there."])
    commands.print_report(Report(False, [(about(), outcome)]))
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.endswith("not measured: x-table-1: the rows on x, as `x.gz` is not there.")


def test_command_wrong(command, log):
    for arguments, message in (
        ((), "give the name of a study, or 'all'; see --list"),
        (("sqares",), "'sqares' matches none of "),
        (("all", "--jobs", "0"), "0 is not in the range x>=1"),
    ):
        done = command(*arguments)
        assert (done.exit_code, done.stdout) == (2, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
    # Before anything is measured.
    log.touch()
    assert command("squares", "--out", log).exit_code == 2
    assert log.read_text() == ""


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from squares_study import study
from study_points import slow
from papers import __main__ as commands
commands.STUDIES = (study({log!r}, slow),)
commands.reproduce(["all", "--jobs", "2", "--out", {out!r}])
"""


@pytest.fixture
def running(log, tmp_path):
    """A command whose first point is kept, and whose others take long."""
    program = PROGRAM.format(tests=TESTS, log=str(log), out=str(tmp_path / "out"))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"LATELY_CACHE": str(tmp_path / "cache")},
        start_new_session=True,
    ) as process:
        kept = tmp_path / "cache" / "reproduction" / "squares.jsonl"
        wait_until(lambda: kept.exists() and kept.read_text().endswith("\n"))
        yield process
    assert len(kept.read_text().splitlines()) == 1
    wait_until(lambda: not group_is_alive(process.pid))


def test_interrupted(running, tmp_path):
    # As a terminal does: to all processes.
    os.killpg(running.pid, signal.SIGINT)
    output, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert (output, errors.strip()) == (b"", b"lately: interrupted")
    assert os.listdir(tmp_path / "out") == []


def test_killed(running):
    """Its processes end with it."""
    running.kill()


def group_is_alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_nobody_reads(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*PAPERS, "apbf-table-1", "--json"],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=os.environ | {"LATELY_CACHE": str(tmp_path)},
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
