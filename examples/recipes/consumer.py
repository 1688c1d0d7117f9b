"""A consumer that drops messages seen recently, and saves its filter at each committed offset.

The state file is written before the offset is committed, and is named after the offset. After a
crash the consumer loads the state of the committed offset and reads the same messages again, with
the same results. A crash therefore loses no message, but messages may be forwarded twice.
"""

from pathlib import Path

from lately import GEBF


class Deduplicator:
    """Forwards the messages of a partition, except those whose keys were seen recently.

    The `broker` has the methods `committed()`, `read(offset, count)` and `commit(offset)`, which
    Kafka clients have under other names. Messages are pairs of a key and a value.
    """

    def __init__(self, broker, folder, *, window=100_000, fpr=1e-6):
        self._broker, self._folder = broker, Path(folder)
        self._offset = broker.committed()
        if self._offset:
            self._filter = GEBF.load(self._state(self._offset))
        else:
            self._filter = GEBF.for_window(window, fpr)

    def _state(self, offset):
        return self._folder / f"{offset:020}.lately"

    def step(self, forward, count=1000):
        """Forward the next messages and commit; return the number of messages read."""
        messages = self._broker.read(self._offset, count)
        if not messages:
            return 0
        seen = self._filter.check_and_insert([key for key, _ in messages])
        for (_, value), repeated in zip(messages, seen, strict=True):
            if not repeated:
                forward(value)
        before, self._offset = self._offset, self._offset + len(messages)
        self._filter.save(self._state(self._offset))
        self._broker.commit(self._offset)
        self._state(before).unlink(missing_ok=True)
        return len(messages)
