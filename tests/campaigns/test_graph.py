"""The same results whatever makes them: processes that die, come late, or are of other sources."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from local_cluster import TESTS, LocalCluster, kill, wait_until
from squares_study import study
from study_points import abandoned, dying, failing, held, squares, telling

from campaigns.__main__ import main
from campaigns.workers import calls as graph
from campaigns.workers import cluster
from campaigns.workers.calls import BEGUN, Call, MismatchError
from campaigns.workers.cluster import SchedulerError
from campaigns.workers.kept_calls import WAITING
from lately.golden.errors import LatelyError
from papers import registry
from papers.commands import reproduce as papers_command
from papers.studies.reproduction import reproduce
from papers.studies.store import Store


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """A scheduler with one worker, for tests that harm neither."""
    with LocalCluster(tmp_path_factory.mktemp("cluster")) as started:
        started.worker()
        yield started


@pytest.fixture
def fresh(tmp_path):
    """A scheduler that still has no worker."""
    with LocalCluster(tmp_path) as started:
        yield started


def calls(log, function, count=3):
    return [Call("call", function, {"number": n, "log": str(log)}) for n in range(count)]


def results(log, function=squares, count=3, **options):
    """Return the results of calls, in their own order."""
    found = {}
    graph.run(
        calls(log, function, count),
        lambda call, outcome: found.setdefault(call.argument["number"], outcome),
        **options,
    )
    return [found[number] for number in sorted(found)]


def bytes_of(done, store):
    """Return the report and the files of a run."""
    assert done.failures == []
    files = {path.name: path.read_bytes() for path in store.rglob("*.json")}
    return json.dumps(done.report.to_dict()), files


# The same bytes


def test_same_bytes_for_any_number_of_processes(tmp_path, workers):
    studies = registry.select(["apbf-figure-2"])
    found = []
    for number, where in enumerate([{"jobs": 1}, {"jobs": 3}, {"scheduler": workers.address}]):
        store = tmp_path / str(number)
        done = reproduce(studies, Store(store), quick=True, **where)
        assert done.measured > 2
        found.append(bytes_of(done, store))
    assert found[0] == found[1] == found[2]


def test_worker_is_killed_and_another_comes_late(tmp_path, fresh):
    """One worker is killed while it measures, and one joins while the others do."""
    log = tmp_path / "log"
    log.touch()
    studies = [study(log, held)]
    first, second = fresh.worker(), fresh.worker()
    harm = threading.Thread(target=kill_and_join, args=(fresh, log, first, second))
    harm.start()
    done = reproduce(studies, Store(tmp_path / "several"), scheduler=fresh.address)
    harm.join()
    several = bytes_of(done, tmp_path / "several")
    assert done.measured == 4
    assert len(lines(log)) == 5  # The one that was under way was begun anew.
    alone = reproduce(studies, Store(tmp_path / "alone"), jobs=1)
    assert several == bytes_of(alone, tmp_path / "alone")


def kill_and_join(workers, log, first, second):
    wait_until(lambda: {first.pid, second.pid} <= processes_held(log))
    kill(first)
    late = workers.worker(threads=2)
    wait_until(lambda: late.pid in processes_held(log))
    Path(f"{log}.released").touch()


def lines(log):
    """Return number and process of each point that was begun."""
    whole = log.read_text().rpartition("\n")[0]
    return [tuple(map(int, line.split())) for line in whole.splitlines()]


def processes_held(log):
    return {process for number, process in lines(log) if number}


PROGRAM = """
import sys
from squares_study import study
from study_points import held
from papers import commands, registry
registry.select.__defaults__ = ((study(sys.argv.pop(1), held),),)
commands.reproduce(["all", "--json", *sys.argv[1:]])
"""


def test_study_goes_on_after_its_client_was_killed(tmp_path, workers):
    log = tmp_path / "log"
    kept = tmp_path / "cache" / "reproduction" / "squares"
    first = command(log, tmp_path / "cache", "--scheduler", workers.address)
    wait_until(lambda: log.exists() and processes_held(log) and list(kept.glob("*.json")))
    first.kill()
    assert first.communicate() == ("", "")
    Path(f"{log}.released").touch()
    again = finished(command(log, tmp_path / "cache", "--scheduler", workers.address))
    assert (again.pop("measured"), again.pop("found")) == (3, 1)
    whole = finished(command(log, tmp_path / "other", "--jobs", "2"))
    assert (whole.pop("measured"), whole.pop("found")) == (4, 0)
    assert again == whole
    assert files(tmp_path / "cache") == files(tmp_path / "other")


def command(log, cache, *arguments):
    # What Dask's own variable names is not used.
    more = {"LATELY_CACHE": str(cache), "PYTHONPATH": TESTS, "DASK_SCHEDULER_ADDRESS": "tcp://a:1"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(log), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | more,
    )


def finished(process):
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    return json.loads(output)


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json")}


def test_two_at_a_time(tmp_path):
    inner = []

    def settle(call, outcome):
        inner.append((outcome["square"], results(tmp_path / "inner", count=1)))

    graph.run(calls(tmp_path / "log", squares, 1), settle)
    assert inner == [(0, [{"square": 0, "pair": [1, 2]}])]


def test_nothing_to_do_starts_nothing():
    graph.run([], lambda call, outcome: None, scheduler="no address")


# Failures


def test_failure_of_a_call(tmp_path, workers):
    found = results(tmp_path / "log", failing, scheduler=workers.address)
    assert isinstance(found[2], LatelyError)
    assert str(found[2]) == "no such stream"
    assert [entry["square"] for entry in found[:2]] == [0, 1]


@pytest.mark.slow
def test_call_that_its_workers_die_of(tmp_path, fresh):
    fresh.worker(nanny=True)
    found = []
    graph.run(
        [
            Call("call", dying, {"number": n, "log": str(tmp_path / "log"), "always": True})
            for n in (2, 3)
        ],
        lambda call, outcome: found.append((call.argument["number"], outcome)),
        scheduler=fresh.address,
    )
    (_, error), (_, result) = sorted(found, key=lambda entry: entry[0])
    assert str(error) == "the process that measured it died 4 times"
    assert result["square"] == 9


def test_scheduler_is_lost(tmp_path, fresh, monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 2)
    fresh.worker()
    found = []

    def settle(call, outcome):
        found.append(outcome)
        kill(fresh.scheduler)

    with pytest.raises(SchedulerError, match=r"^scheduler: lost the one at tcp://127.*; run it"):
        graph.run(calls(tmp_path / "log", held), settle, scheduler=fresh.address)
    assert [entry["square"] for entry in found] == [0]


def test_scheduler_is_lost_and_so_is_the_end_of_a_connection(tmp_path, fresh, monkeypatch):
    """The one line stands, whatever Dask raises where an attempt to connect ends at that moment."""

    class ClosesLate(cluster.Client):
        closed = False

        def close(self, *args, **options):
            super().close(*args, **options)
            if not self.closed:  # Collected as garbage, a client is closed again.
                self.closed = True
                raise RuntimeError("Cannot change state of expiring Timeout")

    monkeypatch.setattr(cluster, "TIMEOUT", 2)
    monkeypatch.setattr(cluster, "Client", ClosesLate)
    fresh.worker()
    with pytest.raises(SchedulerError, match=r"^scheduler: lost the one at tcp://127.*; run it"):
        graph.run(
            calls(tmp_path / "log", held),
            lambda call, outcome: kill(fresh.scheduler),
            scheduler=fresh.address,
        )


def test_no_worker_yet(tmp_path, fresh):
    shown = []

    def progress(done, total, running):
        if running == {"points": WAITING} and "points" not in shown:
            fresh.worker()
        shown.extend(running)

    done = reproduce(
        [study(tmp_path / "log")],
        Store(tmp_path / "store"),
        quick=True,
        scheduler=fresh.address,
        progress=progress,
    )
    assert done.measured == 2
    assert list(dict.fromkeys(shown)) == ["points", "squares"]


# Other sources


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{'number': 2}", r"other sources or versions: python 3\.\d+, numpy \S+, scipy \S+ there"),
        (None, r"other sources: No module named 'changing_points_\w+'"),
    ],
)
def test_worker_of_other_sources(tmp_path, fresh, monkeypatch, change, message):
    name = f"changing_points_{'one' if change else 'two'}"
    for folder, text in (("here", "{'number': 1}"), ("there", change)):
        (tmp_path / folder).mkdir()
        if text:
            module = tmp_path / folder / f"{name}.py"
            module.write_text(f"def measure(point):\n    return {text}\n")
    monkeypatch.syspath_prepend(tmp_path / "here")
    fresh.worker(path=str(tmp_path / "there"))
    given = study(tmp_path / "log", __import__(name).measure)
    store = tmp_path / "store"
    with pytest.raises(MismatchError) as error:
        reproduce([given], Store(store), scheduler=fresh.address)
    assert re.fullmatch(
        rf"scheduler: worker tcp://127\.0\.0\.1:\d+ has {message}; "
        "it needs the same as here, and to be started anew",
        str(error.value),
    )
    assert not store.exists()


def test_worker_without_lately(tmp_path, fresh):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['lately'] = None\n")
    fresh.worker(path=str(tmp_path))
    with pytest.raises(MismatchError, match=r"^scheduler: a worker has no Lately, or another one"):
        results(tmp_path / "log", scheduler=fresh.address)


def test_processes_cannot_be_started(tmp_path, monkeypatch):
    def start(jobs):
        raise RuntimeError("Cluster failed to start:\nno memory")

    monkeypatch.setattr(cluster, "_start", start)
    with pytest.raises(
        SchedulerError, match=r"^jobs: 1 processes cannot be started: .* start: no memory$"
    ):
        results(tmp_path / "log")


def test_sources_change_meanwhile(tmp_path, monkeypatch):
    from papers.studies import reproduction as run

    monkeypatch.setattr(run, "fingerprint", lambda function: "before")
    run._fingerprint.cache_clear()
    with pytest.raises(MismatchError, match=r"^the sources changed meanwhile, run it again: w"):
        reproduce([study(tmp_path / "log", squares)], Store(tmp_path / "store"), quick=True)
    run._fingerprint.cache_clear()


def test_other_versions():
    class Fake:
        def __init__(self, python="3.11.7.final.0", worker="2026.8.0"):
            self.python, self.worker = python, worker

        def get_versions(self):
            return {
                "client": versions(),
                "scheduler": versions(self.python),
                "workers": {"tcp://a:1": versions(distributed=self.worker), "tcp://a:2": None},
            }

    def versions(python="3.11.2.final.0", distributed="2026.8.0"):
        packages = {"python": python, "dask": "2026.8.0", "distributed": distributed}
        return {"host": {"python": python}, "packages": packages}

    cluster._compare(Fake())
    here = "and here is python 3.11, dask 2026.8.0, distributed 2026.8.0"
    with pytest.raises(SchedulerError) as error:
        cluster._compare(Fake(python="3.12.1.final.0"))
    assert str(error.value) == (
        f"scheduler: the scheduler has python 3.12, dask 2026.8.0, distributed 2026.8.0, {here}"
    )
    with pytest.raises(SchedulerError, match=r"^scheduler: worker tcp://a:1 has .* 2025.1.0, and"):
        cluster._compare(Fake(worker="2025.1.0"))


# Addresses


@pytest.fixture
def listener():
    """Something that takes connections and says nothing, or what it is told to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def refused(address, monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    with pytest.raises(SchedulerError) as error:
        graph.run([Call("call", squares, {})], lambda *_: None, scheduler=address)
    start = "scheduler: must be the address of a Dask scheduler, as tcp://10.0.0.1:8786, not "
    assert str(error.value).startswith(f"{start}{address!r}: ")
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{start}{address!r}: ")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "missing port number"),
        ("", "missing port number"),
        ("foo://127.0.0.1:1", "unknown address scheme 'foo'"),
        ("tcp://127.0.0.1:1", "no answer within 1 s|Timed out"),
        ("tcp://127.0.0.1:x", "invalid literal"),
    ],
)
def test_address_wrong(monkeypatch, address, why):
    assert re.match(why, refused(address, monkeypatch))


