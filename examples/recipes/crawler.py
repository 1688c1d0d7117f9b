"""A frontier of a web crawler: an address that was taken this week is not taken again.

A saved filter goes on after a restart, by the clock of the machine. `refresh=False` counts the
week from the fetch: later links to the same address do not make the week longer.
"""

from collections import deque

from lately import GEBF


class Frontier:
    """Addresses that wait for a fetch, each at most once a week.

    One address in `1 / fpr` is skipped for a week although it is new.
    """

    def __init__(self, *, fetches_per_second, fpr=1e-4):
        self._seen = GEBF.for_span("7d", fpr, rate=fetches_per_second)
        self._waiting = deque()

    def offer(self, links, now=None):
        """Take over the links of a page that were not taken this week; return how many."""
        links = list(links)
        seen = self._seen.check_and_insert(links, now, refresh=False)
        new = [link for link, known in zip(links, seen, strict=True) if not known]
        self._waiting.extend(new)
        return len(new)

    def next(self):
        """Return the next address; None if there is none."""
        return self._waiting.popleft() if self._waiting else None
