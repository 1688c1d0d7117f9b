"""Operator mutants one after another: the killer of each, and a record."""

import ast
import hashlib
import json
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lately.golden.files import write_json

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
    listed = tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]
    return {(one["path"], one["line"], one["change"]): one["reason"] for one in listed}


def key(mutant: Mutant) -> tuple[str, str, str]:
    """Return the key of a mutant among equivalent mutants, which has no line number."""
    _, line, change = mutant.name.split(":", 2)
    return mutant.path, read(mutant.path).splitlines()[int(line) - 1].strip(), change


def makes_hardware(mutant: Mutant) -> bool:
    """Return whether a netlist shows all that the changed function does."""
    node: ast.AST = ast.parse(read(mutant.path))
    for name in mutant.function.split(".") if mutant.function else ():
        node = next(one for one in node.body if getattr(one, "name", "") == name)
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
    """Record of a campaign, written after each mutant.

    Parameters
    ----------
    path : Path
        File in JSON.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self.modules: dict[str, dict] = kept.get("modules", {})

    def renew(self, path: str, mutants: int) -> None:
        """Forget the mutants of a module that has changed."""
        digest = hashlib.sha256(read(path).encode()).hexdigest()[:16]
        kept = self.modules.get(path, {})
        tried = kept["tried"] if kept.get("source") == digest else {}
        self.modules[path] = {"source": digest, "mutants": mutants, "tried": tried}

    def tried(self, mutant: Mutant) -> dict:
        """Return the record of a mutant; nothing before its first trial."""
        return self.modules[mutant.path]["tried"].get(mutant.name, {})

    def killer(self, mutant: Mutant) -> str:
        """Return the test on record that killed a mutant and still exists; nothing without one."""
        one = self.tried(mutant)
        return one["by"] if one.get("kind") == "test" and _exists(one["by"]) else ""

    def likely(self, path: str) -> list[str]:
        """Return the tests that exist and that killed most mutants of a module."""
        tried = self.modules[path]["tried"].values()
        found = Counter(one["by"] for one in tried if one["kind"] == "test")
        there = (name for name, _ in found.most_common() if _exists(name))
        return [name for name, _ in zip(there, range(LIKELY), strict=False)]

    def add(self, mutant: Mutant, verdict: dict[str, str], seconds: float) -> None:
        """Record the verdict of a mutant."""
        tried = self.modules[mutant.path]["tried"]
        texts = {"old": shortened(mutant.old), "new": shortened(mutant.new)}
        tried[mutant.name] = texts | verdict | {"seconds": round(seconds, 1)}
        order = sorted(tried, key=lambda name: (int(name.split(":")[1]), name))
        self.modules[mutant.path]["tried"] = {name: tried[name] for name in order}
        kept = {path: one for path, one in sorted(self.modules.items()) if one["tried"]}
        write_json({"modules": kept}, self._path)


def _exists(test: str) -> bool:
    """Return whether the file of a test has the test's function."""
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.is_file() and f"def {name.partition('[')[0]}(" in path.read_text("utf-8")


def shortened(text: str) -> str:
    """Return a text on one line of at most 80 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}\N{HORIZONTAL ELLIPSIS}"
