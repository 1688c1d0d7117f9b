"""Mutants one after another: what noticed each, and a record of it."""

import ast
import hashlib
import json
import re
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from lately.golden.files import write_json

from .operators import Mutant, Source
from .processes import ROOT, EndlessRunError, Run, build, run_tests
from .tracks import Records, distances, reaching

ROOMS = ("golden", "hdl")
"""Folders of the modules that are changed."""

EQUIVALENT = Path(__file__).parent / "equivalent.toml"

FIRST = 2
"""Seconds of the tests of a file that run before those of others."""

LIKELY = 6
"""Tests that killed other mutants of a module and run before all others, at most."""

NEAR = 2
"""Imports between a module and the tests that run before proofs do, at most.

A name of the package itself, as in ``from lately.golden import preset``, is two imports away.
"""


def modules() -> list[str]:
    """Return the paths of all modules that are changed."""
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return [p.relative_to(ROOT).as_posix() for p in paths if p.name != "__init__.py"]


def read(path: str) -> Source:
    """Read a module by its path."""
    return Source(path, (ROOT / path).read_bytes())


def module_name(path: str) -> str:
    """Return the name under which a module is imported."""
    return ".".join(["lately", *Path(path).with_suffix("").parts])


def makes_hardware(source: Source, function: str) -> bool:
    """Whether all that a function does is in the netlist: whether it is given an Amaranth module.

    Parameters
    ----------
    source : Source
    function : str
        Qualified name.
    """
    node: ast.AST = source.tree
    for name in function.split(".") if function else ():
        node = next(one for one in node.body if getattr(one, "name", "") == name)
    return "m.d." in ast.unparse(node) and bool(function)


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant.

    Attributes
    ----------
    outcome : str
        'killed'; 'equivalent', by a reason on record or the same netlists; 'survived'; or 'open' if
        not all that may see it was run.
    by : str
        The test or the proof that failed, or the reason.
    kind : str
        'test', 'proof', 'time', 'netlist', 'reason' or nothing.
    error : str
        What a test raised.
    seconds : float
        What all that ran took.
    """

    outcome: str
    by: str = ""
    kind: str = ""
    error: str = ""
    seconds: float = 0.0


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return the reasons why mutants are equivalent, by path, text of the line, and change."""
    listed = tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]
    return {(one["path"], one["line"], one["change"]): one["reason"] for one in listed}


def key(source: Source, mutant: Mutant) -> tuple[str, str, str]:
    """Return how a mutant is named in the list of equivalent ones, whatever its line number."""
    _, line, change = mutant.name.split(":", 2)
    return mutant.path, source.source.decode().splitlines()[int(line) - 1].strip(), change


@dataclass
class Judge:
    """Runs what may see a mutant until something fails.

    Attributes
    ----------
    folder : Path
        For records, compiled models and changed sources.
    limit : float
        Seconds after which no other test of a mutant is begun.
    near : int or None
        Imports between a module and the tests that run, at most.
    recorded : bool
        Whether only tests run of which it is on record what they call.
    reasons : dict
        As `equivalents` returns it.
    first : list of str
        Files of tests that run before all others but those that killed mutants of the module.
    """

    folder: Path
    limit: float = 600
    near: int | None = None
    recorded: bool = False
    reasons: dict[tuple[str, str, str], str] = field(default_factory=equivalents)
    first: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "models").mkdir(parents=True, exist_ok=True)
        self.records = Records(self.folder, complete=self.recorded)

    def __call__(self, source: Source, mutant: Mutant, before: Sequence[str] = ()) -> Verdict:
        """Return what became of a mutant, with tests that may well kill it `before` all others."""
        if reason := self.reasons.get(key(source, mutant)):
            return Verdict("equivalent", reason, "reason")
        changed = self.folder / "mutant.py"
        changed.write_bytes(mutant.apply(source.source))
        run = Run(self.folder, module_name(mutant.path), changed)
        # Recording the true source takes time as well, which is not the mutant's.
        seconds = 0.0
        for check in self._checks(run, source, mutant, before):
            if seconds > self.limit:
                return Verdict("open", seconds=round(seconds, 1))
            started = time.monotonic()
            verdict = check()
            seconds += time.monotonic() - started
            if verdict is not None:
                return replace(verdict, seconds=round(seconds, 1))
        outcome = "survived" if self.near is None and not self.recorded else "open"
        return Verdict(outcome, seconds=round(seconds, 1))

    def _checks(
        self, run: Run, source: Source, mutant: Mutant, before: Sequence[str]
    ) -> Iterator[Callable[[], Verdict | None]]:
        """Yield what may see a mutant, what is near and cheap first."""
        if likely := self.records.those(before, mutant.path, mutant.function):
            first = list(dict.fromkeys(name.partition("::")[0] for name in likely))
            yield lambda: self._tests(run, first, likely)
        for file, tests in self._chosen(self.first, mutant.path, mutant.function):
            yield lambda file=file, tests=tests: self._tests(run, [file], tests)
        files = defaultdict(list)
        for file, distance in distances(module_name(mutant.path)).items():
            if self.near is None or distance <= self.near:
                files[max(distance, NEAR)].append(file)
        ran = 0
        for distance in sorted({*files, NEAR + 1}):
            if distance == NEAR + 1 and mutant.path.startswith("hdl/"):
                yield lambda: self._proofs(run, mutant)
                if makes_hardware(source, mutant.function):
                    yield lambda: self._netlists(run, mutant)
            for file, tests in self._chosen(files[distance], mutant.path, mutant.function):
                ran += 1
                yield lambda file=file, tests=tests: self._tests(run, [file], tests)
        # Functions that only other processes call, or that are compiled.
        for distance in sorted(files) if not ran else ():
            for file, tests in self._chosen(files[distance], mutant.path, ""):
                yield lambda file=file, tests=tests: self._tests(run, [file], tests)

    def _chosen(
        self, files: Iterable[str], path: str, function: str
    ) -> Iterator[tuple[str, dict[str, dict]]]:
        """Yield the tests that reach a function by their files, some quick ones of each first.

        Files that are named like the module are the first, of these the cheapest.
        """
        left = []

        def order(file: str) -> tuple[float, ...]:
            return -alike(file, path), *self.records.cost(file, path, function)

        for file in sorted(files, key=order):
            if tests := reaching(self.records.tests(file), path, function):
                first, *others = portions(tests)
                yield file, first
                left.append([(file, other) for other in others])
        for turn in zip_longest(*left):
            yield from filter(None, turn)

    def _tests(self, run: Run, files: list[str], tests: dict[str, dict]) -> Verdict | None:
        try:
            told = run_tests(run, files, tests)
        except EndlessRunError:
            return Verdict("killed", files[0], "time")
        if told["failed"]:
            return Verdict("killed", told["failed"], "test", told["error"])
        return None

    def _proofs(self, run: Run, mutant: Mutant) -> Verdict | None:
        known = reaching(self.records.hardware("proofs"), mutant.path, mutant.function)
        digests = {name: one["digest"] for name, one in known.items()}
        try:
            told = build(run, "proofs", digests, limit=self.limit) if known else {"failed": None}
        except EndlessRunError:
            # Given up by us, not by the proof.
            return None
        return Verdict("killed", told["failed"], "proof") if told["failed"] else None

    def _netlists(self, run: Run, mutant: Mutant) -> Verdict | None:
        known = reaching(self.records.hardware("units"), mutant.path, mutant.function)
        digests = {name: one["digest"] for name, one in known.items()}
        if not known:
            return None
        built = build(run, "units", digests)["built"]
        if all(built.get(name, {}).get("digest") == digests[name] for name in digests):
            return Verdict("equivalent", f"same netlist in all {len(digests)} units", "netlist")
        return None


