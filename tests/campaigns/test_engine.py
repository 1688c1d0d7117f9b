"""Campaigns: points that are measured apart, kept as they end, on processes and on a cluster."""

import json
import os
import re
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from local_cluster import TESTS, LocalCluster, kill, wait_until
from study_points import dying, endless, failing, held, squares, telling

from campaigns import engine, workers
from campaigns.engine import Campaign, Record, RecordError, complete, read
from campaigns.workers import MismatchError, SchedulerError
from lately.golden.errors import LatelyError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler with one worker, for tests that harm neither."""
    with LocalCluster(tmp_path_factory.mktemp("cluster")) as started:
        started.worker()
        yield started


@pytest.fixture
def fresh(tmp_path):
    """A scheduler that has no worker yet."""
    with LocalCluster(tmp_path) as started:
        yield started


def points(log, count=4, **more):
    return [{"number": number, "log": str(log), **more} for number in range(count)]


def campaign(run=squares, **values):
    return Campaign(
        name="squares", about="Squares.", packages=("campaigns",), points=points, run=run,
        label=lambda point: f"square {point['number']}", **values,
    )  # fmt: skip


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "squares.jsonl"


def begun(log):
    """Return the number, and the process if it is there, of each point that was begun."""
    whole = log.read_text().rpartition("\n")[0] if log.exists() else ""
    return [tuple(map(int, line.split())) for line in whole.splitlines()]


def test_run_and_resume(log, path, cluster):
    """Points of a cluster are not measured again by processes, unless that is asked for."""
    first = complete([(campaign(), points(log)[:2], path)], scheduler=cluster.address)
    assert (first.measured, first.known, first.failures) == (2, 0, [])
    again = complete([(campaign(), points(log), path)], jobs=2)
    assert (again.measured, again.known) == (2, 2)
    assert [record.result["square"] for record in again.records[0]] == [0, 1, 4, 9]
    assert read(path) == again.records[0]
    assert sorted(begun(log)) == [(0,), (1,), (2,), (3,)]
    path.write_text(path.read_text()[:-10])
    rest = complete([(campaign(), points(log), path)], scheduler=cluster.address)
    assert (rest.measured, rest.known, len(read(path))) == (1, 3, 4)
    anew = complete([(campaign(), points(log), path)], anew=True, scheduler=cluster.address)
    assert (anew.measured, anew.known, len(read(path))) == (4, 0, 4)


def test_results_of_an_earlier_state_are_marked(log, path, cluster):
    complete([(campaign(), points(log), path)], scheduler=cluster.address)
    other = campaign(failing, identity=lambda point: {"state": "other"})
    done = complete([(other, points(log), path)], scheduler=cluster.address)
    assert done.failures == ["square 2: no such stream"]
    assert [record.point["number"] for record in done.records[0]] == [0, 1, 3]
    assert [record.earlier for record in read(path)] == [False, False, True, False]


def test_point_without_an_identity_fails(log, path, cluster):
    def refused(point):
        if point["number"]:
            raise LatelyError("no such device")
        return {}

    given = campaign(identity=refused)
    done = complete([(given, points(log, 2), path)], scheduler=cluster.address)
    assert (done.failures, done.measured) == (["square 1: no such device"], 1)


def test_file_wrong(path):
    for line in ("[]", "{}", "{", '{"point": 1, "identity": {}, "result": {}}'):
        path.write_text(line + "\n")
        with pytest.raises(RecordError, match=r"squares.jsonl, line 1: not a record: "):
            read(path)


def test_lines_hold_no_default(path):
    engine.write(path, [Record({"a": 1}, {}, {"b": 2}), Record({"a": 2}, {}, {"b": 3}, True)])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"point": {"a": 1}, "identity": {}, "result": {"b": 2}},
        {"point": {"a": 2}, "identity": {}, "result": {"b": 3}, "earlier": True},
    ]


def test_sources_cover_contents_and_names(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "some_package"
    folder.mkdir()
    digests = []
    for name, text in (("__init__.py", "1"), ("__init__.py", "2"), ("other.py", "2")):
        (folder / name).write_text(text)
        engine.sources.cache_clear()
        digests.append(engine.sources(("some_package",)))
    engine.sources.cache_clear()
    assert len({*digests}) == 3


def test_sources_are_those_of_a_package_alone(tmp_path, monkeypatch):
    """Lately finds its packages beside itself in a checkout, where other files change meanwhile."""
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "wide_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(f"__path__.append({str(tmp_path)!r})\n")
    __import__("wide_package")
    before = engine.sources(("wide_package",))
    (tmp_path / "other").write_text("1")
    engine.sources.cache_clear()
    assert engine.sources(("wide_package",)) == before


def test_defect_is_not_hidden(log, path, cluster):
    with pytest.raises(ValueError, match="not JSON compliant"):
        complete([(campaign(endless), points(log), path)], scheduler=cluster.address)


def test_stages_are_shown(log, path, cluster):
    shown = []
    complete(
        [(campaign(telling), points(log, 1), path)],
        scheduler=cluster.address,
        progress=lambda done, total, running: shown.append((done, total, running)),
    )
    assert shown[0] == (0, 1, {"points": engine.WAITING})
    assert (0, 1, {"square 0": ("second", 0.5)}) in shown
    assert shown[-1] == (1, 1, {})


@pytest.mark.slow
def test_same_file_for_any_number_of_processes(log, tmp_path, cluster):
    Path(f"{log}.released").touch()
    contents = []
    for number, where in enumerate([{"jobs": 1}, {"jobs": 3}, {"scheduler": cluster.address}]):
        path = tmp_path / f"{number}.jsonl"
        complete([(campaign(held), points(log), path)], **where)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] == contents[2]


# Processes that die, and clusters that fail


def test_dead_process_costs_a_repeat_until_its_point_fails(log, path):
    deaths = (0, 1, 2, 0)
    wanted = [point | {"deaths": n} for point, n in zip(points(log), deaths, strict=True)]
    done = complete([(campaign(dying), wanted, path)], jobs=2)
    assert done.failures == ["square 2: the measuring process died 2 times"]
    # A call in progress may be made twice when another process dies.
    assert (done.measured, {*begun(log)}) == (3, {(0,), (1,), (3,)})


def test_nanny_between_two_processes_ends_without_harm(monkeypatch):
    """A nanny whose process has just died has none, and its client must live on."""
    monkeypatch.setattr(workers.psutil, "Process", lambda pid: pytest.fail(f"kills {pid}"))
    calls = []
    workers._kill(SimpleNamespace(pid=None, close_gracefully=lambda: calls.append("close")))
    assert calls == ["close"]


@pytest.mark.slow
def test_workers_come_late_and_one_is_killed(log, path, fresh):
    def harm():
        first = fresh.worker()
        wait_until(lambda: any(number for number, _ in begun(log)))
        kill(first)
        late = fresh.worker(threads=2)
        wait_until(lambda: late.pid in {process for number, process in begun(log) if number})
        Path(f"{log}.released").touch()

    thread = threading.Thread(target=harm)
    thread.start()
    done = complete([(campaign(held), points(log), path)], scheduler=fresh.address)
    thread.join()
    assert (done.measured, done.failures) == (4, [])
    assert len(begun(log)) > 4  # Points in progress were begun again.


def test_scheduler_wrong(log, path, monkeypatch, cluster):
    monkeypatch.setattr(workers, "TIMEOUT", 1)
    for address, reason in (
        ("tcp://127.0.0.1:9", "no reply|refused|Timed out"),
        ("nowhere", "nowhere|missing port"),
    ):
        with pytest.raises(SchedulerError, match=rf"^scheduler: must be the address.*({reason})"):
            complete([(campaign(), points(log), path)], scheduler=address)
    # Without points nobody looks for it.
    assert complete([(campaign(), [], path)], scheduler="nowhere").measured == 0


def test_scheduler_is_lost(log, path, fresh):
    fresh.worker()
    with pytest.raises(
        SchedulerError, match=r"^scheduler: lost the connection to tcp://127.*; run the"
    ):
        complete(
            [(campaign(held), points(log, 3), path)],
            scheduler=fresh.address,
            progress=lambda done, *_: done and kill(fresh.scheduler),
        )
    assert len(read(path)) == 1


def test_worker_of_other_sources(tmp_path, log, path, fresh, monkeypatch):
    cases = {
        "differing": r"its sources or versions differ \(python 3\.\d+, numpy \S+\)",
        "missing": r"No module named 'missing_package'",
    }
    for name in cases:
        for folder, text in (("here", "{'number': 1}"), ("there", "{'number': 2}")):
            package = tmp_path / folder / f"{name}_package"
            if (folder, name) != ("there", "missing"):
                package.mkdir(parents=True)
                (package / "__init__.py").write_text(f"def measure(point):\n    return {text}\n")
    monkeypatch.syspath_prepend(tmp_path / "here")
    fresh.worker(path=f"{tmp_path / 'there'}{os.pathsep}{TESTS}")
    for name, message in cases.items():
        package = f"{name}_package"
        given = replace(campaign(__import__(package).measure), packages=(package,))
        with pytest.raises(MismatchError) as error:
            complete([(given, points(log), path)], scheduler=fresh.address)
        advice = "restart it with the same sources and versions as this process"
        wanted = rf"worker: {message}; {advice}"
        assert re.fullmatch(wanted, str(error.value))
        assert not path.exists()
