"""Commands that talk to a board over a serial port."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import click

from .options import (
    amount_option,
    baud_option,
    choose_unit,
    count_option,
    filter_options,
    json_option,
    limit_option,
    out_option,
    print_json,
    query_window_option,
    read_secret,
    secret_option,
    table_option,
    trace_options,
)
from .outputs import InputFile, content_source, rereadable
from .reporting import INTERRUPTED, CheckError, OneLineErrors, fail_with

if TYPE_CHECKING:
    from ..golden.spec.base import Specification
    from ..host import Board

Opener = Callable[[], AbstractContextManager["Board"]]
"""Opens the port."""

SIMULATED = "sim"
"""First part of the name of a port that is a simulated board."""

_SIMULATED_CLOCK, _SIMULATED_BAUD = 24_000_000, 3_000_000

_FIGURES = ("frames", "timed", "keyed", "shifts", "removes", "decides", "clock_hz", "slots")
"""Attributes of `Information` that `info` shows."""


@click.group(
    cls=OneLineErrors, short_help="Talk to a board over a serial port.",
    rules=["--baud cannot be combined with --port sim or sim:*"],
)  # fmt: skip
@click.option(
    "--port",
    metavar="PORT",
    help="Serial port; or sim, sim:PRESET or sim:FILE.toml, for a simulated board.  [required]",
)
@baud_option(1_000_000)
@amount_option(
    "--timeout",
    "SECONDS",
    "Time to wait for an answer before repeating a request.  [default: 0.5, simulated 10]",
)
@click.pass_context
def host(ctx: click.Context, *, port: str | None, baud: int, timeout: float | None) -> None:
    """Talk to a board that holds a filter, over the serial port PORT.

    Lost requests are sent again, and no request takes effect twice. The port
    sim is a simulated board, which is compiled on first use and forgets
    everything at the end of the command.

    \b
    Examples:
      lately host --port /dev/ttyUSB1 info
      lately host --port /dev/ttyUSB1 --baud 3000000 stream access.log --verify
      lately host --port sim:tiny self-test
      lately host --port sim:dictionary-tiny query 17 --query-window 10
    """
    ctx.obj = partial(_open, port, baud, timeout)


@contextmanager
def _open(port: str | None, baud: int, timeout: float | None) -> "Iterator[Board]":
    """Open the port, and close it at the end, with the board if that is simulated."""
    if port is None:  # Not required by click: each command shows its help without a port.
        raise click.UsageError("Missing option '--port'.")
    from ..host import Board

    with ExitStack() as stack:
        if port.partition(":")[0] == SIMULATED:
            port = stack.enter_context(_simulated(port.partition(":")[2] or "tiny")).port
            baud, timeout = _SIMULATED_BAUD, timeout or 10
        yield stack.enter_context(Board(port, baud=baud, timeout=timeout or 0.5))


def _simulated(name: str) -> Any:
    """Return a simulated board with the filter of a preset, or of a specification's file."""
    file = name.endswith(".toml")
    spec = choose_unit(name if file else None, None if file else name)
    from ..boards.export.design import release
    from ..boards.link.link import FilterLink
    from ..sim.board import SimulatedBoard, board_model

    rates = {"clock_hz": _SIMULATED_CLOCK, "baud": _SIMULATED_BAUD}
    return SimulatedBoard(board_model(FilterLink(spec, version=release(), **rates), **rates))


_text = click.option(
    "--text", is_flag=True, help="Take each KEY as text, and hash it like the keys of a trace."
)
_keys = click.argument("keys", nargs=-1, required=True, metavar="KEY...")


_query_class = count_option(
    "--query-class", None, "Class of queries, for a filter with classes.  [default: 0]", least=0
)


def _asked(opened: "Board", window: str | None, query_class: int | None) -> int | None:
    """Return the window or the class of each query, by the filter of the board."""
    from ..replay.stream_times import query_window

    decides = opened.information.decides
    wrong, value, what = (
        ("query-window", window, "a class") if decides else ("query-class", query_class, "none")
    )
    if value is not None:
        raise click.ClickException(
            f"{wrong}: must not be given for the filter of {opened.port}, whose queries have {what}"
        )
    if decides or window is None:
        return query_class
    return query_window(opened.information.specification, window, None)


