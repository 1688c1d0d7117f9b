"""Runs coroutines of the cocotb benches without a simulator, beside a unit in Python."""

import sys
from collections.abc import Iterator

import cocotb

BENCHES = "lately.sim.bench"
HALF = 5
"""Half a clock, in ns."""


class Edge:
    """Edges of the clock that a coroutine waits for."""

    def __init__(self, kind, count=1):
        self._kind, self._count = kind, count

    def __await__(self) -> Iterator[str]:
        for _ in range(self._count):
            yield self._kind


class Task:
    """A coroutine that runs beside others."""

    def __init__(self, coroutine):
        self._coroutine = coroutine
        self._ended = False
        self.waits = None

    def step(self):
        try:
            self.waits = self._coroutine.send(None)
        except StopIteration:
            self._ended = True

    def cancel(self):
        self._coroutine.close()
        self._ended = True

    def done(self):
        return self._ended

    def __await__(self) -> Iterator["Task"]:
        while not self._ended:
            yield self


class Clockwork:
    """Clocks a unit and the coroutines about it; `time` is in ns."""

    def __init__(self, unit):
        self._unit = unit
        self._tasks = []
        self.time = HALF

    def start_soon(self, coroutine):
        task = Task(coroutine)
        self._tasks.append(task)
        task.step()
        return task

    def run(self, coroutine, *, clocks=200_000):
        """Run a coroutine to its end; what any of them raises is raised here."""
        main = self.start_soon(coroutine)
        try:
            for _ in range(clocks):
                # The unit has the inputs of the falling edge.
                self._unit.edge(self.time)
                for kind in ("rising", "falling"):
                    self.time += HALF
                    self._resume(kind)
                    if main.done():
                        return
            raise AssertionError(f"no end in {clocks} clocks")
        finally:
            for task in self._tasks:
                task.cancel()

    def _resume(self, kind):
        """Resume the coroutines that wait for an edge, in the order in which they began to wait."""
        due = [task for task in self._tasks if task.waits == kind]
        self._tasks = [task for task in self._tasks if task.waits != kind]
        while due:
            for task in due:
                if not task.done():
                    task.step()
                    self._tasks.append(task)
            due = [task for task in self._tasks if self._follows(task)]
            self._tasks = [task for task in self._tasks if task not in due]
        self._tasks = [task for task in self._tasks if not task.done()]

    @staticmethod
    def _follows(task):
        return isinstance(task.waits, Task) and task.waits.done() and not task.done()


class Clock:
    """Takes the place of cocotb's, as the clockwork needs none."""

    def __init__(self, *_arguments, **_options):
        pass

    def start(self):
        pass


def use(monkeypatch, clockwork, **others):
    """Have all benches that are loaded run by a clockwork, and have `others` in their modules."""
    named = {
        "RisingEdge": lambda _: Edge("rising"),
        "FallingEdge": lambda _: Edge("falling"),
        "ClockCycles": lambda _, count: Edge("rising", count),
        "get_sim_time": lambda _: clockwork.time,
        "Clock": Clock,
    } | others
    for known, module in [*sys.modules.items()]:
        if known.startswith(f"{BENCHES}."):
            for name, stand_in in named.items():
                if name in vars(module):
                    monkeypatch.setattr(module, name, stand_in)
    monkeypatch.setattr(cocotb, "start_soon", clockwork.start_soon)
