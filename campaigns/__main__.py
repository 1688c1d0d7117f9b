"""Command line of the campaigns: `python -m campaigns`."""

import inspect
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from lately.cli.options import count_option, json_option, print_json
from lately.cli.progress import parallel_bar, progress_bar, quiet, watched
from lately.cli.reporting import OneLineCommand, OneLineErrors, fail_with, require
from lately.cli.tables import print_table

from .engine import Campaign, Record, complete, key, read
from .options import options_of, workers
from .registry import CAMPAIGNS
from .soak import waves

HELP = {"help_option_names": ["-h", "--help"]}

RESULTS = Path(__file__).parents[1] / "results"  # recorded results of the campaigns
BUILD = Path("build", "campaigns")  # results of other points, relative to the current folder


@click.group("campaigns", cls=OneLineErrors, context_settings=HELP)
def main() -> None:
    """Measure the filters, prove their properties, and attack them."""
    from amaranth.hdl import UnusedElaboratable

    # Units are built only to read their limits, and some proofs need only a component of a unit.
    warnings.simplefilter("ignore", UnusedElaboratable)


@main.group("run", cls=OneLineErrors)
def run() -> None:
    """Measure the points of a campaign that have no up-to-date result.

    Each result is saved as soon as it is measured, so an interrupted run can be resumed. Results of
    the campaign's default points are saved in results/NAME.jsonl, and results of other points in
    build/campaigns/NAME.jsonl, unless --out gives another file.
    """


@main.group("check", cls=OneLineErrors)
def check() -> None:
    """Measure points and compare them with the recorded results; fail if a new result is worse."""


def command(campaign: Campaign, *, checked: bool) -> click.Command:
    options = options_of(campaign.points)

    @click.option(
        "--anew", is_flag=True, help="Measure all points again, even if they have results."
    )
    @click.option("--out", metavar="FILE", help="Write the results to FILE.  [default: see run -h]")
    @workers("Number of processes")
    @json_option
    def call(*, as_json: bool, out: str | None, **values: Any) -> None:
        points = campaign.points(**{option.name: values.pop(option.name) for option in options})
        recorded = RESULTS / f"{campaign.name}.jsonl"
        path = BUILD / f"{campaign.name}{'-check' * checked}.jsonl"
        if not checked and RESULTS.is_dir():
            defaults = {key(point) for point in campaign.points()}
            path = recorded if defaults.issuperset(map(key, points)) else path
        path = Path(out) if out else path
        baseline = {key(record.point): record for record in read(recorded)} if checked else {}
        path.parent.mkdir(parents=True, exist_ok=True)
        with parallel_bar("Reading the sources", "points") as progress:
            done = complete([(campaign, points, path)], progress=progress, **values)
        (records,) = done.records
        if as_json:
            print_json([{"point": record.point, "result": record.result} for record in records])
        elif campaign.rows is not None:
            print_table(campaign.rows(records))
        else:
            # Lists and objects are too long for a table.
            print_table([
                {"point": campaign.label(record.point)}
                | {k: v for k, v in record.result.items() if not isinstance(v, dict | list)}
                for record in records
            ])  # fmt: skip
        failures = done.failures
        for record in records:
            lines = [*campaign.wrong(record.result)]
            if checked:
                lines += worse(campaign, record, baseline.get(key(record.point)))
            failures += [f"{campaign.label(record.point)}: {line}" for line in lines]
        fail_with(list(dict.fromkeys(failures)))

    return OneLineCommand(
        campaign.name,
        callback=call,
        params=[*options, *click.command()(call).params],
        help=inspect.cleandoc(campaign.about),
        context_settings=HELP,
    )


def worse(campaign: Campaign, now: Record, before: Record | None) -> Iterator[str]:
    renew = f"renew the baseline: python -m campaigns run {campaign.name}"
    if before is None:
        yield f"the baseline has no result; {renew}"
        return
    earlier, present = (record.identity.get("versions", {}) for record in (before, now))
    for name in dict.fromkeys([*present, *earlier]):
        version, old = present.get(name, "absent"), earlier.get(name, "absent")
        if version != old:
            yield f"{name} is {version}, but the baseline has {old}; {renew}"
    if present == earlier and campaign.worse:
        yield from campaign.worse(now.result, before.result)


@main.command("prove", short_help="Prove the properties that the hardware promises.")
@click.argument("patterns", nargs=-1, metavar="[PROOF]...")
@count_option("--jobs", None, "Number of proofs to run in parallel.  [default: cores]")
@click.option("--list", "list_proofs", is_flag=True, help="List the proofs and exit.")
@json_option
def prove(*, patterns: tuple[str, ...], jobs: int | None, list_proofs: bool, as_json: bool) -> None:
    r"""Run formal proofs on small units.

    Without names, all proofs run. Names may contain the wildcards * and ?.
    Proofs are unbounded unless stated otherwise: they hold for all inputs
    and for all time. Cover checks after each proof show that it is not
    vacuous; they report the number of cycles to the covered state.

    \b
    Examples:
      python -m campaigns prove
      python -m campaigns prove --list
      python -m campaigns prove 'guarantee*' --jobs 1 --json
    """
    require("amaranth", "synth")
    from lately.sim.proofs import catalogue as proofs

    chosen = proofs.select(patterns)
    if list_proofs:
        if as_json:
            print_json([proof.name for proof in chosen])
        else:
            for proof in chosen:
                click.echo(f"{proof.name}\n    {proof.statement}\n    Of: {proof.design}.\n")
        return
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
        print_table([
            {"proof": record.proof.name, "status": record.status, "how": record.proof.method,
             "frames": record.depth, "seconds": f"{record.seconds:.1f}"}
            for record in records
        ])  # fmt: skip
    fail_with([
        ": ".join(filter(None, [record.proof.name, record.status, record.advice]))
        for record in records
        if not record.proven
    ])  # fmt: skip


main.add_command(waves)
for campaign in CAMPAIGNS.values():
    run.add_command(command(campaign, checked=False))
    if campaign.worse:
        check.add_command(command(campaign, checked=True))

if __name__ == "__main__":
    main(prog_name="python -m campaigns")
