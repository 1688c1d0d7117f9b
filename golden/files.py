"""Output files: regular files appear complete or not at all."""

import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, BinaryIO, NamedTuple

from .errors import LatelyError

_MOST_LINKS = 40
_PUBLIC = 0o666


@contextmanager
def replace_file(
    path: str | os.PathLike[str],
    *,
    private: bool = False,
    source: str | os.PathLike[str] | int | None = None,
) -> Iterator[BinaryIO]:
    """Open a file that appears at `path`, complete, when the block succeeds.

    A regular file is written beside `path`, forced to disk and renamed. Symbolic links are
    followed. Devices, FIFOs, sockets and descriptors (``/dev/fd/N``) are written directly. The
    umask of the process applies and is not changed.

    Parameters
    ----------
    path : path
        An existing file keeps its mode and, if the system permits it, its owner.
    private : bool
        Whether only its owner may read a regular file, at any time.
    source : path or int, optional
        Source of the content: a file or descriptor. If it is a regular file, a new file gets no
        wider read permissions.

    Raises
    ------
    OSError
        If the file cannot be written; the error names `path`, not the temporary file.
    """
    path = os.fspath(path)
    with _named(path):
        place = _find(path)
    whole = place.is_replaced
    opened = _replacement(place, path, private, source) if whole else _opened(place, path)
    with opened as file:
        yield file


def check_output(path: str | os.PathLike[str]) -> object:
    """Check that `replace_file` can write to `path`; call it before long work.

    Returns
    -------
    object
        Identity of the file, equal for all names of one file. None for a character device, which
        accepts several outputs.

    Raises
    ------
    OSError
        If the file cannot be written; the error names `path`.
    """
    with _named(path):
        place = _find(os.fspath(path))
        if place.descriptor is None:
            folder = os.path.dirname(place.path) or "."
            os.stat(folder)
            if not os.access(folder if place.is_replaced else place.path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if place.status is None:
        return os.path.realpath(place.path)
    shared = stat.S_ISCHR(place.status.st_mode)
    return None if shared else (place.status.st_dev, place.status.st_ino)


@contextmanager
def only_user(path: str | os.PathLike[str]) -> Iterator[None]:
    """Refuse a file that another run uses, with a LatelyError; in the block, `path`.lock exists."""
    name = os.path.realpath(path) + ".lock"
    with ExitStack() as stack:
        try:
            import fcntl
        except ImportError:
            # Without locks, the file outlives a process that was killed.
            try:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL, _PUBLIC))
            except FileExistsError:
                raise LatelyError(f"{path}: in use by another run, or else delete {name}") from None
        else:
            while True:
                file = stack.enter_context(open(name, "ab"))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise LatelyError(f"{path}: in use by another run") from None
                # The run before may have deleted the file since it was opened.
                if os.fstat(file.fileno()).st_nlink:
                    break
        stack.callback(os.unlink, name)
        yield


def temporary_name(path: str) -> str:
    """Return a unique name for a hidden file beside `path`."""
    folder, name = os.path.split(path)
    # Shortened: a name has at most 255 bytes.
    return os.path.join(folder, f".{name[:32]}.{secrets.token_hex(8)}")


def write_json(values: Any, path: str | os.PathLike[str]) -> None:
    """Write `values` as JSON to `path`, completely or not at all.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError
        If a value is infinite or not a number.
    """
    text = json.dumps(values, indent=1, allow_nan=False)
    with replace_file(path) as file:
        file.write(text.encode() + b"\n")


@contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make errors name the path that the user gave."""
    try:
        yield
    except OSError as error:
        number, reason = error.errno or errno.EIO, error.strerror or str(error)
        raise OSError(number, reason, os.fspath(path)) from None


class _Place(NamedTuple):
    """Destination of an output: a path without links, or a descriptor; its status if it exists."""

    path: str
    descriptor: int | None
    status: os.stat_result | None

    @property
    def is_replaced(self) -> bool:
        if self.descriptor is not None:
            return False
        return self.status is None or stat.S_ISREG(self.status.st_mode)


def _find(path: str) -> _Place:
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(path)
        if name.isdecimal() and os.path.realpath(folder) == os.path.realpath("/dev/fd"):
            # The links in /dev/fd name files that may have been deleted or replaced since.
            return _Place(path, int(name), os.fstat(int(name)))
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    else:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    status = None
    with suppress(FileNotFoundError):
        status = os.stat(path)
    if status is None and not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not name or (status is not None and stat.S_ISDIR(status.st_mode)):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return _Place(path, None, status)


@contextmanager
def _opened(place: _Place, path: str) -> Iterator[BinaryIO]:
    """Open a destination that is not a regular file."""
    with _named(path):
        if place.descriptor is not None:
            handle = os.dup(place.descriptor)
        elif place.status is not None and stat.S_ISSOCK(place.status.st_mode):
            import socket

            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(place.path)
                handle = connection.detach()
        else:
            handle = os.open(place.path, os.O_WRONLY)
    with os.fdopen(handle, "wb") as file:
        yield file


@contextmanager
def _replacement(
    place: _Place,
    path: str,
    private: bool,
    source: str | os.PathLike[str] | int | None,
) -> Iterator[BinaryIO]:
    """Open a new file that replaces a regular file, or creates one, at the end."""
    temporary = temporary_name(place.path)
    try:
        with _named(path):
            mode = 0o600 if private or place.status else _PUBLIC & _mode_of(source, place.path)
            # The kernel applies mode and umask when it creates the file.
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            yield file
            with _named(path):
                file.flush()
                if place.status is not None:
                    _restore(file.fileno(), place.status, private)
                os.fsync(file.fileno())
        with _named(path):
            os.replace(temporary, place.path)
    except BaseException:
        # The name is known before the file exists, so an interrupt at any time leaves nothing.
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(place.path)


def _mode_of(source: str | os.PathLike[str] | int | None, path: str) -> int:
    """Return the mode of a new file at `path` whose content comes from a `source`."""
    if source is None:
        return _PUBLIC
    status, folder = os.stat(source), os.stat(os.path.dirname(path) or ".")
    if not stat.S_ISREG(status.st_mode):
        return _PUBLIC
    mode = stat.S_IMODE(status.st_mode)
    if status.st_gid != (folder.st_gid if folder.st_mode & stat.S_ISGID else os.getegid()):
        mode = _without_group(mode)
    return mode | 0o600


def _without_group(mode: int) -> int:
    """Remove group permissions that others lack: the file may have another group."""
    return mode & ~(0o070 & ~(mode << 3))


def _restore(file: int, before: os.stat_result, private: bool) -> None:
    """Give an open file the owner and the mode of the file that it replaces."""
    mode, now = stat.S_IMODE(before.st_mode), os.fstat(file)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(file, before.st_uid, before.st_gid)
        except OSError:
            try:
                os.fchown(file, -1, before.st_gid)
            except OSError:
                mode = _without_group(mode)
    os.fchmod(file, 0o600 if private else mode & 0o777)


def _sync_folder(path: str) -> None:
    # Some systems cannot open or synchronise folders.
    with suppress(OSError):
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
