"""Frontier of a web crawler: a URL that was queued within the last week is not queued again.

The filter reads the clock of the machine, so a saved filter also works after a restart. With
`refresh=False`, the week starts when a URL is queued, and later links to the URL do not extend it.
"""

from collections import deque

from lately import GEBF


class Frontier:
    """Queue of URLs to fetch, to which each URL is added at most once a week.

    False positives cause about one new URL in ``1 / fpr`` to be skipped.
    """

    def __init__(self, *, fetches_per_second, fpr=1e-4):
        self._seen = GEBF.for_span("7d", fpr, rate=fetches_per_second)
        self._waiting = deque()

    def offer(self, links, now=None):
        """Queue the links that were not queued in the last week; return their number."""
        links = list(links)
        seen = self._seen.check_and_insert(links, now, refresh=False)
        new = [link for link, known in zip(links, seen, strict=True) if not known]
        self._waiting.extend(new)
        return len(new)

    def next(self):
        """Return the next URL, or None if the queue is empty."""
        return self._waiting.popleft() if self._waiting else None
