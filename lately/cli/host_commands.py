"""Commands that talk to a board over a serial port."""

import csv
import io
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial, wraps
from math import ceil
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from . import options
from .progress import progress_bar
from .reporting import INTERRUPTED, CheckError, OneLineErrors, interruptible

if TYPE_CHECKING:
    from ..golden import DecisionTable, Filter
    from ..host import Board
    from ..replay.traces import Trace

Opener = Callable[[], AbstractContextManager["Board"]]  # opens the port

CHUNK = 2048  # number of keys sent at a time
_SIMULATED = {"clock_hz": 24_000_000, "baud": 3_000_000}


@click.group(
    cls=OneLineErrors,
    short_help="Talk to a board over a serial port.",
    rules=[f"--{name} cannot be combined with --port sim or sim:*"
           for name in ("baud", "spec", "preset")],
)  # fmt: skip
@click.option(
    "--port",
    metavar="PORT",
    help="Serial port; or a simulated board: sim, sim:PRESET or sim:FILE.toml.  [required]",
)
@options.baud_option(1_000_000)
@options.filter_options("the preset on the board")
@options.amount_option(
    "--timeout", "SECONDS", "How long to wait for an answer.  [default: 0.5; simulated: 10]"
)  # fmt: skip
@click.pass_context
def host(ctx: click.Context, **settings: Any) -> None:
    """Talk to a board with a filter over the serial port PORT.

    A board stores only the digest of its filter. If the filter is not a preset, --spec must give
    the filter.toml that lies beside the bitstream. Operations whose bytes are lost or corrupted are
    retransmitted, and none takes effect twice. The port sim is a simulated board. It is compiled on
    first use and loses its state when the command ends.

    \b
    Examples:
      lately host --port /dev/ttyUSB1 info
      lately host --port /dev/ttyUSB1 --baud 3000000 stream access.log --verify
      lately host --port sim:tiny self-test
      lately host --port sim:dictionary-tiny query 17 --query-window 10
    """
    ctx.obj = partial(_open, **settings)


@contextmanager
def _open(
    *, port: str | None, baud: int, spec: str | None, preset: str | None, timeout: float | None
) -> "Iterator[Board]":
    # Not `required` in click, so that the subcommands show their help without a port.
    if port is None:
        raise click.UsageError("give --port: a serial port, or sim for a simulated board")
    from ..host import Board

    kind, _, name = port.partition(":")
    if kind == "sim":
        spec, preset = (name, None) if name.endswith(".toml") else (None, name or "tiny")
    chosen = options.choose_unit(spec, preset) if spec or preset else None
    with ExitStack() as stack:
        if kind == "sim":
            from ..boards.export.design import release
            from ..boards.link.link import FilterLink
            from ..sim.board import SimulatedBoard, board_model

            link = FilterLink(chosen, version=release(), **_SIMULATED)
            port = stack.enter_context(SimulatedBoard(board_model(link, **_SIMULATED))).port
            baud, timeout = _SIMULATED["baud"], timeout or 10
        board = Board(port, spec=chosen, baud=baud, timeout=timeout or 0.5)
        try:
            yield stack.enter_context(board)
        except ValueError as error:
            raise click.ClickException(str(error)) from None


def _with_board(function: Callable[..., Any]) -> Callable[..., Any]:
    @click.pass_obj
    @wraps(function)
    def command(board: Opener, *, as_json: bool = False, **arguments: Any) -> None:
        with board() as opened:
            figures = function(opened, **arguments)
        if figures is not None:
            _print(figures, as_json)

    return command


_text = click.option(
    "--text", is_flag=True, help="Treat each KEY as text, and hash it like the keys of a trace."
)
_keys = click.argument("keys", nargs=-1, required=True, metavar="KEY...")
_query_class = options.count_option(
    "--query-class",
    None,
    "Class of the queries, if the filter has classes.  [default: 0]",
    minimum=0,
)


def _window(board: "Board", window: str | None, query_class: int | None) -> int | None:
    from ..replay.oracle import query_window

    has_classes = board.spec.classes is not None
    if (window if has_classes else query_class) is not None:
        wrong, fact = ("window", "a class, not a window") if has_classes else ("class", "no class")
        raise click.ClickException(
            f"--query-{wrong}: a query of the filter on {board.port} has {fact}"
        )
    return query_class if window is None else query_window(board.spec, window, None)


@host.command(short_help="Show the board's filter.")
@options.json_option
@_with_board
def info(board: "Board") -> dict[str, Any]:
    """Show the board's filter and, for a time window, its tick and covered span.

    \b
    Examples:
      lately host --port sim:tiny info
      lately host --port sim:tiny info --json
    """
    figures = {
        "preset": board.preset, **board.spec.to_dict(), "frames": board.frames,
        "clock_hz": board.clock_hz, "longest_query": board.longest,
    }  # fmt: skip
    return figures | (board.window_seconds(board.statistics()) if board.spec.timed else {})


