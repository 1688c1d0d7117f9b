"""Several threads use one filter: every call takes effect as if it were alone."""

import inspect
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from contextlib import suppress
from copy import deepcopy

import pytest
from cases import daily
from every_model import MODELS, RINGS, build, model_class, used
from paths import PATHS, taking

from lately.golden import TimedFilter, filter, load
from lately.golden.filter import ReadOnly
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.spec import GEBFSpec
from lately.sim.bench.packets import ethernet, ip4, udp

THREADS = 2
ROUNDS = 4
BATCH = 3
TRIES = 2


@pytest.fixture
def _short_switch_interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def giving_way(seed):
    """Return a trace function that lets other threads run between lines of the models."""
    chance = random.Random(seed)

    def trace(frame, event, argument):
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("lately.golden.") or ".hash." in module or ".spec." in module:
            return None
        if chance.random() < 0.3:
            time.sleep(0)
        return trace

    return trace


def operands(model, key):
    """Return equal keys in a batch, with their times if the model takes them."""
    return [[key] * BATCH, *([[key] * BATCH] if isinstance(model, TimedFilter) else [])]


def at_once(call, seed=None):
    """Return the results of ``call(0)`` in all threads at a time, then of ``call(1)``, ....

    With a `seed`, threads give way between lines of the models.
    """
    results, failed = [], []
    start = threading.Barrier(THREADS)

    def work(number):
        if seed is not None:
            sys.settrace(giving_way(THREADS * seed + number))
        try:
            for turn in range(ROUNDS):
                start.wait()
                results.append(call(turn))
        except Exception as error:
            failed.append(error)
            start.abort()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    return results


@pytest.mark.usefixtures("_short_switch_interval")
@pytest.mark.parametrize("path", daily(1, PATHS))
@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_calls_of_threads_take_effect_one_after_another(name, path):
    with taking(path):
        twin = build(name)
        turns = [turn for turn in range(ROUNDS) for _ in range(THREADS)]
        seen = [twin.check_and_insert(*operands(twin, turn)) for turn in turns]
        for seed in range(TRIES):
            model = build(name)
            results = at_once(lambda turn: model.check_and_insert(*operands(model, turn)), seed)  # noqa: B023
            assert sum(map(sum, results)) == sum(map(sum, seen))
            assert model == twin
            assert model.insertions == twin.insertions


@pytest.mark.usefixtures("_short_switch_interval")
def test_frames_of_threads_are_taken_one_after_another():
    spec = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
    frames = [ethernet(0x0800, ip4(udp(payload))) for payload in (b"a", b"b")]
    for seed in range(TRIES):
        model = FrameDeduplicator(spec)
        left = at_once(lambda turn: model.perform(frames, [turn, turn]), seed)  # noqa: B023
        assert sorted(map(len, left)) == [0] * (THREADS * ROUNDS - 1) + [2]
        assert model.counts.hits == 2 * (THREADS * ROUNDS - 1)


class Watched:
    """A lock for one thread that counts how often it was taken, and how often it is held."""

    def __init__(self, others=()):
        self.taken = self.held = 0
        self.others = others

    def __enter__(self):
        assert not any(other.held for other in self.others)
        self.taken += 1
        self.held += 1

    def __exit__(self, *_):
        self.held -= 1


def public(kind):
    """Return the members of a class that work on an object of it, by name."""
    members = {name: inspect.getattr_static(kind, name) for name in dir(kind)}
    special = ("__contains__", "__reduce__", "__repr__")
    constant = (
        type,
        staticmethod,
        classmethod,
        str,
        tuple,
        dict,
        int,
        type(None),
        inspect.Signature,
        ReadOnly,
    )
    return {
        name: member
        for name, member in members.items()
        if (name in special or not name.startswith("_")) and not isinstance(member, constant)
    }


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_all_that_is_public_takes_the_lock(name):
    for member, kept in public(type(used(name))).items():
        model = used(name)
        model._lock = lock = Watched()
        if inspect.isroutine(kept) and member not in model._unlocked:
            with suppress(Exception):
                getattr(model, member)()
        elif member not in model._unlocked:
            getattr(model, member)
        assert member in model._unlocked or lock.taken > 0, member
        assert lock.held == 0


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_a_state_is_taken_at_a_time_and_written_without_the_lock(name, tmp_path, monkeypatch):
    model = used(name)
    model._lock = lock = Watched()
    state, write = model._state, filter.write_state
    held = []

    def watched_state():
        held.append(lock.held > 0)
        return state()

    def watched_write(*arguments, **options):
        held.append(lock.held > 0)
        write(*arguments, **options)

    model._state = watched_state
    monkeypatch.setattr(filter, "write_state", watched_write)
    model.save(tmp_path / "state")
    assert held == [True, False]
    assert load(tmp_path / "state") == used(name)


