"""Command line. Modules that take long to import are imported where they are used."""

import sys

from ..golden.errors import install_hint

try:
    import click
except ModuleNotFoundError:
    sys.exit(f"lately: error: the command line needs its extra: {install_hint('cli')}")

from .build_commands import build, program
from .dedup_commands import dedup, tap
from .export_commands import export
from .host_commands import host
from .plan_commands import plan
from .reporting import OneLineErrors
from .run_commands import run
from .synth_commands import synth
from .uniq_commands import uniq


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        # Looked up only here, as it takes longer than the other commands' start.
        from .. import __version__

        click.echo(f"lately {__version__}")
        context.exit()


GROUPS = {
    "Filter a stream": (run, dedup, uniq, tap),
    "Build hardware": (plan, synth, export, build),
    "Use a board": (program, host),
}
"""Commands in the order of use, by the headings of the help."""


class Grouped(OneLineErrors):
    """Group whose help lists commands under the headings of `GROUPS`."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summary of each command under its heading."""
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(one.name or "", one.get_short_help_str(80)) for one in commands]
                )


@click.group("lately", cls=Grouped, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Tell whether a key has been seen lately: sliding-window membership in hardware."""


for _command in (one for commands in GROUPS.values() for one in commands):
    main.add_command(_command)
