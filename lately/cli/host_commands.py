"""Commands that speak to a board at a serial port."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from .progress_bars import counting_bar

if TYPE_CHECKING:
    from ..golden import FilterSpec, SlidingFilter, Verdicts
    from ..host import Host
    from ..replay.traces import Trace

SIMULATED = "sim"
"""What a port begins with that is a simulated board."""

_SIMULATED_CLOCK, _SIMULATED_BAUD = 24_000_000, 3_000_000
_CHUNK = 2048
_COLUMNS = "index,key,seen,age\n"


@click.group(short_help="Speak to a board at a serial port.")
@click.option(
    "--port",
    required=True,
    metavar="PORT",
    help="Serial port; or sim, or sim:PRESET, for a simulated board.",
)
@click.option(
    "--baud", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Of the line."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Wait for an answer before asking again.  [default: 0.5, simulated 10]",
)
@click.pass_context
def host(ctx: click.Context, *, port: str, baud: int, timeout: float | None) -> None:
    """Speak to a board that holds a filter, at the serial port PORT.

    Whatever is lost on the line is sent again, and nothing takes effect
    twice. The port sim is a board in simulation, which is compiled when it
    is first used and forgets everything at the end of the command.

    \b
    Examples:
      lately host --port /dev/ttyUSB1 info
      lately host --port /dev/ttyUSB1 --baud 3000000 stream access.log --check
      lately host --port sim:tiny self-test
    """
    ctx.obj = lambda: _open(port, baud, timeout)


@contextmanager
def _open(port: str, baud: int, timeout: float | None) -> "Iterator[Host]":
    """Open the port; the board of a simulated one lives as long."""
    from ..host import Host

    with ExitStack() as stack:
        if port.partition(":")[0] == SIMULATED:
            port = stack.enter_context(_simulated(port.partition(":")[2] or "tiny")).port
            baud, timeout = _SIMULATED_BAUD, timeout or 10
        yield stack.enter_context(Host(port, baud=baud, timeout=timeout or 0.5))


def _simulated(preset: str) -> Any:
    from ..golden import preset as named

    spec = named(preset)
    from ..boards.link.link import Link
    from ..sim.board import SimulatedBoard, board_model

    rates = {"clock_hz": _SIMULATED_CLOCK, "baud": _SIMULATED_BAUD}
    return SimulatedBoard(board_model(Link(spec, **rates), **rates))


_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_text = click.option(
    "--text", is_flag=True, help="KEYs are texts, hashed to keys as those of a trace."
)
_keys = click.argument("keys", nargs=-1, required=True, metavar="KEY...")


@host.command(short_help="What the board says of itself.")
@_json
@click.pass_obj
def info(board: "Callable[[], Any]", *, as_json: bool) -> None:
    """Show which filter the board holds."""
    from ..host import preset_of

    with board() as opened:
        found = opened.information
    figures = vars(found) | {"digest": found.digest.hex(), "preset": preset_of(found)}
    _print(figures, as_json)


@host.command(short_help="Insert keys.")
@_keys
@_text
@click.pass_obj
def insert(board: "Callable[[], Any]", *, keys: tuple[str, ...], text: bool) -> None:
    """Insert each KEY, an integer such as 17 or 0x11, in order."""
    with board() as opened:
        opened.insert(_parse(keys, opened.information.key_bits, text))


@host.command(short_help="Ask for keys.")
@_keys
@_text
@_json
@click.pass_obj
def query(board: "Callable[[], Any]", *, keys: tuple[str, ...], text: bool, as_json: bool) -> None:
    """Say of each KEY, an integer such as 17 or 0x11, whether it was seen, and its age.

    The age is the youngest generation that the key can be of, 0 for the current one.
    """
    with board() as opened:
        verdicts = opened.query(_parse(keys, opened.information.key_bits, text))
    rows = list(zip(keys, verdicts.seen.tolist(), verdicts.age.tolist(), strict=True))
    if as_json:
        names = ("key", "seen", "age")
        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
        return
    for key, seen, age in rows:
        click.echo(f"{key}: {f'seen, age {age}' if seen else 'not seen'}")


@host.command(short_help="Start a new generation.")
@click.pass_obj
def shift(board: "Callable[[], Any]") -> None:
    """Start a new generation now."""
    with board() as opened:
        opened.shift()


@host.command(short_help="Forget everything.")
@click.pass_obj
def clear(board: "Callable[[], Any]") -> None:
    """Forget everything."""
    with board() as opened:
        opened.clear()


@host.command(short_help="What the board has counted.")
@_json
@click.pass_obj
def statistics(board: "Callable[[], Any]", *, as_json: bool) -> None:
    """Show what the board has counted since its reset, a self-test's operations included."""
    with board() as opened:
        _print(opened.statistics(), as_json)


