"""Command that synthesises a unit."""

from typing import TYPE_CHECKING, Any

import click

from .options import (
    check_option,
    choice_option,
    choose_unit,
    count_option,
    filter_options,
    json_option,
    protect_option,
    strict_option,
    time_limit_option,
)
from .outputs import OutputFolder
from .progress import stage_bar
from .reporting import require
from .tables import show

if TYPE_CHECKING:
    from ..boards.flow.synthesis import CountReport, SynthesisReport
    from ..golden.spec.base import Specification


@click.command("synth", short_help="Synthesise a filter unit, and place it where tools can.")
@filter_options
@click.option("--device", "name", metavar="NAME", help="Target device; see `lately list devices`.")
@count_option("--seed", 1, "Seed of the placement.", least=0)
@click.option(
    "--portable",
    "memory",
    flag_value="portable",
    help="Infer the segment memories instead of using the device's own block RAMs.",
)
@strict_option
@protect_option
@check_option
@click.option(
    "--frames",
    "width",
    type=click.Choice(["8", "64", "128", "256", "512"]),
    help="Synthesise a deduplicator of Ethernet frames around the filter, with streams of so many "
    "bits.",
)
@choice_option(
    "--bus",
    ["none", "axi4-lite", "wishbone", "avalon-mm"],
    "Bus for the registers of settings, counters and secret, as in 'lately export'.",
)
@click.option(
    "--freq",
    "target_mhz",
    type=click.IntRange(min=1),
    metavar="MHZ",
    help="Target clock of nextpnr.  [default: the vendor's limit for the unit; with --frames 125 "
    "MHz for 8 bits, 156 MHz for more]",
)
@time_limit_option
@click.option(
    "--out",
    "directory",
    type=OutputFolder(),
    metavar="DIR",
    help="Keep the netlist, the report and the logs in DIR.",
)
@json_option
def synth(
    *,
    spec: str | None,
    preset: str | None,
    name: str | None,
    width: str | None,
    as_json: bool,
    **flow: Any,
) -> None:
    """Synthesise, place and route a filter unit; report area and timing.

    The clock frequency is the lower of two figures: static timing after
    routing, and the vendor's limit for the clock tree and block RAMs. The same
    seed and the same versions of the tools give the same figures. Without a
    place-and-route tool for the device, yosys counts the cells, and there is no
    clock frequency.

    \b
    Examples:
      lately synth --device ecp5-25k-6
      lately synth --preset small --device ice40-up5k --seed 3
      lately synth --spec filter.toml --device ecp5-85k-6 --json
      lately synth --device ecp5-25k-6 --bus axi4-lite
      lately synth --spec timed.toml --device ecp5-85k-8 --frames 64 --bus axi4-lite
    """
    from ..boards.flow.devices import device

    if name is None:
        raise click.UsageError("give --device; `lately list devices` names the devices")
    if flow["memory"] and flow["strict"]:
        raise click.UsageError("give --portable or --avoid-mixed-port-reads, not both")
    target = device(name)
    require("amaranth", "synth")
    chosen = choose_unit(spec, preset)
    with stage_bar("synthesis") as progress:
        report = _synthesize(width, chosen, device=target, progress=progress, **flow)
    told = report.to_dict() | {"spec": chosen.to_dict()}
    table = "synthesis" if target.placed else "count"
    show(as_json, told, table, {"report": report, "spec": chosen})


def _synthesize(
    width: str | None, chosen: "Specification", *, bus: str, **flow: Any
) -> "SynthesisReport | CountReport":
    if width is None and bus == "none":
        from ..boards.flow.synthesis import synthesize_unit

        return synthesize_unit(chosen, **flow)
    if width and flow["check"]:
        raise click.UsageError("--self-check is for a unit without --frames")
    if width and flow["memory"]:
        raise click.UsageError("--frames takes the device's own block RAMs, no other memory")
    from ..boards.export.design_synthesis import synthesize_design

    wrap = f"frames-{width}" if width else "axis"
    return synthesize_design(chosen, wrap=wrap, bus=bus, **flow)
