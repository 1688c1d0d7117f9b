"""Lines of text files that may be compressed."""

import io
from collections.abc import Iterator

from ..stream_files import COMPRESSIONS, StreamFile, TraceError, whole


def _text_lines(
    name: str, compression: str, data: io.BufferedReader, text: io.TextIOWrapper
) -> Iterator[str]:
    with whole(name, compression):
        if b"\0" in data.peek(1 << 12)[: 1 << 12]:
            raise TraceError(f"{name}: must be UTF-8 text, but has NUL bytes at its start")
        yield from text


def open_text(stream: StreamFile) -> tuple[io.TextIOWrapper, Iterator[str]]:
    """Decode a `stream` as UTF-8.

    Returns
    -------
    tuple
        The decoder, and an iterator over its lines. The file is closed when the decoder is
        garbage-collected.

    Raises
    ------
    TraceError
        If the file is not text, has an unsupported compression, or is found
        to be damaged while lines are read.
    """
    name, compression = stream.name, stream.compression
    if not stream.readable:
        known = f"{', '.join(COMPRESSIONS[:-1])} or {COMPRESSIONS[-1]}"
        raise TraceError(f"{name}: must be text, plain or compressed by {known}, not {compression}")
    # A byte that is not UTF-8 is still part of the key.
    text = io.TextIOWrapper(stream.data, "utf-8-sig", errors="surrogateescape", newline="")
    return text, _text_lines(name, compression, stream.data, text)
