"""Rings in a file that several processes map: one process writes, the others read.

A file has a header, then a page with the position of the ring, then the memory as
`CompiledSegments` has it. The position has two slots and a number that selects one of them. The
extension fills the other slot, and then changes the number, before it clears a segment. Bits of
a segment that is in the ring are only ever set. So a reader with any position misses no key
that was inserted before the query began and is within the window when the query ends.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import LatelyError, StateFileError
from ..files import replace_file
from ..spec import FilterSpec
from ..spec.base import require
from .apbf import APBBF, APBF
from .compiled_segments import CompiledSegments
from .gebf import GEBF, BlockedGEBF
from .position import RingPosition
from .sliding import SlidingFilter

_KINDS: dict[str, type[SlidingFilter]] = {
    kind.specification.family: kind for kind in (APBF, APBBF, GEBF, BlockedGEBF)
}
_MAGIC = b"lately live 1\n\0\0"
_PAGE = 4096
_POSITION = 12  # integers of a slot, of which the first four count
_WORDS = 1 + 2 * _POSITION
_START = len(_MAGIC) + 8 + 32


def share(model: SlidingFilter, path: str | os.PathLike[str]) -> None:
    """Write a ring that counts insertions to a file that `attach` opens.

    The file appears complete or not at all. Processes that are attached to an earlier file at
    the path keep that file.

    Parameters
    ----------
    model : APBF, APBBF, GEBF or BlockedGEBF
        Built from the extension, with the hash "h3".
    path : path
        Best in memory, such as in ``/dev/shm``: after a restart of the machine, `attach` refuses
        the file, as the pages on disk may be of different times. `save` is for that.

    Raises
    ------
    TypeError, SpecificationError
        If the filter is of another kind.
    OSError
        If the file cannot be written.
    """
    if not isinstance(model, SlidingFilter) or not model.compiled:
        raise TypeError(
            "share: must have an APBF, APBBF, GEBF or BlockedGEBF from the extension, whose bits "
            f"processes can read while one writes, not {type(model).__name__}"
        )
    require(model.spec.hash == "h3", "hash", "must be h3 for a shared file", model.spec.hash)
    with model._lock:
        model._settle()
        position = model._ring.numbers()
        segments = cast(CompiledSegments, model._segments)
        segments.engine.settle()
        memory = segments.memory.copy()
    text = json.dumps({**model.parameters, "boot": _boot()}).encode()
    words = np.zeros(_WORDS, np.int64)
    words[1 : 1 + len(position)] = position
    with replace_file(path) as file:
        file.write(_MAGIC + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest() + text)
        for block in (words, memory):
            file.write(bytes(-file.tell() % _PAGE))
            file.write(block.data)


def attach(path: str | os.PathLike[str], *, write: bool = False) -> SlidingFilter:
    """Open a filter that `share` wrote; all processes that open it see one state.

    One process at a time may `write`; the operating system ends that right with the process or
    the filter. A process that is killed leaves a file that the next writer can open: every key
    whose insertion was complete is there, and the generation may be longer by the keys of its
    last call. Do not fork while a filter is attached with `write`.

    Counters, and `operations`, begin at 0 in each process. A call that would change a filter
    that was not opened to write gives a ValueError.

    Raises
    ------
    LatelyError
        If another process writes.
    StateFileError
        If the file is not one of `share`, is damaged, or was written before the machine started.
    OSError
        If the file cannot be opened.
    """
    name = os.fspath(path)
    with open(name, "r+b" if write else "rb") as file:
        if write:
            _lock(file.fileno(), name)
        if os.fstat(file.fileno()).st_size < _START:
            raise StateFileError(f"{name}: expected a file that share() wrote, found another")
        mapped = mmap.mmap(
            file.fileno(), 0, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
        )
    try:
        return _attached(mapped, write)
    except (KeyError, TypeError, ValueError) as error:
        raise StateFileError(
            f"{name}: expected a file that share() wrote, found another: {error}"
        ) from None


def _attached(mapped: mmap.mmap, write: bool) -> SlidingFilter:
    header, start = _header(mapped)
    boot = header.pop("boot")
    if boot != _boot():
        raise ValueError("it was written before the machine started; save() outlives that")
    spec = FilterSpec.from_dict(header["spec"])
    model = _KINDS[spec.family](spec, partitioned=header["partitioned"])
    if not model.compiled:
        raise LatelyError("attach: must have the extension, which is not built or is refused")
    like = cast(CompiledSegments, model._segments).memory
    if len(mapped) != start + _PAGE + like.nbytes:
        raise ValueError(f"{len(mapped)} bytes do not fit the specification")
    words = np.frombuffer(mapped, np.int64, _WORDS, start)
    memory = np.frombuffer(mapped, like.dtype, like.size, start + _PAGE).reshape(like.shape)
    model._ring.set_numbers(_published(words), 0, 0)
    if not write:
        model._adopt(_Reader(model._ring, model._layout, memory, words), _follower(words))
        return model
    segments = CompiledSegments(model._layout, memory, words)
    # The writer before may have been killed while it cleared the spare.
    segments.erase(model._ring.spare)
    model._adopt(segments, None)
    return model


class _Reader(CompiledSegments):
    """Segments that another process writes; it may not have cleared the whole spare yet."""

    def __init__(self, ring: RingPosition, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ring = ring

    @property  # type: ignore[misc]
    def bits(self) -> NDArray[np.bool_]:
        """Bits of the ring, and a spare that is clear."""
        bits = super().bits
        bits[self._ring.spare] = False
        return bits


def _header(mapped: mmap.mmap) -> tuple[dict[str, Any], int]:
    """Return the values of the header, and where the position begins."""
    size = int.from_bytes(mapped[len(_MAGIC) : len(_MAGIC) + 8], "little")
    text = mapped[_START : _START + size]
    digest = mapped[_START - 32 : _START]
    if not mapped[:_START].startswith(_MAGIC) or hashlib.sha256(text).digest() != digest:
        raise ValueError("its header is damaged")
    return json.loads(text), -(-(_START + size) // _PAGE) * _PAGE


def _published(words: NDArray[np.int64]) -> list[int]:
    """Return the position that was published last."""
    while True:
        turns = int(words[0])
        first = 1 + _POSITION * (turns & 1)
        numbers: list[int] = words[first : first + 4].tolist()
        if int(words[0]) == turns:
            return numbers


def _follower(words: NDArray[np.int64]) -> Callable[[RingPosition], None]:
    def follow(ring: RingPosition) -> None:
        ring.set_numbers(_published(words), ring.insertions, ring.shifts)

    return follow


def _lock(file: int, name: str) -> None:
    """Take the right to write, which lasts as long as the file is mapped."""
    try:
        import fcntl
    except ImportError:
        raise LatelyError(f"{name}: must be opened to read, as this system has no locks") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LatelyError(f"{name}: must have one writer, but another process writes") from None


def _boot() -> str:
    """Return a text that changes when the machine starts; empty where the system has none."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else ""
