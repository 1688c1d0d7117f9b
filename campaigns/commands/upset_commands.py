"""Command that flips bits of compiled hardware."""

import os
from typing import TYPE_CHECKING, Any

import click

from lately.cli.figures import Figures, figures_command
from lately.cli.options import (
    choose_unit,
    count_option,
    filter_options,
    protect_option,
    seed_option,
)
from lately.cli.outputs import OutputFile
from lately.cli.progress import counting_bar

if TYPE_CHECKING:
    from ..upset_campaign import Campaign

KINDS = ("memory", "buffer", "register", "counter")
"""As `lately.sim.replay.upset_elements.KINDS`, whose package loads more."""


@click.command("upsets", short_help="Single bits that flip under load, and what comes of it.")
@filter_options
@count_option("--upsets", 100_000, "Number of bits that flip, each in a run of its own.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="What is struck: the memory of the keys, memories of queues and delays, flip-flops, or "
    "those of counters of events; may be repeated.  [default: all, each bit as likely]",
)
@protect_option
@click.option("--check", is_flag=True, help="Have the unit watch its own state, and reset itself.")
@seed_option
@click.option(
    "--record",
    type=OutputFile(),
    metavar="FILE",
    help="Keep the figures of each campaign in FILE, and resume from those already there.",
)
@figures_command("upsets", "mismatches", lambda figures: figures["mismatches"])
def bench_upsets(
    *,
    spec: str | None,
    preset: str | None,
    upsets: int,
    kinds: tuple[str, ...],
    protect: str,
    check: bool,
    seed: int,
    record: str | None,
) -> Figures:
    """Flip single bits of compiled hardware under load, and judge what it tells from then on.

    Before a bit flips, at a random clock, the results are those of the golden model; after it,
    they are compared with those of the same operations without the flip for three
    windows. An interrupt ends the campaign and reports what was found until then.

    \b
    Examples:
      python -m campaigns upsets --preset tiny --upsets 10000
      python -m campaigns upsets --preset timing-tiny --kind memory --json
      python -m campaigns upsets --preset tiny --protect parity --kind memory --kind buffer
      python -m campaigns upsets --preset dictionary-tiny --record build/upsets.json
    """
    chosen = choose_unit(spec, preset)
    struck = [kind for kind in KINDS if not kinds or kind in kinds]
    from ..run_record import UPSETS, RunRecord
    from ..upset_campaign import Campaign, run

    options: dict[str, Any] = {"protect": protect} if protect != "none" else {}
    options |= {"check": check} if check else {}
    campaign = Campaign(spec=chosen, upsets=upsets, seed=seed, kinds=struck, options=options)
    name = _name(campaign, preset, spec)
    store = None if record is None else RunRecord(record, UPSETS)

    def keep(figures: dict[str, Any]) -> None:
        if store is not None:
            store.keep(name, figures)

    known = None if store is None else store.find(name)
    if known is not None and known["done"] > upsets:
        had = f"{known['done']}, which {record} has of {name}"
        raise click.UsageError(f"--upsets: must be at least {had}, not {upsets}")
    with counting_bar("upsets", upsets, "bar", "share", "remaining") as progress:
        return run(campaign, known, progress=progress, keep=keep)


def _name(campaign: "Campaign", preset: str | None, path: str | None) -> str:
    """Return the name of a campaign in a record: no other campaign has it."""
    spec, options = campaign.spec, campaign.options
    # Files that are called alike are told apart by what they hold.
    file = f"{os.path.basename(path)} {spec.digest.hex()[:8]}" if path else "default"
    protected, checked = options.get("protect"), "check" if options.get("check") else None
    struck = [] if len(campaign.kinds) == len(KINDS) else campaign.kinds
    seed = f"seed {campaign.seed}" if campaign.seed != 1 else None
    return " ".join(filter(None, [preset or file, protected, checked, *struck, seed]))
