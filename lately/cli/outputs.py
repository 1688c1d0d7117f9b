"""Files and folders named on the command line: checked before any work starts, then opened."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import localtime, strftime
from typing import Any, BinaryIO, NamedTuple

import click

_FILES = "lately.cli.outputs"  # key in `ctx.meta` for the files on the command line


class InputFile(click.Path):
    """Input file, or - for standard input. An output must not overwrite an input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        with suppress(OSError, ValueError, AttributeError):
            status = os.stat(content_source(value))
            _note(param, ctx, value, (status.st_dev, status.st_ino), "input")
        return value


class OutputFile(click.Path):
    """Output file; `standard` permits -, and `in_place` permits overwriting an input."""

    def __init__(self, *, standard: bool = False, in_place: bool = False) -> None:
        super().__init__()
        self._standard = standard
        self._in_place = in_place

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if self._standard and value in ("/dev/stdout", "/dev/fd/1"):
            value = "-"
        if value != "-":
            from ..golden.files import check_output

            _note(param, ctx, value, check_output(value), "place" if self._in_place else "output")
        elif not self._standard:
            self.fail("must be a file, not - (standard output)", param, ctx)
        else:
            # Standard output may be missing, or may be an object without a file descriptor.
            with suppress(OSError, ValueError, AttributeError):
                status = os.fstat(sys.stdout.fileno())
                if stat.S_ISREG(status.st_mode):
                    _note(param, ctx, value, (status.st_dev, status.st_ino), "output")
        return value


class OutputFolder(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "-":
            self.fail("must be a folder, not - (standard output)", param, ctx)
        path = Path(value).absolute()
        there = next(folder for folder in (path, *path.parents) if folder.exists())
        if not there.is_dir():
            raise click.ClickException(f"out-dir: must be a directory, not the file {value}")
        if not os.access(there, os.W_OK):
            raise click.ClickException(f"out-dir: {value} is not writable")
        return value


def rereadable(inputs: Sequence[str]) -> bool:
    modes = []
    for path in inputs:
        with suppress(OSError, ValueError, AttributeError):
            modes.append(os.stat(content_source(path)).st_mode)
    return all(map(stat.S_ISREG, modes))


def content_source(path: str) -> str | int:
    return sys.stdin.fileno() if path == "-" else path


def _note(
    param: click.Parameter | None, ctx: click.Context | None, path: str, identity: object,
    role: str,
) -> None:  # fmt: skip
    """Refuse a file that is given twice, unless it is only read, or read and then replaced."""
    if param is None or ctx is None or identity is None:
        return
    name = param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name
    files = ctx.meta.setdefault(_FILES, {})
    for other, its_role in files.setdefault(identity, []):
        if "output" in (role, its_role) or role == its_role == "place":
            first, second = sorted((other, name))
            raise click.UsageError(f"{first} and {second} are the same file: {path}", ctx)
    files[identity].append((name, role))


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
