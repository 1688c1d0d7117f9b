"""docs/security.md, from results/attacks.json and results/fuzz.json.

That is what `python -m campaigns attack --hardware --out` measured, and what `make fuzz` counted.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lately.replay.texts import rate_text

from .blocks import DOCS, NOTHING, Page, load, read, save, table

RESULT = "attacks.json"

COUNTS = "fuzz.json"

BLOCKS = {
    "rates": ("forged", "forged cells", "filled", "twins"),
    "dictionaries": ("crowded",),
    "lanes": ("one shard", "one shard, by time"),
    "verdicts": ("replayed",),
    "differences": ("difference",),
    "floods": ("flooded",),
}
"""Attacks in each table."""

OPERATIONS = 340e6
"""Operations per second of a fast unit, by which the effort for all bits of the fold is told."""

WINDOW = 1000

DAY = 86_400


def attacks_table(runs: Iterable[dict[str, Any]]) -> str:
    """Lay out attacks: what random keys do, and what chosen ones, by the hash of the filter."""
    found: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for run in runs:
        place = run["attack"], run["unit"], run["figure"], run["cost"]
        found.setdefault(place, {})[run["hash"]] = run
    hashes = list(dict.fromkeys(way for row in found.values() for way in row))
    rows = []
    for (attack, unit, figure, cost), row in found.items():
        first = next(iter(row.values()))
        attacked = [_attacked(row[way]) if way in row else NOTHING for way in hashes]
        usual = _figure(first, first["usual"])
        rows.append([f"`{attack}`", unit, figure, usual, *attacked, cost])
    head = ["attack", "unit", "measured", "random keys", *hashes, "cost"]
    return table(head, rows)


def _attacked(run: dict[str, Any]) -> str:
    """Return a figure under an attack, and the window that is exact after it where there is one."""
    window = f", window {run['guaranteed']:,}" if "guaranteed" in run else ""
    return _figure(run, run["attacked"]) + window


def _figure(run: dict[str, Any], value: float) -> str:
    return f"{value:.3f}" if "clock" in run["figure"] else rate_text(value)


def effort(runs: Iterable[dict[str, Any]]) -> str:
    """Say how many queries all 64 bits of the fold would take, by the narrower ones measured."""
    found = [run for run in runs if run["attack"] == "difference"]
    logs = [math.log2(run["queries"] * WINDOW) - run["folded_bits"] for run in found]
    pairs = 64 + sum(logs) / len(logs)
    days = 2**pairs / WINDOW / OPERATIONS / DAY
    return (
        f"A fold of n bits took 2^(n {sum(logs) / len(logs):+.1f}) pairs on average, a pair being "
        f"a query and one of the {WINDOW:,} keys of the window. By that rule, all 64 bits would "
        f"take {days:,.0f} days of {OPERATIONS / 1e6:.0f} million queries a second beside a window "
        f"of {WINDOW:,} keys, and {days / 100:,.0f} days beside one of {100 * WINDOW:,}. That was "
        "computed, not run."
    )


def fuzz_table(counts: dict[str, Any]) -> str:
    """Lay out damaged inputs by what was to read them."""
    rows = [
        [name, f"{found['inputs']:,}", f"{found['refused']:,}"]
        for name, found in counts["parsers"].items()
    ]
    rows.append(["all", *(f"{sum(found[of] for found in counts['parsers'].values()):,}"
                          for of in ("inputs", "refused"))])  # fmt: skip
    return table(["what is read", "inputs", "of them refused"], rows)


def blocks() -> dict[str, str]:
    """Return the blocks of the page."""
    runs = load(RESULT)["runs"]
    tables = {
        name: attacks_table(run for run in runs if run["attack"] in attacks)
        for name, attacks in BLOCKS.items()
    }
    return tables | {"effort": effort(runs), "inputs": fuzz_table(load(COUNTS))}


def take(paths: list[Path]) -> None:
    """Keep new measurements of attacks, or counts of inputs."""
    for figures in read(paths):
        save(COUNTS if "parsers" in figures else RESULT, figures)


PAGE = Page(DOCS / "security.md", blocks, take=take)
