"""Commands that measure the golden models."""

from typing import Any

import click

from lately.cli.figures import Figures, figures_command
from lately.cli.options import count_option, seed_option
from lately.cli.progress import counting_bar, echo_stage
from lately.cli.reporting import require

_window = count_option("--window", 20_000, "Number of insertions to remember.", least=100)
_bits = count_option(
    "--bits-per-key", 14, "Memory per key of the window, in bits.", least=4, most=1000
)


def _missed(figures: Figures) -> int:
    ours = [run for run in figures["runs"] if run["runs"] in ("compiled", "numpy")]
    return sum(run["false_negatives"] for run in ours)


def _passed(figures: Figures) -> int:
    ours = [run for run in figures["runs"] if run["name"] == "lately dedup"]
    return sum(abs(run["copies"] - run["dropped"]) for run in ours)


@click.command("golden", short_help="Golden models beside filters of other libraries.")
@_window
@_bits
@count_option(
    "--keys", 4_000_000, "Length of the stream; slow filters take only the first part of it."
)
@count_option("--rounds", 3, "Number of rounds.")
@count_option("--batch", 1 << 16, "Number of keys per call.")
@seed_option
@figures_command("speed", "false negatives", _missed, out=True)
def bench_golden(**sizes: Any) -> Figures:
    """Time check-and-insert of the golden models, compiled and in numpy, beside other filters.

    All filters have the same memory and take the same stream, in which every tenth key is repeated
    within the window. The figures are keys per second of CPU time, false positives, and keys of
    the window that were reported unseen. The ratios carry over to other machines; the single
    figures do not.

    \b
    Examples:
      python -m campaigns golden
      python -m campaigns golden --window 1000000 --keys 10000000
      python -m campaigns golden --batch 1 --keys 400000 --rounds 1
      python -m campaigns golden --rounds 1 --json
    """
    require("rbloom", "bench")
    from ..golden_speed import measure

    return measure(**sizes, progress=echo_stage)


@click.command("stream", short_help="Cost of a long stream, part by part.")
@click.option(
    "--model",
    default="GEBF r=6 k=8",
    show_default=True,
    metavar="NAME",
    help="Golden model, by the name that `python -m campaigns golden` gives it.",
)
@_window
@_bits
@count_option("--insertions", 200_000_000, "Number of insertions.", least=10)
@count_option("--queries", 20_000_000, "Number of queries.", least=0)
@seed_option
@figures_command("stream", "false negatives", lambda figures: figures["false_negatives"], out=True)
def bench_stream(*, model: str, window: int, bits_per_key: int, **sizes: int) -> Figures:
    """Insert and query a long stream, and show CPU time and memory of each tenth of it.

    Keys are random and drawn in batches. Half of the queries are for keys of the window, all of
    which must be reported.

    \b
    Examples:
      python -m campaigns stream
      python -m campaigns stream --model 'APBBF k=2 l=7 B=64 b=4'
      LATELY_FAST=0 python -m campaigns stream --insertions 2000000 --queries 200000
    """
    from ..endless import measure
    from ..golden_speed import models

    known = models(window, window * bits_per_key)
    if model not in known:
        raise click.ClickException(f"model: must be one of {', '.join(known)}, not {model}")
    columns = "bar", "share", "remaining"
    with counting_bar("insertions", sizes["insertions"], *columns) as progress:
        return measure(
            model=model, window=window, bits_per_key=bits_per_key, **sizes, progress=progress
        )


@click.command("dedup", short_help="Deduplication of captures beside editcap.")
@count_option("--packets", 500_000, "Number of packets of the stream that two taps see.")
@count_option("--rounds", 1, "Number of rounds, of which the fastest counts.")
@seed_option
@figures_command("dedup_speed", "duplicates that passed", _passed, out=True)
def bench_dedup(**sizes: int) -> Figures:
    """Deduplicate captures of two taps, with equal frames and with a router between the taps.

    Beside `lately dedup` runs editcap, of Wireshark, if it is installed. The figures are packets
    that were dropped, and packets per second of CPU time, with the start of the programs.

    \b
    Examples:
      python -m campaigns dedup
      python -m campaigns dedup --packets 2000000 --rounds 3 --json
    """
    from ..dedup_speed import measure

    return measure(**sizes, progress=echo_stage)
