"""Commands that export a unit, convert its saved states, and read vendor reports on it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from . import options
from .reporting import OneLineCommand, require
from .tables import show

# Options of a frame deduplicator: the unit, choices or flag value; and the help.
FRAME_OPTIONS: dict[str, tuple[str | Sequence[str] | bool, str]] = {
    "period": ("CYCLES", "clock cycles per tick, after reset."),
    "max-frame": ("BYTES", "maximum length of a frame that is recorded.  [default: 2000]"),
    "buffer": ("BYTES",
               "size of the memory in which frames wait for the filter's answer.  [default: "
               "8192, or 512 transfers]"),
    "on-overflow": (("wait", "drop"),
                    "if the buffer is full, let frames wait or discard them.  [default: wait]"),
    "on-oversize": (("drop", "pass"),
                    "discard frames above --max-frame, or forward them unrecorded.  "
                    "[default: drop]"),
    "no-tready": (False, "input without TREADY; a frame that does not fit is discarded whole."),
    "inner": (True,
              "compare the innermost packet of a tunnel, as far as hardware can parse it."),
    "user-bits": ("BITS",
                  "width of TUSER at the input; the bad bit is 0 at the output.  [default: 1]"),
    "id-bits": ("BITS", "width of TID, which is forwarded with each frame.  [default: 0]"),
    "dest-bits": ("BITS", "width of TDEST, which is forwarded with each frame.  [default: 0]"),
    "bad-bit": ("BIT", "bit of TUSER that flags a bad frame.  [default: 0]"),
    "mark-bit": ("BIT",
                 "bit of TUSER that flags a marked frame at the output; if it equals --user-bits, "
                 "TUSER gets one more bit.  [default: --bad-bit]"),
}  # fmt: skip


def frame_parameter(name: str) -> str:
    return name.removeprefix("no-").replace("-", "_")


def frame_option(name: str) -> options.Decorator:
    kind, text = FRAME_OPTIONS[name]
    names, help = (f"--{name}", frame_parameter(name)), f"Frames: {text}"
    if isinstance(kind, bool):
        return options.option(" ".join(names), help, flag_value=kind, default=None)
    if isinstance(kind, str):
        low = 0 if kind in ("BIT", "BITS") else 1
        return options.count_option(" ".join(names), None, help, minimum=low, metavar=kind)
    return click.option(*names, type=click.Choice(kind), help=help)


@click.command(
    "export",
    cls=OneLineCommand, short_help="Export a unit as Verilog, with files for other tools.",
    rules=[
        "--ram-output-register needs --memory portable", "--ram-style needs --memory portable",
        "--tlast needs --wrap axis", "--period cannot be combined with --ticks tick",
        "--wrap frames-* cannot be combined with --tag-bits or --covered or --omit or "
        "--self-check",
        *(f"--{name} needs --wrap frames-*" for name in FRAME_OPTIONS),
    ],
)  # fmt: skip
@options.filter_options()
@options.option("--name X", "Name of the module; the names of all files begin with this name.")
@options.option("--c as_c", "Write the filter as a C99 header instead of hardware.")
@options.wrap_option("axis", "axis")
@options.bus_option
@options.memory_option("portable", "portable")
@options.choice_option(
    "--ram-style",
    # Same as `lately.boards.export.memories.RAM_STYLES`, whose package imports Amaranth.
    ["auto", "block", "distributed", "ultra"],
    "Memory type requested from Vivado, Quartus and Synplify, with --memory portable.",
)
@options.option(
    "--ram-output-register registered",
    "With --memory portable: give a ring's memories an output register; same latency.",
)
@options.option(
    "--no-initial-values initial_values",
    "Omit initial values of registers, for devices without them, such as PolarFire or ASICs.",
    flag_value=False, default=True,
)  # fmt: skip
@options.protect_option
@options.check_option
@options.listed_option(
    "--device target",
    "devices",
    "Device for the tool scripts and the clock constraint; see `lately list devices`.  "
    "[default: example devices]",
)
@options.count_option(
    "--tag-bits", 8, "Width of the tag that is returned with each result.", minimum=0
)
@options.option("--tlast", "With --wrap axis: pass TLAST through.")
@click.option(
    "--ticks", type=click.Choice(["tick", "period", "time"]),
    help="For a time window: the source of ticks.  [default: tick]",
)  # fmt: skip
@options.together(*map(frame_option, FRAME_OPTIONS))
@options.option("--covered", "For a time window: add the number of covered ticks to each result.")
@options.option(
    "--omit FIELD",
    "Leave this field, such as age, out of each result; may be repeated.",
    multiple=True,
)
@click.option(
    "--tool", "tools", multiple=True,
    # Same as `lately.boards.export.design.TOOLS`, whose package imports Amaranth.
    type=click.Choice(["vivado", "quartus", "radiant", "diamond", "gowin", "efinity", "libero"]),
    help="Write a synthesis script for this tool; may be repeated.",
)  # fmt: skip
@options.folder_option("Folder to write to, new or empty.  [default: X]")
@options.option("--force", "Overwrite existing files in the folder.")
@options.json_option
@click.pass_context
def export(
    ctx: click.Context, *, spec: str | None, preset: str | None, name: str | None, as_c: bool,
    folder: str | None, force: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Export a filter unit for a Verilog, VHDL, FuseSoC or LiteX project.

    The files are the module in Verilog-2005, an instance template, a test bench
    with expected results from the golden model, a FuseSoC core, a VHDL component,
    a LiteX module, the clock constraint, a page on ports, fields and registers,
    and the specification. With --bus, register descriptions in SystemRDL, C and
    Python are added. The same input gives the same files. All names begin with X,
    so several units can be used in one design.

    With --c the filter is exported as software: a self-contained C99 header, and
    a SystemVerilog model that uses it through DPI-C. Both give the same results
    as the unit, bit by bit.

    \b
    Examples:
      lately export --name seen_lately --out-dir ip/seen_lately
      lately export --name seen_lately --bus axi4-lite
      lately export --name seen_lately --tool vivado --tool quartus
      lately export --preset gebf-default --name seen --wrap raw --memory ecp5
      lately export --spec filter.toml --name seen --tlast --tag-bits 16
      lately export --spec timed.toml --name dedup --wrap frames-64 --bus axi4-lite
      lately export --spec timed.toml --name dedup --wrap frames-512 --no-tready
      lately export --spec filter.toml --name seen --c --out-dir c
    """
    if name is None:
        raise click.UsageError("give --name, the name of the module")
    chosen = options.choose_unit(spec, preset)
    if as_c:
        _export_c(ctx, chosen, name, folder or name, force, as_json)
        return
    if given.pop("registered"):
        given["memory"] = "portable-registered"
    require("amaranth", "export")
    from ..boards.export.bundle import write
    from ..boards.export.design import Design
    from ..boards.export.memories import with_wide_words
    from ..sim.toolchain import models
    from .filter_choice import planned

    tick, device = planned(spec)
    given["target"] = given["target"] or device
    chosen = with_wide_words(chosen, given["ram_style"])
    of_unit = _unit_options(chosen, given)
    cells = [path.read_text("utf-8") for path in models(given["memory"])]
    design = Design(spec=chosen, name=name, options=of_unit, models=cells, tick=tick, **given)
    folder = folder or name
    files = write(design, folder, force=force)
    open_period = "period" not in of_unit and of_unit.get("ticks") != "tick"
    lacks = (spec or "a preset") if design.frames and tick is None and open_period else None
    figures = {
        "name": name, "directory": folder, "files": files, "digest": design.digest,
        "latency_cycles": design.profile.latency, "spec": chosen.to_dict(),
    }  # fmt: skip
    show(as_json, figures, "export", figures | {"design": design, "lacks": lacks})


