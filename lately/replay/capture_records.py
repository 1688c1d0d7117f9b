"""Records of a capture of packets: a key and a time of each."""

from collections.abc import Iterator, Sequence

from ..captures.capture_reader import CaptureReader
from ..captures.packet_keys import DEFAULT_KEY, packet_records, parse_key
from ..stream_files import StreamFile, TraceError
from .trace_formats import Record, Rejects


def open_capture(
    stream: StreamFile, rejects: Rejects, *, key: Sequence[str], time: str | None
) -> tuple[Iterator[Record], tuple[str, ...]]:
    """Return the records of a capture and its key, and count packets that have no key.

    Parameters
    ----------
    stream : StreamFile
    rejects : Rejects
    key : sequence of str
        One of `lately.captures.packet_keys.KEYS`, or none for the default.
    time : str, optional
        Must not be given.

    Raises
    ------
    TraceError
        If the key or the time is not as required, or the stream is no capture.
    """
    if time is not None:
        raise TraceError(f"time: must not be given for a capture, which has its own ({time!r})")
    if len(key) > 1:
        raise TraceError(f"key: must be one of a packet, not {len(key)}: {', '.join(key)}")
    form = parse_key(key[0] if key else DEFAULT_KEY)
    records = packet_records(CaptureReader(stream), form, rejects.add)
    return records, tuple(key) or (DEFAULT_KEY,)
