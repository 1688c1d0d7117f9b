"""One run of a measurement, in a process of its own that ends with the one that started it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from lately.boards.flow.devices import device
from lately.boards.flow.kept_netlists import cache_directory
from lately.boards.flow.synthesis import synthesize_unit
from lately.boards.flow.tools import TIME_LIMIT, SynthesisError
from lately.golden import Specification
from lately.golden.errors import LatelyError

from .measurements import Identity, Measurement
from .run_identity import identity
from .workers.calls import MismatchError, tell, wanted

PROGRAM = "from campaigns.hardware_run import work; work()"
"""Program of the process of a run."""

LOOK = 1.0
"""Seconds until a run that nobody wants any more is ended."""


def make(run: Identity, time_limit: float = TIME_LIMIT) -> dict[str, Any]:
    """Make a run and tell of its stages; called by `campaigns.workers.calls`.

    The process that makes it can be ended whatever it is doing, and ends by
    itself, with its tools and files, when this one does.

    Tools have `time_limit` seconds each. The result is as of `Measurement.to_dict`.

    Raises
    ------
    MismatchError
        If the hardware or the tools are others than those of `run`.
    LatelyError
        If it failed.
    """
    with _start(run, time_limit) as process:
        assert process.stdin is not None
        threading.Thread(target=_end_unwanted, args=(process, wanted()), daemon=True).start()
        try:
            return _follow(process, run)
        finally:
            process.stdin.close()


def _start(run: Identity, time_limit: float) -> "subprocess.Popen[str]":
    order = vars(run) | {"spec": run.spec.to_dict(), "time_limit": time_limit}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM, json.dumps(order)],
        # Nothing comes through it; its end tells of ours.
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        # Ctrl-C is for the first process, which ends the others.
        start_new_session=os.name == "posix",
    )


def _end_unwanted(process: "subprocess.Popen[str]", is_wanted: Callable[[], bool]) -> None:
    assert process.stdin is not None
    while process.poll() is None:
        if not is_wanted():
            process.stdin.close()
            return
        time.sleep(LOOK)


def _follow(process: "subprocess.Popen[str]", run: Identity) -> dict[str, Any]:
    assert process.stdout is not None
    last = "no output"
    for line in process.stdout:
        message = _message(line)
        if "error" in message:
            raise LatelyError(message["error"])
        if "mismatch" in message:
            raise MismatchError(message["mismatch"])
        if "measurement" in message:
            measurement = Measurement.from_dict(message["measurement"])
            if measurement.identity != run:
                raise MismatchError(_difference(measurement.identity, run))
            return measurement.to_dict()
        if "stage" in message:
            tell(stage=message["stage"], share=message["share"])
        elif line.strip():
            last = line.strip()
    status = process.wait()
    raise SynthesisError(f"ended with status {status} and no result: {last}")


def _message(line: str) -> dict[str, Any]:
    """Return what the process told; nothing for a line of somebody else."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _difference(found: Identity, run: Identity) -> str:
    if found.versions != run.versions:
        return f"other tools: {', '.join(' '.join(version) for version in found.versions)} there"
    return "other sources: the hardware or its flow is not the same there"


# In the process that makes the run


def work() -> None:
    """Make the run that the argument describes; tell of it on standard output, line by line."""
    _hear_interrupts()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        order = json.loads(sys.argv[1])
        time_limit = order.pop("time_limit")
        order |= {"spec": Specification.from_dict(order["spec"])}
        run = Identity(**order | {"versions": tuple(map(tuple, order["versions"]))})
        found = identity(run.spec, device(run.device), run.seed)
        if found != run:
            _tell(mismatch=_difference(found, run))
            return
        report = synthesize_unit(
            run.spec,
            device=device(run.device),
            seed=run.seed,
            time_limit=time_limit,
            progress=lambda stage, share: _tell(stage=stage, share=share),
            netlists=cache_directory(),
        )
    except LatelyError as error:
        _tell(error=str(error))
        return
    # What the tools say of themselves counts, not what was expected.
    done = Measurement(spec=run.spec, rtlil=run.rtlil, flow=run.flow, report=report)
    _tell(measurement=done.to_dict())


def _hear_interrupts() -> None:
    # A background job of a shell inherits that Ctrl-C is ignored, and a worker's that it is held.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with_parent() -> None:
    os.read(0, 1)
    # As an interrupt, so that the tools are ended and their files removed.
    os.kill(os.getpid(), signal.SIGINT)


def _tell(**message: object) -> None:
    print(json.dumps(message, allow_nan=False), flush=True)
