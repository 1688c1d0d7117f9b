"""Studies as the command runs them: resumed, interrupted, with dying processes; and their page."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict

import pytest
from click.testing import CliRunner
from local_cluster import TESTS, LocalCluster, wait_until
from squares_study import study
from study_points import failing

from lately.replay.drawing import Chart, Series, draw
from papers import commands, registry
from papers.commands import print_reproduction
from papers.paper import Paper
from papers.studies import page
from papers.studies.comparison import (
    SHARES,
    claim,
    computed,
    judge,
    measured,
    never,
    over_seeds,
    student,
    to_digits_of,
)
from papers.studies.criteria import Verdict, between, exactly
from papers.studies.records import Report, ReportFileError, StudyEntry, load
from papers.studies.reproduction import Reproduction, cache_directory, reproduce
from papers.studies.study import Conclusion, Finding

PAPERS = [sys.executable, "-m", "papers"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One worker for all tests that need not start processes of their own."""
    with LocalCluster(tmp_path_factory.mktemp("cluster")) as started:
        started.worker()
        yield started.address


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def lines(log):
    return sorted(map(int, log.read_text().split()))


# Running


def test_run_and_resume(log, store, cluster):
    done = reproduce([study(log)], store, scheduler=cluster)
    (entry,) = done.report.entries
    (finding,) = entry.outcome.findings
    assert (finding.ours, finding.verdict) == (14, Verdict.MET)
    assert (done.measured, done.found, done.failures) == (4, 0, [])
    begun = lines(log)
    assert set(begun) == {0, 1, 2, 3}
    again = reproduce([study(log)], store)
    assert (again.measured, again.found) == (0, 4)
    assert again.report == done.report
    assert lines(log) == begun