def _change(name: str, short: str, text: str, example: str, *, keyed: bool = False) -> None:
    """Add a command that calls the board's method `name`; if `keyed` is set, both take keys."""

    @_with_board
    def command(board: "Board", *, keys: tuple[str, ...] = (), text: bool = False) -> None:
        getattr(board, name)(*([_parse(keys, text)] if keyed else []))

    for option in (_text, _keys) if keyed else ():
        command = option(command)
    help = f"{text}\n\n\b\nExamples:\n  lately host --port {example}"
    host.command(name, short_help=short, help=help)(command)


_change("insert", "Insert keys.", "Insert each KEY, an integer such as 17 or 0x11, in order.",
        "sim:tiny insert --text 10.0.0.1", keyed=True)  # fmt: skip
_change("remove", "Remove keys.", "Remove each KEY, an integer such as 17, from the dictionary.",
        "sim:dictionary-tiny remove 17", keyed=True)  # fmt: skip
_change("shift", "Start a new generation.", "Start a new generation now.", "sim:tiny shift")
_change("clear", "Forget all keys.", "Forget all keys.", "sim:tiny clear")
_change("reset", "Reset the filter.",
        "Reset contents, counters and settings to their state after FPGA configuration.",
        "sim:tiny reset")  # fmt: skip


