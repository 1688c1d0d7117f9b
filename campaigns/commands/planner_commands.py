"""Command that measures whether planned filters keep their promises."""

from typing import Any

import click

from lately.cli.options import count_option, json_option, workers
from lately.cli.progress import parallel_bar
from lately.cli.reporting import fail_with
from papers.commands import print_reproduction


@click.command("planner", short_help="Measure whether planned filters meet their requirements.")
@count_option("--points", 50, "Number of requirements.")
@count_option("--seed", 1, "Seed that the requirements are drawn with.", least=0)
@click.option("--large", is_flag=True, help="Windows of 3 to 100,000 and rates down to 0.003.")
@click.option(
    "--timestamps",
    is_flag=True,
    help="Ask for what only filters with timestamps can do: any window for each query, no slack.",
)
@workers("Processes")
@click.option("--anew", is_flag=True, help="Measure again what is in the cache folder.")
@json_option
def planner(
    *, points: int, seed: int, large: bool, timestamps: bool, as_json: bool, **how: Any
) -> None:
    """Draw requirements, plan a filter for each, and measure its golden model.

    The measurements are the false-positive rate, just before a shift and on
    average, the keys at the very edge of the window, and how long a key is
    remembered at most. Points are cached like those of `python -m papers`.
    Fails if a promise is broken.

    \b
    Examples:
      python -m campaigns planner
      python -m campaigns planner --points 200 --large --seed 7 --jobs 2
      python -m campaigns planner --timestamps
      python -m campaigns planner --points 1000 --scheduler tcp://10.0.0.1:8786
    """
    from papers.studies.criteria import Verdict
    from papers.studies.reproduction import cache_directory, reproduce

    from ..promise import study

    with parallel_bar("points", "points") as progress:
        asked = [study(points, seed, large=large, timestamps=timestamps)]
        done = reproduce(asked, cache_directory(), progress=progress, **how)
    print_reproduction(done, as_json)
    findings = [finding for entry in done.report.entries for finding in entry.outcome.findings]
    missed = [f"{f.what}: {f.note}" for f in findings if f.verdict is Verdict.NOT_MET]
    fail_with([*done.failures, *missed])