def alike(file: str, path: str) -> int:
    """Return how many words a file of tests and a module have in common in their paths."""
    names = [Path(one).with_suffix("").as_posix() for one in (file, path)]
    words = [set(re.split(r"[/_]", name)) for name in names]
    return len(words[0] & words[1])


def portions(tests: dict[str, dict]) -> list[dict[str, dict]]:
    """Return tests in the order of their seconds, in portions of a few seconds and ever more."""
    made: list[dict[str, dict]] = []
    left = 0.0
    for name in sorted(tests, key=lambda name: tests[name]["seconds"]):
        left -= tests[name]["seconds"]
        if left < 0:
            left = FIRST * 4 ** len(made)
            made.append({})
        made[-1][name] = tests[name]
    return made


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

    def renew(self, source: Source, mutants: list[Mutant]) -> None:
        """Forget what was recorded of another state of a module."""
        digest = hashlib.sha256(source.source).hexdigest()[:16]
        kept = self.modules.get(source.path, {})
        tried = kept["tried"] if kept.get("source") == digest else {}
        names = {mutant.name for mutant in mutants}
        self.modules[source.path] = {
            "source": digest,
            "mutants": len(mutants),
            "tried": {name: one for name, one in tried.items() if name in names},
        }

    def _tried(self, mutant: Mutant) -> dict:
        """Return what is on record of a mutant."""
        return self.modules[mutant.path]["tried"].get(mutant.name, {})

    def outcome(self, mutant: Mutant) -> str:
        """Return what became of a mutant; nothing if it was not tried."""
        return self._tried(mutant).get("outcome", "")

    def killer(self, mutant: Mutant) -> str:
        """Return the test that killed a mutant; nothing if none did."""
        known = self._tried(mutant)
        return known["by"] if known.get("kind") == "test" else ""

    def killers(self, mutant: Mutant) -> list[str]:
        """Return the test that killed a mutant, or those that killed most of its module."""
        if own := self.killer(mutant):
            return [own]
        tried = self.modules[mutant.path]["tried"].values()
        found = Counter(one["by"] for one in tried if one["kind"] == "test")
        return [name for name, _ in found.most_common(LIKELY)]

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Record what became of a mutant."""
        record = {
            "function": mutant.function,
            "old": shortened(mutant.old),
            "new": shortened(mutant.new),
        }
        record |= asdict(verdict)
        tried = self.modules[mutant.path]["tried"]
        tried[mutant.name] = record
        order = sorted(tried, key=lambda name: (int(name.split(":")[1]), name))
        self.modules[mutant.path]["tried"] = {name: tried[name] for name in order}
        self.save()

    def save(self) -> None:
        """Write the modules that have mutants on record."""
        kept = {path: one for path, one in sorted(self.modules.items()) if one["tried"]}
        write_json({"modules": kept}, self._path)


def shortened(text: str) -> str:
    """Return a text on one line of at most 80 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}\N{HORIZONTAL ELLIPSIS}"
