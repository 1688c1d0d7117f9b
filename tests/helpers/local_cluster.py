"""A Dask cluster of processes of this machine, started as a person would do it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

TESTS = str(Path(__file__).parent)
"""Folder of the modules that workers import."""


class LocalCluster:
    """A scheduler, and workers that come and go.

    Parameters
    ----------
    folder : path
        For logs and for what the workers leave.
    variables : str
        Of the environment.
    """

    def __init__(self, folder, **variables):
        self._folder = folder
        self._variables = variables
        self.processes = []
        file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", str(file))
        wait_until(lambda: file.exists() and file.stat().st_size)
        self.address = json.loads(file.read_text())["address"]

    def worker(self, *, threads=1, nanny=False, path=None):
        """Start a worker; returns before it is there."""
        return self._start(
            *("worker", self.address, "--nthreads", str(threads)),
            *("--nanny" if nanny else "--no-nanny", "--local-directory", str(self._folder)),
            path=path,
        )

    def _start(self, command, *arguments, path=None):
        arguments = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", *arguments)
        with open(self._folder / f"{command}-{len(self.processes)}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", command, "--no-dashboard", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": path or TESTS} | self._variables,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def logs(self):
        """Return what all processes have written."""
        return "".join(path.read_text() for path in sorted(self._folder.glob("*.log")))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.processes:
            kill(process)


def kill(process):
    """Kill a process with those that it started, if it runs."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(condition):
    """Wait for a condition, at most as long as a busy machine may take."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
