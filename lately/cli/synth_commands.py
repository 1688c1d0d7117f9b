"""The command that synthesises a unit."""

from typing import Any

import click

from . import options
from .export_commands import frame_option
from .progress import stage_bar
from .reporting import OneLineCommand, require
from .tables import show


@click.command(
    "synth", cls=OneLineCommand,
    short_help="Synthesise, place and route a filter unit.",
    rules=[
        "--memory cannot be combined with --avoid-mixed-port-reads",
        "--inner needs --wrap frames-*",
        "--wrap frames-* cannot be combined with --self-check or --memory",
    ],
)  # fmt: skip
@options.filter_options()
@options.listed_option(
    "--device name", "devices", "Target device; see `lately list devices`.  [default: the plan's]"
)
@options.count_option("--placement-seed", None, "Placement seed.  [default: 1]", minimum=0)
@options.memory_option(None, "the device's own block RAMs")
@options.strict_option
@options.protect_option
@options.check_option
@options.wrap_option(None, "the unit alone; with --bus, axis")
@frame_option("inner")
@options.bus_option
@options.clock_option(
    "the vendor's limit for the unit; 125 MHz with frames-8, 156 MHz with wider frames"
)
@options.time_limit_option
@options.folder_option("Keep the netlist, the report and the logs in DIR.")
@options.json_option
def synth(
    *, spec: str | None, preset: str | None, name: str | None, placement_seed: int | None,
    clock: float | None, wrap: str | None, bus: str, inner: bool | None, folder: str | None,
    as_json: bool, **flow: Any,
) -> None:  # fmt: skip
    """Synthesise, place and route a filter unit; report area and timing.

    The clock frequency is the lower of two figures: static timing after
    routing, and the vendor's limit for the clock tree and block RAMs. The same
    seed and tool versions give the same figures. If there is no place-and-route
    tool for the device, yosys counts the cells, and no clock frequency is given.

    \b
    Examples:
      lately synth --preset tiny --device ice40-hx8k
      lately synth --device ecp5-25k-6
      lately synth --preset small --device ice40-up5k --placement-seed 3
      lately synth --spec filter.toml --device ecp5-85k-6 --json
      lately synth --device ecp5-25k-6 --bus axi4-lite
      lately synth --spec timed.toml --device ecp5-85k-8 --wrap frames-64 --bus axi4-lite
    """
    from ..boards.flow.devices import device
    from .filter_choice import planned

    chosen = options.choose_unit(spec, preset)
    name = name or planned(spec)[1]
    if name is None:
        raise click.UsageError("give --device; `lately list devices` lists the devices")
    target = device(name)
    if placement_seed is not None:
        if not target.placed:
            raise click.UsageError(
                f"--placement-seed has no effect: no place-and-route tool supports {name}"
            )
        flow["seed"] = placement_seed
    require("amaranth", "synth")
    flow |= {"target_mhz": clock, "directory": folder, "device": target}
    with stage_bar("synthesis") as progress:
        if wrap is None and bus == "none":
            from ..boards.flow.synthesis import synthesize_unit

            report: Any = synthesize_unit(chosen, progress=progress, **flow)
        else:
            from ..boards.export.design_synthesis import synthesize_design

            flow |= {"wrap": wrap or "axis", "bus": bus, "inner": bool(inner)}
            report = synthesize_design(chosen, progress=progress, **flow)
    figures = report.to_dict() | {"spec": chosen.to_dict()}
    table = "synthesis" if target.placed else "count"
    show(as_json, figures, table, {"report": report, "spec": chosen})
