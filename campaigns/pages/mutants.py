"""Tables of mutants: operators from results/mutants.json, semantic ones from their own table."""

import tomllib
from collections import Counter
from statistics import median
from typing import Any

from .blocks import NOTHING, ROOT, counts, load, table

DATA = "mutants.json"
SEMANTIC = ROOT / "tests" / "mutation" / "semantic.toml"

BY = {"test": "a test", "proof": "a proof", "time": "running for ever"}
"""What kills, as told in the header."""


def killed_share(found: Counter[str]) -> str:
    """Return the share of the mutants that are killed; undecided ones count as if they were not."""
    others = found.total() - found["equivalent"]
    return f"{found['killed'] / others:.1%}" if others else NOTHING


def room_line(room: str, modules: dict[str, Any]) -> str:
    """Sum up the modules of a room in a sentence; those of all rooms if it has no name."""
    own = [module for path, module in modules.items() if path.startswith(room)]
    found = Counter(one["outcome"] for module in own for one in module["tried"].values())
    there = sum(module["mutants"] for module in own)
    return (
        f"{f'`{room}`' if room else 'Both'}: "
        f"{found.total():,} tried of the {there:,} mutants of {len(own)} modules; "
        f"{found['equivalent']} are equivalent; of the other "
        f"{found.total() - found['equivalent']:,}, {found['killed']:,} are killed "
        f"({killed_share(found)}), {found['survived']} survived, {found['open']} are undecided.\n"
    )


def module_table(modules: dict[str, Any]) -> str:
    """Lay out how many mutants of each module were killed, by what, and in how long."""
    rows = []
    for path, module in modules.items():
        tried = module["tried"].values()
        found = Counter(one["outcome"] for one in tried)
        killed = [one for one in tried if one["outcome"] == "killed"]
        kinds = Counter(one["kind"] for one in killed)
        figures = [module["mutants"], len(tried), *(kinds[kind] for kind in BY)]
        figures += [found[outcome] for outcome in ("equivalent", "survived", "open")]
        seconds = f"{median(one['seconds'] for one in killed):.0f} s" if killed else NOTHING
        rows.append([f"`{path}`", *counts(figures), killed_share(found), seconds])
    header = ["module", "mutants", "tried", *(f"killed by {name}" for name in BY.values())]
    return table(
        [*header, "equivalent", "survived", "undecided", "share killed", "median time of a kill"],
        rows,
    )


def left_table(modules: dict[str, Any]) -> str:
    """Lay out what was not killed, with the reason why it is equivalent, if there is one."""
    rows = [
        [f"`{name}`", one["outcome"], _code(one["old"]), _code(one["new"]), one["by"] or NOTHING]
        for module in modules.values()
        for name, one in module["tried"].items()
        if one["outcome"] != "killed"
    ]
    return table(["mutant", "", "source", "changed to", "reason"], rows)


def _code(text: str) -> str:
    """Return a piece of source for the cell of a table."""
    escaped = text.replace("|", "\\|")
    return f"`{escaped}`" if escaped else NOTHING


def block() -> str:
    """Return what the page tells of the campaign."""
    modules = load(DATA)["modules"]
    rooms = [room_line(room, modules) for room in ("golden", "hdl", "")]
    return "\n".join([*rooms, module_table(modules), left_table(modules)])


def semantic_block() -> str:
    """Return the table of semantic mutants by kind, and the survivors with their reasons."""
    mutants = tomllib.loads(SEMANTIC.read_text("utf-8"))["mutant"]
    kinds = Counter(one["kind"] for one in mutants)
    proofs = Counter(one["kind"] for one in mutants if one.get("killer", "").startswith("proof: "))
    left = [one for one in mutants if not one.get("killer")]
    survived = Counter(one["kind"] for one in left)
    rows = []
    for kind, count in sorted(kinds.items()):
        by_tests = count - proofs[kind] - survived[kind]
        rows.append([kind, *counts([count, by_tests, proofs[kind], survived[kind]])])
    share = 1 - len(left) / len(mutants)
    header = ["kind", "mutants", "killed by a test", "killed by a proof", "survived"]
    return "\n".join(
        [
            table(header, rows),
            f"{len(mutants) - len(left)} of {len(mutants)} are killed ({share:.1%}).",
            *(
                f"- Survivor in `{one['path']}`: {one['name']}. {one.get('reason', '')}"
                for one in left
            ),
        ]
    )
