"""Write output files completely, or raise an error that shows the path as the user wrote it."""

import errno
import io
import json
import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, BinaryIO, NamedTuple

PathName = str | os.PathLike[str]
Source = PathName | int | None  # file whose read permissions a new file gets

_MAX_LINKS = 40
_PUBLIC = 0o666


class IncompleteOutputError(OSError):
    """Only a part of an output could be written, and this part remains in the output."""


class _Descriptor(io.FileIO):
    """Raw file whose error messages show `path`.

    With `cut`, the data of a failed write is removed from the file.
    """

    def __init__(
        self,
        handle: int,
        path: str,
        kind: type[OSError] = IncompleteOutputError,
        *,
        cut: bool = False,
    ) -> None:
        super().__init__(handle, "wb")
        self._path, self._kind, self._cut = path, kind, cut
        self._failure: BaseException | None = None

    def seekable(self) -> bool:
        return not stat.S_ISCHR(os.fstat(self.fileno()).st_mode) and super().seekable()

    def tell(self) -> int:
        # A character device always reports position 0.
        if not self.seekable():
            raise io.UnsupportedOperation("tell")
        return super().tell()

    def write(self, data: Any) -> int:
        if self._failure is not None:  # A buffer retries when it is closed.
            raise self._failure
        begin, rest = self.tell() if self._cut else 0, memoryview(data)
        try:
            with named(self._path, self._kind):
                while rest:
                    count = super().write(rest)
                    if count is None:  # The non-blocking descriptor is full.
                        select.select([], [self], [])
                    rest = rest[count or 0 :]
        except BaseException as error:
            self._failure = error
            if self._cut:
                os.ftruncate(self.fileno(), begin)
            raise
        return len(data)


@contextmanager
def whole_standard_output() -> Iterator[None]:
    """Complete each write to `sys.stdout`, or raise an error that mentions standard output."""
    before: Any = sys.stdout
    try:
        # A descriptor opened for reading stands in for a closed one.
        handle = os.open(os.devnull, os.O_RDONLY) if before is None else os.dup(before.fileno())
    except io.UnsupportedOperation:  # Standard output is in memory.
        yield
        return
    sys.stdout = whole = io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(handle, "standard output")),
        encoding=before and before.encoding,
        errors=before and before.errors,
        line_buffering=bool(before and before.line_buffering),
    )
    try:
        yield
    finally:
        sys.stdout = before
        with suppress(OSError, KeyboardInterrupt):  # Data that a failed write left.
            whole.close()


@contextmanager
def replace_file(
    path: PathName, *, private: bool = False, source: Source = None, kept: bool = False
) -> Iterator[BinaryIO]:
    """Open an output file that appears at `path` only when the block has succeeded.

    A regular file is written beside `path`, flushed to disk and renamed. If it replaces another
    file, it gets the mode and, if permitted, the owner of that file. Symbolic links are followed.
    Devices, FIFOs, sockets and descriptors (``/dev/fd/N``) are written directly. Only the owner can
    read a `private` file. If `source` is a regular file, a new file gets no wider read permissions
    than `source`.

    `kept` is for content that cannot be recreated: the file is written in place and without a
    buffer, so that everything that was written before a failed write remains.
    """
    path = os.fspath(path)
    with named(path):
        target = _find(path)
    if target.is_replaced and not kept:
        with _replacement(target, path, private, source) as buffer:
            yield buffer
        return
    raw = _opened(target, path, source)
    with raw if kept else io.BufferedWriter(raw) as file:
        yield file
        if target.is_replaced:
            with named(path, IncompleteOutputError):
                os.fsync(file.fileno())


