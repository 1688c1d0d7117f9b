"""Command that attacks filters with chosen keys."""

import click

from lately.cli.figures import Figures, figures_command
from lately.cli.options import count_option, seed_option
from lately.cli.progress import echo_stage
from lately.cli.reporting import require


@click.command("attack", short_help="What one gains who chooses the keys.")
@count_option("--queries", 100_000, "Number of keys that are asked for each rate.", least=1000)
@click.option(
    "--hardware",
    is_flag=True,
    help="Measure operations per clock, too, in compiled units.",
)
@seed_option
@figures_command(
    "attack",
    "false negatives",
    lambda figures: sum(run.get("false_negatives", 0) for run in figures["runs"]),
    out=True,
)
def bench_attack(*, queries: int, hardware: bool, seed: int) -> Figures:
    """Attack filters with chosen keys, by what an attacker knows of their hash.

    Whoever knows the constants of the hash h3 solves for keys that have strangers reported, fill
    filters, and overfill dictionaries. The same keys go to filters whose hash he does not know.
    No attack makes a filter miss a key that it guarantees; the command fails if one does.

    \b
    Examples:
      python -m campaigns attack
      python -m campaigns attack --hardware --out build/attacks.json
      python -m campaigns attack --queries 10000 --json
    """
    if hardware:
        require("amaranth", "sim")
    from ..attacks import measure

    figures = measure(queries=queries, seed=seed, progress=echo_stage)
    if hardware:
        from .. import attack_hardware

        figures["runs"] += attack_hardware.measure(seed=seed, progress=echo_stage)
    return figures
