"""Scaling out: one filter for each partition of the keys, on Dask workers.

A step reads the state file of a partition, and writes the next state file. The same file and the
same batch always give the same results. So if a worker is lost, Dask can repeat its steps on
another worker, starting from the last state file. Kafka Streams, Flink and bytewax do the same with
their own state stores. All workers must have access to the folder with the state files.
"""

from pathlib import Path
from zlib import crc32

from lately import GEBF


def partition_of(key, partitions):
    """Return the partition of a text key; unlike `hash`, all processes compute the same result."""
    return crc32(key.encode()) % partitions


def step(_previous, before, keys, after):
    """Load the filter from `before`, check and insert the keys, and save the filter to `after`."""
    model = GEBF.load(before)
    seen = model.check_and_insert(keys).tolist()
    model.save(after)
    return seen


def deduplicate(client, batches, folder, *, partitions=2, window=100_000, fpr=1e-6):
    """Yield the new keys of each batch, in order; each partition has a window of `window` keys."""

    def state(home, number):
        return str(Path(folder) / f"{home:03}-{number:09}.lately")

    for home in range(partitions):
        GEBF.for_window(window, fpr).save(state(home, 0))
    last, pending = [None] * partitions, []
    for number, batch in enumerate(batches):
        homes = [partition_of(key, partitions) for key in batch]
        for home in range(partitions):
            keys = [key for key, its in zip(batch, homes, strict=True) if its == home]
            files = state(home, number), keys, state(home, number + 1)
            last[home] = client.submit(step, last[home], *files, pure=False)
        pending.append((batch, homes, [*last]))
    for batch, homes, answers in pending:
        seen = [iter(answer.result()) for answer in answers]
        yield [key for key, home in zip(batch, homes, strict=True) if not next(seen[home])]
