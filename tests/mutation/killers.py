"""Tests and proofs that a changed source may fail, each run in a process that imports it."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from import_graph import Module, read_imports, scan

from lately.golden import LAZY

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).parent / "inside"
FOLDER = ROOT / "build" / "mutation"
"""Folder of compiled models and of the digests of netlists."""

PROOF, UNIT = "proof: ", "unit: "
"""Start of the name of a killer that is a proof, or that is a sentence of the plan on a unit."""

ENDED = re.compile(r"\d+ (passed|skipped|deselected)")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)


def module_name(path: str) -> str:
    """Return the name under which a module is imported, as lately.hdl.queue for hdl/queue.py."""
    parts = Path(path).with_suffix("").parts
    apart = parts[0] in ("lately", "papers", "campaigns")
    return ".".join(parts if apart else ("lately", *parts))


class EndlessRunError(Exception):
    """A process took too long and was killed."""


class Change:
    """One module with another source.

    Parameters
    ----------
    path : str
        Module, as hdl/queue.py.
    source : str
        Changed source.
    """

    def __init__(self, path: str, source: str) -> None:
        self._module = module_name(path)
        self._source = source

    def run(self, arguments: list[str], limit: float) -> tuple[int, str]:
        """Run Python with the changed module; return the exit status and the output.

        Raises
        ------
        EndlessRunError
            If the process takes more than `limit` seconds.
        """
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            changed = Path(folder, "changed.py")
            changed.write_text(self._source, "utf-8")
            path = [str(INSIDE), os.environ.get("PYTHONPATH", ""), str(ROOT)]
            environment = os.environ | {
                "PYTHONPATH": os.pathsep.join(filter(None, path)),
                "LATELY_CACHE": str(FOLDER / "models"),
                "TMPDIR": folder,
                "LATELY_MUTANT": f"{self._module}={changed}",
            }
            with subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            ) as process:
                try:
                    output, _ = process.communicate(timeout=limit)
                except subprocess.TimeoutExpired:
                    raise EndlessRunError from None
                finally:
                    # The group includes simulators and compilers.
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
        return process.returncode, output

    def failing_test(self, test: str, limit: float, marks: str = "not slow") -> str:
        """Run a test, or a file of tests until one fails; return the name of the failed test.

        Raises
        ------
        ValueError
            If pytest does not find the test.
        """
        arguments = ["-m", "pytest", "-p", "no:cacheprovider", "-q", "-x", "-m", marks]
        status, output = self.run([*arguments, test], limit)
        if status in (0, 5) and ENDED.search(output):  # All passed, or all are slow.
            return ""
        if failed := FAILED.search(output):
            return failed[1]
        if status == 4 and "not found" in output:
            raise ValueError(f"killer: must be a test that exists, not {test!r}")
        return test

    def failing(self, killer: str, limit: float) -> str:
        """Run a killer: a test, or `PROOF` or `UNIT` with a name; return what fails, or nothing."""
        command, _, name = killer.partition(": ")
        if not killer.startswith((PROOF, UNIT)):
            return self.failing_test(killer, limit, marks="")
        return self._built(command, name, limit).removesuffix("none")

    def failing_netlist(self, limit: float) -> str:
        """Run the proofs whose netlists differ from those of the true source.

        Returns
        -------
        str
            Name of the proof that fails; `same` if no netlist differs, also of small units.
        """
        return self._built("changed", str(true_netlists()), limit).removesuffix("none")

    def _built(self, command: str, argument: str, limit: float) -> str:
        status, output = self.run([str(INSIDE / "built.py"), command, argument], limit)
        last = (output.strip() or "nothing").rpartition("\n")[2]
        return f"error: {last}" if status else last


@cache
def true_netlists() -> Path:
    """Return the file with the digests of the true source's netlists; make it if it is absent."""
    digest = hashlib.sha256()
    for folder in ("golden", "hdl", "sim"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    file = FOLDER / f"netlists-{digest.hexdigest()[:16]}.json"
    if not file.exists():
        true = (ROOT / "golden" / "times.py").read_text("utf-8")
        change = Change("golden/times.py", true)
        status, output = change.run([str(INSIDE / "built.py"), "digests", str(file)], 3600)
        if status:
            raise RuntimeError(f"netlists: the true source has none: {output}")
    return file


@cache
def _users() -> dict[str, set[str]]:
    """Return the importers of each module: names of modules, and paths of test files."""
    modules = scan(ROOT)
    # Names of the package are imported from their modules at their first use.
    for home, names in LAZY.items():
        for name in names:
            path = modules[f"lately.golden.{home}"].path
            modules[f"lately.golden.{name}"] = Module(path, imports={f"lately.golden.{home}"})
            modules["lately.golden"].imports.add(f"lately.golden.{name}")
    for folder in ("helpers", "reference"):
        for path in (ROOT / "tests" / folder).glob("*.py"):
            modules[path.stem] = Module(path)
    for path in (ROOT / "tests").rglob("test_*.py"):
        modules[path.relative_to(ROOT).as_posix()] = Module(path)
    for name, module in modules.items():
        if not name.startswith("lately"):
            read_imports(name, module, modules)
    importing: dict[str, set[str]] = {name: set() for name in modules}
    for name, module in modules.items():
        for used in module.imports:
            importing[used].add(name)
    return importing


def distances(path: str) -> dict[str, int]:
    """Return the test files that import a module, each with the number of imports on the way."""
    module = module_name(path)
    far, waiting = {module: 0}, deque([module])
    while waiting:
        name = waiting.popleft()
        for user in _users()[name] - far.keys():
            far[user] = far[name] + 1
            waiting.append(user)
    return {name: hops for name, hops in far.items() if name.startswith("tests/")}


def nearest(path: str) -> Iterator[str]:
    """Yield the test files that import a module: similar names first, simulations last."""

    def words(name: str) -> set[str]:
        return set(re.split(r"[/_.]", name))

    def order(file: str) -> tuple[float, ...]:
        simulates = "pytest.mark.rtl" in (ROOT / file).read_text("utf-8")
        return far[file] > 2, simulates, -len(words(file) & words(path)), far[file]

    far = distances(path)
    yield from sorted(far, key=order)
