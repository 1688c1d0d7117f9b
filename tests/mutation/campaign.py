"""Operator mutants one after another: the killer of each, and a record."""

import ast
import hashlib
import json
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .killers import ROOT, Change, EndlessRunError, distances, nearest
from .operators import Mutant

EQUIVALENT = Path(__file__).parent / "equivalent.toml"

LIKELY = 3
"""Tests that killed other mutants of a module and run first, at most."""


def modules() -> list[str]:
    """Return the paths of all modules that are changed."""
    paths = [path for room in ("golden", "hdl") for path in sorted((ROOT / room).rglob("*.py"))]
    return [p.relative_to(ROOT).as_posix() for p in paths if p.name != "__init__.py"]


def read(path: str) -> str:
    """Return the source of a module."""
    return (ROOT / path).read_text("utf-8")


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return the reasons why mutants are equivalent, by path, text of the line, and change."""
    rows = tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]
    return {(path, line, change): reason for path, line, change, reason in rows}


def key(mutant: Mutant) -> tuple[str, str, str]:
    """Return the key of a mutant among equivalent mutants, which has no line number."""
    _, line, change = mutant.name.split(":", 2)
    return mutant.path, read(mutant.path).splitlines()[int(line) - 1].strip(), change


def makes_hardware(mutant: Mutant) -> bool:
    """Return whether a netlist shows all that the changed function does."""
    node: ast.AST = ast.parse(read(mutant.path))
    for name in mutant.function.split(".") if mutant.function else ():
        node = next(child for child in node.body if getattr(child, "name", "") == name)
    return "m.d." in ast.unparse(node) and bool(mutant.function)


def judge(mutant: Mutant, likely: list[str], limit: float) -> dict[str, str]:
    """Run tests and proofs until one fails.

    Parameters
    ----------
    mutant : Mutant
    likely : list of str
        Tests that run first.
    limit : float
        Seconds after which no other test begins. A run that takes longer counts as endless.

    Returns
    -------
    dict of str to str
        `outcome`: 'killed', 'equivalent', 'survived', or 'open' after the limit. `by` is the test,
        the proof or the reason; `kind` is 'test', 'proof', 'time', 'netlist' or 'reason'.
    """
    if reason := equivalents().get(key(mutant)):
        return {"outcome": "equivalent", "by": reason, "kind": "reason"}
    change, end = Change(mutant.path, mutant.source), time.monotonic() + limit
    for kind, name in _checks(mutant, likely):
        if time.monotonic() > end:
            return {"outcome": "open", "by": "", "kind": ""}
        try:
            failed = (
                change.failing_test(name, limit)
                if kind == "test"
                else change.failing_netlist(4 * limit)
            )
        except EndlessRunError:
            if kind == "proof":
                continue
            return {"outcome": "killed", "by": name, "kind": "time"}
        except ValueError:  # A test on record that is gone.
            continue
        if failed == "same":
            if makes_hardware(mutant):
                return {"outcome": "equivalent", "by": "same netlists", "kind": "netlist"}
        elif failed:
            return {"outcome": "killed", "by": failed, "kind": kind}
    return {"outcome": "survived", "by": "", "kind": ""}


def _checks(mutant: Mutant, likely: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the kinds and the names of what may fail: near tests, proofs, then all other tests."""
    yield from (("test", name) for name in likely)
    far = distances(mutant.path)
    proofs_left = mutant.path.startswith("hdl/")
    for file in nearest(mutant.path):
        if proofs_left and far[file] > 2:
            proofs_left = False
            yield "proof", ""
        yield "test", file
    if proofs_left:
        yield "proof", ""


class Results:
    """Record of a campaign: a line in JSON for each mutant, written after each trial.

    Mutants of a source that has changed since are tried again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        self.tried = {row["name"]: row for row in map(json.loads, lines)}

    def knows(self, mutant: Mutant) -> bool:
        """Return whether this very mutant was tried."""
        return self.tried.get(mutant.name, {}).get("source") == digest(mutant)

    def likely(self, path: str) -> list[str]:
        """Return the tests that killed most mutants of a module."""
        killers = (row["by"] for row in self.tried.values()
                   if row["kind"] == "test" and row["name"].startswith(f"{path}:"))  # fmt: skip
        return [name for name, _ in Counter(killers).most_common(LIKELY)]

    def add(self, mutant: Mutant, verdict: dict[str, str], seconds: float) -> None:
        """Record the verdict of a mutant."""
        row = {"name": mutant.name, "source": digest(mutant), "function": mutant.function,
               "old": mutant.old, "new": mutant.new, **verdict,
               "seconds": round(seconds, 1)}  # fmt: skip
        self.tried[mutant.name] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(row) for row in self.tried.values())
        self._path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def digest(mutant: Mutant) -> str:
    """Return a digest of the true source of a mutant."""
    return hashlib.sha256(mutant.true).hexdigest()[:16]
