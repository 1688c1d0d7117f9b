"""Ctrl-C, SIGTERM and SIGHUP end a command without loss of data."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")  # signals that end a command, if the system has them


class Interrupts:
    """Tells whether an interrupt has arrived, when it is called."""

    def __init__(self) -> None:
        self._heard = self._waiting = False

    def __call__(self) -> bool:
        return self._heard

    def hear(self) -> None:
        """Record an interrupt, and end a `waiting` block."""
        self._heard = True
        if self._waiting:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """End the block at an interrupt; for work that may wait long and has no effects."""
        with suppress(KeyboardInterrupt):
            self._waiting = True
            try:
                yield
            finally:
                self._waiting = False


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Record an interrupt for a block that polls for it; a second interrupt acts at once."""
    interrupts = Interrupts()
    with ExitStack() as stack:

        def hear(number: int, frame: FrameType | None) -> None:
            stack.close()
            interrupts.hear()

        stack.enter_context(handled_by(hear))
        yield interrupts


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let a `handler` take Ctrl-C, SIGTERM and SIGHUP; ignored signals stay ignored."""
    before: dict[int, Any] = {}
    # Only the main thread handles signals.
    if threading.current_thread() is threading.main_thread():
        for name in _ENDING:
            number = getattr(signal, name, None)
            # After nohup a hang-up is ignored, and Ctrl-C in a background job of a script.
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
