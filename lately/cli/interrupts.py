"""Ctrl-C, heard where nothing is lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Interrupts:
    """Whether Ctrl-C was heard; calling it tells."""

    def __init__(self) -> None:
        self._heard = self._waiting = False

    def __call__(self) -> bool:
        """Return whether Ctrl-C was heard."""
        return self._heard

    def hear(self) -> None:
        """Take note of Ctrl-C, and end a block that waits."""
        self._heard = True
        if self._waiting:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """End the block when Ctrl-C is heard: for what may wait for long and has no effects."""
        with suppress(KeyboardInterrupt):
            self._waiting = True
            try:
                yield
            finally:
                self._waiting = False


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Yield whether Ctrl-C was heard once, to be asked where nothing is lost; the next acts."""
    interrupts = Interrupts()

    def hear(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        interrupts.hear()

    try:
        before = signal.signal(signal.SIGINT, hear)
    except ValueError:
        # Only the main thread hears signals.
        yield interrupts
        return
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
