"""Simulate a board, whose serial line becomes a pseudo-terminal."""

import ctypes
import os
import select
import threading
import tty
from collections.abc import Callable
from pathlib import Path

from amaranth.lib import wiring

from ..hdl.verilog import convert
from .replay.model import Closable, Signatures, cached_model, defines, load_model

Tamper = Callable[[bytes], bytes]  # maps arriving bytes of one direction to the bytes to pass on

_DRIVER = Path(__file__).with_name("board_driver.cpp")
_CHUNK = 2_000  # cycles per call, about the length of a short frame
_BYTES = 1 << 12


class SimulatedBoard(Closable):
    """A simulated board, whose serial line is the pseudo-terminal `port`.

    The line is simulated bit by bit, in a thread that runs until `close`. Cycles pass only while
    the board is busy, so simulated time is not real time. `to_board` and `from_board` corrupt the
    line for tests.
    """

    def __init__(
        self,
        model: Path,
        *,
        to_board: Tamper | None = None,
        from_board: Tamper | None = None,
    ) -> None:
        board, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
        signatures: Signatures = {
            "board_new": (board, ()),
            "board_delete": (None, (board,)),
            "board_cycles": (count, (board,)),
            "board_leds": (ctypes.c_int, (board,)),
            "board_busy": (ctypes.c_int, (board,)),
            "board_run": (count, (board, count, ctypes.c_char_p, count, array, array)),
        }
        self._library = load_model(model, signatures)
        self._board = ctypes.c_void_p(self._library.board_new())
        self._tampers = (to_board or bytes, from_board or bytes)
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="board", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        with self._lock:
            for name in ("_slave", "_master"):
                if getattr(self, name) >= 0:
                    os.close(getattr(self, name))
                    setattr(self, name, -1)
            if self._board:
                self._library.board_delete(self._board)
                self._board = ctypes.c_void_p()

    @property
    def cycles(self) -> int:
        with self._lock:
            return int(self._library.board_cycles(self._board))

    @property
    def leds(self) -> dict[str, bool]:
        with self._lock:
            lit = self._library.board_leds(self._board)
        return {name: bool(lit >> bit & 1) for bit, name in enumerate(("alive", "hit", "fault"))}

    def idle(self, cycles: int) -> None:
        for done in range(0, cycles, _CHUNK):
            self._run(b"", min(_CHUNK, cycles - done))

    def reset(self) -> None:
        with self._lock:
            self._library.board_delete(self._board)
            self._board = ctypes.c_void_p(self._library.board_new())

    def _serve(self) -> None:
        to_board, from_board = self._tampers
        waiting, answers = b"", b""
        while not self._ends.is_set():
            busy = self._library.board_busy(self._board) or waiting or answers
            wants = [self._master] if len(waiting) < _BYTES else []
            readable, writable, _ = select.select(
                wants, [self._master] if answers else [], [], 0 if busy else 0.01
            )
            if readable:
                waiting += to_board(os.read(self._master, _BYTES))
            if writable:
                answers = answers[os.write(self._master, answers) :]
            if waiting or busy:
                taken, came = self._run(waiting)
                waiting = waiting[taken:]
                answers += from_board(came) if came else b""

    def _run(self, data: bytes, cycles: int = _CHUNK) -> tuple[int, bytes]:
        taken = ctypes.c_uint64()
        output = ctypes.create_string_buffer(_CHUNK // 8)
        with self._lock:
            count = self._library.board_run(
                self._board, cycles, data, len(data), ctypes.byref(taken), output
            )
        return taken.value, output.raw[:count]


def board_model(board: wiring.Component, *, clock_hz: int, baud: int) -> Path:
    """Compile the top level of a board, which must have the ports of `FilterLink`."""
    return cached_model(
        convert(board, "board"),
        top="board",
        driver=_DRIVER,
        header=defines(f"CLOCKS_PER_BIT ({clock_hz}.0 / {baud})"),
        optimisation=1,
    )
