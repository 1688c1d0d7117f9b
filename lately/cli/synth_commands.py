"""Command that synthesises a unit."""

import click

from .options import choose_spec, filter_options, json_option, print_json, time_limit_option
from .progress import stage_bar


@click.command("synth", short_help="Take a filter unit to post-route figures on a device.")
@filter_options()
@click.option("--device", "name", metavar="NAME", help="Target device; see --list.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Seed of the placement.",
)
@click.option(
    "--portable",
    is_flag=True,
    help="Infer the segment memories instead of using the device's own block RAMs.",
)
@click.option(
    "--organisation",
    type=click.Choice(["separate", "bit-sliced"]),
    default="separate",
    show_default=True,
    help="Memory organisation; bit-sliced suits guarded-epoch filters only.",
)
@click.option(
    "--freq",
    "target_mhz",
    type=click.IntRange(min=1),
    metavar="MHZ",
    help="Clock that nextpnr strives for.  [default: the vendor's limit for the unit]",
)
@time_limit_option
@click.option("--out", metavar="DIR", help="Keep the netlist, the report and the logs in DIR.")
@click.option("--list", "list_devices", is_flag=True, help="List the devices and exit.")
@json_option
def synth(
    *,
    spec: str | None,
    preset: str | None,
    name: str | None,
    seed: int,
    portable: bool,
    organisation: str,
    target_mhz: int | None,
    time_limit: float,
    out: str | None,
    list_devices: bool,
    as_json: bool,
) -> None:
    """Synthesise, place and route a filter unit, and time it.

    The clock frequency is that of static timing analysis after routing, with
    the block RAMs of the device's family, or the vendor's limit for clock tree
    and block RAMs if that is lower. The same seed and the same versions of the
    tools give the same figures.

    \b
    Examples:
      lately synth --list
      lately synth --device ecp5-25k-6
      lately synth --preset small --device ice40-up5k --seed 3
      lately synth --spec filter.toml --device ecp5-85k-6 --json
    """
    from ..boards.flow.devices import DEVICES, device

    if list_devices:
        from .tables import print_figures

        if as_json:
            print_json(sorted(DEVICES))
        else:
            print_figures("devices", {"devices": DEVICES.values()})
        return
    if name is None:
        raise click.UsageError("give --device; --list names the devices")
    target = device(name)
    chosen = choose_spec(spec, preset)
    from ..boards.flow.synthesis import synthesize_unit

    with stage_bar("synthesis") as progress:
        report = synthesize_unit(
            chosen,
            device=target,
            memory="portable" if portable else None,
            organisation=organisation,
            seed=seed,
            directory=out,
            target_mhz=target_mhz,
            time_limit=time_limit,
            progress=progress,
        )
    if as_json:
        print_json(report.to_dict() | {"spec": chosen.to_dict()})
    else:
        from .tables import print_figures

        print_figures("synthesis", {"report": report, "spec": chosen})
