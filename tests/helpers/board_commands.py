"""Simulated boards: their clock and line, and commands to them."""

import tempfile
from pathlib import Path

from click.testing import CliRunner

from lately.cli import app as cli

RATES = {"clock_hz": 24_000_000, "baud": 3_000_000}
"""Clock and line of all of them, as `lately.boards.link.link.FilterLink` takes them."""


def lately(port, *arguments, spec=None, status=0):
    """Return what `lately host` writes; of one that must fail, with a status, its one message.

    The `spec` must be given unless the board has a preset.
    """
    with tempfile.TemporaryDirectory() as folder:
        # A simulated port has a rate of its own.
        options = [] if str(port).startswith("sim") else ["--baud", RATES["baud"]]
        if spec is not None:
            spec.to_toml(Path(folder) / "filter.toml")
            options += ["--spec", Path(folder) / "filter.toml"]
        command = ["host", "--port", port, *options, "--timeout", 10, *arguments]
        done = CliRunner().invoke(cli.main, [str(argument) for argument in command])
    assert done.exit_code == status, (done.output, done.exception)
    if not status:
        return done.stdout
    message = done.stderr.splitlines()[-1]
    assert message.startswith("lately: ")
    return message
