"""Rates of simulated boards, and commands to boards."""

import tempfile
from pathlib import Path

from click.testing import CliRunner

from lately.cli import app as cli

RATES = {"clock_hz": 24_000_000, "baud": 3_000_000}


def lately(port, *arguments, spec=None, status=0):
    """Run `lately host`; return its output, or its message if it must fail with a `status`."""
    with tempfile.TemporaryDirectory() as folder:
        # `lately host` chooses the rate of a simulated port.
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
