"""Files and folders named on the command line, checked before any work starts."""

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

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