@host.command(short_help="Show the filter of the board.")
@json_option
@click.pass_obj
def info(board: Opener, *, as_json: bool) -> None:
    """Show the filter of the board and, for a window in time, its tick and covered span.

    \b
    Examples:
      lately host --port sim:tiny info
      lately host --port sim:tiny info --json
    """
    from ..host import preset_of, window_seconds

    with board() as opened:
        found = opened.information
        seconds = window_seconds(found, opened.statistics()) if found.timed else {}
    figures: dict[str, Any] = {"preset": preset_of(found), **found.spec}
    figures |= {name: getattr(found, name) for name in _FIGURES}
    figures |= {"longest_query": found.longest, "self_test_operations": found.plan.operations}
    _print(figures | seconds, as_json)


@host.command(short_help="Insert keys.")
@_keys
@_text
@click.pass_obj
def insert(board: Opener, *, keys: tuple[str, ...], text: bool) -> None:
    """Insert each KEY, an integer such as 17 or 0x11, in order.

    \b
    Examples:
      lately host --port sim:tiny insert 17 0x11
      lately host --port sim:tiny insert --text 10.0.0.1
    """
    with board() as opened:
        opened.insert(_parse(keys, opened.information.key_bits, text))


@host.command(short_help="Query keys.")
@_keys
@_text
@query_window_option
@_query_class
@json_option
@click.pass_obj
def query(
    board: Opener,
    *,
    keys: tuple[str, ...],
    text: bool,
    query_window: str | None,
    query_class: int | None,
    as_json: bool,
) -> None:
    """Report whether each KEY, an integer such as 17 or 0x11, has been seen, and its age.

    For a ring, the age is the number of the youngest generation that may hold the key; 0 is the
    current one. For a filter whose queries have a window, the age has the unit of the window.

    \b
    Examples:
      lately host --port sim:tiny query 17 0x11
      lately host --port sim:tiny query --text 10.0.0.1 --json
    """
    with board() as opened, _explained():
        asked = _asked(opened, query_window, query_class)
        verdicts = opened.query(_parse(keys, opened.information.key_bits, text), asked)
    rows = list(zip(keys, verdicts.seen.tolist(), verdicts.age.tolist(), strict=True))
    if as_json:
        print_json([{"key": key, "seen": seen, "age": age} for key, seen, age in rows])
        return
    for key, seen, age in rows:
        click.echo(f"{key}: {f'seen, age {age}' if seen else 'not seen'}")


@host.command(short_help="Remove keys.")
@_keys
@_text
@click.pass_obj
def remove(board: Opener, *, keys: tuple[str, ...], text: bool) -> None:
    """Remove each KEY, an integer such as 17 or 0x11, from a dictionary.

    \b
    Examples:
      lately host --port sim:dictionary-tiny remove 17
    """
    with board() as opened:
        opened.remove(_parse(keys, opened.information.key_bits, text))


@host.command(short_help="Start a new generation.")
@click.pass_obj
def shift(board: Opener) -> None:
    """Start a new generation now.

    \b
    Examples:
      lately host --port sim:tiny shift
    """
    with board() as opened:
        opened.shift()


@host.command(short_help="Forget everything.")
@click.pass_obj
def clear(board: Opener) -> None:
    """Forget everything.

    \b
    Examples:
      lately host --port sim:tiny clear
    """
    with board() as opened:
        opened.clear()


@host.command("table", short_help="Load a table of thresholds.")
@click.argument("file", metavar="FILE", type=click.Path())
@click.pass_obj
def load_table(board: Opener, *, file: str) -> None:
    """Load a table of thresholds into a filter with classes; it takes effect at once.

    FILE is written by DecisionTable.save. Until the first table after reset, every key is reported.

    \b
    Examples:
      lately host --port sim:decided.toml table table.json
    """
    from ..golden import DecisionTable

    found = DecisionTable.load(file)
    with board() as opened:
        opened.decide_by(found)