def test_cache_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("LATELY_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path / "reproduction"
    monkeypatch.delenv("LATELY_CACHE")
    assert cache_directory().parts[-2:] == ("lately", "reproduction")


@pytest.mark.parametrize("name", ["apbf", "gebf", "time_limited", "inferential", "cuckoo"])
def test_data_of_a_paper_are_used(name):
    data = Paper(name).data
    titles = {study.name: study.title for study in registry.STUDIES}
    assert {key: about["title"] for key, about in data["studies"].items()}.items() <= titles.items()
    used = [note for about in data["studies"].values() for note in about["notes"]]
    assert set(used) == set(data["notes"])
    values = defaultdict(int, z=0.0)
    for key, about in data["charts"].items():
        texts = [about.get("name", key), about["title"], about["x"], about["y"]]
        assert all(text.format_map(values) for text in texts)


# Names


def test_studies_have_names_of_their_own():
    names = [study.name for study in registry.STUDIES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
    titles = [study.title for study in registry.STUDIES]
    assert len(set(titles)) == len(titles)


def test_points_differ_and_json_can_hold_them():
    for entry in registry.STUDIES:
        for quick in (False, True):
            points = [json.dumps(point) for point in entry.points(quick)]
            assert points
            assert len(set(points)) == len(points)


def test_select(log):
    studies = tuple(study(log, name=name) for name in ("a-1", "a-2", "b-1"))
    names = [entry.name for entry in registry.select(["b-1", "a-*", "a-1"], studies)]
    assert names == ["a-1", "a-2", "b-1"]
    assert registry.select(["all"], studies) == [*studies]


@pytest.mark.parametrize(
    ("name", "near"), [("a-11", r"; near it: a-1, a-2$"), ("zzz", "'zzz'$"), ("c*", r"'c\*'$")]
)
def test_study_wrong(log, name, near):
    studies = tuple(study(log, name=name) for name in ("a-1", "a-2", "b-x"))
    with pytest.raises(
        registry.UnknownStudyError, match=r"^study: must be 'all' or one that --list names, not "
    ) as error:
        registry.select(["a-1", name], studies)
    assert re.search(near, str(error.value))


# Verdicts


def test_judge_takes_the_interval_into_account():
    assert judge("0.58", 0.5849) is Verdict.MET
    assert judge("0.58", 0.6) is Verdict.NOT_MET
    assert judge("0.58", 0.6, 0.57, 0.63) is Verdict.MET
    assert judge("0.58", 0.6, 0.5, 0.7) is Verdict.UNDECIDED
    assert judge("", 5) is Verdict.OURS


def test_to_digits_of():
    assert to_digits_of("0.0000610351", 6.103515625e-05) == "0.0000610352"


def test_student():
    # Of five values, 2.776 standard errors.
    mean, low, high = student([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean == 3
    assert (high - 3, 3 - low) == (pytest.approx(2.776445 * (2.5 / 5) ** 0.5),) * 2
    assert student([0.0, 0.0, 0.1], within=SHARES)[1] == 0
    with pytest.raises(ValueError, match=r"^values: must be at least 2, not 1$"):
        student([1.0])


def test_findings():
    assert over_seeds("x", "0.5", [0.49, 0.5, 0.51], note="n").verdict is Verdict.MET
    assert over_seeds("x", "0.5", [0.4, 0.5, 0.6]).verdict is Verdict.UNDECIDED
    assert measured("x", "", (1, 0, 2)) == Finding("x", "", 1, 0, 2, Verdict.OURS)
    assert claim("x", "all", 4, exactly(4)) == Finding(
        "x", "all", 4, None, None, Verdict.MET, within=(4, 4)
    )
    assert claim("x", "more", (2, 1, 3), between(1.5, 9)).verdict is Verdict.UNDECIDED


def test_never():
    few, many, some = (never("x", *counts) for counts in ((0, 100), (0, 100_000), (1, 100_000)))
    assert (few.paper, few.ours, few.low, few.verdict) == ("0", 0, 0, Verdict.UNDECIDED)
    assert few.high == pytest.approx(0.0362, abs=1e-4)
    assert many.verdict is Verdict.MET
    assert some.verdict is Verdict.NOT_MET
    with pytest.raises(ValueError, match=r"^trials: must be at least 1, not 0$"):
        never("x", 0, 0)


# Page

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


def report(findings=(), charts=(), notes=(), quick=False):
    outcome = Conclusion(list(findings), list(charts), list(notes))
    return Report(quick, [StudyEntry("x-table-1", "Some x (X, Table 1)", "Of X, Table 1", outcome)])


def test_page_of_measured_findings():
    shown = page.page(
        report(
            [
                Finding("rate | a", "0.10", 0.123456, 0.1, 0.15, Verdict.MET),
                Finding("share", "", 1.0, None, None, Verdict.OURS, "why\nso"),
                Finding("order", "all", 4, None, None, Verdict.MET, within=(4, 4)),
                Finding("more", "much", 20, 15, 25, Verdict.UNDECIDED, within=(20, 1e5)),
                Finding("copy", "0.2", 0.2, None, None, Verdict.COPIED, "of Table 3"),
            ],
            [CHART],
            ["A note."],
        )
    )
    assert "| rate \\| a | 0.10 | 0.1235 | 0.1 to 0.15 | \N{EN DASH} | met |  |\n" in shown
    dash = "\N{EN DASH}"
    assert f"| share | {dash} | 1 | {dash} | {dash} | ours alone | why so |\n" in shown
    assert f"| order | all | 4 | {dash} | 4 | met |  |\n" in shown
    assert "| more | much | 20 | 15 to 25 | 20 to 100,000 | undecided |  |\n" in shown
    assert "compares 1 printed figures as numbers. It also compares 2 sentences, such as\n" in shown
    assert "exclude an error of 10% in either direction" in shown
    assert "enough trials to exclude a share of 0.01%" in shown
    assert "![Rates \\| of something](images/reproduction/x-figure-1.svg)\n\nA note.\n" in shown
    assert (
        "[Some x (X, Table 1)](#some-x-x-table-1) | Of X, Table 1 | 2 | 0 | 1 | 0 | 1 | 1 |"
        in shown
    )
    assert "quick form" not in shown
    assert "Not measured" not in shown
    assert "quick form" in page.page(report(quick=True))


def test_page_says_what_is_missing():
    outcome = Conclusion([], missing=["the rows on x, as `x.gz` is not there."])
    shown = page.page(Report(False, [StudyEntry("x-table-1", "X", "Of X", outcome)]))
    assert "\nNot measured:\n\n- `x-table-1`: the rows on x, as `x.gz` is not there.\n" in shown


def test_page_of_computed_findings():
    values = {"a": 1.0, "b": 2.0, "c": 3.0}
    printed = {"a": "1.00", "b": "2.5", "c": ""}
    findings = [
        computed(f"k = {k}: {name}", printed[name], value, note="" if name != "b" else "why")
        for k in (1, 2)
        for name, value in values.items()
    ]
    shown = page.page(report(findings))
    assert (
        "|  | a | b | c |\n| --- | --- | --- | --- |\n| k = 1 | 1.00 | 2.5 **2.0** | 3 |\n" in shown
    )
    assert "| k = 2: b | 2.5 | 2.0 | 2 | not met | why |\n" in shown
    assert "Every printed digit is reproduced" in page.page(
        report(
            [f for f in findings if f.verdict is not Verdict.NOT_MET][:0]
            + [computed(f"k = 1: {name}", "1", 1) for name in "abc"]
        )
    )


def test_written_files(tmp_path):
    given = report([computed("k: a", "1", 1.0)], [CHART])
    names = page.write(given, tmp_path)
    assert names == ["reproduction.md", "reproduction.jsonl", "images/reproduction/x-figure-1.svg"]
    before = {name: (tmp_path / name).read_bytes() for name in names}
    assert load(tmp_path / "reproduction.jsonl").to_dict() == given.to_dict()
    page.write(load(tmp_path / "reproduction.jsonl"), tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in names} == before
    assert sorted(os.listdir(tmp_path)) == ["images", "reproduction.jsonl", "reproduction.md"]


def test_studies_of_another_report_take_the_place_of_its_own():
    def entry(name, value):
        return StudyEntry(name, name, name, Conclusion([computed("a", "", value)]))

    kept = Report(False, [entry("a", 1), entry("c", 1), entry("gone", 1)])
    now = kept.updated(Report(False, [entry("c", 2), entry("b", 2)]), ["a", "b", "c", "d"])
    assert [(one.name, one.outcome.findings[0].ours) for one in now.entries] == [
        ("a", 1), ("b", 2), ("c", 2),
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"^report: must be of the full form, not of the quick$"):
        kept.updated(Report(True, []), ["a"])


def test_figures_of_values_in_the_file():
    """As many as the page shows of a computed value, and fewer of one that was measured."""
    third, measured = computed("k: a", "0.33", 1 / 3), Finding("b", "", *[1 / 3] * 3, Verdict.OURS)
    values = report([third, measured]).to_dict()["studies"][0]["findings"]
    assert (values[0]["ours"], values[0]["low"]) == (0.3333333333, None)
    assert [values[1][name] for name in ("ours", "low", "high")] == [0.333333] * 3


def test_drawing(tmp_path):
    draw(CHART, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    draw(CHART, tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(
        ValueError, match=r"^path: must end in \.svg, \.png or \.pdf, not '.*a\.jpg'"
    ):
        draw(CHART, tmp_path / "a.jpg")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{}", "it lacks 'findings'"),
        ('{"findings": 3}', "it is malformed: 'int' object is not iterable"),
        ("x", "Expecting value: line 1 column 1"),
        ('{"quick": true}\n{}', "it has studies of the quick form and of the full form"),
    ],
)
def test_report_file_wrong(tmp_path, content, reason):
    path = tmp_path / "report.jsonl"
    path.write_text(content)
    with pytest.raises(ReportFileError, match=re.escape(f"of python -m papers, but: {reason}")):
        load(path)


# Command


@pytest.fixture
def command(log, tmp_path, monkeypatch, cluster):
    """Run the command on a study of its own, within this process but for the points."""
    monkeypatch.setenv("LATELY_CACHE", str(tmp_path / "cache"))
    studies = (study(log), study(log, failing, name="failing"))
    monkeypatch.setattr(registry.select, "__defaults__", (studies,))

    def run(*arguments):
        where = () if "--jobs" in arguments else ("--scheduler", cluster)
        return CliRunner().invoke(commands.reproduce, [*map(str, arguments), *where])

    return run


def test_command(command, log, tmp_path):
    done = command("squares", "--jobs", 1)
    assert done.exit_code == 0
    assert re.search("numbers: sum of squares +14 +14 +\N{EN DASH} +met", done.stdout)
    assert "1 met, 0 near, 0 undecided, 0 not met, 0 copied, 0 ours alone\n" in done.stdout
    assert done.stderr == ""
    assert os.listdir(tmp_path / "cache") == ["reproduction"]


def test_command_json(command, tmp_path):
    # Whatever the verdicts are, the status is 0.
    done = command("squares", "--quick", "--json", "--out", tmp_path / "out")
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["quick"], found["measured"], found["found"], found["failures"]) == (
        True,
        2,
        0,
        [],
    )
    assert {name: count for name, count in found["counts"].items() if count} == {"not met": 1}
    (entry,) = found["studies"]
    assert entry["findings"] == [
        {
            "what": "numbers: sum of squares",
            "paper": "14",
            "ours": 1.0,
            "low": None,
            "high": None,
            "verdict": "not met",
            "note": "",
            "within": None,
        }
    ]
    written = load(tmp_path / "out" / "reproduction.jsonl")
    assert written.to_dict()["studies"] == found["studies"]
    assert (tmp_path / "out" / "reproduction.md").exists()


def test_command_list(command):
    done = command("--list")
    assert done.exit_code == 0
    assert re.search(r"squares +Squares +None", done.stdout)
    assert [entry["name"] for entry in json.loads(command("--list", "--json").stdout)] == [
        "squares",
        "failing",
    ]


def test_command_reports_failures_after_the_findings(command):
    done = command("all")
    assert done.exit_code == 1
    assert "1 met" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("lately: error: failing at ")
    assert line.endswith(": no such stream")


def test_what_could_not_be_measured_is_told(capsys):
    outcome = Conclusion([], missing=["the rows on x, as `x.gz` is not there."])
    report = Report(False, [StudyEntry("x-table-1", "X", "Of X", outcome)])
    print_reproduction(Reproduction(report), as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.endswith("not measured: x-table-1: the rows on x, as `x.gz` is not there.")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "give the name of a study, or all; --list names them"),
        (("sqares",), 2, "not 'sqares'; near it: squares"),
        (("all", "--jobs", "0"), 2, "0 is not in the range x>=1"),
    ],
)
def test_command_wrong(command, arguments, status, message):
    done = command(*arguments)
    assert (done.exit_code, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert message in line


def test_out_is_a_file(command, log):
    log.touch()
    assert command("squares", "--out", log).exit_code == 2
    # Before anything is measured.
    assert log.read_text() == ""


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from squares_study import study
from study_points import slow
from papers import commands, registry
registry.select.__defaults__ = ((study({log!r}, slow),),)
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
    assert (done.returncode, done.stderr) == (1, b"")