def test_address_of_something_silent(monkeypatch, listener):
    address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    assert refused(address, monkeypatch) == "no answer within 1 s"


def test_address_of_a_web_server(monkeypatch, listener):
    def answer():
        connection, _ = listener.accept()
        with connection:
            connection.recv(1)
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    thread = threading.Thread(target=answer)
    thread.start()
    refused(f"127.0.0.1:{listener.getsockname()[1]}", monkeypatch)
    thread.join()


def test_address_of_a_worker(monkeypatch, workers):
    wait_until(lambda: "Start worker at" in workers.logs())
    address = re.search(r"Start worker at: +(\S+)", workers.logs())[1]
    assert refused(address, monkeypatch) == "there is a worker"


# Between a call and who wants it


def test_told(tmp_path, workers):
    heard = []
    results(
        tmp_path / "log",
        telling,
        count=1,
        scheduler=workers.address,
        hear=lambda call, message: heard.append((call.argument["number"], message)),
    )
    assert heard == [
        (0, BEGUN),
        (0, {"stage": "first", "share": 0.25}),
        (0, {"stage": "second", "share": 0.5}),
    ]


def test_nobody_hears(tmp_path, workers):
    (result,) = results(tmp_path / "log", telling, count=1, scheduler=workers.address)
    assert result["number"] == 0


