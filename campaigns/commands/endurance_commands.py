"""Command that compares all units for long."""

import os
from typing import Any

import click

from lately.cli.figures import show
from lately.cli.options import (
    cases_option,
    count_option,
    json_option,
    kept_runs_option,
    list_cases_option,
    parse_seeds,
    seeds_option,
    workers,
)
from lately.cli.progress import parallel_bar
from lately.cli.reporting import fail_with


@click.command("endurance", short_help="All units beside golden, for as long as it takes.")
@cases_option("Case")
@seeds_option
@count_option("--operations", 100_000_000, "Operations of each run.")
@workers("Runs at a time")
@kept_runs_option("soak")
@list_cases_option
@json_option
def bench_endurance(
    *,
    patterns: tuple[str, ...],
    seeds: str | None,
    out: str,
    list_cases: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Compare compiled hardware with golden models over thousands of millions of operations.

    A run is one of `python -m campaigns soak`, from reset and with its own seed: ten for each
    kind of ring, and one or two for each other unit. The last of each has the memories of a device,
    and pauses. Every run is kept in DIR/soak.json as soon as it ends, so that an interrupted test
    resumes where it stopped. A run is repeated only if the hardware has changed, or if it had no
    pauses where it should have some. All of them take hours.

    \b
    Examples:
      python -m campaigns endurance --list
      python -m campaigns endurance --case default --seeds 1-2
      python -m campaigns endurance --case 'dictionary-*' --operations 1000000 --json
      python -m campaigns endurance --jobs 2 --out build/soak
    """
    from .. import endurance

    cases = endurance.select(patterns)
    if list_cases:
        listed = [{"name": case.name, "runs": len(case.seeds)} for case in cases]
        show(as_json, listed, "endurance_cases", {"cases": listed})
        return
    from ..run_record import SOAKS, RunRecord

    chosen = None if seeds is None else parse_seeds(seeds)
    os.makedirs(out, exist_ok=True)
    record = RunRecord(os.path.join(out, "soak.json"), SOAKS)
    with parallel_bar("Reading the hardware", "runs") as progress:
        runs, tally = endurance.endure(cases, record, seeds=chosen, progress=progress, **how)
    told = {name: getattr(tally, name) for name in ("failures", "measured", "found")}
    summed = [*endurance.totals(runs).values()]
    show(as_json, {"runs": runs} | told, "endurance", {"cases": summed, "tally": tally})
    wrong = [
        f"{name}: mismatches must be 0, not {found}"
        for name, run in runs.items()
        if (found := {kind: count for kind, count in run["mismatches"].items() if count})
    ]
    fail_with([*tally.failures, *wrong])
