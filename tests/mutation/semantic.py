"""Mutants that a person wrote, each against one sentence of a contract, with their killers."""

import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .killers import ROOT, EndlessRunError, killed_by

TABLE = Path(__file__).parent / "semantic.toml"

SECONDS = 600
"""Seconds after which the run of a killer counts as endless."""


@dataclass(frozen=True)
class SemanticMutant:
    """One mutant of the table.

    Attributes
    ----------
    name : str
        The fault, as a sentence.
    kind : str
        What the fault has in common with others.
    path : str
        Module that changes, as hdl/queue.py.
    old, new : str
        Text that occurs once in the module, and its replacement.
    killer : str
        Test as pytest names it, or `PROOF` and the name of a proof. Empty for a survivor.
    reason : str
        Why a survivor changes nothing that a user can see. Empty for a mutant that is killed.
    """

    name: str
    kind: str
    path: str
    old: str
    new: str
    killer: str = ""
    reason: str = ""

    def apply(self) -> str:
        """Return the changed source of the module.

        Raises
        ------
        ValueError
            If `old` does not occur exactly once.
        """
        source = (ROOT / self.path).read_text("utf-8")
        if (count := source.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.path} must hold old once, not {count} times")
        return source.replace(self.old, self.new)

    def is_killed(self) -> bool:
        """Run the killer on the changed source; return whether it fails."""
        try:
            return bool(killed_by(self.path, self.apply(), self.killer, SECONDS))
        except EndlessRunError:
            return True


def table() -> list[SemanticMutant]:
    """Return all mutants of the table."""
    return [SemanticMutant(**one) for one in tomllib.loads(TABLE.read_text("utf-8"))["mutant"]]


def try_all(names: list[str]) -> int:
    """Try the mutants of these names, or all, and print the outcome of each.

    Returns
    -------
    int
        0 if every mutant with a killer is killed, otherwise 1.

    Raises
    ------
    ValueError
        If there is no mutant of a name.
    """
    known = {one.name: one for one in table()}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"mutant: must be a name of {TABLE.name}, not {unknown[0]!r}")
    survivors = 0
    chosen = [known[name] for name in names] or list(known.values())
    for number, mutant in enumerate(chosen, 1):
        start = time.monotonic()
        outcome = mutant.reason or "no killer"
        if mutant.killer:
            killed = mutant.is_killed()
            survivors += not killed
            outcome = f"{'killed' if killed else 'SURVIVED'} by {mutant.killer}"
        seconds = time.monotonic() - start
        print(f"{number}/{len(chosen)} {mutant.name}: {outcome} ({seconds:.0f} s)", flush=True)
    print(f"{survivors} survived")
    return 1 if survivors else 0
