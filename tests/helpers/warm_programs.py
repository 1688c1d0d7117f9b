"""Processes of `lately`, forked from one that has imported all of it.

Each has descriptors, signals, limits and an end of its own, as if a shell had started it; only the
imports, half a second of work, are shared.
"""

import atexit
import ctypes
import gc
import io
import json
import os
import resource
import select
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from subprocess import DEVNULL, PIPE

WARM = (
    "jinja2", "lately.boards.flow.devices", "lately.dedup.copy_report",
    "lately.golden.spec.presets", "lately.lines.uniq", "lately.planner.plans",
    "lately.replay.drawing", "lately.replay.report", "lately.replay.run", "numpy.ma",
    "numpy.polynomial", "numpy.random", "rich.progress",
)  # fmt: skip
"""What commands import when they run, beside their own modules."""


NEW_NETWORK = 0x40000000
"""Linux's CLONE_NEWNET."""


class Program:
    """A `lately` that runs, used as `subprocess.Popen` is.

    Options: `limit` bounds the bytes of its files, `closed` closes its standard output, `network`
    is the path of the network namespace that it enters, and `environment` adds variables.
    """

    def __init__(self, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, **options):
        self.returncode, ends, opened = None, [], []
        for name, stream in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            setattr(self, name, None)
            if stream == PIPE:
                kept, end = os.pipe()[:: -1 if name == "stdin" else 1]
                setattr(self, name, os.fdopen(kept, "wb" if name == "stdin" else "rb"))
            elif stream == DEVNULL:
                end = os.open(os.devnull, os.O_RDWR)
            else:
                end = stream if isinstance(stream, int) else stream.fileno()
            ends.append(end)
            opened += [end] if stream in (PIPE, DEVNULL) else []
        self._report, report = socket.socketpair()
        order = options | {"arguments": [*map(str, arguments)], "folder": os.getcwd()}
        socket.send_fds(_server(), [json.dumps(order).encode()], [*ends, report.fileno()])
        report.close()
        for number in opened:
            os.close(number)
        self.pid = self._receive(60)

    def _receive(self, timeout):
        """Return the next number that the other process reports: process id, then exit status."""
        self._report.settimeout(timeout)
        return struct.unpack("i", self._report.recv(4))[0]

    def send_signal(self, number):
        os.kill(self.pid, number)

    def read_line(self, timeout=60):
        """Return the next line of standard output, which must come in time."""
        assert select.select([self.stdout], [], [], timeout)[0], "nothing comes"
        return self.stdout.readline()

    def wait(self, timeout=60):
        """Return the exit status, or the negative number of the signal that ended it."""
        if self.returncode is None:
            self.returncode = self._receive(timeout)
            self._report.close()
        return self.returncode

    def communicate(self, content=None, timeout=60):
        """Send bytes, and return all that is written on standard output and standard error."""
        with ThreadPoolExecutor() as pool:
            readers = [file and pool.submit(file.read) for file in (self.stdout, self.stderr)]
            if self.stdin:
                with suppress(BrokenPipeError):
                    self.stdin.write(content or b"")
                with suppress(BrokenPipeError):
                    self.stdin.close()
            outputs = [reader and reader.result(timeout) for reader in readers]
        self.wait(timeout)
        self.__exit__()
        return tuple(outputs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for file in filter(None, (self.stdin, self.stdout, self.stderr)):
            file.close()
        self.wait()


@cache
def _server():
    """Start the process from which all others are forked; return the socket to it."""
    control, end = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, __file__, str(end.fileno())], pass_fds=[end.fileno()], stdin=DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    end.close()
    atexit.register(process.wait)
    atexit.register(control.close)
    return control


# In the other process


def _serve(control):
    """Return arguments, in a new process each time that one is asked for."""
    while True:
        message, numbers, *_ = socket.recv_fds(control, 1 << 16, 4)
        with suppress(ChildProcessError):
            # Wait for those that still run only when no more are asked for.
            while os.waitpid(-1, os.WNOHANG if message else 0)[0]:
                pass
        if not message:
            sys.exit()
        if os.fork() == 0:
            control.close()
            return _begin(json.loads(message), *numbers)
        for number in numbers:
            os.close(number)


def _begin(order, *numbers):
    """Wait in this process for another one, in which it returns."""
    *streams, report = numbers
    if pid := os.fork():
        for number in streams:
            os.close(number)
        os.write(report, struct.pack("i", pid))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(report, struct.pack("i", code))
        os._exit(0)
    os.close(report)
    for target, number in enumerate(streams):
        os.dup2(number, target)
        os.close(number)
    os.chdir(order["folder"])
    os.environ.update(order.get("environment", {}))
    _open_streams(closed=order.get("closed"))
    if network := order.get("network"):
        with open(network) as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns", network)
    if limit := order.get("limit"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return order["arguments"]


def _open_streams(*, closed):
    """Make the standard streams as the interpreter does when it starts."""
    bare = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        binary = os.fdopen(
            number, "wb" if number else "rb", buffering=0 if bare and number else -1, closefd=False
        )
        errors = "backslashreplace" if number == 2 else "strict"
        lines = number == 2 or os.isatty(number)
        stream = io.TextIOWrapper(
            binary, "utf-8", errors, line_buffering=lines, write_through=bare and number > 0
        )
        setattr(sys, name, stream)
    if closed:
        sys.stdout = None
        os.close(1)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    for module in WARM:
        import_module(module)
    lately = import_module("lately.cli.app").main
    for name in lately.list_commands(None):
        lately.get_command(None, name)
    # Forked processes neither look for garbage in what they share nor write to its pages.
    gc.freeze()
    lately(_serve(socket.socket(fileno=int(sys.argv[1]))), prog_name="lately")
