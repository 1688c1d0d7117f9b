"""The command for streams of lines."""

import os
import sys
from contextlib import ExitStack, closing
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from . import options
from .progress import View, fill_text, live_view, replay_bar
from .reporting import INTERRUPTED, OneLineCommand, interruptible

if TYPE_CHECKING:
    from ..lines.uniq import RecentLines, UniqResult
    from ..stream_files import StreamFile


@click.command(
    "uniq", cls=OneLineCommand, short_help="Remove duplicate lines from a stream.",
    rules=[
        "--delimiter needs --field", "--field cannot be combined with --member or --regex",
        "--member cannot be combined with --regex",
        "--duplicates cannot be combined with --dry-run",
    ],
)  # fmt: skip
@click.argument("files", nargs=-1, metavar="[FILE]...", type=options.InputFile())
@options.window_option(1_000_000, "Drop a line if an equal line is at most N lines back.")
@options.option("--span T", "Drop a line if an equal line arrived within this time, such as 10m.")
@options.fpr_option("Maximum fraction of new lines that are dropped by mistake.", 1e-6)
@options.choice_option(
    "--policy", ["last-seen", "first-seen"],
    "Remember every line, or only the lines that are kept.",
)  # fmt: skip
@options.option("--field N[,N]...", "Compare field N (counting from 1), or several fields.")
@options.option("--delimiter C", "Byte that separates fields.  [default: tab]")
@options.option(
    "--member members KEY",
    "Compare this member of JSON objects, such as user.id; may be repeated.",
    multiple=True,
)
@options.option(
    "--regex R", "Compare what this regular expression matches, or its first group if it has one."
)
@options.option("--duplicates", "Write only the lines that were seen recently.")
@options.option("--dry-run", "Write no lines, only the counts.")
@options.option(
    "--state FILE",
    "Load the filter state from FILE if it exists; save it there every minute and at the end.",
    type=options.OutputFile(in_place=True),
)
@options.option("--watch", "Show rate, repeats and fill on standard error.")
@options.json_option
def uniq(
    *, files: tuple[str, ...], span: str | None, field: str | None, delimiter: str | None,
    members: tuple[str, ...], regex: str | None, duplicates: bool, dry_run: bool, watch: bool,
    state: str | None, as_json: bool, **filter_options: Any,
) -> None:  # fmt: skip
    """Copy the lines of each FILE, or of standard input, without those seen recently.

    A line is dropped if an equal line, kept or dropped, is among the N lines before it. At most
    a fraction P of the new lines is dropped by mistake. Memory use does not grow with the stream.
    Files may be compressed, and lines may contain arbitrary bytes. A line without the field, the
    member or a match is kept. With --json, the counts go to standard error, or with --dry-run to
    standard output.

    With --span, a line is dropped if an equal line arrived within the last T. The filter has
    room for N lines in this time. If more lines arrive, it remembers them for less than T.

    After Ctrl-C, SIGTERM or SIGHUP, the command finishes the lines it has read, then ends.

    \b
    Examples:
      lately uniq access.log > once.log
      tail -F app.log | lately uniq --span 10m --regex 'msg="([^"]*)"'
      lately uniq --field 2 --delimiter , --window 50000 clicks.csv.gz
      lately uniq --member user.id --dry-run --json events.jsonl
      lately uniq --state seen.npz today.log
    """
    from ..golden.files import only_user
    from ..lines.uniq import LineKey, RecentLines
    from ..lines.uniq import uniq as filter_lines
    from ..stream_files import open_stream

    try:
        fields = None if field is None else tuple(map(int, field.split(",")))
    except ValueError:
        raise click.UsageError(
            f"--field: must be a number such as 2, or a list such as 1,3, not {field!r}"
        ) from None
    key = LineKey(
        field=fields,
        delimiter=b"\t" if delimiter is None else os.fsencode(delimiter),
        member=members or None,
        pattern=None if regex is None else os.fsencode(regex),
    )
    time = options.nanoseconds("span", span) or None
    with ExitStack() as stack:
        if state is not None:
            stack.enter_context(only_user(state))
        lines = RecentLines(key, span=time, state=state, **filter_options)
        bar = replay_bar("Waiting", "Filtering", "lines")
        shown = stack.enter_context(_view(lines) if watch else bar)
        heard = stack.enter_context(interruptible())

        def read(stream: "StreamFile", room: Any) -> int:
            with heard.waiting():
                return 0 if heard() else stream.data.readinto1(room)
            return 0

        def streams() -> Any:
            for path in files or ("-",):
                with closing(open_stream(path)) as stream:
                    if not heard():
                        yield stream

        result = filter_lines(
            streams(), None if dry_run else sys.stdout.buffer, lines, repeats=duplicates,
            read=read, progress=shown,
        )  # fmt: skip
    kept = result.lines - result.repeats
    figures = {"lines": result.lines, "kept": kept, "dropped": result.repeats}
    if as_json:
        options.print_json(figures, err=not dry_run)
    elif dry_run:
        click.echo("\n".join(f"{name} {value}" for name, value in figures.items()))
    if heard():
        raise click.exceptions.Exit(INTERRUPTED)


def _view(lines: "RecentLines") -> Any:
    def texts(result: "UniqResult") -> Any:
        yield "bytes written", f"{result.bytes_written:,} of {result.bytes_read:,}"
        yield "bits set by segment", fill_text(lines.model.fill_ratios())

    counts = attrgetter("lines", "repeats", "seconds")
    return live_view("Waiting", View("lines", "lines", "dropped", counts, texts))
