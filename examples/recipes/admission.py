"""A cache that admits a key at its second request within a window.

Most keys of a long tail are requested only once. They never enter the cache, so they displace no
other key. For each key, the filter needs two bytes, whereas the cache stores a whole value.
"""

from collections import OrderedDict

from lately import GEBF


class AdmittingCache:
    """LRU cache of `size` values that admits a key at its second miss within `window` misses."""

    def __init__(self, load, size, *, window=None, fpr=0.01):
        self._load, self._size = load, size
        self._values = OrderedDict()
        self._asked = GEBF.for_window(window or 8 * size, fpr)
        self.hits = self.misses = 0

    def get(self, key):
        """Return the value of a key from the cache, or else from `load`."""
        if key in self._values:
            self.hits += 1
            self._values.move_to_end(key)
            return self._values[key]
        self.misses += 1
        value = self._load(key)
        if self._asked.check_and_insert(key):
            self._values[key] = value
            if len(self._values) > self._size:
                self._values.popitem(last=False)
        return value