@host.command(short_help="Query keys.")
@_keys
@_text
@options.query_window_option
@_query_class
@options.json_option
@click.pass_obj
def query(
    board: Opener, *, keys: tuple[str, ...], text: bool, query_window: str | None,
    query_class: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Report whether each KEY, an integer such as 17 or 0x11, has been seen, and its age.

    For a ring, the age is the number of the youngest generation that may hold the key; 0 is the
    current one. For a filter whose queries have a window, the age is in the unit of the window.

    \b
    Examples:
      lately host --port sim:tiny query 17 0x11
      lately host --port sim:tiny query --text 10.0.0.1 --json
    """
    with board() as opened:
        window = _window(opened, query_window, query_class)
        results = opened.query(_parse(keys, text), window)
    rows = list(zip(keys, results.seen.tolist(), results.age.tolist(), strict=True))
    if as_json:
        options.print_json([{"key": key, "seen": seen, "age": age} for key, seen, age in rows])
        return
    for key, seen, age in rows:
        click.echo(f"{key}: {f'seen, age {age}' if seen else 'not seen'}")


@host.command("table", short_help="Load a threshold table.")
@click.argument("file", metavar="FILE", type=click.Path())
@click.pass_obj
def load_table(board: Opener, *, file: str) -> None:
    """Load a threshold table into a filter with classes; it takes effect at once.

    DecisionTable.save writes FILE. From a reset until a table is loaded, every key is reported.

    \b
    Examples:
      lately host --port sim:decided.toml table table.json
    """
    from ..golden import DecisionTable

    table = DecisionTable.load(file)
    with board() as opened:
        opened.decide_by(table)


@host.command(short_help="Show the board's counters.")
@options.json_option
@_with_board
def statistics(board: "Board") -> dict[str, Any]:
    """Show the board's counters since its reset, all sampled at the same time.

    For a time window, also show for how many ticks and seconds every key is still reported.

    \b
    Examples:
      lately host --port sim:tiny statistics
      lately host --port sim:tiny statistics --json
    """
    figures = board.statistics()
    return figures | board.window_seconds(figures)


@host.command("self-test", short_help="Run the board's self-test.")
@options.json_option
@_with_board
def self_test(board: "Board") -> dict[str, Any]:
    """Run random operations on the board, and compare the results with the golden model.

    The command fails if a result differs. The filter is reset: its contents, secret and table are
    lost. A board with protected memories passes even if the protection masks a fault: `upsets`
    counts the cycles in which an upset of a memory was detected.

    \b
    Examples:
      lately host --port sim:tiny self-test
      lately host --port sim:tiny self-test --json
    """
    return board.self_test()._asdict()


@host.command(short_help="Set the generation length, the secret or the tick.")
@options.count_option("--generation", None, "Number of insertions per generation.")
@click.option("--tick", metavar="T", help="For a time window: length of a tick, such as 10us.")
@options.secret_option(
    "File with a secret of 32 hexadecimal digits, for siphash or the frame digest."
)
@click.option("--action", type=click.Choice(["count", "drop"]),
              help="What to do with duplicate frames.")  # fmt: skip
@click.option("--fields", metavar="NAMES",
              help="Frame digest fields: tos, ttl, vlan, layer2, frame, or none.")  # fmt: skip
@click.pass_obj
def configure(board: Opener, *, generation: int | None, **settings: str | None) -> None:
    """Set the length of generations or ticks, load a secret, or set the action for frames.

    A new length takes effect at the next generation or tick. A tick is rounded up to whole clock
    cycles. A secret takes effect at the next clear or, with re-keying, at the next shift. For the
    frame digest, a new secret and new fields apply to frames that begin afterwards.

    \b
    Examples:
      lately host --port sim:tiny configure --generation 10
    """
    if not (generation or any(settings.values())):
        raise click.UsageError(
            "give at least one of --generation, --tick, --secret-file, --action and --fields"
        )
    from ..golden.durations import time_seconds
    from ..golden.packets.comparison import HARDWARE_FIELDS, parse_fields
    from ..golden.packets.frame_actions import Action

    changes: dict[str, Any] = {"generation": generation}
    if path := settings["secret_file"]:
        changes["secret"] = options.read_secret(path)
    if action := settings["action"]:
        changes["action"] = Action[action.upper()]
    if names := settings["fields"]:
        changes["fields"] = parse_fields(names, HARDWARE_FIELDS)
    seconds = time_seconds(tick, "tick") if (tick := settings["tick"]) else None
    with board() as opened:
        period = ceil(seconds * opened.clock_hz) if seconds else None
        opened.configure(period=period, **changes)


@host.command(
    short_help="Check and insert the keys of a trace.", rules=["--secret-file needs --verify"]
)
@click.argument("trace", type=options.InputFile())
@options.trace_options
@options.count_option(
    "--skip", None, "Skip the first N operations, which the board has already performed.", minimum=0
)
@options.limit_option
@options.query_window_option
@_query_class
@options.table_option
@click.option("--verify", is_flag=True, help="Compare every answer with the golden model.")
@options.secret_option("With --verify: file with the secret to load (32 hexadecimal digits).")
@options.out_option("Write the verdicts to FILE as CSV.")
@options.json_option
@click.pass_obj
def stream(
    board: Opener, *, trace: str, skip: int | None, limit: int | None, query_window: str | None,
    query_class: int | None, table: str | None, verify: bool, secret_file: str | None,
    out: str | None, as_json: bool, **reading: Any,
) -> None:  # fmt: skip
    """Check and insert every key of TRACE in the board's filter.

    TRACE and its keys have the same formats as for 'lately run'. Ctrl-C, SIGTERM and SIGHUP end
    the stream once the operations in flight have finished. Finished operations are written and
    reported, and --skip can resume after them.

    With --verify, the command loads the secret, if the filter has one, clears the
    filter, and runs the golden model alongside. For a time window, the model uses
    the times that the board reports. With --verify and --skip, the filter is not
    cleared, and the skipped keys go only to the model; this works only for a window in
    insertions. A filter with classes needs its --table. The command fails if a verdict
    differs.

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
    from ..replay.traces import open_trace

    secret = options.read_secret(secret_file) if secret_file else None
    thresholds = DecisionTable.load(table) if table else None
    with ExitStack() as stack:
        records = stack.enter_context(open_trace(trace, **reading))
        opened = stack.enter_context(board())
        window = _window(opened, query_window, query_class)
        verdicts = None
        if out:
            kept, source = not options.rereadable([trace]), options.content_source(trace)
            verdicts = stack.enter_context(replace_file(out, source=source, kept=kept))
        # Check everything first, so that an error leaves the board unchanged.
        opened.checked_windows(window, 1)
        golden = _prepare(opened, verify, secret, skip or 0, thresholds, window or 0)
        figures = _perform(opened, records, golden, skip or 0, limit, verdicts, window)
    _print(figures, as_json)


def _prepare(
    board: "Board", verify: bool, secret: int | None, skip: int, table: "DecisionTable | None",
    query_class: int,
) -> "Filter | None":  # fmt: skip
    """Prepare the board for a stream; with `verify`, return a golden model in the same state."""
    from ..golden import from_spec
    from ..replay.oracle import check_table

    spec = board.spec
    if verify and skip and spec.timed:
        raise click.UsageError(
            "--verify cannot be combined with --skip for a time window: "
            "the times of the skipped operations are unknown"
        )
    if verify and spec.keyed != (secret is not None):
        raise click.UsageError(
            "--verify needs --secret-file, because the board's filter uses a secret"
            if spec.keyed
            else "--secret-file: the board's filter does not use a secret"
        )
    if verify or table is not None:
        check_table(spec, table, query_class)
    if table is not None:
        board.decide_by(table)
    if not verify:
        return None
    golden: Any = from_spec(spec)
    if table is not None:
        golden.decide_by(table.thresholds)
    if secret is not None:
        golden.rekey(secret)
    if "generation" in (statistics := board.statistics()):
        golden.generation = statistics["generation"]
    golden.clear()
    if not skip:
        # Two clears, so that the secret becomes the board's only secret.
        board.clear()
        if secret is not None:
            board.configure(secret=secret)
            board.clear()
    model: Filter = golden
    return model


def _perform(
    board: "Board", trace: "Trace", golden: "Filter | None", skip: int, limit: int | None,
    verdicts: BinaryIO | None, window: int | None,
) -> dict[str, Any]:  # fmt: skip
    """Check and insert the keys of a trace in a board's filter, and return the counts to print."""
    import numpy as np

    from ..golden import Operation
    from ..golden.hash.keys import KeyDigest, check_keys
    from ..host import differing
    from ..uartbone import HostError

    spec = board.spec
    kinds = {"timing": ["oldest"], "dictionary": ["status"]}
    more = ["time"] * spec.timed + kinds.get(spec.kind, ["status"] * spec.timed)
    if verdicts is not None:
        verdicts.write(_csv([["index", "key", "seen", "age", *more]]))
    done = skipped = seen = 0
    wrong: list[int] = []
    error: str | None = None
    shown = progress_bar("bar", "{task.completed:,.0f} operations", "elapsed")
    with interruptible() as interrupted, shown as bar:
        task = bar.add_task("operations", total=limit)
        for texts in _texts(trace, skip, interrupted):
            if golden is not None:
                golden.check_and_insert(check_keys(texts, KeyDigest.of(spec)))
            skipped += len(texts)
        began = time.perf_counter()
        try:
            for texts in _texts(trace, limit, interrupted):
                keys: Any = check_keys(texts, KeyDigest.of(spec))
                codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
                results = board.perform(codes, keys, window)
                if golden is not None:
                    part = differing(spec, golden, codes, keys, window, results)
                    wrong += (part + skipped + done).tolist()
                if verdicts is not None:
                    hits = results.seen.tolist()
                    ages = (age if hit else "" for hit, age in zip(hits, results.age, strict=True))
                    others = [getattr(results, name) for name in more]
                    indices = range(skipped + done, skipped + done + len(texts))
                    columns = (indices, texts, map(int, hits), ages, *others)
                    verdicts.write(_csv(zip(*columns, strict=True)))
                done += len(texts)
                seen += int(results.seen.sum())
                bar.advance(task, len(texts))
        except HostError as failure:
            error = str(failure)
        seconds = time.perf_counter() - began
    return {
        "operations": done, "skipped": skipped, "seen": seen,
        "mismatches": None if golden is None else len(wrong),
        "first_mismatch": wrong[0] if wrong else None, "error": error,
        "malformed_lines": trace.rejects.count, "requests_repeated": board.repeated,
        "seconds": seconds, "operations_per_second": done / seconds if seconds else None,
        "interrupted": interrupted(),
    }  # fmt: skip


def _texts(
    trace: "Trace", count: int | None, interrupted: Callable[[], bool]
) -> Iterator[list[str]]:
    left = CHUNK if count is None else count
    while left and not interrupted() and (records := trace.read(min(CHUNK, left))):
        yield [text for text, _ in records]
        left -= len(records) if count is not None else 0


def _csv(rows: Iterable[Any]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "surrogateescape")


def _parse(texts: tuple[str, ...], hashed: bool) -> list[Any]:
    try:
        return list(texts) if hashed else [int(text, 0) for text in texts]
    except ValueError:
        raise click.UsageError(
            f"KEY: must be an integer unless --text is given, not {' '.join(texts)!r}"
        ) from None


def _print(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        options.print_json(figures)
    else:
        width = max(map(len, figures))
        for name, value in figures.items():
            if value is not None:
                real = ".4g" if type(value) is float and 0 < value < 1 else ",.1f"
                form = {int: ",", float: real}.get(type(value), "")
                click.echo(f"{name.replace('_', ' '):<{width}}  {value:{form}}")
    if error := figures.get("error"):
        # The board may have performed further operations, whose results were lost.
        operations = figures["operations"]
        raise click.ClickException(f"{error}; verdicts arrived for {operations} operations")
    if wrong := figures.get("mismatches"):
        first = figures["first_mismatch"]
        raise CheckError(
            f"{wrong} results differ from the golden model; the first is at operation {first}"
        )
    if figures.get("interrupted"):
        raise click.exceptions.Exit(INTERRUPTED)
