"""docs/upset-campaign.md, from results/upsets.json, a record of `python -m campaigns upsets`."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lately.intervals import clopper_pearson
from lately.replay.texts import interval_text, rate_text

from ..run_record import UPSETS, RunRecord, Runs
from ..upset_outcomes import OUTCOMES
from .blocks import DOCS, NOTHING, RESULTS, Page, counts, table

DATA = RESULTS / "upsets.json"

FEWEST = 50
"""Upsets of registers that are told apart."""

MOST = 6
"""Registers told of each unit."""

MISSED = list(OUTCOMES).index("false negative")
LOST = list(OUTCOMES).index("lost result")


def take(paths: list[Path]) -> None:
    """Take in campaigns."""
    record = RunRecord(DATA, UPSETS)
    for path in paths:
        for name, run in UPSETS.load(path).items():
            record.keep(name, run)


def outcomes_table() -> str:
    """Lay out what the outcomes mean."""
    return table(["outcome", "meaning"], [[name, text] for name, text in OUTCOMES.items()])


def units_table(runs: Runs, option: str = "") -> str:
    """Lay out the outcomes of upsets of units with an option, of each kind but counters."""
    rows = []
    for name, run in chosen(runs, option):
        for kind in run["kinds"]:
            own = [one for one in run["found"] if one["kind"] == kind]
            struck = sum(one["silent"] + one["told"] for one in own)
            if kind == "counter" or not struck:
                continue
            bits = sum(size for of, size, *_ in run["elements"].values() if of == kind)
            shares = [rate_text((one["silent"] + one["told"]) / struck) for one in own]
            silent = {one["outcome"]: one["silent"] for one in own}
            missed = clopper_pearson(silent["false negative"], struck)
            told = sum(one["told"] for one in own)
            figures = counts([told, silent["false negative"]])
            rows.append(
                [
                    f"`{name}`",
                    kind,
                    *counts([bits, struck]),
                    *shares,
                    *figures,
                    interval_text(missed),
                ]
            )
    header = ["unit", "struck", "bits", "upsets", *OUTCOMES, "told", "silent false negatives",
              "their share, with 95 %"]  # fmt: skip
    return table(header, rows)


def checked_table(runs: Runs) -> str:
    """Lay out what units that watch themselves tell of upsets of flip-flops, by outcome."""
    rows = []
    for name, run in chosen(runs, "check"):
        for one in run["found"]:
            if one["kind"] == "register":
                found = (one["silent"] + one["told"], one["told"], one["lasting"])
                rows.append([f"`{name}`", one["outcome"], *counts(found)])
    return table(["unit", "outcome", "upsets", "told", "something left"], rows)


def registers_table(runs: Runs) -> str:
    """Lay out the registers whose upsets cause most of the silent false negatives."""
    rows = []
    for name, run in chosen(runs):
        groups = registers(run)
        missed = sum(group["missed"] for group in groups.values())
        ranked = sorted(groups.items(), key=lambda one: -one[1]["missed"])
        for register, group in ranked[:MOST]:
            rows.append([f"`{name}`", f"`{register}`", *counts([group["bits"], group["struck"]]),
                         rate_text(group["missed"] / group["struck"]),
                         rate_text(group["lasting"] / group["struck"]),
                         rate_text(group["missed"] / missed)])  # fmt: skip
    header = ["unit", "register", "bits", "upsets", "silent false negative",
              "and something left", "share of all"]  # fmt: skip
    return table(header, rows)


def lasting_table(runs: Runs) -> str:
    """Lay out the registers that an upset leaves wrong, and lose keys or results with it."""
    rows = []
    for name, run in chosen(runs):
        groups = registers(run)
        worst = sorted(groups.items(), key=lambda one: -one[1]["worst"] / one[1]["struck"])
        listed = [
            f"`{register}` ({rate_text(group['worst'] / group['struck'])})"
            for register, group in worst
            if group["struck"] >= FEWEST and group["worst"] > group["struck"] / 2
        ]
        rows.append([f"`{name}`", ", ".join(listed) or NOTHING])
    return table(["unit", "registers of which more than half of the upsets last"], rows)


def registers(run: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Sum up the registers of one name; numbers that tell names apart are left out."""
    groups: dict[str, dict[str, int]] = {}
    for name, (kind, bits, silent, told, left) in run["elements"].items():
        if kind != "register":
            continue
        group = groups.setdefault(re.sub(r"\$\d+", "", name), dict.fromkeys(FIGURES, 0))
        found = (bits, sum(silent) + sum(told), silent[MISSED], left[MISSED],
                 left[MISSED] + left[LOST])  # fmt: skip
        for figure, value in zip(FIGURES, found, strict=True):
            group[figure] += value
    return {name: group for name, group in groups.items() if group["struck"]}


FIGURES = ("bits", "struck", "missed", "lasting", "worst")


def chosen(runs: Runs, option: str = "") -> Iterable[tuple[str, dict[str, Any]]]:
    """Return the campaigns of units that have one option alone, or none."""
    asked = {option} if option else set()
    return [(name, run) for name, run in runs.items() if run["options"].keys() == asked]


def ran(runs: Runs) -> str:
    """Tell what the campaigns ran with."""
    upsets = sum(run["done"] for run in runs.values())
    wrong = sum(run["mismatches"] for run in runs.values())
    seconds = sum(run["seconds"] for run in runs.values())
    return (
        f"{len(runs)} campaigns, {upsets:,} upsets in {seconds / 60:.0f} minutes; without upsets, "
        f"{wrong} results, counters or bits differ from the golden model's.\n"
    )


def blocks() -> dict[str, str]:
    """Return the blocks of the page."""
    runs = UPSETS.load(DATA)
    return {
        "outcomes": outcomes_table(),
        "ran": ran(runs),
        "units": units_table(runs),
        "protected": units_table(runs, "protect"),
        "checked": checked_table(runs),
        "registers": registers_table(runs),
        "lasting": lasting_table(runs),
    }


PAGE = Page(DOCS / "upset-campaign.md", blocks, take=take)
