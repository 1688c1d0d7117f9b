"""Command line of the measurements: `python -m campaigns`."""

import click

from lately.cli.reporting import OneLineErrors

from .commands.attack_commands import bench_attack
from .commands.bench_commands import bench_replay, bench_soak
from .commands.endurance_commands import bench_endurance
from .commands.hardware_commands import bench_hardware
from .commands.lanes_commands import bench_lanes
from .commands.planner_commands import planner
from .commands.prove_commands import prove
from .commands.speed_commands import bench_dedup, bench_golden, bench_stream
from .commands.upset_commands import bench_upsets

HELP = {"help_option_names": ["-h", "--help"]}


@click.group("campaigns", cls=OneLineErrors, context_settings=HELP)
def main() -> None:
    """Measure, prove and attack the filters, and write the pages of figures."""


for _command in (
    bench_hardware,
    bench_lanes,
    bench_golden,
    bench_stream,
    bench_dedup,
    bench_replay,
    bench_attack,
    bench_upsets,
    bench_soak,
    bench_endurance,
    planner,
    prove,
):
    main.add_command(_command)

if __name__ == "__main__":
    main(prog_name="python -m campaigns")
