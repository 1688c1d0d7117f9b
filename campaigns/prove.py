"""Command that proves properties of the hardware."""

import os
import warnings

import click

from lately.cli.options import count_option, json_option, print_json
from lately.cli.progress import progress_bar, quiet, watched
from lately.cli.reporting import fail_with, require
from lately.cli.tables import print_table


@click.command("prove", short_help="Prove the properties that the hardware promises.")
@click.argument("patterns", nargs=-1, metavar="[PROOF]...")
@count_option("--jobs", None, "Number of proofs to run in parallel.  [default: cores]")
@click.option("--list", "list_proofs", is_flag=True, help="List the proofs and exit.")
@json_option
def prove(*, patterns: tuple[str, ...], jobs: int | None, list_proofs: bool, as_json: bool) -> None:
    r"""Run formal proofs, by default all of them, on small units.

    Proofs are unbounded unless stated otherwise: they hold for all inputs
    and for all time. Cover checks after each proof show that it is not
    vacuous; they report the number of cycles to the covered state.
    Names may contain the wildcards * and ?.

    \b
    Examples:
      python -m campaigns prove
      python -m campaigns prove --list
      python -m campaigns prove 'guarantee*' --jobs 1 --json
    """
    require("amaranth", "synth")
    from amaranth.hdl import UnusedElaboratable

    from lately.sim.proofs import catalogue as proofs

    chosen = proofs.select(patterns)
    if list_proofs:
        if as_json:
            print_json([proof.name for proof in chosen])
        else:
            for proof in chosen:
                click.echo(f"{proof.name}\n    {proof.statement}\n    Of: {proof.design}.\n")
        return
    # Some proofs take a component out of a unit, and leave the rest unused.
    warnings.simplefilter("ignore", UnusedElaboratable)
    goals = list(proofs.with_goals(chosen))
    with progress_bar("{task.description}", "bar", "count") as bar:
        task = bar.add_task("proofs", total=len(goals))

        def note(record: proofs.ProofRecord) -> None:
            bar.update(task, advance=1, description=record.proof.name)
            if not (watched() or quiet()):  # In a log, a minute without output looks like a hang.
                click.echo(f"{record.proof.name}: {record.status}", err=True)

        records = proofs.prove(goals, jobs=jobs or os.cpu_count() or 1, progress=note)
    if as_json:
        print_json(proofs.to_dict(records))
    else:
        print_table(
            [
                {
                    "proof": record.proof.name,
                    "status": record.status,
                    "how": record.proof.method,
                    "frames": record.depth,
                    "seconds": f"{record.seconds:.1f}",
                }
                for record in records
            ]
        )
    fail_with([
        ": ".join(filter(None, [record.proof.name, record.status, record.advice]))
        for record in records
        if not record.proven
    ])  # fmt: skip