@host.command(short_help="Show the board's counters.")
@json_option
@click.pass_obj
def statistics(board: Opener, *, as_json: bool) -> None:
    """Show the board's counters since its reset; they include the operations of self-tests.

    With a window in time, the command also shows the ticks and seconds for which every key is
    still reported. The counters of a deduplicator of frames are captured at the same moment.

    \b
    Examples:
      lately host --port sim:tiny statistics
      lately host --port sim:tiny statistics --json
    """
    from ..host import window_seconds

    with board() as opened:
        figures = opened.statistics()
        _print(figures | window_seconds(opened.information, figures), as_json)


@host.command("self-test", short_help="Run the self-test of the board.")
@filter_options("the board's")
@json_option
@click.pass_obj
def self_test(board: Opener, *, spec: str | None, preset: str | None, as_json: bool) -> None:
    """Let the board perform random operations, and compare the results with the golden model.

    The board reports a signature of all results. The command fails if the golden model gives
    another signature, or if the board has another filter than --spec or --preset. The filter is
    reset: its contents, secret and table are lost.

    A board with protected memories passes if the protection hides a fault: `upsets` is the number
    of cycles in which a memory was found upset.

    \b
    Examples:
      lately host --port sim:tiny self-test
      lately host --port sim:tiny self-test --preset tiny --json
    """
    wanted = _wanted(spec, preset)
    with board() as opened:
        if wanted is not None:
            opened.check_spec(wanted)
        found = opened.self_test()
    _print(found._asdict() | {"signature": f"{found.signature:08x}",
                              "expected": f"{found.expected:08x}"}, as_json)  # fmt: skip
    if not found.passed:
        fail_with([f"self-test: signature must be {found.expected:08x}, not {found.signature:08x}"])


@host.command(short_help="Reset the filter.")
@click.pass_obj
def reset(board: Opener) -> None:
    """Reset the filter: contents, counters and settings are as after configuration.

    \b
    Examples:
      lately host --port sim:tiny reset
    """
    with board() as opened:
        opened.reset()


@host.command(short_help="Set the generation length, the secret or the tick.")
@count_option("--generation", None, "Insertions per generation.")
@click.option("--tick", metavar="T", help="Time of a tick of a window in time, such as 10us.")
@secret_option(
    "File with a secret of 32 hexadecimal digits, for siphash or for the digest of frames."
)
@click.option(
    "--action",
    type=click.Choice(["count", "drop"]),
    help="Action for frames that were seen lately.",
)
@click.option(
    "--fields", metavar="NAMES", help="Fields of digests: tos, ttl, vlan, layer2, frame, or none."
)
@click.pass_obj
def configure(
    board: Opener,
    *,
    generation: int | None,
    tick: str | None,
    secret_file: str | None,
    action: str | None,
    fields: str | None,
) -> None:
    """Set the length of generations or ticks, load a secret, or set the action for frames.

    A new length applies from the next generation or tick on. A tick is rounded up to whole
    cycles. A secret applies from the next clear on or, with re-keying, from the next shift on. The
    secret and the fields of a digest apply to frames that begin later.

    \b
    Examples:
      lately host --port sim:tiny configure --generation 10
    """
    if all(one is None for one in (generation, tick, secret_file, action, fields)):
        raise click.UsageError("give --generation, --tick, --secret-file, --action or --fields")
    from ..golden.durations import time_seconds
    from ..golden.packets.comparison import HARDWARE_FIELDS, parse_fields
    from ..golden.packets.frame_actions import Action

    values: dict[str, Any] = {
        "generation": generation,
        "secret": None if secret_file is None else read_secret(secret_file),
        "action": None if action is None else Action[action.upper()],
        "fields": None if fields is None else parse_fields(fields, HARDWARE_FIELDS),
    }
    seconds = None if tick is None else time_seconds(tick, "tick")
    with board() as opened:
        if seconds is not None:
            values["period"] = ceil(seconds * opened.information.clock_hz)
        with _explained():
            opened.configure(**values)


