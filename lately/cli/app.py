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


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        # Looked up only here, as it takes longer than the other commands' start.
        from .. import __version__

        click.echo(f"lately {__version__}")
        context.exit()


@click.group("lately", cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
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


_STREAMS = (run, dedup, tap)
_HARDWARE = (plan, synth, export, build, program, host)
for _command in (
    run,
    dedup,
    tap,
    plan,
    synth,
    export,
    build,
    program,
    host,
):
    main.add_command(_command)
