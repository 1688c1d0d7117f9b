"""Each recipe of docs/recipes.md, as the page shows it."""

import asyncio
import importlib
import multiprocessing
import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lately import GEBF

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "recipes"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.fixture(autouse=True)
def _recipes(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    paths = str(FOLDER), os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def test_page_shows_every_recipe_and_each_is_short():
    page = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    for name in RECIPES:
        assert f"../examples/recipes/{name}.py" in page
        assert len((FOLDER / f"{name}.py").read_text("utf-8").splitlines()) <= 60


class Broker:
    """A partition of messages, and the offset that was committed last."""

    def __init__(self, messages):
        self.messages, self.offset = messages, 0

    def committed(self):
        return self.offset

    def read(self, offset, count):
        return self.messages[offset : offset + count]

    def commit(self, offset):
        self.offset = offset


class LostError(Exception):
    """The process ends here."""


def test_consumer_goes_on_after_a_crash(tmp_path):
    consumer = importlib.import_module("consumer")
    rng = random.Random(1)
    keys = [f"key {rng.randrange(400)}" for _ in range(3000)]
    broker = Broker(list(zip(keys, range(3000), strict=True)))
    whole, model = [], GEBF.for_window(1000, 1e-9)
    for number, repeated in enumerate(model.check_and_insert(keys)):
        if not repeated:
            whole.append(number)
    got = []
    for crash in range(6):
        worker = consumer.Deduplicator(broker, tmp_path, window=1000, fpr=1e-9)
        for _ in range(3):
            worker.step(got.append, 100)
        if crash < 5:
            # Messages are forwarded and the state is written, but nothing is committed.
            broker.commit = lost
            with pytest.raises(LostError):
                worker.step(got.append, 100)
            del broker.commit
    while worker.step(got.append, 100):
        pass
    assert sorted(set(got)) == whole
    assert len(list(tmp_path.iterdir())) <= 1 + 5


def lost(offset):
    raise LostError


def test_streams():
    streams = importlib.import_module("streams")

    async def given(items):
        for item in items:
            yield item

    async def collected(items):
        return [item async for item in items]

    model = GEBF.for_window(1000, 1e-9)
    assert asyncio.run(collected(streams.unique(given("abcab"), model))) == ["a", "b", "c"]
    batches = [np.arange(5), np.arange(3, 20_000), np.arange(19_990, 20_001)]
    model = GEBF.for_window(30_000, 1e-9)
    small, large, last = asyncio.run(collected(streams.unique_batches(given(batches), model)))
    assert (small.tolist(), last.tolist()) == ([0, 1, 2, 3, 4], [20_000])
    assert large.tolist() == list(range(5, 20_000))


class Frame(dict):
    """As much of pandas as the recipe uses: columns by name, rows by a mask, and `loc`."""

    loc = None

    def __getitem__(self, key):
        if isinstance(key, str):
            return super().__getitem__(key)
        return Frame({name: column[key] for name, column in self.items()})


def test_frames():
    frames = importlib.import_module("frames")
    model = GEBF.for_window(1000, 1e-9)
    keys = np.array([7, 8, 7])
    assert frames.new_rows(Frame(key=keys, n=np.arange(3)), "key", model)["n"].tolist() == [0, 1]
    assert frames.new_rows(pa.table({"key": [8, 9], "n": [3, 4]}), "key", model)[
        "n"
    ].to_pylist() == [4]


def test_frontier():
    crawler = importlib.import_module("crawler")
    frontier, day = crawler.Frontier(fetches_per_second=0.01, fpr=1e-9), 86_400
    assert frontier.offer(["a", "b", "a"], now=1e9) == 2
    assert [frontier.next() for _ in range(3)] == ["a", "b", None]
    # Links on all days of the week do not make it longer.
    assert [frontier.offer(["a"], now=1e9 + n * day) for n in range(1, 8)] == [0] * 7
    assert frontier.offer(["a"], now=1e9 + 20 * day) == 1


def test_admission():
    admission = importlib.import_module("admission")
    cache = admission.AdmittingCache(str, 10, fpr=1e-9)
    for key in range(100):
        assert cache.get(key) == str(key)
        assert cache.get("hot") == "hot"
    assert (cache.hits, cache.misses) == (98, 102)
    assert len(cache._values) == 1


def test_processes(tmp_path):
    processes = importlib.import_module("processes")
    path = tmp_path / "seen.lately"
    processes.prepare(path, window=1000)
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=processes.write, args=([np.arange(500)], path))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    assert processes.count_known(np.arange(500), path) == 500


@pytest.mark.slow
def test_partitions_outlive_a_worker(tmp_path, monkeypatch):
    from distributed import Client, LocalCluster

    partitions = importlib.import_module("partitions")
    rng = random.Random(2)
    batches = [[f"key {rng.randrange(3000)}" for _ in range(200)] for _ in range(40)]
    last, expected, counts = {}, [], [0, 0]
    for batch in batches:
        new = []
        for key in batch:
            home = partitions.partition_of(key, 2)
            if key not in last or counts[home] - last[key] > 1000:
                new.append(key)
            last[key] = counts[home]
            counts[home] += 1
        expected.append(new)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        results = partitions.deduplicate(client, batches, tmp_path, window=1000, fpr=1e-9)
        received = [next(results)]
        pid = next(iter(client.run(os.getpid).values()))
        os.kill(pid, 9)
        received += results
    # A ring reports some keys that are a little older than the window, but loses no key in it.
    for new, due in zip(received, expected, strict=True):
        assert set(new) <= set(due)
    assert sum(map(len, received)) > 0.9 * sum(map(len, expected))
