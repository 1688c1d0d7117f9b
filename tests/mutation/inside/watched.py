"""Plugin of pytest: runs chosen tests, tells the first failure, and records what tests call."""

import cProfile
import json
import os
from pathlib import Path

import pytest

CHOSEN = "LATELY_CHOSEN"
"""Environment variable: file with the tests to run, in their order; all if it is missing."""
TOLD = "LATELY_TOLD"
"""Environment variable: file to write."""

BROKEN = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)

ROOT = os.path.realpath(Path(__file__).parents[3])
ROOMS = ("golden", "hdl")


def function_of(code) -> str | None:
    """Return path and qualified name of a function of the rooms that have mutants."""
    path = os.path.relpath(os.path.realpath(code.co_filename), ROOT)
    if path.split(os.sep)[0] not in ROOMS:
        return None
    # What is defined in a function belongs to it.
    return f"{path}:{code.co_qualname.partition('.<')[0]}"


class Calls:
    """Functions that are called, as the profiler sees them."""

    def __init__(self) -> None:
        self._profile = cProfile.Profile()
        self._names: dict[object, str | None] = {}
        self._profile.enable()

    def take(self) -> set[str]:
        """Return what was called since the last time."""
        self._profile.disable()
        codes = {entry.code for entry in self._profile.getstats()}
        self._profile.clear()
        for code in codes - self._names.keys():
            self._names[code] = None if isinstance(code, str) else function_of(code)
        self._profile.enable()
        return {self._names[code] for code in codes} - {None}


class Watch:
    """What is told of a run: the first failure, and of each test its time and its calls."""

    def __init__(self) -> None:
        self.failed = None
        self.error = ""
        self.tests: dict[str, dict] = {}
        self._prepared: set[str] = set()
        self.calls = Calls() if CHOSEN not in os.environ else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        if CHOSEN in os.environ:
            there = {item.nodeid: item for item in items}
            chosen = json.loads(Path(os.environ[CHOSEN]).read_text())
            items[:] = [there[name] for name in chosen if name in there]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item):
        yield
        # Fixtures and what is made at the import are for all tests that follow.
        if self.calls is not None:
            self._prepared |= self.calls.take()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        yield
        if self.calls is not None:
            called = self._prepared | self.calls.take()
            self.tests[item.nodeid] = {"calls": sorted(called), "seconds": 0.0}

    def pytest_exception_interact(self, node, call, report):
        self.error = self.error or call.excinfo.typename

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed = self.failed or report.nodeid
            self.tests.pop(report.nodeid, None)
        elif report.nodeid in self.tests:
            self.tests[report.nodeid]["seconds"] += report.duration

    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus in BROKEN:
            self.failed = self.failed or "pytest"
        told = {"failed": self.failed, "error": self.error, "tests": self.tests}
        Path(os.environ[TOLD]).write_text(json.dumps(told))


def pytest_configure(config):
    if TOLD in os.environ:
        config.pluginmanager.register(Watch())
