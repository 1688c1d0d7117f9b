"""Commands that show presets, devices, boards, a filter or the installation."""

import platform
import shutil
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ..golden.errors import install_hint
from . import options
from .reporting import EXTRAS, OneLineCommand
from .tables import show as print_figures

# External programs, and what they are needed for.
TOOLS = {
    "g++": "compiled hardware",
    "perl": "compiled hardware",
    "iverilog": "test benches of exported filters",
    "gtkwave": "waveforms",
}

# Fields of a device that `lately list devices --json` prints.
OF_A_DEVICE = ("description", "family", "figures", "lut", "ff", "bram", "bram_bits", "usram")

# Fields of a board that `lately list boards --json` prints besides its device and filter.
OF_A_BOARD = ("description", "clock_mhz", "baud")


@click.command("list", cls=OneLineCommand)
@click.argument("kind", type=click.Choice(["presets", "devices", "boards"]))
@options.json_option
def list(*, kind: str, as_json: bool) -> None:
    """List the presets, devices or boards that other commands accept.

    \b
    Examples:
      lately list presets
      lately list devices --json
    """
    known = options.listed(kind)
    rows: Any = [*known.values()]
    if kind == "presets":
        figures = {name: spec.to_dict() for name, spec in known.items()}
        rows = [{"name": name, "spec": spec} for name, spec in known.items()]
    elif kind == "devices":
        rows.sort(key=lambda entry: entry.family)
        figures = {
            entry.name: {field: getattr(entry, field) for field in OF_A_DEVICE} for entry in rows
        }
    else:
        figures = {
            entry.name: {field: getattr(entry, field) for field in OF_A_BOARD}
            | {"device": entry.device.name, "spec": entry.spec.to_dict()}
            for entry in rows
        }
    print_figures(as_json, figures, kind, {kind: rows})


@click.command(cls=OneLineCommand)
@options.filter_options()
@options.listed_option(
    "--device name", "devices", "Report the memory in block RAMs of this device."
)
@options.json_option
def show(*, spec: str | None, preset: str | None, name: str | None, as_json: bool) -> None:
    """Show the window, rates, memory and latency of a filter.

    \b
    Examples:
      lately show --preset default
      lately show --spec filter.toml --device ecp5-25k-6
    """
    from ..boards.flow.devices import device
    from ..planner.plans import describe
    from ..planner.requirement import PricedSpec, Requirement
    from .filter_choice import planned

    chosen = options.choose_unit(spec, preset)
    tick, device_name = planned(spec)
    name = name or (device_name if chosen.lanes == 1 else None)
    target = None if name is None else device(name)
    if target is not None and chosen.lanes > 1:
        raise click.UsageError(
            "--device needs a filter with one lane; for several lanes, use `lately synth`"
        )
    window = getattr(chosen, "window", None)
    requirement = Requirement(
        window=window or 1, false_positive_rate=0.5, device=target, key_bits=chosen.key_bits
    )
    candidate = describe(PricedSpec(cost=0, spec=chosen), requirement)
    value = candidate.to_dict()
    if window is None:  # The rate depends on the number of keys in a span, which is unlimited.
        value |= {"worst_false_positive_rate": None, "mean_false_positive_rate": None}
    value["tick_seconds"] = tick and float(tick)
    figures = {"filter": candidate, "device": target, "window": window, "tick": tick}
    print_figures(as_json, value, "filter", figures)


@click.command(cls=OneLineCommand)
@options.json_option
def doctor(*, as_json: bool) -> None:
    """Show which tools and extras are installed, and which commands need them.

    \b
    Examples:
      lately doctor
      lately doctor --json
    """
    folder = str(Path(__file__).parents[1])
    rows = [
        {"part": "Python", "found": platform.python_version(), "use": sys.executable},
        {"part": "lately", "found": metadata.version("lately"), "use": folder},
    ]
    core = "yes" if find_spec("lately.golden._core") else "no"
    rows.append({"part": "compiled models", "found": core, "use": "fast filters in Python"})
    for extra, (use, modules) in EXTRAS.items():
        there = all(map(find_spec, modules.split()))
        hint = "" if there else f": {install_hint(extra)}"
        rows.append({"part": extra, "found": "yes" if there else "no", "use": use + hint})
    for tool, use in TOOLS.items():
        rows.append({"part": tool, "found": shutil.which(tool) or "no", "use": use})
    figures = {row["part"]: {"found": row["found"], "use": row["use"]} for row in rows}
    print_figures(as_json, figures, "doctor", {"rows": rows})
