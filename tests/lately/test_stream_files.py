"""Files that hold streams: pipes as they come."""

import os
import threading

from capture_files import pcap

from lately.captures.capture_reader import CaptureReader
from lately.stream_files import open_stream


def test_pipe_is_read_as_it_comes():
    """What has come is returned, although no more comes, however much was asked for."""
    source, sink = os.pipe()
    found = []

    def read():
        with CaptureReader(f"/dev/fd/{source}") as capture:
            found.append(len(capture.read().times))
            os.close(sink)
            assert capture.read() is None

    os.write(sink, pcap([(0, bytes(60))] * 7))
    # What would wait for good waits beside the test.
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(60)
    assert found == [7]
    os.close(source)


def test_pipe_gives_all_that_comes():
    source, sink = os.pipe()
    content = os.urandom(300_000)

    def write():
        with os.fdopen(sink, "wb", buffering=0) as file:
            for at in range(0, len(content), 9_999):
                file.write(content[at : at + 9_999])

    thread = threading.Thread(target=write)
    thread.start()
    stream = open_stream(f"/dev/fd/{source}")
    os.close(source)
    buffer, got = bytearray(len(content) + 100), 0
    view = memoryview(buffer)
    while count := stream.data.readinto1(view[got:]):
        got += count
    stream.close()
    thread.join()
    assert buffer[:got] == content
