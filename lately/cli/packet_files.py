"""Inputs and outputs of the commands that read captures."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import localtime, strftime
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from .interrupts import Interrupts
from .outputs import InputFile, OutputFile, content_source, rereadable

if TYPE_CHECKING:
    from ..captures.capture_reader import Packets

# Names in error messages.
_IN, _OUT = click.Argument(["capture"], metavar="IN"), click.Argument(["output"], metavar="OUT")
_FOLDER = click.Option(["--out-dir"])


class PacketFiles(NamedTuple):
    inputs: list[str]
    outputs: list[str]  # one per input, one for all inputs, or none


def packet_files(
    paths: Sequence[str], folder: str | None, dry_run: bool, live: bool
) -> PacketFiles:
    """Split the arguments IN... OUT; all are inputs if `folder` or `dry_run` is set."""
    context = click.get_current_context()
    inputs, outputs = list(paths), []
    if folder is None and not dry_run:
        if not inputs:
            raise click.UsageError("IN and OUT are missing", context)
        outputs = [inputs.pop()]
    if live and inputs:
        raise click.UsageError("IN cannot be combined with --interface", context)
    if not live and not inputs:
        raise click.UsageError(f"{'IN' if folder or dry_run else 'OUT'} is missing", context)
    for path in inputs:
        InputFile().convert(path, _IN, context)
    kind = OutputFile(standard=True, in_place=folder is None and rereadable(inputs))
    if folder is not None:
        outputs = [os.path.join(folder, os.path.basename(path)) for path in inputs]
        os.makedirs(folder, exist_ok=True)
    param = _FOLDER if folder else _OUT
    return PacketFiles(inputs, [kind.convert(output, param, context) for output in outputs])


def open_inputs(files: PacketFiles, folder: str | None, options: dict[str, Any]) -> Any:
    interface, to = options["interface"], options["to"]
    if interface is not None:
        from ..captures.live_capture import LiveCapture, getting

        seconds = nanoseconds("duration", options["duration"]) / 1e9 or None
        ends = set() if to is None else getting(to)
        if both := ends & {*interface}:
            raise click.UsageError(f"--to {to}: {both.pop()} is also an input; packets would loop")
        return LiveCapture(interface, omitted=ends, count=options["limit"], seconds=seconds)
    from ..captures.capture_files import CaptureFiles, MergedCaptures

    source: Any
    if options["reorder"] is None:
        source = CaptureFiles(files.inputs, joined=folder is None)
    else:
        source = MergedCaptures(files.inputs, nanoseconds("reorder", options["reorder"]))
    if len(source.empty) == len(files.inputs):
        raise click.ClickException(f"all {len(files.inputs)} inputs are empty")
    return source


@contextmanager
def open_output(path: str, inputs: Sequence[str], *, live: bool = False) -> Iterator[BinaryIO]:
    """Open standard output for '-', otherwise a file; its suffix selects the compression."""
    from ..golden.files import replace_file
    from ..stream_files import compressed

    if path == "-":
        try:
            yield sys.stdout.buffer
        finally:
            sys.stdout.buffer.flush()
        return
    source, kept = content_source(inputs[0]) if inputs else None, live or not rereadable(inputs)
    with replace_file(path, source=source, kept=kept) as file, compressed(path, file) as packed:
        yield packed


def rotated_name(path: str, number: int, time: int) -> str:
    """Add the file number (from 1) and the local time to a name, as dumpcap does."""
    from ..stream_files import ENDINGS

    root, ending = os.path.splitext(path)
    if ending in ENDINGS:
        root, inner = os.path.splitext(root)
        ending = inner + ending
    return f"{root}_{number + 1:05}_{strftime('%Y%m%d%H%M%S', localtime(time // 10**9))}{ending}"


def nanoseconds(name: str, text: str | None) -> int:
    """Convert the value of a time option to nanoseconds, or return 0 if the option is missing."""
    from ..golden.durations import time_seconds, whole_nanoseconds

    return 0 if text is None else whole_nanoseconds(name, time_seconds(text, name))


def read_until(
    heard: Interrupts, read: "Callable[[], Packets | None]", damages: Sequence[str]
) -> "Callable[[], Packets | None]":
    """Wrap `read` so that the stream ends at an interrupt, or as soon as `damages` has an entry."""
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
