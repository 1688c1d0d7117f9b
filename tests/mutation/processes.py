"""Processes in which tests and proofs run, of the true source or of a mutant."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).parent / "inside"

STARTING = 90
"""Seconds that a process may take beside its tests, where loops may have to be compiled anew."""
SLOWER = 5
"""How many times as long as recorded a run may take before it counts as endless."""


@dataclass(frozen=True)
class Run:
    """Where a process keeps its files, and what it imports.

    Attributes
    ----------
    folder : Path
        For compiled models, which all runs share.
    module : str
        Name of the module that is changed; none if it is empty.
    source : Path or None
        Its changed source.
    """

    folder: Path
    module: str = ""
    source: Path | None = None

    def environment(self, temporary: str) -> dict[str, str]:
        """Return the environment of the process."""
        path = [str(INSIDE), os.environ.get("PYTHONPATH", ""), str(ROOT)]
        changed = {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "LATELY_CACHE": str(self.folder / "models"),
            "TMPDIR": temporary,
        }
        if self.module:
            changed["LATELY_MUTANT"] = f"{self.module}={self.source}"
            # What numba keeps is found by the source that is not changed.
            if "compiled" in self.module:
                changed["NUMBA_CACHE_DIR"] = temporary
        return os.environ | changed


class EndlessRunError(Exception):
    """A process took too long and was killed."""


def run_tests(run: Run, files: list[str], chosen: Mapping[str, dict] | None = None) -> dict:
    """Run chosen tests of some files until one fails; or all, and record what they call.

    Parameters
    ----------
    run : Run
    files : list of str
    chosen : dict of str to dict, optional
        Tests with their seconds; quick ones run first.

    Returns
    -------
    dict
        Name of the test that `failed` and the `error`, or, of each of the `tests` that passed,
        its seconds and calls.

    Raises
    ------
    EndlessRunError
        If it takes much longer than is usual.
    RuntimeError
        If tests ran and the plugin told nothing of them.
    """
    arguments = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "watched", "-q", *files]
    arguments += ["-m", "not slow", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    limit = None
    with temporary_folder(run) as folder:
        told, names = Path(folder, "told.json"), Path(folder, "chosen.json")
        environment = run.environment(folder) | {"LATELY_TOLD": str(told)}
        if chosen is None:
            environment["LATELY_CALLS"] = "1"
        else:
            names.write_text(json.dumps(sorted(chosen, key=lambda one: chosen[one]["seconds"])))
            environment["LATELY_CHOSEN"] = str(names)
            arguments.append("-x")
            limit = sum(one["seconds"] for one in chosen.values()) * SLOWER + STARTING
        output = start([*arguments, f"--basetemp={folder}/tests"], environment, limit)
        if told.exists():
            return json.loads(told.read_text())
    last = output.strip().rpartition("\n")[2]
    if re.search(r"\d+ (passed|failed)", last):
        # Otherwise all mutants would count as killed.
        raise RuntimeError(f"The plugin of pytest must tell of a run that ended, not only: {last}")
    return {"failed": files[0], "error": last, "tests": {}}


def build(run: Run, kind: str, known: Mapping[str, str] | str, *, limit=None) -> dict:
    """Build units or proofs; run the proofs whose hardware has another digest than is known.

    Returns
    -------
    dict
        What was `built`, and the name of the proof that `failed`.

    Raises
    ------
    EndlessRunError
        If it takes longer than `limit` seconds.
    """
    with temporary_folder(run) as folder:
        told, names = Path(folder, "told.json"), Path(folder, "known.json")
        if known != "all":
            names.write_text(json.dumps(known))
        arguments = [str(INSIDE / "built.py"), kind, "all" if known == "all" else str(names)]
        calls = {"LATELY_CALLS": "1"} if known == "all" else {}
        output = start([*arguments, str(told)], run.environment(folder) | calls, limit)
        if told.exists():
            return json.loads(told.read_text())
    return {"built": {"error": {"digest": output[-500:]}}, "failed": None}


@contextmanager
def temporary_folder(run: Run) -> Iterator[str]:
    """Make a folder for the files of a run, which is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=run.folder, ignore_cleanup_errors=True) as folder:
        yield folder


class Starter:
    """Has processes started by one that has imported already what the package needs."""

    def __init__(self) -> None:
        environment = Run(ROOT).environment(tempfile.gettempdir())
        self._process = subprocess.Popen(
            [sys.executable, str(INSIDE / "forked.py")],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def _answered(self, limit: float | None) -> int | None:
        """Return the number of a process; None if there is no answer within so many seconds."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], limit)[0]:
            return None
        return int(self._process.stdout.readline())

    def __call__(
        self, arguments: list[str], environment: dict[str, str], limit: float | None
    ) -> str:
        """Run Python until it ends; return what it said.

        Raises
        ------
        EndlessRunError
            If it has not ended after so many seconds.
        """
        assert self._process.stdin is not None
        with tempfile.NamedTemporaryFile() as output:
            asked = json.dumps([arguments, environment, str(ROOT), output.name])
            self._process.stdin.write(f"{asked}\n".encode())
            self._process.stdin.flush()
            process = self._answered(None)
            assert process is not None
            ended = None
            try:
                ended = self._answered(limit)
            finally:
                # Simulators and compilers that it started.
                with suppress(ProcessLookupError):
                    os.killpg(process, signal.SIGKILL)
                if ended is None:
                    self._answered(None)
            if ended is None:
                raise EndlessRunError
            return output.read().decode(errors="replace")


@cache
def starter() -> Starter:
    """Return what starts all processes."""
    return Starter()


def start(arguments: list[str], environment: dict[str, str], limit: float | None) -> str:
    """Run Python until it ends; return what it said."""
    return starter()(arguments, environment, limit)