@host.command(
    short_help="Check and insert the keys of a trace.", rules=["--secret-file needs --verify"]
)
@click.argument("trace", type=InputFile())
@trace_options
@count_option("--skip", None, "Skip N operations that the board has already performed.", least=0)
@limit_option
@query_window_option
@_query_class
@table_option
@click.option("--verify", is_flag=True, help="Compare every answer with the golden model.")
@filter_options("the board's")
@secret_option("With --verify: file with the secret to load, 32 hexadecimal digits.")
@out_option("Write the verdicts to FILE, as CSV.")
@json_option
@click.pass_obj
def stream(
    board: Opener,
    *,
    trace: str,
    skip: int | None,
    limit: int | None,
    query_window: str | None,
    query_class: int | None,
    table: str | None,
    verify: bool,
    spec: str | None,
    preset: str | None,
    secret_file: str | None,
    out: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Check and insert every key of TRACE in the board's filter.

    TRACE and its keys are as for 'lately run'. Ctrl-C, SIGTERM and SIGHUP end the stream after
    the operations in flight. Finished operations are written and reported, and --skip resumes
    after them.

    With --verify the command loads the secret, if the filter has one, clears the
    filter, and runs the golden model alongside. For a window in time, the model
    uses the times that the board reports. With --skip as well, the filter is not
    cleared, and the skipped keys go only to the model; this needs a window in
    insertions. A filter with classes needs its --table. Fails if a verdict
    differs, or if the board has another filter than --spec or --preset.

    \b
    Examples:
      lately host --port /dev/ttyUSB1 stream access.log
      lately host --port /dev/ttyUSB1 stream flights.csv.gz --verify
      lately host --port sim:tiny stream keys.txt --limit 1000 --verify --json
      lately host --port sim:timing-tiny stream keys.txt --query-window 5 --verify
      lately host --port sim:decided.toml stream keys.txt --table table.json
    """
    from ..golden import DecisionTable
    from ..golden.files import replace_file
    from ..replay.stream_times import check_table
    from ..replay.traces import open_trace
    from .board_stream import begin, golden_model, perform

    wanted = _wanted(spec, preset)
    secret = None if secret_file is None else read_secret(secret_file)
    thresholds = None if table is None else DecisionTable.load(table)
    with ExitStack() as stack:
        records = stack.enter_context(open_trace(trace, **reading))
        opened = stack.enter_context(board())
        if wanted is not None:
            opened.check_spec(wanted)
        asked = _asked(opened, query_window, query_class)
        verdicts = None
        if out:
            kept, source = not rereadable([trace]), content_source(trace)
            verdicts = stack.enter_context(replace_file(out, source=source, kept=kept))
        with _explained():
            # What is refused changes nothing on the board.
            opened.checked_windows(asked, 1)
            golden = None
            if verify:
                golden = golden_model(opened, secret, skip or 0, thresholds, asked or 0)
            elif thresholds is not None:
                check_table(opened.information.specification, thresholds, asked or 0)
            if thresholds is not None:
                opened.decide_by(thresholds)
            if golden is not None and not skip:
                begin(opened, secret)
            figures = perform(opened, records, golden, skip or 0, limit, verdicts, asked)
    _print(figures, as_json)
    if figures["error"]:
        # The board may have performed some of the next stretch.
        raise click.ClickException(
            f"{figures['error']}; verdicts came for {figures['operations']} operations"
        )
    if figures["mismatches"]:
        raise CheckError(
            f"mismatches: must be 0, not {figures['mismatches']}; "
            f"the first is operation {figures['first_mismatch']}"
        )
    if figures["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


def _wanted(spec: str | None, preset: str | None) -> "Specification | None":
    """Return the filter that the board must have, or None if the options name none."""
    return None if spec is None and preset is None else choose_unit(spec, preset)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn an error about a value into one line."""
    try:
        yield
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _parse(texts: tuple[str, ...], key_bits: int, hashed: bool) -> list[Any]:
    """Return keys as the host takes them."""
    return [text if hashed else _integer(text, key_bits) for text in texts]


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


def _print(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(figures)
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        if value is not None:
            real = ".4g" if type(value) is float and 0 < value < 1 else ",.1f"
            form = {int: ",", float: real}.get(type(value), "")
            click.echo(f"{name.replace('_', ' '):<{width}}  {value:{form}}")