@host.command("self-test", short_help="Have the board test its memories.")
@_json
@click.pass_obj
def self_test(board: "Callable[[], Any]", *, as_json: bool) -> None:
    """Have the board test its memories; whatever the filter holds is lost.

    Fails if a check fails, and names it.
    """
    from ..host import failed_checks

    with board() as opened:
        checks = failed_checks(opened.self_test())
    _print(
        {name: passed if as_json else _verdict(passed) for name, passed in checks.items()}, as_json
    )
    failed = [name for name, passed in checks.items() if not passed]
    if failed:
        raise click.ClickException(
            f"self-test: must pass all checks, but failed {', '.join(failed)}"
        )


@host.command(short_help="Set generation length or secret.")
@click.option(
    "--generation", type=click.IntRange(min=1), metavar="N", help="Insertions in a generation."
)
@click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="A secret of 32 hexadecimal digits, for a filter with siphash.",
)
@click.pass_obj
def configure(
    board: "Callable[[], Any]", *, generation: int | None, secret_file: str | None
) -> None:
    """Set the length of the generations to come, or load a secret.

    A length counts from the next generation on; a secret from the next clear on, or, with
    re-keying, from the next shift.
    """
    if generation is None and secret_file is None:
        raise click.UsageError("give --generation or --secret-file")
    secret = None if secret_file is None else _read_secret(secret_file)
    with board() as opened:
        try:
            opened.configure(generation=generation, secret=secret)
        except ValueError as error:
            raise click.ClickException(str(error)) from None


