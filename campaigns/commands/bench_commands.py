"""Commands that measure how fast hardware, its replay and the models are."""

import click

from lately.cli.figures import Figures, figures_command
from lately.cli.options import choose_unit, count_option, filter_options, seed_option
from lately.cli.progress import counting_bar
from lately.cli.span_options import when_full_option


@click.command("replay", short_help="Compiled replay beside the golden model.")
@filter_options
@count_option("--operations", 1_000_000, "Number of check-and-inserts per round.")
@count_option("--rounds", 5, "Number of rounds; the medians are compared.")
@figures_command("replay", "mismatches", lambda figures: figures["mismatches"])
def bench_replay(*, spec: str | None, preset: str | None, operations: int, rounds: int) -> Figures:
    """Time the compiled replay and the golden model in turn, on the same random keys.

    The ratio carries over to other machines; the single figures do not.

    \b
    Examples:
      python -m campaigns replay
      python -m campaigns replay --preset large --operations 200000 --json
    """
    chosen = choose_unit(spec, preset)
    from ..replay_speed import replay

    return replay(chosen, operations=operations, rounds=rounds)


@click.command("soak", short_help="Compiled hardware beside golden, for long.")
@filter_options
@count_option("--span", None, "Keep keys for N ticks, which come with the operations.")
@when_full_option
@count_option("--operations", 100_000_000, "Total number of operations.")
@click.option(
    "--memory",
    type=click.Choice(["portable", "ecp5", "ice40", "gowin"]),
    help="Variant of the memories, beside the defaults of all other options of the hardware; that "
    "of a device answers with garbage where its vendor promises nothing.  [default: the seed "
    "draws all options]",
)
@click.option("--stalls", is_flag=True, help="Pause before operations and before taking results.")
@seed_option
@figures_command(
    "soak",
    "mismatches",
    lambda figures: {name: count for name, count in figures["mismatches"].items() if count},
)
def bench_soak(
    *,
    spec: str | None,
    preset: str | None,
    span: int | None,
    when_full: str | None,
    operations: int,
    memory: str | None,
    stalls: bool,
    seed: int,
) -> Figures:
    """Compare the compiled hardware with the golden model over many mixed operations.

    Verdicts and ages of all operations, counters and every bit of memory are compared; and
    statuses, if the filter has a span or is given one. The seed draws the operations, generation
    lengths, secrets, partial beats, periods of ticks and resets. An interrupt ends the run and
    reports all that was compared until then.

    \b
    Examples:
      python -m campaigns soak
      python -m campaigns soak --preset apbf-default --span 1000 --when-full overfill
      python -m campaigns soak --preset gebf-default --operations 1000000 --json
      python -m campaigns soak --preset dictionary-1000 --operations 5000000
      python -m campaigns soak --preset timing-small --memory ecp5 --stalls
    """
    from lately.replay.stream_times import with_ticks

    from ..soak import soak

    chosen = with_ticks(choose_unit(spec, preset), span=span, when_full=when_full)
    with counting_bar("operations", operations, "bar", "share", "remaining") as progress:
        return soak(
            chosen,
            operations=operations,
            seed=seed,
            memory=memory,
            stalls=stalls,
            progress=progress,
        )