C_OPTIONS = ("spec", "preset", "name", "as_c", "folder", "force", "as_json")


def _export_c(
    ctx: click.Context, chosen: Any, name: str, folder: str, force: bool, as_json: bool
) -> None:
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and option.name not in C_OPTIONS:
            raise click.UsageError(f"--c cannot be combined with {option.opts[-1]}")
    from ..boards.export.folder import write_folder
    from ..golden.c_header import files

    written = write_folder(files(chosen, name), folder, force=force)
    figures = {"name": name, "directory": folder, "files": written, "spec": chosen.to_dict()}
    show(as_json, figures, "export-c", figures | {"shape": chosen.shape})


@click.command(
    "convert", cls=OneLineCommand, short_help="Convert a saved filter state between Python and C."
)
@click.argument("source", type=options.InputFile(), metavar="STATE")
@click.argument("output", type=options.OutputFile(), metavar="OUT")
@options.spec_option()
def convert(*, source: str, output: str, spec: str | None) -> None:
    """Convert a filter state from a Python state file to the bytes of the C code, or back.

    X_save and X_load in the header from 'lately export --c' write and read these bytes.
    The bytes do not identify the filter, so converting them to a Python state file needs
    --spec with X.toml from the export. Both files contain the secret of the filter.

    \b
    Examples:
      lately convert seen.npz seen.bin
      lately convert seen.bin seen.npz --spec c/seen.toml
    """
    from ..golden import load
    from ..golden.c_header import from_c, to_c
    from ..golden.errors import StateFileError
    from ..golden.files import replace_file
    from ..golden.spec.base import Specification

    data = Path(source).read_bytes()
    if data.startswith(b"PK"):
        if spec is not None:
            raise click.UsageError(
                "--spec applies only to state bytes from C, not to a Python state file"
            )
        model = load(source)
        with replace_file(output, private=model._private) as file:
            file.write(to_c(model))
        return
    if spec is None:
        raise click.UsageError("give --spec, the TOML file that was exported with the C header")
    try:
        model = from_c(Specification.from_toml(spec), data)
    except StateFileError as error:
        raise StateFileError(f"{source}: {error}") from None
    model.save(output, secrets=True)