def check_output(path: PathName) -> object:
    """Check that a path is writable, and return a value that identifies the file at the path.

    The value is the same for all names of a file. It is None for a character device, to which
    several outputs can be written.
    """
    with named(path):
        target = _find(os.fspath(path))
        if target.descriptor is None:
            folder = os.path.dirname(target.path) or "."
            os.stat(folder)
            if not os.access(folder if target.is_replaced else target.path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if target.status is None:
        return os.path.realpath(target.path)
    shared = stat.S_ISCHR(target.status.st_mode)
    return None if shared else (target.status.st_dev, target.status.st_ino)


@contextmanager
def only_user(path: PathName) -> Iterator[None]:
    """Hold the lock file `path`.lock during the block; OSError if another run holds the lock."""
    name = os.path.realpath(path) + ".lock"
    with ExitStack() as stack:
        try:
            import fcntl
        except ImportError:
            # Without file locks, `path`.lock outlives a process that was killed.
            try:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL, _PUBLIC))
            except FileExistsError:
                reason = f"in use by another run; if it has ended, delete {name}"
                raise OSError(errno.EBUSY, reason, os.fspath(path)) from None
        else:
            while True:
                file = stack.enter_context(open(name, "ab"))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise OSError(errno.EBUSY, "in use by another run", os.fspath(path)) from None
                # The previous run may have deleted the file since it was opened.
                if os.fstat(file.fileno()).st_nlink:
                    break
        stack.callback(os.unlink, name)
        yield


def temporary_name(path: str) -> str:
    folder, name = os.path.split(path)
    # Shortened: a name has at most 255 bytes.
    return os.path.join(folder, f".{name[:32]}.{os.urandom(8).hex()}")


def write_json(values: Any, path: PathName) -> None:
    """Write `values` as JSON, completely or not at all; ValueError for infinity or NaN."""
    text = json.dumps(values, indent=1, allow_nan=False)
    with replace_file(path) as file:
        file.write(text.encode() + b"\n")


@contextmanager
def named(path: PathName, kind: type[OSError] = OSError) -> Iterator[None]:
    """Replace an OSError from the block with one that shows the path as the user wrote it."""
    try:
        yield
    except OSError as error:
        number, reason = error.errno or errno.EIO, error.strerror or str(error)
        raise kind(number, reason, os.fspath(path)) from None


class _Target(NamedTuple):
    path: str
    descriptor: int | None
    status: os.stat_result | None

    @property
    def is_replaced(self) -> bool:
        if self.descriptor is not None:
            return False
        return self.status is None or stat.S_ISREG(self.status.st_mode)


def _find(path: str) -> _Target:
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(path)
        if name.isdecimal() and os.path.realpath(folder) == os.path.realpath("/dev/fd"):
            # Links in /dev/fd point to files that may have been deleted or replaced since.
            return _Target(path, int(name), os.fstat(int(name)))
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
    return _Target(path, None, status)


def _opened(target: _Target, path: str, source: Source) -> _Descriptor:
    with named(path):
        if target.descriptor is not None:
            handle = os.dup(target.descriptor)
        elif target.status is not None and stat.S_ISSOCK(target.status.st_mode):
            import socket

            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(target.path)
                handle = connection.detach()
        else:
            new = os.O_CREAT | os.O_TRUNC if target.is_replaced else 0
            mode = _PUBLIC & _mode_of(source, target.path)
            handle = os.open(target.path, os.O_WRONLY | new, mode)
    return _Descriptor(handle, path, cut=target.is_replaced)


@contextmanager
def _replacement(target: _Target, path: str, private: bool, source: Source) -> Iterator[BinaryIO]:
    temporary = temporary_name(target.path)
    try:
        with named(path):
            mode = 0o600 if private or target.status else _PUBLIC & _mode_of(source, target.path)
            # The kernel applies mode and umask when it creates the file.
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with io.BufferedWriter(_Descriptor(handle, path, OSError)) as file:
            yield file
            with named(path):
                file.flush()
                if target.status is not None:
                    _restore(file.fileno(), target.status, private)
                os.fsync(file.fileno())
        with named(path):
            os.replace(temporary, target.path)
    except BaseException:
        # The name is known before the file exists, so an interrupt at any time leaves nothing.
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    with suppress(OSError):  # Some systems cannot open or synchronise folders.
        folder = os.open(os.path.dirname(target.path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _mode_of(source: Source, path: str) -> int:
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
    """Remove the group permissions that users outside the group lack.

    The new file may belong to a group other than that of the file with this `mode`.
    """
    return mode & ~(0o070 & ~(mode << 3))


def _restore(file: int, before: os.stat_result, private: bool) -> None:
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
