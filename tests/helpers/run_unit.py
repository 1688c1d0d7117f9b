"""Golden models in the place of the hardware of a run, with faults; repeats of a stream."""

from contextlib import contextmanager
from fractions import Fraction

from lately.golden import from_spec


class RunUnit:
    """Answers as the model of a specification, except for its faults.

    Parameters
    ----------
    counters : dict of str to int
        What is added to counters.
    cells : sequence of tuple
        Places of the memory that differ.
    fields
        Operations whose results differ in a field, by its name.
    """

    def __init__(self, spec, *, counters=None, cells=(), **fields):
        self._filter = from_spec(spec)
        self._counters, self._cells, self._fields = counters or {}, cells, fields
        self._calls = 0
        self.decide_by = getattr(self._filter, "decide_by", None)
        self.rekey = getattr(self._filter, "rekey", None)

    @property
    def cycles(self):
        return self._filter.operations + 20 * self._calls

    @property
    def statistics(self):
        counters = self._filter.counters
        return counters | {name: counters[name] + more for name, more in self._counters.items()}

    @property
    def memory(self):
        memory = self._filter.memory
        for index in self._cells:
            memory[index] ^= 1
        return memory

    def perform(self, operations, keys, times=None, windows=None):
        start = self._filter.operations
        results = self._filter.perform(operations, keys, times, windows)
        for name, indices in self._fields.items():
            for index in indices:
                if start <= index < self._filter.operations:
                    getattr(results, name)[index - start] ^= 1
        self._calls += 1
        return results


def engine(**faults):
    """Return what `lately.replay.run.run` takes in place of the compiled hardware."""

    @contextmanager
    def open_unit(spec):
        yield RunUnit(spec, **faults)

    return open_unit


def repeats_within(path, window, rate):
    """Return how many keys of a stream repeat within a window, in insertions or in ticks.

    Times of a stream are in seconds, each of which has `rate` ticks from its first time on.
    """
    last, repeats, first = {}, 0, None
    for number, line in enumerate(path.read_text().split()[path.suffix == ".csv" :]):
        *time, key = line.split(",")
        if time:
            first = Fraction(time[0]) if first is None else first
            now = (Fraction(time[0]) - first) * rate // 1
        else:
            now = number
        repeats += key in last and now - last[key] <= window
        last[key] = now
    return repeats
