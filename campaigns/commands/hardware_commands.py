"""Command that measures the hardware on devices."""

import os
from typing import Any

import click

from lately.cli.figures import show
from lately.cli.options import (
    cases_option,
    json_option,
    kept_runs_option,
    list_cases_option,
    parse_seeds,
    seeds_option,
    time_limit_option,
    workers,
)
from lately.cli.progress import parallel_bar
from lately.cli.reporting import fail_with, require


@click.command("hardware", short_help="Units on devices: static timing and area.")
@cases_option("Case or group")
@seeds_option
@workers("Runs at a time")
@time_limit_option
@kept_runs_option("hardware")
@click.option(
    "--check", "baseline", metavar="FILE", help="Fail if a run is worse than in the baseline FILE."
)
@list_cases_option
@json_option
def bench_hardware(
    *,
    patterns: tuple[str, ...],
    seeds: str | None,
    out: str,
    baseline: str | None,
    list_cases: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Synthesise, place and route units for devices, and compare them with their goals.

    Each case is placed with several seeds. The static timing of the median
    counts, up to the vendor's limit; a goal for the clock is met if all seeds
    meet it.
    Every run is kept in DIR/results.json as soon as it ends, so that an
    interrupted measurement resumes where it stopped. A run is repeated only
    if the hardware, the device's options or the tools have changed.

    A case fails --check if a run has a lower clock frequency, or more LUTs,
    flip-flops or block RAMs, than the run of the same seed in the baseline.

    \b
    Examples:
      python -m campaigns hardware --list
      python -m campaigns hardware --case 'apbbf/*' --seeds 1-3
      python -m campaigns hardware --case units --jobs 2 --json
      python -m campaigns hardware --case tiny --check results/performance.json
      python -m campaigns hardware --scheduler tcp://10.0.0.1:8786
    """
    from ..cases import select

    cases = select(patterns)
    if list_cases:
        show(as_json, [case.name for case in cases], "cases", {"cases": cases})
        return
    chosen = None if seeds is None else parse_seeds(seeds)
    require("amaranth", "synth")
    from .. import measurements
    from ..hardware import measure

    known = None if baseline is None else measurements.load(baseline)
    os.makedirs(out, exist_ok=True)
    store = measurements.Store(os.path.join(out, "results.json"))
    with parallel_bar("Reading the hardware", "runs") as progress:
        outcome = measure(cases, store, seeds=chosen, progress=progress, **how)
    found = None if known is None else measurements.compare(outcome.summaries, known)
    told = outcome.to_dict() | {"check": None if found is None else found.to_dict()}
    figures = {"summaries": outcome.summaries, "outcome": outcome, "comparison": found}
    show(as_json, told, ("speeds", "areas", "measured"), figures)
    fail_with([*outcome.failures, *(found.regressions if found else ())])
