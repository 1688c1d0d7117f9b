"""Records of a packet capture: the key and time of each packet."""

from collections.abc import Sequence

from ..captures.capture_reader import CaptureReader
from ..captures.packet_keys import DEFAULT_KEY, packet_records, parse_key
from ..stream_files import StreamFile, TraceError
from .trace_formats import Rejects, Take, taking


def open_capture(
    stream: StreamFile, rejects: Rejects, *, key: Sequence[str], time: str | None
) -> tuple[Take, tuple[str, ...]]:
    """Return a function that takes the next records of a capture, and the name of the key.

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
        If the key or the time is not as required, or the stream is not a capture.
    """
    if time is not None:
        raise TraceError(f"time: must not be given for a capture, which has its own ({time!r})")
    if len(key) > 1:
        raise TraceError(f"key: must be one of a packet, not {len(key)}: {', '.join(key)}")
    form = parse_key(key[0] if key else DEFAULT_KEY)
    records = packet_records(CaptureReader(stream), form, rejects.add)
    return taking(records), tuple(key) or (DEFAULT_KEY,)
