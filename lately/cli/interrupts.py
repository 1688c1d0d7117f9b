"""Ctrl-C, SIGTERM and SIGHUP end a command without loss of data."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")  # signals that end a command, if the system has them


class Interrupts:
    def __init__(self) -> None:
        self._heard = self._waiting = False

    def __call__(self) -> bool:
        return self._heard

    def hear(self) -> None:
        self._heard = True
        if self._waiting:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Leave the block on an interrupt. The block must only wait, without side effects."""
        with suppress(KeyboardInterrupt):
            self._waiting = True
            try:
                yield
            finally:
                self._waiting = False


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Record the first interrupt, for which the block polls; a second interrupt ends the block."""
    interrupts = Interrupts()
    with ExitStack() as stack:

        def hear(number: int, frame: FrameType | None) -> None:
            stack.close()
            interrupts.hear()

        stack.enter_context(handled_by(hear))
        yield interrupts


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle Ctrl-C, SIGTERM and SIGHUP with `handler`; ignored signals stay ignored."""
    before: dict[int, Any] = {}
    # Python delivers signals to the main thread only.
    if threading.current_thread() is threading.main_thread():
        for name in _ENDING:
            number = getattr(signal, name, None)
            # nohup ignores SIGHUP, and a shell script ignores Ctrl-C for its background jobs.
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
