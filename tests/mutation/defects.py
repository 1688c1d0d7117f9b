"""Defects that a person wrote, each against one sentence of a contract, with their killers."""

import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .killers import PROOF, ROOT, Change, EndlessRunError

TABLE = Path(__file__).parent / "defects.toml"

LIVES = "lives: "
"""Start of what stands in place of a killer: why a defect changes nothing that a user can see."""

SECONDS = 1200
"""Seconds after which the run of a killer counts as endless."""


@dataclass(frozen=True)
class Defect:
    """One defect of the table."""

    path: str  # module, as hdl/queue.py
    kind: str  # what the defect has in common with others
    name: str  # the fault, as a sentence
    old: str  # text that occurs once in the module; empty if `new` follows the module
    new: str
    killers: list[str]  # tests as pytest names them; or `PROOF`, `UNIT` or `LIVES`, and a text
    daily: bool  # whether the first killer runs by day

    def apply(self) -> str:
        """Return the changed source of the module.

        Raises
        ------
        ValueError
            If `old` does not occur exactly once.
        """
        source = (ROOT / self.path).read_text("utf-8")
        if not self.old:
            return f"{source}\n\n{self.new}"
        if (count := source.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.path} must hold old once, not {count} times")
        return source.replace(self.old, self.new)

    def is_killed(self, killer: str) -> bool:
        """Run a killer on the changed source; return whether it fails, and not by an error."""
        try:
            failed = Change(self.path, self.apply()).failing(killer, SECONDS)
        except EndlessRunError:
            # A proof that takes too long decides nothing.
            return not killer.startswith(PROOF)
        return bool(failed) and not failed.startswith("error: ")


def table() -> Iterator[Defect]:
    """Yield all defects of the table."""
    for group in tomllib.loads(TABLE.read_text("utf-8"))["group"]:
        for number, (name, old, new, *killers) in enumerate(group["defects"]):
            killers = killers or [group["killer"]]
            daily = number < group.get("daily", 0)
            yield Defect(group["path"], group["kind"], name, old, new, killers, daily)


def try_all(patterns: list[str]) -> int:
    """Try the defects whose name, path or killer a pattern matches, or all; print each outcome.

    Returns
    -------
    int
        0 if every defect with a killer is killed, otherwise 1.

    Raises
    ------
    ValueError
        If a pattern matches no defect.
    """
    chosen = {pattern: [row for row in table() if _matches(row, pattern)] for pattern in patterns}
    if unknown := [pattern for pattern, matching in chosen.items() if not matching]:
        raise ValueError(f"defect: must be one of {TABLE.name}, not {unknown[0]!r}")
    defects = [row for matching in chosen.values() for row in matching] or [*table()]
    survivors = 0
    for number, defect in enumerate(defects, 1):
        for killer in defect.killers:
            start, outcome = time.monotonic(), ""
            if not killer.startswith(LIVES):
                killed = defect.is_killed(killer)
                survivors += not killed
                outcome = "killed by " if killed else "SURVIVED "
            seconds = time.monotonic() - start
            print(f"{number}/{len(defects)} {defect.name}: {outcome}{killer} ({seconds:.0f} s)",
                  flush=True)  # fmt: skip
    print(f"{survivors} survived")
    return 1 if survivors else 0


def _matches(defect: Defect, pattern: str) -> bool:
    texts = (defect.name, defect.path, *defect.killers)
    return any(fnmatchcase(text, pattern) for text in texts)
