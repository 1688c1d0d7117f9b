"""Rings in a file that several processes map into memory: one process writes, the others read.

A file consists of a header, a page that holds the position of the ring, and the memory of
`CompiledSegments`. The page has two slots for the position, and a number that selects one of them.
Before the C extension clears a segment, it fills the other slot and then changes the number. Bits
of a segment in the ring are only set, never cleared. So a reader that uses either position finds
every key that was inserted before the query began and is still in the window when the query ends.
"""

import hashlib
import json
import mmap
import os
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import numpy as np

from ..errors import LatelyError, StateFileError, require
from ..files import replace_file
from ..filter import MODELS
from ..spec.ring import FilterSpec
from .rings import SlidingFilter
from .segments import BASE, CompiledSegments, PackedSegments

_MAGIC = b"lately live 1\n\0\0"
_PAGE = 4096
_WORDS = 1 + 2 * 12  # the number that selects a slot, and two slots, each with four counters first
_START = len(_MAGIC) + 8 + 32


def share(model: SlidingFilter, path: str | os.PathLike[str], *, replace: bool = False) -> None:
    """Write a ring filter to a file that `attach` can open.

    The `model` must be a ring that counts insertions, run in the C extension and have the hash
    "h3". The file is written atomically. The `path` should be in memory, for example in
    ``/dev/shm``: after a restart of the machine `attach` refuses the file, as pages on disk may
    have different ages. Use `save` for data that must survive a restart. A process that has the
    previous file at this path open keeps using it. A file that is open for writing is therefore
    replaced only if `replace` is True.

    Raises TypeError or SpecificationError if the `model` is of another kind, LatelyError if a
    process has the existing file open for writing, and OSError if the file cannot be written.
    """
    if not isinstance(model, SlidingFilter) or not model.compiled:
        raise TypeError(
            "share: needs an APBF, APBBF, GEBF or BlockedGEBF with compiled = True, "
            f"not this {type(model).__name__}"
        )
    require(model.spec.hash == "h3", "hash", "must be h3 for a shared file", model.spec.hash)
    with model._lock:
        memory = cast(CompiledSegments, model._segments).packed().memory.copy()
        position = model._position.numbers()
    text = json.dumps({**model.parameters, "boot": _boot()}).encode()
    words = np.zeros(_WORDS, np.int64)
    words[1 : 1 + len(position)] = position
    with ExitStack() as stack:
        if not replace and os.path.isfile(path):
            # The lock is held until the new file is in place, so that no process can open the
            # previous file for writing.
            held = stack.enter_context(open(path, "rb"))
            _lock(
                held.fileno(), os.fspath(path), shared=True, hint="; replace=True replaces the file"
            )
        file = stack.enter_context(replace_file(path))
        file.write(_MAGIC + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest() + text)
        for block in (words, memory):
            file.write(bytes(-file.tell() % _PAGE))
            file.write(block.data)


def attach(path: str | os.PathLike[str], *, write: bool = False) -> SlidingFilter:
    """Open a file that `share` wrote; all processes that open the file share one state.

    Only one process at a time can open a file with `write`. The file is locked until that process
    ends, or closes or deletes the filter; a block ``with attach(...) as ring:`` closes the filter.
    If a writer is killed, the file contains every completed insertion, but the current generation
    may be longer by the number of keys in the last call. Do not fork while a filter is attached
    with `write`. Counters start at 0 in each process. Without `write`, calls that would change the
    filter raise ValueError.

    Raises LatelyError if another process has the file open for writing; StateFileError if `share`
    did not write the file, or if it is damaged or older than the start of the machine; and OSError
    if it cannot be opened.
    """
    name = os.fspath(path)
    with open(name, "r+b" if write else "rb") as file:
        if write:
            _lock(file.fileno(), name)
            if not os.path.samestat(os.fstat(file.fileno()), os.stat(name)):
                return attach(path, write=True)  # `share` has replaced the file.
        if os.fstat(file.fileno()).st_size < _START:
            raise StateFileError(f"{name}: cannot attach: not a file written by share()")
        mapped = mmap.mmap(
            file.fileno(), 0, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
        )
    try:
        return _attached(mapped, write)
    except (KeyError, TypeError, ValueError) as error:
        raise StateFileError(f"{name}: cannot attach: {error}") from None


def _attached(mapped: mmap.mmap, write: bool) -> SlidingFilter:
    size = int.from_bytes(mapped[len(_MAGIC) : len(_MAGIC) + 8], "little")
    text, digest = mapped[_START : _START + size], mapped[_START - 32 : _START]
    if not mapped[:_START].startswith(_MAGIC) or hashlib.sha256(text).digest() != digest:
        raise ValueError("the header is damaged")
    header, start = json.loads(text), -(-(_START + size) // _PAGE) * _PAGE
    if header["boot"] != _boot():
        raise ValueError(
            "it was written before the last restart of this machine; save() survives restarts"
        )
    spec = FilterSpec.from_dict(header["spec"])
    model = cast(type[SlidingFilter], MODELS[spec.family])(spec, partitioned=header["partitioned"])
    if not model.compiled:
        raise LatelyError("attach: needs the C extension, which is not built or is disabled")
    like = cast(CompiledSegments, model._segments).packed().memory
    if len(mapped) != start + _PAGE + like.nbytes:
        raise ValueError(f"{len(mapped)} bytes do not match the specification")
    words = np.frombuffer(mapped, np.int64, _WORDS, start)
    memory = np.frombuffer(mapped, like.dtype, like.size, start + _PAGE).reshape(like.shape)
    kind = CompiledSegments if write else _Reader
    segments = kind(model._layout, model._numbers, memory, words)
    segments.engine.follow()
    if write:
        # The previous writer may have been killed while it cleared the spare.
        segments.erase(model._position.spare)
    model._adopt(segments, follows=not write)
    return model


class _Reader(CompiledSegments):
    """Segments that another process writes; the spare may be only partly cleared."""

    def packed(self) -> PackedSegments:
        self.engine.follow()
        copy = PackedSegments(self._layout, self._memory.copy())
        copy.erase((int(self._numbers[BASE]) - 1) % self._layout.spec.segments)
        return copy


def _lock(file: int, name: str, *, shared: bool = False, hint: str = "") -> None:
    """Lock a mapped file for writing; a `shared` lock only keeps other processes from writing."""
    try:
        import fcntl
    except ImportError:
        raise LatelyError(f"{name}: this system has no file locks") from None
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LatelyError(f"{name}: another process has it open for writing{hint}") from None


def _boot() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else ""