def test_call_learns_that_nobody_wants_it(tmp_path, fresh):
    fresh.worker(threads=2)
    log = tmp_path / "log"

    def settle(call, outcome):
        wait_until(Path(f"{log}.started").exists)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.run(calls(log, abandoned, 2), settle, scheduler=fresh.address)
    wait_until(Path(f"{log}.ended").exists)


# Commands


def test_jobs_and_scheduler():
    arguments = ["all", "--jobs", "2", "--scheduler", "tcp://a:1"]
    done = CliRunner().invoke(papers_command, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "--jobs is for processes of this machine" in line


def test_address_wrong_for_a_command(tmp_path, monkeypatch):
    monkeypatch.setenv("LATELY_CACHE", str(tmp_path))
    done = CliRunner().invoke(papers_command, ["apbf-table-1", "--scheduler", "here"])
    assert (done.exit_code, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("lately: error: scheduler: must be the address of a Dask scheduler")


@pytest.mark.slow
def test_planner_is_validated_by_a_cluster(tmp_path, workers, monkeypatch):
    arguments = ["planner", "--points", "2", "--seed", "5", "--json"]
    texts = []
    for number, where in enumerate([["--jobs", "1"], ["--scheduler", workers.address]]):
        monkeypatch.setenv("LATELY_CACHE", str(tmp_path / str(number)))
        done = CliRunner().invoke(main, [*arguments, *where])
        assert done.exit_code == 0, done.output
        texts.append(done.stdout)
    assert json.loads(texts[0])["measured"] == 2
    assert texts[0] == texts[1]
