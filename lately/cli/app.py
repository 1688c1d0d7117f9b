"""The `lately` command. Slow imports are deferred to where they are used."""

import gc
import os
import warnings
from importlib import import_module
from importlib.util import find_spec

import click

from .reporting import OneLineErrors


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        # Looked up only here, because the look-up takes longer than a command takes to start.
        from .. import __version__

        click.echo(f"lately {__version__}")
        context.exit()


# Without this, numpy starts a thread per core for matrix products, which no command needs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Start-up creates few reference cycles, so a collection would only scan the imports.
gc.set_threshold(50_000)

# Commands by help heading, each with the prefix of its module's name.
GROUPS = {
    "Filter a stream": {"run": "run", "dedup": "dedup", "uniq": "uniq", "tap": "dedup"},
    "Build hardware": {"plan": "plan", "synth": "build", "export": "export",
                       "convert": "export", "collect": "export", "build": "build"},
    "Look up": {"list": "about", "show": "about", "doctor": "about"},
    "Use a board": {"program": "build", "host": "host"},
}  # fmt: skip

STATUSES = (
    "Exit status: 0 success, 1 check failed or output incomplete, 2 could not run, 130 interrupted."
)

_MODULES = {name: module for commands in GROUPS.values() for name, module in commands.items()}


def _with_statuses(command: click.Command) -> click.Command:
    command.epilog = STATUSES
    for below in getattr(command, "commands", {}).values():
        _with_statuses(below)
    return command


class Grouped(OneLineErrors):
    """Command group that imports only the command that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = import_module(f".{_MODULES[cmd_name]}_commands", __package__)
        command: click.Command = getattr(module, cmd_name)
        return _with_statuses(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                shown = [self.get_command(ctx, name) for name in commands]
                formatter.write_dl(
                    [
                        (command.name or "", command.get_short_help_str(80))
                        for command in shown
                        if command
                    ]
                )


@click.group(
    "lately", cls=Grouped, epilog=STATUSES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "-V", "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version,
    help="Show the version and exit.",
)  # fmt: skip
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Suppress progress output and the notice that a live capture has started.",
)
def main(*, quiet: bool) -> None:
    """Filters for FPGAs that report whether a key was seen within a sliding window.

    \b
    Examples:
      lately list presets
      lately plan --window 1000 --fpr 0.01 --device ecp5-25k-6
      lately dedup --help
    """
    if find_spec("lately.golden._core") is None:
        click.echo("lately: running without its compiled extension, so filters are slow", err=True)
        warnings.filterwarnings("ignore", "lately has no compiled extension")
