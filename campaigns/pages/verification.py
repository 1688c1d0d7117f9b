"""docs/verification.md, from results/proofs.json, results/soak.json and results/mutants.json.

It takes the output of `python -m campaigns prove --json`, the file of `python -m campaigns
endurance`, and records of `tests/mutation`.
"""

from pathlib import Path
from typing import Any

from lately.sim.proofs.catalogue import PROOFS, with_goals

from ..endurance import CASES, current, totals
from ..run_record import SOAKS, RunRecord, Runs
from . import mutants
from .blocks import DOCS, RESULTS, Page, counts, load, read, save, table

PROOFS_DATA = "proofs.json"
SOAK_DATA = "soak.json"


def take(paths: list[Path]) -> None:
    """Take in proofs, mutants and long runs; of these, drop those of former hardware."""
    runs: Runs = {}
    for path, values in zip(paths, read(paths), strict=True):
        if "proofs" in values:
            save(PROOFS_DATA, merged(values))
        elif "modules" in values:
            save(mutants.DATA, values)
        else:
            runs |= SOAKS.load(path)
    if runs:
        known = RESULTS / SOAK_DATA
        RunRecord(known, SOAKS).replace(current(SOAKS.load(known) | runs))


def merged(data: dict[str, Any]) -> dict[str, Any]:
    """Return proofs with those on record that they do not have, if they are still made."""
    known = load(PROOFS_DATA) if (RESULTS / PROOFS_DATA).exists() else data
    found = {one["name"]: one for one in [*known["proofs"], *data["proofs"]]}
    names = [proof.name for proof in with_goals(PROOFS)]
    return data | {"proofs": [found[name] for name in names if name in found]}


def proofs_table(data: dict[str, Any]) -> str:
    """Lay out statements, and how and in what time each was proven.

    Raises
    ------
    ValueError
        If a proof is not on record.
    """
    proofs = data["proofs"]
    missing = {proof.name for proof in PROOFS} - {one["name"] for one in proofs}
    if missing:
        raise ValueError(f"results/proofs.json lacks {', '.join(sorted(missing))}")
    goals = [one for one in proofs if one["method"].startswith("reached")]
    rows = [
        [*(one[name] for name in ("name", "statement", "design", "method", "status")),
         f"{one['seconds']:.0f} s"]
        for one in proofs
        if one not in goals
    ]  # fmt: skip
    reached = sum(goal["status"] == "proven" for goal in goals)
    bounded = sum(one["method"].startswith("bounded") for one in proofs)
    tools = ", ".join(f"{name} {number}" for name, number in data["versions"].items())
    total = sum(one["seconds"] for one in proofs)
    return (
        table(["proof", "what holds", "of", "kind", "status", "time"], rows)
        + f"\n{len(rows)} proofs, {bounded} of them bounded, and {len(goals)} cover checks, "
        f"of which {reached} are reached. All in {total:.0f} s, one at a time; {tools}.\n"
    )


def soak_table(runs: Runs) -> str:
    """Lay out what long runs compared, a line for each case."""
    rows = []
    for name, run in totals(runs).items():
        wrong = run["mismatches"]
        keys = ("operations", "hits", "shifts", "clears", "rekeys")
        turns = run.get("ring_turns", run.get("rounds_of_stamps", 0))
        told = {"statuses": "statuses", "oldest": "numbers of oldest cells", "times": "times"}
        # Without a ring there are cells in place of bits.
        kept = "memory_bits" if "memory_bits" in run else "memory_cells"
        rows.append(
            [f"`{name}`",
             *counts([run["runs"], run["stalls"], *(run.get(key, 0) for key in keys), turns]),
             f"{wrong['verdicts']}, {wrong['ages']}, {wrong['counters']}"
             + "".join(f"; {text} {wrong[kind]}" for kind, text in told.items() if kind in wrong),
             f"{wrong[kept]} in {run['memory_comparisons']} times {run[kept]:,}",
             f"{run['seconds']:.0f} s"]
        )  # fmt: skip
    header = ["case", "runs", "with pauses", "operations", "hits", "shifts", "clears", "secrets",
              "turns of the ring or rounds of stamps",
              "mismatches: verdicts, ages, counters", "memory bits or cells", "time"]  # fmt: skip
    asked = sum(len(case.seeds) for case in CASES)
    return table(header, rows) + f"\n{len(runs)} of {asked} runs are on record.\n"


def blocks() -> dict[str, str]:
    """Return the blocks of the page."""
    return {
        "proofs": proofs_table(load(PROOFS_DATA)),
        "mutants": mutants.block(),
        "semantic": mutants.semantic_block(),
        "soak": soak_table(SOAKS.load(RESULTS / SOAK_DATA)),
    }


PAGE = Page(DOCS / "verification.md", blocks, take=take)
