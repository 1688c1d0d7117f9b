"""Campaigns: points that are measured apart, kept as they end, on processes and on a cluster."""

import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from cases import daily
from local_cluster import TESTS, LocalCluster, kill, wait_until
from study_points import dying, endless, failing, held, squares, telling

from campaigns import engine, workers
from campaigns.engine import Campaign, Record, RecordError, complete, read
from campaigns.workers import Call, MismatchError, SchedulerError
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


def numbers(log):
    return sorted(int(line.split()[0]) for line in log.read_text().splitlines())


def test_run_and_resume(log, path, cluster):
    """Points of a cluster are not measured again by processes."""
    first = complete([(campaign(), points(log)[:2], path)], scheduler=cluster.address)
    assert (first.measured, first.found, first.failures) == (2, 0, [])
    again = complete([(campaign(), points(log), path)], jobs=2)
    assert (again.measured, again.found) == (2, 2)
    assert [one.result["square"] for one in again.records[0]] == [0, 1, 4, 9]
    assert read(path) == again.records[0]
    assert numbers(log) == [0, 1, 2, 3]


def test_anew(log, path, cluster):
    for _ in range(2):
        done = complete([(campaign(), points(log), path)], anew=True, scheduler=cluster.address)
        assert (done.measured, done.found) == (4, 0)
    assert len(path.read_text().splitlines()) == 4


def test_results_of_an_earlier_state_are_marked(log, path, cluster):
    complete([(campaign(), points(log), path)], scheduler=cluster.address)
    other = campaign(failing, identity=lambda point: {"state": "other"})
    done = complete([(other, points(log), path)], scheduler=cluster.address)
    assert done.failures == ["square 2: no such stream"]
    assert [one.point["number"] for one in done.records[0]] == [0, 1, 3]
    assert [one.earlier for one in read(path)] == [False, False, True, False]


def test_point_without_an_identity_fails(log, path, cluster):
    def refused(point):
        if point["number"]:
            raise LatelyError("no such device")
        return {}

    given = campaign(identity=refused)
    done = complete([(given, points(log, 2), path)], scheduler=cluster.address)
    assert (done.failures, done.measured) == (["square 1: no such device"], 1)


def test_incomplete_last_line_is_measured_again(log, path, cluster):
    complete([(campaign(), points(log), path)], scheduler=cluster.address)
    path.write_text(path.read_text()[:-10])
    done = complete([(campaign(), points(log), path)], scheduler=cluster.address)
    assert (done.measured, done.found, len(read(path))) == (1, 3, 4)


@pytest.mark.parametrize("line", ["[]", "{}", "{", '{"point": 1, "identity": {}, "result": {}}'])
def test_file_wrong(path, line):
    path.write_text(line + "\n")
    with pytest.raises(RecordError, match=r"squares.jsonl, line 1: must be a record, but: "):
        read(path)