def test_comparison_never_holds_two_locks():
    first, second = used("GEBF"), used("GEBF")
    first._lock = Watched()
    second._lock = Watched([first._lock])
    first._lock.others = [second._lock]
    assert first == second
    assert first._lock.taken > 0 < second._lock.taken


def test_inner_filter_shares_the_lock():
    model = used("InferentialFilter")
    for each in (model, deepcopy(model)):
        assert each.model._lock is each._lock
    assert deepcopy(model)._lock is not model._lock


@pytest.mark.parametrize("copied", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_have_locks_of_their_own(copied):
    spec = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
    for model in (used("APBF"), FrameDeduplicator(spec)):
        copy = copied(model)
        assert copy == model
        assert copy._lock is not model._lock


@pytest.mark.usefixtures("_short_switch_interval")
@pytest.mark.parametrize("path", daily(1, PATHS))
@pytest.mark.parametrize("name", ["GEBF", "APBF", "PartitionedTimingFilter", "WindowDictionary"])
def test_no_key_of_the_window_is_missed_by_single_keys_and_batches(name, path):
    """Each thread asks for keys that it has inserted; batches let other threads run."""
    with taking(path):
        model = model_class(name).for_window(100_000)
    size, single_keys = (300, 20) if path == "readable" else (3000, 2000)

    def work(turn):
        start = threading.get_ident() % (1 << 40) << 20 | turn << 16
        keys = list(range(start, start + size))
        single = keys[:single_keys]
        model.insert(keys)
        missed = sum(not model.check_and_insert(key) for key in single)
        missed += sum(key not in model for key in single)
        return missed + size - int(sum(model.query(keys)))

    assert at_once(work) == [0] * (THREADS * ROUNDS)
    assert model.insertions == THREADS * ROUNDS * (size + single_keys)
    assert model.counters["insertions"] == model.insertions


FORKS = """
import os, signal, sys, threading
sys.modules |= {} if sys.argv[1] == "compiled" else {"lately.golden._core": None}
from lately.golden import GEBF, WindowDictionary, locks
assert (locks.Lock is threading.RLock) == (sys.argv[1] != "compiled")
models = [GEBF.for_window(1000, 1e-9), WindowDictionary.for_window(1000, 1e-9)]
other, data, going = GEBF.for_window(50), models[0].to_bytes(), True

def work(model, size):
    while going:
        model.insert(range(model.insertions, model.insertions + size))
        GEBF.from_bytes(data)

def status(check):
    if pid := os.fork():
        return os.waitpid(pid, 0)[1]
    signal.alarm(20)  # A child that hangs is killed.
    try:
        os._exit(not check())
    except BaseException as error:
        print(type(error).__name__, error, flush=True)
        os._exit(1)

def works():
    whole = all(model.insertions % 50 == 0 for model in models)
    for model in models:
        model.insert(range(50))
        whole &= model.query(range(50)).all() and "a" not in model
    return whole and GEBF.from_bytes(data).insertions == 0

def keys():
    events[0].set()
    events[1].wait()
    yield 5

threads = [threading.Thread(target=work, args=(m, s)) for m in models for s in (50, 200)]
[thread.start() for thread in threads]
print(sum(status(works) != 0 for _ in range(20)))
going = False
[thread.join() for thread in threads]

# A fork does not wait for ever, and may be in a call itself.
locks._FORK_WAIT, events = 0.1, [threading.Event(), threading.Event()]
thread = threading.Thread(target=other.insert, args=(keys(),))
thread.start()
events[0].wait()
models[0].insert(status(works) for _ in "a")
print(models[0].query(0), status(lambda: other.query([5]).all()) != 0)
events[1].set()
thread.join()
print(other.query(5), status(lambda: other.query([5]).all()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("path", ["compiled", "without the extension"])
def test_a_fork_waits_for_the_calls_of_other_threads(path):
    """In the child every filter works as after whole calls, or says why it does not."""
    command = [sys.executable, "-W", "ignore", "-c", FORKS, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    unknown = "filter: in use by another thread during a fork; load the filter again"
    assert done.stdout == f"0\nRuntimeError {unknown}\nTrue True\nTrue 0\n", done.stderr