@click.command(
    "collect",
    cls=OneLineCommand,
    short_help="Extract the figures from a Vivado, Quartus or Radiant report.",
)
@click.argument("report", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.spec_option(required=True)
def collect(*, report: Path, spec: str) -> None:
    """Print the figures from a vendor tool's REPORT on a unit, as one line of JSON.

    The scripts that 'lately export --tool' writes produce such reports. FILE is X.toml
    from the same export. To have the figures listed as reported by users on the
    performance page, open an issue with this line.

    \b
    Examples:
      lately collect seen_vivado.rpt --spec seen.toml
      lately collect seen_quartus.rpt --spec seen.toml
    """
    from ..boards.export.vendor_reports import read_report
    from ..golden.spec.base import Specification

    chosen = Specification.from_toml(spec)
    figures = read_report(report.read_text("utf-8", errors="replace"))
    click.echo(json.dumps(figures | {"spec": chosen.to_dict()}))


def _unit_options(chosen: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of the unit or frame deduplicator from `given`, and return them."""
    names = ["ticks", *map(frame_parameter, FRAME_OPTIONS)]
    moved = {name: value for name in names if (value := given.pop(name)) is not None}
    if given.pop("covered"):
        if not (chosen.kind == "ring" and chosen.timed):
            raise click.UsageError("--covered needs a ring with a time window")
        moved["report_covered"] = True
    if omit := given.pop("omit"):
        moved["omit"] = omit
    if given.pop("self_check"):
        moved["self_check"] = True
    if "ticks" in moved and not getattr(chosen, "timed", False):
        raise click.UsageError("--ticks needs a filter with a time window")
    if "tready" in moved:
        moved.setdefault("on_overflow", "drop")
    return moved
