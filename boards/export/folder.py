"""Write the files of an export together or not at all."""

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ...golden.errors import LatelyError
from ...golden.files import named, temporary_name


class ExportError(LatelyError, ValueError):
    """The unit cannot be exported as requested; the message gives the reason."""


def write_folder(
    files: Mapping[str, str], directory: str | os.PathLike[str], *, force: bool = False
) -> list[str]:
    """Write files to a folder, and return their names in alphabetical order.

    The folder must be new or empty unless `force` is True.
    """
    folder = Path(directory).resolve()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir():
        raise ExportError(f"out-dir: must be a directory, not the file {existing}")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise ExportError(
            f"out-dir: {folder} is not empty; --force overwrites the files of an export"
        )
    if folder == Path.cwd():
        raise ExportError(f"out-dir: {folder} is the current directory; choose another directory")
    staged = Path(temporary_name(str(folder / "new" if folder.exists() else folder)))
    try:
        with named(folder):  # Report the folder, not its temporary name.
            staged.mkdir(parents=True)
            for name, text in files.items():
                (staged / name).write_text(text, "utf-8")
        if staged.parent == folder:
            _move_files(staged, folder, [*files])
        else:
            staged.rename(folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return sorted(files)


def _move_files(staged: Path, folder: Path, names: list[str]) -> None:
    """Move files to a folder; on an interrupt, restore the earlier files."""
    earlier = staged / "earlier"
    earlier.mkdir()
    try:
        for name in names:
            if (folder / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), folder / name)
            if os.path.lexists(folder / name):
                (folder / name).rename(earlier / name)
            (staged / name).rename(folder / name)
    except BaseException:
        for name in names:
            if os.path.lexists(earlier / name):
                (earlier / name).replace(folder / name)
            elif not (staged / name).exists():
                (folder / name).unlink()
        raise
