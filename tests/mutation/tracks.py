"""Which tests, proofs and units a mutant can be seen by: recorded runs of the true source."""

import hashlib
import json
from collections import deque
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from import_graph import Module, read_imports, scan

from lately.golden import LAZY

from .processes import ROOT, STARTING, Run, build, run_tests

RECORDS = "records.json"


@cache
def users() -> dict[str, set[str]]:
    """Return who imports each module: modules by their names, test files by their paths."""
    found = scan(ROOT)
    # Names of the package are imported from their modules when they are first used.
    for home, names in LAZY.items():
        for name in names:
            path = found[f"lately.golden.{home}"].path
            found[f"lately.golden.{name}"] = Module(path, imports={f"lately.golden.{home}"})
            found["lately.golden"].imports.add(f"lately.golden.{name}")
    for folder in ("helpers", "reference"):
        for path in (ROOT / "tests" / folder).glob("*.py"):
            found[path.stem] = Module(path)
    for path in (ROOT / "tests").rglob("test_*.py"):
        found[path.relative_to(ROOT).as_posix()] = Module(path)
    for name, module in found.items():
        if not name.startswith("lately"):
            read_imports(name, module, found)
    importing: dict[str, set[str]] = {name: set() for name in found}
    for name, module in found.items():
        for used in module.imports:
            importing[used].add(name)
    return importing


def distances(target: str) -> dict[str, int]:
    """Return the test files that import a module, by how many imports lie between.

    Parameters
    ----------
    target : str
        Name of the module.
    """
    far, waiting = {target: 0}, deque([target])
    while waiting:
        name = waiting.popleft()
        for user in users()[name] - far.keys():
            far[user] = far[name] + 1
            waiting.append(user)
    return {name: hops for name, hops in far.items() if name.startswith("tests/")}


class Records:
    """What tests, proofs and units call, found when it is first asked for.

    Parameters
    ----------
    folder : Path
        Where it is kept.
    complete : bool
        Whether nothing is to be added.
    """

    def __init__(self, folder: Path, *, complete: bool = False) -> None:
        self._complete = complete
        self._path = folder / RECORDS
        self._kept = json.loads(self._path.read_text()) if self._path.exists() else {}
        self._folder = folder

    def cost(self, file: str, path: str, function: str) -> tuple[float, ...]:
        """Return by what files are put in order to be run for a function.

        Those on record by the seconds of their tests that reach it; then others, of which those of
        the same room are the first, and such that simulate hardware the last.
        """
        kept = self._kept.get(file)
        if kept is None:
            simulates = "pytest.mark.rtl" in (ROOT / file).read_text("utf-8")
            return 1, simulates, file.split("/")[1] != path.split("/")[0]
        tests = reaching(kept["tests"], path, function).values()
        return 0, sum(test["seconds"] for test in tests)

    def those(self, names: Iterable[str], path: str, function: str) -> dict[str, dict]:
        """Return tests by their names, but none of which it is on record that it calls another.

        Nor one whose file is gone: a process that finds no file fails with any source.
        """
        files = {name: name.partition("::")[0] for name in names}
        known = {n: self._current(file) for n, file in files.items() if (ROOT / file).is_file()}
        found = {
            name: file["tests"].get(name, {"calls": []}) if file else None
            for name, file in known.items()
        }
        new = {name: {"seconds": STARTING} for name, one in found.items() if one is None}
        return reaching({n: one for n, one in found.items() if one}, path, function) | new

    def tests(self, file: str) -> dict[str, dict]:
        """Return the tests of a file that pass, with their seconds and their calls."""
        if file not in self._kept and self._complete:
            return {}
        kept = self._current(file)
        if kept is None:
            told = run_tests(Run(self._folder), [file])
            kept = {"digest": digest_of(file), "tests": told.get("tests", {})}
            self._kept[file] = kept
            self._save()
        return kept["tests"]

    def _current(self, file: str) -> dict | None:
        """Return the record of a file of tests unless it has changed since, or there is none."""
        kept = self._kept.get(file)
        return kept if kept and kept["digest"] == digest_of(file) else None

    def hardware(self, kind: str) -> dict[str, dict]:
        """Return the units or the proofs, with the digests of what is built and their calls."""
        if kind not in self._kept and self._complete:
            return {}
        if kind not in self._kept:
            self._kept[kind] = build(Run(self._folder), kind, "all")["built"]
            self._save()
        return self._kept[kind]

    def _save(self) -> None:
        self._path.write_text(json.dumps(self._kept))


def digest_of(file: str) -> str:
    """Return the digest of a file of tests."""
    path = ROOT / file
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def reaching(records: dict[str, dict], path: str, function: str) -> dict[str, dict]:
    """Return those of the records that call a function, or anything of its module if none is given.

    Parameters
    ----------
    records : dict of str to dict
    path, function : str
        As in `Mutant`.
    """
    wanted = f"{path}:{function}"
    return {
        name: record
        for name, record in records.items()
        if any(call == wanted or (not function and call.startswith(wanted))
               for call in record["calls"])
    }  # fmt: skip
