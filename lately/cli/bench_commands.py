"""Commands that measure how fast hardware, its replay and the models are."""

import click

from .attack_commands import bench_attack
from .endurance_commands import bench_endurance
from .figures import Figures, figures_command
from .hardware_commands import bench_hardware
from .lanes_commands import bench_lanes
from .options import choose_unit, count_option, filter_options, seed_option
from .progress import counting_bar
from .span_options import when_full_option
from .speed_commands import bench_dedup, bench_golden, bench_stream
from .upset_commands import bench_upsets


@click.group(short_help="Measure how fast hardware, replay and models are.")
def bench() -> None:
    """Measure how fast the hardware is, and how fast its replay and the models run here."""


for _command in (
    bench_hardware,
    bench_lanes,
    bench_golden,
    bench_stream,
    bench_dedup,
    bench_attack,
    bench_upsets,
    bench_endurance,
):
    bench.add_command(_command)


@bench.command("replay", short_help="Compiled replay beside the golden model.")
@filter_options
@count_option("--operations", 1_000_000, "Number of check-and-inserts per round.")
@count_option("--rounds", 5, "Number of rounds; the medians are compared.")
@figures_command("replay", "mismatches", lambda figures: figures["mismatches"])
def bench_replay(*, spec: str | None, preset: str | None, operations: int, rounds: int) -> Figures:
    """Time the compiled replay and the golden model in turn, on the same random keys.

    The ratio carries over to other machines; the single figures do not.

    \b
    Examples:
      lately bench replay
      lately bench replay --preset large --operations 200000 --json
    """
    chosen = choose_unit(spec, preset)
    from ..benchmarks.replay_speed import replay

    return replay(chosen, operations=operations, rounds=rounds)


@bench.command("soak", short_help="Compiled hardware beside golden, for long.")
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
      lately bench soak
      lately bench soak --preset apbf-default --span 1000 --when-full overfill
      lately bench soak --preset gebf-default --operations 1000000 --json
      lately bench soak --preset dictionary-1000 --operations 5000000
      lately bench soak --preset timing-small --memory ecp5 --stalls
    """
    from ..replay.soak import soak
    from ..replay.stream_times import with_ticks

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
