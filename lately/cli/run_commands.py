"""The command that replays a stream."""

import json
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from . import options
from .progress import live_view, replay_bar, run_view
from .reporting import OneLineCommand, fail_with, require
from .tables import show

if TYPE_CHECKING:
    from ..golden.spec.base import Specification
    from ..replay.run import RunOptions, RunResult
    from ..replay.traces import Trace


@click.command(
    "run", cls=OneLineCommand,
    short_help="Replay a stream through the RTL, the golden model and an exact oracle.",
    rules=[
        "--query-class needs --table", "--verdicts needs --out-dir",
        "--rate cannot be combined with --window", "--rate needs --span", "--rate needs --fpr",
        "--window needs --fpr", "--fpr needs --window or --rate",
        "--fpr cannot be combined with --spec or --preset",
        "--spec cannot be combined with --preset",
    ],
)  # fmt: skip
@click.argument("trace", type=options.InputFile())
@options.filter_options()
@options.window_option(
    None, "With --fpr: use a filter that reports every key of the last N insertions."
)
@options.fpr_option("Maximum false-positive rate of the filter.")
@options.option(
    "--span T", "Remember keys for this long, such as 50ms or 1.5h, by the times in the stream."
)
@options.option(
    "--tick T",
    "Unit in which the filter counts time, such as 10us.  [default: a 1000th of the span]",
)
@options.amount_option(
    "--rate", "R", "Maximum number of keys per second, instead of --window (N is T times R)."
)
@options.when_full_option(
    "If a span holds too many keys for the filter: shorten the window, or exceed the "
    "false-positive rate.  [default: shorten]"
)
@options.query_window_option
@options.table_option
@options.count_option("--query-class", 0, "Class of all queries, with --table.", minimum=0)
@options.secret_option(
    "File with the secret for a siphash filter, 32 hexadecimal digits.  [default: random]"
)
@options.choice_option(
    "--engine", ["rtl", "golden"],
    "Take the verdicts from the compiled hardware, checked against the golden model, or from the "
    "golden model alone.",
)  # fmt: skip
@options.trace_options
@options.option("--time NAME", "CSV column that holds the time.")
@options.limit_option
@options.folder_option("Write the verdicts, report.json, report.html and report.png to DIR.")
@options.choice_option("--verdicts", ["csv", "parquet"], "Format of the verdicts in --out-dir.")
@options.option("--watch", "Show rate, repeats, false positives and fill during the run.")
@options.json_option
def run(
    *, trace: str, query_window: str | None, table: str | None, query_class: int,
    secret_file: str | None, engine: str, format: str, key: str | None, time: str | None,
    limit: int | None, folder: str | None, verdicts: str, watch: bool, as_json: bool,
    **request: Any,
) -> None:  # fmt: skip
    """Check and insert every key of TRACE, and compare every verdict with an exact oracle.

    TRACE is an NCSA common or combined access log, a CSV file with a header, a file
    with one key per line, or a pcap or pcapng capture. By default, the key is client,
    method and URL for a log, and for a capture the digest of the packet without the
    fields that routers change. TRACE may be compressed; - is standard input. Each key
    goes through the compiled RTL, the golden model and an exact oracle. The command
    fails if RTL and golden model differ in any verdict, or if a key within the
    guaranteed window is not reported.

    With --span, the window is a time, measured by the times in the stream. The maximum number
    of keys within the span follows from --window or --rate, or else from --preset or --spec. If
    more keys arrive, --when-full decides what happens, and the report counts these cases. If
    --spec has a span, which is in ticks, --span or --tick is required.

    \b
    Examples:
      lately run access.log
      lately run flights.csv.gz --key tail_number --time departure
      lately run access.log.zst --key client,agent --window 20000 --fpr 0.001
      lately run queries.csv --spec filter.toml --out-dir report --verdicts parquet
      lately run queries.csv --preset dictionary-10000 --query-window 2000
      lately run mirror.pcapng --key five-tuple --span 50ms --rate 200e3 --fpr 0.001
      zcat keys.gz | lately run - --engine golden --limit 100000 --json
      lately run queries.csv --preset large --watch
    """
    from .filter_choice import choice

    chosen, unit = choice(**request)
    from ..golden import DecisionTable
    from ..replay import oracle
    from ..replay.report import class_rows
    from ..replay.run import RunOptions
    from ..replay.traces import open_trace

    asked = None
    if query_window is not None:
        asked = oracle.query_window(chosen, query_window, unit)
    secret = None if secret_file is None else options.read_secret(secret_file)
    thresholds = None if table is None else DecisionTable.load(table)
    with open_trace(trace, format=format, key=key, time=time) as records:
        settings = RunOptions(
            engine=engine, tick=unit, limit=limit, query_window=asked, table=thresholds,
            query_class=query_class, secret=secret,
        )  # fmt: skip
        replay = partial(_run, records, chosen, settings, watch)
        if folder is None:
            result = replay(None)
        else:
            result = _run_into(folder, verdicts, replay, options.content_source(trace))
    figures = result.figures()
    show(as_json, figures, "run", figures | {"classes": class_rows(result)})
    if failures := result.failures():
        fail_with(["; ".join(failures)])


def _run(
    trace: "Trace", spec: "Specification", settings: "RunOptions", watch: bool, sink: Any
) -> "RunResult":
    from ..replay.run import run

    waiting = "Compiling the RTL" if settings.engine == "rtl" else "Starting"
    with live_view(waiting, run_view(trace.name)) if watch else replay_bar(waiting) as progress:
        return run(trace, spec, settings, progress=progress, sink=sink)


def _run_into(
    directory: str, verdicts: str, replay: "Callable[[Any], RunResult]", source: str | int
) -> "RunResult":
    """Replay `source`; the output files appear together, or not at all."""
    require("matplotlib")
    from ..golden.files import check_output, replace_file
    from ..replay.report import html, open_verdicts, picture

    existed = os.path.isdir(directory)
    os.makedirs(directory, exist_ok=True)
    drawing = os.path.join(directory, "report.png")
    try:
        check_output(drawing)
        with ExitStack() as stack:
            page, figures, table = (
                stack.enter_context(replace_file(os.path.join(directory, name), source=source))
                for name in ("report.html", "report.json", f"verdicts.{verdicts}")
            )
            with open_verdicts(table, verdicts) as sink:
                result = replay(sink)
            report = result.figures() | result.series()
            figures.write(json.dumps(report, indent=1, allow_nan=False).encode() + b"\n")
            page.write(html(result).encode("utf-8", "backslashreplace"))
            picture(result, drawing, source=source)
    except BaseException:
        if not existed:
            with suppress(OSError):
                os.rmdir(directory)
        raise
    return result
