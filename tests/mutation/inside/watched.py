"""Plugin of pytest: runs chosen tests, tells the first failure, and records what tests call."""

import json
import os
from pathlib import Path

import pytest
from sitecustomize import CALLED, CALLS

CHOSEN = "LATELY_CHOSEN"
"""Environment variable: file with the tests to run, in their order; all if it is missing."""
TOLD = "LATELY_TOLD"
"""Environment variable: file to write."""

BROKEN = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)


def taken() -> set[str]:
    """Return the functions that were called since the last time."""
    called = set(CALLED)
    CALLED.clear()
    return called


class Watch:
    """What is told of a run: the first failure, and of each test its time and its calls."""

    def __init__(self) -> None:
        self.failed = None
        self.error = ""
        self.begun = ""
        self.tests: dict[str, dict] = {}
        self._prepared: set[str] = set()
        self.calls = CALLS in os.environ

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        if CHOSEN in os.environ:
            there = {item.nodeid: item for item in items}
            chosen = json.loads(Path(os.environ[CHOSEN]).read_text())
            items[:] = [there[name] for name in chosen if name in there]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item):
        self.begun = item.nodeid
        yield
        # Fixtures and what is made at the import are for all tests that follow.
        if self.calls:
            self._prepared |= taken()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        yield
        if self.calls:
            called = taken()
            self.tests[item.nodeid] = {"calls": sorted(self._prepared | called), "seconds": 0.0}
            # A module that is there stays there.
            self._prepared |= {name for name in called if name.endswith(":<module>")}

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
            self.failed = self.failed or self.begun or "pytest"
        told = {"failed": self.failed, "error": self.error, "tests": self.tests}
        Path(os.environ[TOLD]).write_text(json.dumps(told))


def pytest_configure(config):
    if TOLD in os.environ:
        config.pluginmanager.register(Watch())
