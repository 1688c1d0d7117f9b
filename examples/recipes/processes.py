"""One filter in shared memory: a process writes, other processes query at the same time.

A reader never misses a key whose insertion was complete before the question and that is still
in the window. The writer may be killed: the next writer goes on with the same file.
"""

from lately import GEBF, attach, share

PATH = "/dev/shm/seen.lately"


def prepare(path=PATH, *, window=1_000_000, fpr=0.001):
    """Make an empty filter that processes can open."""
    share(GEBF.for_window(window, fpr), path)


def write(batches, path=PATH):
    """Insert batches of keys; one process at a time may do this."""
    seen = attach(path, write=True)
    for keys in batches:
        seen.insert(keys)


def count_known(keys, path=PATH):
    """Return how many of some keys the writer has inserted lately."""
    return int(attach(path).query(keys).sum())