@host.command(short_help="Check and insert the keys of a trace.")
@click.argument("trace")
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", "log", "csv", "lines"]),
    default="auto",
    show_default=True,
    help="What TRACE is.",
)
@click.option(
    "--key", metavar="NAMES", help="Fields (log) or columns (CSV) of the key, with commas."
)
@click.option(
    "--skip",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Go on after N operations that the board has performed already.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N operations.")
@click.option("--check", is_flag=True, help="Hold every verdict against the golden model.")
@click.option("--spec", metavar="FILE", help="Filter that the board must have, as TOML.")
@click.option("--preset", metavar="NAME", help="Filter that the board must have, by name.")
@click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="With --check: the secret that the filter is to have, in 32 hexadecimal digits.",
)
@click.option("--out", metavar="FILE", help="Write the verdicts there, as CSV.")
@_json
@click.pass_obj
def stream(
    board: "Callable[[], Any]",
    *,
    trace: str,
    form: str,
    key: str | None,
    skip: int,
    limit: int | None,
    check: bool,
    spec: str | None,
    preset: str | None,
    secret_file: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Check and insert every key of TRACE in the board's filter.

    TRACE and its keys are as for 'lately run'. Ctrl-C ends the stream after
    what is under way; what was done is written and reported, and --skip goes
    on after it.

    With --check the filter is cleared first, after a secret has been loaded
    if it takes one, and the golden model runs alongside; with --skip as well,
    nothing is cleared, and the model is given what is skipped. Fails if a
    verdict differs.

    \b
    Examples:
      lately host --port /dev/ttyUSB1 stream access.log
      lately host --port /dev/ttyUSB1 stream flights.csv.gz --key tail_number --check
      lately host --port sim:tiny stream keys.txt --limit 1000 --check --json
    """
    from ..golden.files import replace_file
    from ..replay.traces import open_trace

    wanted = _wanted(spec, preset)
    secret = None if secret_file is None else _read_secret(secret_file)
    with ExitStack() as stack:
        records = stack.enter_context(open_trace(trace, format=form, key=key))
        opened = stack.enter_context(board())
        if wanted is not None:
            opened.check_spec(wanted)
        golden = _golden(opened, wanted, secret) if check else None
        table = stack.enter_context(replace_file(out)) if out else None
        if golden is not None and not skip:
            _begin(opened, secret)
        figures = _stream(opened, records, golden, skip, limit, table)
    _print(figures, as_json)
    if figures["error"]:
        # The board may have performed some of the next stretch.
        raise click.ClickException(
            f"{figures['error']}; verdicts came for {figures['operations']} operations"
        )
    if figures["mismatches"]:
        raise click.ClickException(
            f"mismatches: must be 0, not {figures['mismatches']}; "
            f"the first is operation {figures['first_mismatch']}"
        )
    if figures["interrupted"]:
        raise click.exceptions.Exit(130)


def _wanted(spec: str | None, preset: str | None) -> "FilterSpec | None":
    if spec is not None and preset is not None:
        raise click.UsageError("give one of --spec and --preset, not both")
    from ..golden import FilterSpec
    from ..golden import preset as named

    if spec is not None:
        return FilterSpec.from_toml(spec)
    return None if preset is None else named(preset)


def _golden(board: "Host", wanted: "FilterSpec | None", secret: int | None) -> "SlidingFilter":
    """Return an empty model of the filter that the board has."""
    from ..golden import from_spec
    from ..golden import preset as named
    from ..host import preset_of

    if wanted is None:
        name = preset_of(board.information)
        if name is None:
            raise click.UsageError("--check needs --spec or --preset: the board's is no preset")
        wanted = named(name)
    if board.information.keyed != (secret is not None):
        raise click.UsageError(
            "--check needs --secret-file if the board's filter takes a secret, and only then"
        )
    golden = from_spec(wanted, secret=secret or 0)
    golden.generation = board.statistics()["generation"]
    golden.clear()
    return golden


def _begin(board: "Host", secret: int | None) -> None:
    """Clear the filter, and have it hold a secret and no other."""
    board.clear()
    if secret is not None:
        board.configure(secret=secret)
        board.clear()


def _stream(
    board: "Host",
    trace: "Trace",
    golden: "SlidingFilter | None",
    skip: int,
    limit: int | None,
    table: BinaryIO | None,
) -> dict[str, Any]:
    """Perform the operations of a stream, and say what came of it."""
    from ..host import HostError

    if table is not None:
        table.write(_COLUMNS.encode())
    course = _Course(board, golden, table)
    with _interruptible() as interrupted, _progress(limit) as progress:
        for texts in _texts(trace, skip, interrupted):
            course.skip(texts)
        began = time.perf_counter()
        try:
            for texts in _texts(trace, limit, interrupted):
                course.perform(texts)
                progress(len(texts))
        except HostError as error:
            course.error = str(error)
        seconds = time.perf_counter() - began
    return course.figures() | {
        "malformed_lines": trace.rejects.count,
        "requests_repeated": board.repeated,
        "seconds": seconds,
        "operations_per_second": course.done / seconds if seconds else None,
        "interrupted": interrupted(),
    }


def _texts(
    trace: "Trace", count: int | None, interrupted: Callable[[], bool]
) -> Iterator[list[str]]:
    """Yield the texts of some records, or of all, a stretch at a time."""
    left = _CHUNK if count is None else count
    while left and not interrupted():
        records = trace.read(min(_CHUNK, left))
        if not records:
            return
        yield [text for text, _ in records]
        left -= len(records) if count is not None else 0


class _Course:
    """A stream in progress: what was done, and what came back."""

    def __init__(
        self, board: "Host", golden: "SlidingFilter | None", table: BinaryIO | None
    ) -> None:
        self._board = board
        self._golden = golden
        self._table = table
        self.error: str | None = None
        self.done = self.skipped = self.seen = self.mismatches = 0
        self._first: int | None = None

    def skip(self, texts: list[str]) -> None:
        """Count keys that the board has; the model still needs them."""
        if self._golden is not None:
            self._golden.check_and_insert(self._hashed(texts))
        self.skipped += len(texts)

    def perform(self, texts: list[str]) -> None:
        """Check and insert the keys of some texts, and write what came back."""
        keys = self._hashed(texts)
        verdicts = self._board.check_and_insert(keys)
        start = self.skipped + self.done
        if self._golden is not None:
            wrong = _differing(self._golden, keys, verdicts)
            if len(wrong) and self._first is None:
                self._first = start + int(wrong[0])
            self.mismatches += len(wrong)
        if self._table is not None:
            _write(self._table, start, texts, verdicts)
        self.done += len(texts)
        self.seen += int(verdicts.seen.sum())

    def figures(self) -> dict[str, Any]:
        """Return what came of it, as JSON can hold it."""
        return {
            "operations": self.done,
            "skipped": self.skipped,
            "seen": self.seen,
            "mismatches": None if self._golden is None else self.mismatches,
            "first_mismatch": self._first,
            "error": self.error,
        }

    def _hashed(self, texts: list[str]) -> Any:
        from ..golden.hash.keys import text_keys

        return text_keys(texts, key_bits=self._board.information.key_bits)


def _differing(golden: "SlidingFilter", keys: Any, verdicts: "Verdicts") -> Any:
    """Return the places where verdict or age differ from the model's."""
    import numpy as np

    from ..golden import Operation

    operations = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
    expected = golden.apply(operations, keys)
    return np.flatnonzero((expected.seen != verdicts.seen) | (expected.age != verdicts.age))


def _write(table: BinaryIO, start: int, texts: list[str], verdicts: "Verdicts") -> None:
    import csv
    import io

    text = io.StringIO(newline="")
    rows = zip(texts, verdicts.seen.tolist(), verdicts.age.tolist(), strict=True)
    csv.writer(text, lineterminator="\n").writerows(
        (index, key, int(seen), age if seen else "")
        for index, (key, seen, age) in enumerate(rows, start)
    )
    table.write(text.getvalue().encode("utf-8", "surrogateescape"))


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Hear one Ctrl-C at a place where nothing is lost; the next acts at once."""
    heard = False

    def hear(number: int, frame: object) -> None:
        nonlocal heard
        heard = True
        signal.signal(signal.SIGINT, before)

    try:
        before = signal.signal(signal.SIGINT, hear)
    except ValueError:
        # Only the main thread hears signals.
        yield lambda: False
        return
    try:
        yield lambda: heard
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how many operations are done where somebody can see it."""
    text = "{task.completed:,.0f} operations"
    with counting_bar("operations", total, "bar", text, "elapsed") as advance:
        yield advance or (lambda done: None)


def _parse(texts: tuple[str, ...], key_bits: int, hashed: bool) -> Any:
    """Return keys as arrays take them."""
    import numpy as np

    from ..golden.hash.keys import text_keys

    if hashed:
        return text_keys(texts, key_bits=key_bits)
    numbers = [_integer(text, key_bits) for text in texts]
    words = -(-key_bits // 64)
    rows = [[number >> 64 * word & (1 << 64) - 1 for word in range(words)] for number in numbers]
    keys = np.array(rows, np.uint64)
    return keys[:, 0] if words == 1 else keys


def _integer(text: str, key_bits: int) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << key_bits:
        raise click.UsageError(
            f"KEY: must be an integer below 2**{key_bits}, or a text with --text, not {text!r}"
        )
    return number


def _read_secret(path: str) -> int:
    with open(path, "rb") as file:
        text = file.read(100).strip()
    try:
        if len(text) != 32:
            raise ValueError
        return int(bytes.fromhex(text.decode("ascii")).hex(), 16)
    except ValueError:
        # What the file holds may be half a secret.
        raise click.ClickException(
            f"{path}: must hold 32 hexadecimal digits, but does not"
        ) from None


def _verdict(passed: bool) -> str:
    return "passed" if passed else "failed"


def _print(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(figures, allow_nan=False))
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        if value is not None:
            shown = (
                f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
            )
            shown = f"{value:,.1f}" if isinstance(value, float) else shown
            click.echo(f"{name.replace('_', ' '):<{width}}  {shown}")
