"""One filter in shared memory: one process writes while other processes query.

A reader never misses a key that was inserted before the query began and is still in the window. The
writer may be killed: the next writer continues with the same file.
"""

from lately import GEBF, attach, share

PATH = "/dev/shm/seen.lately"


def prepare(path=PATH, *, window=1_000_000, fpr=0.001):
    """Create an empty filter that other processes can open."""
    share(GEBF.for_window(window, fpr), path)


def write(batches, path=PATH):
    """Insert batches of keys; only one process at a time may write."""
    seen = attach(path, write=True)
    for keys in batches:
        seen.insert(keys)


def count_known(keys, path=PATH):
    """Return how many of the keys the writer has inserted lately."""
    return int(attach(path).query(keys).sum())
