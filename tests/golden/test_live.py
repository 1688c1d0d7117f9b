"""Rings in a file: one process writes, others read, and no key of the window is missed."""

import mmap
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from every_model import MODELS, RINGS, build
from paths import taking

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    BlockedGEBF,
    LatelyError,
    SpecificationError,
    StateFileError,
    attach,
    share,
)
from lately.golden.ring import live

FAMILIES = (APBF, APBBF, GEBF, BlockedGEBF)
SAMPLE = {(APBF, 1), (GEBF, 250)}
WRITTEN = pytest.mark.parametrize(
    ("kind", "batch"),
    [
        pytest.param(kind, batch, marks=() if (kind, batch) in SAMPLE else pytest.mark.slow)
        for kind in FAMILIES
        for batch in (1, 250)
    ],
)
WINDOW = 600
RATE = 1e-6

WRITER = """
import sys
import mmap
import numpy as np
from lately.golden import attach
path, progress, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
ring = attach(path, write=True)
with open(progress, "r+b") as file:
    count = np.frombuffer(mmap.mmap(file.fileno(), 16), np.int64)  # started, completed
while True:
    first = int(count[1])
    count[0] = first + batch
    if batch == 1:
        ring.insert(first)
    else:
        ring.insert(np.arange(first, first + batch))
    count[1] = first + batch
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ring.live"


class Writer:
    """A process that inserts 0, 1, 2, ... and counts what it has started and completed."""

    def __init__(self, path, progress, batch):
        if not progress.exists():
            progress.write_bytes(bytes(16))
        with open(progress, "r+b") as file:
            self.count = np.frombuffer(mmap.mmap(file.fileno(), 16), np.int64)
        command = [sys.executable, "-c", WRITER, path, progress, str(batch)]
        self.process = subprocess.Popen(command)
        self.wait(int(self.count[1]) + 1)

    def wait(self, count):
        """Wait until so many keys are there."""
        while self.count[1] < count:
            assert self.process.poll() is None
            time.sleep(0.001)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@WRITTEN
def test_a_reader_misses_no_key_while_another_process_writes(kind, batch, tmp_path, path):
    share(kind.for_window(WINDOW, RATE), path)
    ring = attach(path)
    writer = Writer(path, tmp_path / "progress", batch)
    checked = reads = 0
    try:
        # On a busy machine, the writer may be a window further after each read.
        while reads < 300 or checked <= 1000:
            reads += 1
            assert reads < 100_000
            completed = int(writer.count[1])
            keys = np.arange(max(0, completed - WINDOW), completed)
            seen = ring.query(keys)
            last = completed - 1 in ring
            started = int(writer.count[0])
            # Those that are still in the window have at most as many keys after their own.
            kept = keys >= started - 1 - WINDOW
            assert seen[kept].all()
            assert last or completed - 1 < started - 1 - WINDOW
            checked += np.count_nonzero(kept)
    finally:
        writer.kill()
    assert ring.ring_position == attach(path).ring_position


@WRITTEN
def test_a_killed_writer_loses_no_key_that_was_complete(kind, batch, tmp_path, path):
    seed = random.randrange(1 << 32)
    print(f"{seed=}")
    chance = random.Random(seed)
    share(kind.for_window(WINDOW, RATE), path)
    for _ in range(3):
        writer = Writer(path, tmp_path / "progress", batch)
        writer.wait(int(writer.count[1]) + chance.randrange(1, 3 * WINDOW))
        writer.kill()
        started, completed = writer.count.tolist()
        ring = attach(path, write=True)
        assert ring.query(np.arange(max(0, started - 1 - WINDOW), completed)).all()
        spec = ring.spec
        fresh = 1 << 40
        ring.insert(np.arange(fresh, fresh + 2 * (spec.guaranteed_window + spec.slack) + batch))
        assert ring.query(np.arange(completed)).mean() < 0.001
        del ring


def test_the_longest_generation(path):
    model = build("GEBF")
    model.generation = 1 << 62
    model.clear()
    share(model, path)
    with attach(path) as ring:
        assert ring.generation == 1 << 62
    with pytest.raises(SpecificationError, match=r"^generation: must be at most 4611686018427"):
        model.generation = (1 << 62) + 1


def test_one_writer(path):
    share(build("GEBF"), path)
    first = attach(path, write=True)
    with pytest.raises(LatelyError, match=r"live: another process has it open for writing$"):
        attach(path, write=True)
    reader = attach(path)
    first.insert(5)
    del first
    assert 5 in reader
    attach(path, write=True).insert(6)
    assert 6 in reader


def test_a_file_with_a_writer_is_kept(tmp_path, path):
    """It is replaced if that is allowed, or when its writer has closed it or has ended."""
    share(build("GEBF"), path)
    writer = Writer(path, tmp_path / "progress", 1)
    try:
        reason = f"{path}: another process has it open for writing; replace=True replaces the file"
        with pytest.raises(LatelyError, match=rf"^{re.escape(reason)}$"):
            share(build("APBF"), path)
        share(build("APBF"), path, replace=True)
    finally:
        writer.kill()
    with attach(path, write=True) as ring, attach(path) as reader:
        ring.insert("a")
        assert "a" in reader
        with pytest.raises(LatelyError, match=r"another process has it open for writing; replace"):
            share(build("GEBF"), path)
    for closed in (ring, reader):
        with pytest.raises(ValueError, match=r"^the filter is closed$"):
            closed.query("a")
    share(build("GEBF"), path)
    assert attach(path, write=True) == build("GEBF")


def test_a_writer_opens_the_file_that_replaces_another(path, monkeypatch):
    """Also if the file is replaced after it was opened and before it was locked."""
    share(build("GEBF"), path)
    lock, share_again = live._lock, iter([lambda: share(build("APBF"), path), lambda: None])

    def late(*arguments, **options):
        if not options:
            next(share_again)()
        lock(*arguments, **options)

    monkeypatch.setattr(live, "_lock", late)
    assert attach(path, write=True) == build("APBF")


CHANGES = [
    lambda ring: ring.insert(1),
    lambda ring: ring.insert([1, 2]),
    lambda ring: ring.check_and_insert("a"),
    lambda ring: ring.check_and_insert("a", refresh=False),
    lambda ring: ring.shift(),
    lambda ring: ring.clear(),
    lambda ring: setattr(ring, "generation", 5),
    lambda ring: ring.perform([1, 3], [1, 2]),
]


def test_a_reader_changes_nothing(path):
    share(build("GEBF"), path)
    before, ring = path.read_bytes(), attach(path)
    for change in CHANGES:
        with pytest.raises(ValueError, match=r"^filter: must be attached with write=True to chan"):
            change(ring)
    assert ring.counters["operations"] == 0
    assert path.read_bytes() == before


def test_filters_that_cannot_be_shared(path):
    for name in {*MODELS, *RINGS} - {kind.__name__ for kind in FAMILIES}:
        with pytest.raises(
            TypeError, match=rf"^share: needs .* not this {type(build(name)).__name__}$"
        ):
            share(build(name), path)
    with taking("readable"), pytest.raises(TypeError, match=r"^share: needs an .* not this GEBF$"):
        share(build("GEBF"), path)
    keyed = GEBF.for_window(100, hash="siphash", secret=5)
    with pytest.raises(ValueError, match=r"^hash: must be h3 for a shared file, not 'siphash'$"):
        share(keyed, path)
    assert not path.exists()
    share(build("GEBF"), path)
    with taking("readable"), pytest.raises(LatelyError, match=r"^attach: needs the C extension"):
        attach(path)


def test_files_that_are_damaged(path):
    share(build("GEBF"), path)
    whole = path.read_bytes()
    for size in (0, 10, 55, 56, 100, 4095, 4096, 8192, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(path)
    for index in (0, 15, 16, 20, 30, 60, 100):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        refused(path)
    for slot, value in ((1, 5), (1, -1), (2, 10**6), (3, 0), (4, -5)):
        words = np.frombuffer(bytearray(whole), np.int64).copy()
        words[512 + slot] = value
        path.write_bytes(words.tobytes() + whole[8 * len(words) :])
        refused(path)
    path.write_bytes(whole + b"\0")
    refused(path)
    path.write_bytes(build("GEBF").to_bytes())
    refused(path)


def refused(path):
    for write in (False, True):
        with pytest.raises(StateFileError, match=rf"^{re.escape(str(path))}: cannot attach: "):
            attach(path, write=write)


def test_a_file_of_before_the_start_of_the_machine(path, monkeypatch):
    share(build("GEBF"), path)
    monkeypatch.setattr(live, "_boot", lambda: "another")
    with pytest.raises(StateFileError, match=r"it was written before the last restart"):
        attach(path)


def test_files_that_cannot_be_opened(path):
    with pytest.raises(FileNotFoundError):
        attach(path)
    share(build("GEBF"), path)
    if os.getuid():
        path.chmod(0o400)
        with pytest.raises(PermissionError):
            attach(path, write=True)
    assert attach(path) == build("GEBF")