def test_sources_cover_contents_and_names(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "some_package"
    folder.mkdir()
    found = []
    for name, text in (("__init__.py", "1"), ("__init__.py", "2"), ("other.py", "2")):
        (folder / name).write_text(text)
        engine.sources.cache_clear()
        found.append(engine.sources(("some_package",)))
    engine.sources.cache_clear()
    assert len({*found}) == 3


def test_defect_is_not_hidden(log, path, cluster):
    with pytest.raises(ValueError, match="not JSON compliant"):
        complete([(campaign(endless), points(log), path)], scheduler=cluster.address)


# The same results wherever points are measured


@pytest.mark.slow
def test_same_file_for_any_number_of_processes(log, tmp_path, cluster):
    Path(f"{log}.released").touch()
    found = []
    for number, where in enumerate([{"jobs": 1}, {"jobs": 3}, {"scheduler": cluster.address}]):
        path = tmp_path / f"{number}.jsonl"
        complete([(campaign(held), points(log), path)], **where)
        found.append(path.read_bytes())
    assert found[0] == found[1] == found[2]


def test_dead_process_costs_a_repeat(log, path):
    wanted = points(log, always=False)
    done = complete([(campaign(dying), wanted, path)], jobs=2)
    # A call in progress may be made twice when another process dies.
    assert (done.measured, {*numbers(log)}) == (4, {0, 1, 2, 3})


@pytest.mark.slow
def test_point_whose_process_dies_again_fails(log, path):
    done = complete([(campaign(dying), points(log, always=True), path)], jobs=2)
    assert done.failures == ["square 2: the process that measured it died twice"]
    assert done.measured == 3


@pytest.mark.slow
def test_worker_is_killed_and_another_comes_late(log, path, fresh):
    """One worker is killed while it measures, and one joins while the others do."""
    log.touch()
    first, second = fresh.worker(), fresh.worker()
    harm = threading.Thread(target=kill_and_join, args=(fresh, log, first, second))
    harm.start()
    done = complete([(campaign(held), points(log), path)], scheduler=fresh.address)
    harm.join()
    assert done.measured == 4
    assert len(lines(log)) == 5  # The point in progress was begun again.


def kill_and_join(cluster, log, first, second):
    wait_until(lambda: {first.pid, second.pid} <= processes_held(log))
    kill(first)
    late = cluster.worker(threads=2)
    wait_until(lambda: late.pid in processes_held(log))
    Path(f"{log}.released").touch()


def lines(log):
    """Return number and process of each point that was begun."""
    whole = log.read_text().rpartition("\n")[0]
    return [tuple(map(int, line.split())) for line in whole.splitlines()]


def processes_held(log):
    return {process for number, process in lines(log) if number}


@pytest.mark.slow
def test_no_worker_yet(log, path, fresh):
    shown = []

    def progress(done, total, running):
        if running == {"points": engine.WAITING} and "points" not in shown:
            fresh.worker()
        shown.extend(running)

    done = complete(
        [(campaign(), points(log, 1), path)], scheduler=fresh.address, progress=progress
    )
    assert done.measured == 1
    assert list(dict.fromkeys(shown)) == ["points", "square 0"]


def test_stages_are_shown(log, path, cluster):
    shown = []
    complete(
        [(campaign(telling), points(log, 1), path)],
        scheduler=cluster.address,
        progress=lambda done, total, running: shown.append((done, total, dict(running))),
    )
    assert (0, 1, {"square 0": ("second", 0.5)}) in shown
    assert shown[-1] == (1, 1, {})


# Errors of clusters


def test_nothing_to_do_starts_nothing():
    workers.run([], lambda call, outcome: None, scheduler="no address")


@pytest.mark.parametrize(
    ("address", "reason"),
    [("tcp://127.0.0.1:9", "no answer|refused|Timed out"), ("nowhere", "nowhere|missing port")],
)
def test_scheduler_wrong(log, path, monkeypatch, address, reason):
    monkeypatch.setattr(workers, "TIMEOUT", 1)
    with pytest.raises(SchedulerError, match=rf"^scheduler: must be the address.*({reason})"):
        complete([(campaign(), points(log), path)], scheduler=address)


def test_scheduler_is_lost(log, fresh, monkeypatch):
    monkeypatch.setattr(workers, "TIMEOUT", 2)
    fresh.worker()
    calls = [Call("call", held, point) for point in points(log, 3)]
    with pytest.raises(SchedulerError, match=r"^scheduler: lost the one at tcp://127.*; run it"):
        workers.run(calls, lambda *_: kill(fresh.scheduler), scheduler=fresh.address)


@pytest.mark.parametrize(
    ("change", "message"),
    daily(
        1,
        [
            ("{'number': 2}", r"other sources or versions: python 3\.\d+, numpy \S+ there"),
            (None, r"other sources: No module named 'changing_\w+'"),
        ],
    ),
)
def test_worker_of_other_sources(tmp_path, log, path, fresh, monkeypatch, change, message):
    name = f"changing_{'one' if change else 'two'}"
    for folder, text in (("here", "{'number': 1}"), ("there", change)):
        (tmp_path / folder).mkdir()
        if text:
            package = tmp_path / folder / name
            package.mkdir()
            (package / "__init__.py").write_text(f"def measure(point):\n    return {text}\n")
    monkeypatch.syspath_prepend(tmp_path / "here")
    fresh.worker(path=f"{tmp_path / 'there'}{os.pathsep}{TESTS}")
    given = replace(campaign(__import__(name).measure), packages=(name,))
    with pytest.raises(MismatchError) as error:
        complete([(given, points(log), path)], scheduler=fresh.address)
    assert re.fullmatch(
        rf"scheduler: worker tcp://127\.0\.0\.1:\d+ has {message}; "
        "it needs the same as here, and to be started again",
        str(error.value),
    )
    assert not path.exists()


@pytest.mark.slow
def test_worker_without_lately(tmp_path, log, fresh):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['lately'] = None\n")
    fresh.worker(path=str(tmp_path))
    with pytest.raises(MismatchError, match=r"^scheduler: a worker has no Lately, or another one"):
        workers.run(
            [Call("call", squares, points(log)[0])], lambda *_: None, scheduler=fresh.address
        )


# Interrupts

PROGRAM = f"""
import sys
sys.path.insert(0, {TESTS!r})
from signal_masks import hears_interrupts
from campaigns.workers import Call, run

if __name__ == "__main__":
    calls = [Call(name, hears_interrupts, None) for name in "abcd"]
    run(calls, lambda call, outcome: print(outcome), jobs=2)
    print(hears_interrupts(None))
"""


@pytest.mark.slow
def test_workers_hear_no_interrupt():
    """In a process of its own, as only the first cluster of a process starts all it needs."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.split() == ["False"] * 4 + ["True"]


def test_lines_hold_no_default(path):
    engine.write(path, [Record({"a": 1}, {}, {"b": 2}), Record({"a": 2}, {}, {"b": 3}, True)])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"point": {"a": 1}, "identity": {}, "result": {"b": 2}},
        {"point": {"a": 2}, "identity": {}, "result": {"b": 3}, "earlier": True},
    ]
