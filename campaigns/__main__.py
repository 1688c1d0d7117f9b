"""Command line of the campaigns: `python -m campaigns`."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from lately.cli.options import json_option, print_json
from lately.cli.progress import parallel_bar
from lately.cli.reporting import OneLineCommand, OneLineErrors, fail_with
from lately.cli.tables import print_table

from . import engine
from .engine import Campaign, Record, complete, key
from .options import options_of, workers
from .prove import prove
from .registry import CAMPAIGNS
from .soak import waves

HELP = {"help_option_names": ["-h", "--help"]}

RESULTS = Path(__file__).parents[1] / "results"  # recorded results of the campaigns
BUILD = Path("build", "campaigns")  # results of other points, relative to the current folder

VARYING = {"seconds", "cpu_seconds", "versions", "processor", "peak_bytes"}
"""Figures that differ from run to run."""


@click.group("campaigns", cls=OneLineErrors, context_settings=HELP)
def main() -> None:
    """Measure, prove and attack the filters."""
    from amaranth.hdl import UnusedElaboratable

    # Units are built only to read their limits.
    warnings.simplefilter("ignore", UnusedElaboratable)


Action = Callable[..., None]  # takes a campaign, its points and the common options


def command(campaign: Campaign, action: Action) -> click.Command:
    options = options_of(campaign.points)

    @click.option(
        "--anew", is_flag=True, help="Measure all points again, even if they have results."
    )
    @click.option("--out", metavar="FILE", help="Write the results to FILE.  [default: see run -h]")
    @workers("Processes")
    @json_option
    def call(*, as_json: bool, out: str | None, anew: bool, **given: Any) -> None:
        chosen = {option.name: given.pop(option.name) for option in options}
        action(campaign, campaign.points(**chosen), out, as_json, anew=anew, **given)

    return OneLineCommand(
        campaign.name,
        callback=call,
        params=[*options, *click.command()(call).params],
        help=inspect.cleandoc(campaign.about),
        context_settings=HELP,
    )


@main.group("run", cls=OneLineErrors)
def run() -> None:
    """Measure the points of a campaign that have no up-to-date result.

    Every result is saved immediately, so an interrupted run can be resumed. The campaign's default
    points are saved in results/NAME.jsonl, points chosen with other options in
    build/campaigns/NAME.jsonl, unless --out gives another file.
    """


@main.group("check", cls=OneLineErrors)
def check() -> None:
    """Measure points and compare them with the recorded results; fail if one is worse."""


@main.command("list")
@json_option
def list_campaigns(*, as_json: bool) -> None:
    """List the campaigns."""
    rows = [
        {
            "campaign": campaign.name,
            " ": campaign.about.splitlines()[0],
            "points": len(campaign.points()),
        }
        for campaign in CAMPAIGNS.values()
    ]
    print_json(rows) if as_json else print_table(rows)


def run_points(
    campaign: Campaign,
    points: Sequence[engine.Point],
    out: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    known = {key(point) for point in campaign.points()}
    folder = RESULTS if known.issuperset(map(key, points)) and RESULTS.is_dir() else BUILD
    path = folder / f"{campaign.name}.jsonl" if out is None else Path(out)
    _, failures = _measured(campaign, points, path, as_json, **options)
    fail_with(failures)


def check_points(
    campaign: Campaign,
    points: Sequence[engine.Point],
    out: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    baseline = {
        key(record.point): record for record in engine.read(RESULTS / f"{campaign.name}.jsonl")
    }
    path = BUILD / f"{campaign.name}-check.jsonl" if out is None else Path(out)
    records, failures = _measured(campaign, points, path, as_json, **options)
    for record in records:
        label = campaign.label(record.point)
        failures += [f"{label}: {line}" for line in _worse(campaign, record, baseline)]
    fail_with(list(dict.fromkeys(failures)))


def _measured(
    campaign: Campaign, points: Sequence[engine.Point], path: Path, as_json: bool, **options: Any
) -> tuple[Sequence[Record], list[str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with parallel_bar("Reading the sources", "points") as progress:
        done = complete([(campaign, points, path)], progress=progress, **options)
    (records,) = done.records
    if as_json:
        print_json([{"point": record.point, "result": record.result} for record in records])
    elif campaign.rows is not None:
        print_table(campaign.rows(records))
    else:
        print_table(
            [{"point": campaign.label(record.point)} | _plain(record) for record in records]
        )
    return records, [*done.failures, *_wrong(campaign, records)]


def _wrong(campaign: Campaign, records: Sequence[Record]) -> list[str]:
    return [
        f"{campaign.label(record.point)}: {line}"
        for record in records
        for line in campaign.wrong(record.result)
    ]


def _worse(campaign: Campaign, now: Record, baseline: Mapping[str, Record]) -> list[str]:
    before = baseline.get(key(now.point))
    renew = f"renew it: python -m campaigns run {campaign.name}"
    if before is None:
        return [f"not in the baseline; {renew}"]
    earlier, present = (record.identity.get("versions", {}) for record in (before, now))
    other = [
        f"{name} is {present.get(name, 'absent')}, for the baseline it was "
        f"{earlier.get(name, 'absent')}; {renew}"
        for name in dict.fromkeys([*present, *earlier])
        if present.get(name) != earlier.get(name)
    ]
    if other:
        return other
    if campaign.worse is not None:
        return [*campaign.worse(now.result, before.result)]
    return [
        f"{name} is {value}, baseline {before.result.get(name)}"
        for name, value in now.result.items()
        if name not in VARYING and value != before.result.get(name)
    ]


def _plain(record: Record) -> dict[str, object]:
    return {
        name: value for name, value in record.result.items() if not isinstance(value, dict | list)
    }


main.add_command(prove)
main.add_command(waves)
for campaign in CAMPAIGNS.values():
    run.add_command(command(campaign, run_points))
    check.add_command(command(campaign, check_points))

if __name__ == "__main__":
    main(prog_name="python -m campaigns")
