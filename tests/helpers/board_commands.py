"""Simulated boards: their clock and line, and commands to them."""

from click.testing import CliRunner

from lately.cli import app as cli

RATES = {"clock_hz": 24_000_000, "baud": 3_000_000}
"""Clock and line of all of them, as `lately.boards.link.link.FilterLink` takes them."""


def lately(port, *arguments, status=0):
    """Return what `lately host` writes; of one that must fail, with a status, its one message."""
    # A simulated port has a rate of its own.
    rate = [] if str(port).startswith("sim") else ["--baud", RATES["baud"]]
    command = ["host", "--port", port, *rate, "--timeout", 10, *arguments]
    done = CliRunner().invoke(cli.main, [str(argument) for argument in command])
    assert done.exit_code == status, (done.output, done.exception)
    if not status:
        return done.stdout
    message = done.stderr.splitlines()[-1]
    assert message.startswith("lately: ")
    return message
