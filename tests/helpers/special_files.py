"""Files that are not regular, and what arrives in them."""

import os
import socket
import stat
import threading
from contextlib import contextmanager


@contextmanager
def character_device(folder):
    """Yield the path of a character device that is not the system's own.

    It is a null device if the process may make and open one, else a pseudo-terminal.
    """
    path = folder / "device"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"")
    except PermissionError:
        controller, terminal = os.openpty()
        try:
            yield os.ttyname(terminal)
        finally:
            os.close(controller)
            os.close(terminal)
        return
    yield path


class Reader(threading.Thread):
    """Reads to the end of what `opened` returns; `content` waits for it."""

    def __init__(self, opened, limit=-1):
        super().__init__(daemon=True)
        self._opened, self._limit = opened, limit
        self.start()

    def run(self):
        with self._opened() as file:
            self._content = file.read(self._limit)

    @property
    def content(self):
        self.join(30)
        return self._content


@contextmanager
def fifo(path, limit=-1):
    """Make a FIFO at `path`; yield the `Reader` of at most so many bytes."""
    os.mkfifo(path)
    yield Reader(lambda: path.open("rb", buffering=0), limit)


@contextmanager
def listening_socket(path):
    """Make a socket at `path`; yield the `Reader` of the first connection."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield Reader(lambda: os.fdopen(server.accept()[0].detach(), "rb"))
