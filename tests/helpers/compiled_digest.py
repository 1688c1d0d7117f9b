"""Digests of frames in compiled simulation."""

import ctypes
from pathlib import Path

import numpy as np
from amaranth.back import verilog

from lately.golden.packets.comparison import Comparison, Field
from lately.golden.packets.inner_layers import inner_layers
from lately.golden.packets.packet_digest import message, message_digest
from lately.golden.packets.packet_layers import ETHERNET, Fault, Reach, layers
from lately.hdl.packets.frame_digest import FrameDigest
from lately.sim.replay.model import Closable, cached_model, defines, load_model

DRIVER = Path(__file__).with_name("frame_digest.cpp")
BYTES, WORDS = ctypes.c_char_p, ctypes.c_void_p
SIGNATURES = {
    "digest_new": (ctypes.c_void_p, ()),
    "digest_delete": (None, (ctypes.c_void_p,)),
    "digest_run": (
        ctypes.c_int64,
        (WORDS, BYTES, WORDS, BYTES, ctypes.c_int64, ctypes.c_int, WORDS, WORDS, WORDS),
    ),
}


def expected(frame, fields, secret, width, inner):
    """Digest, version and malformed of a frame by golden."""
    size = len(frame)
    place = inner_layers(frame) if inner else layers(frame, size, ETHERNET, Reach.HARDWARE)
    what = Comparison(fields & ~Field.LAYER2 if inner else fields)
    digest = message_digest(message(frame, size, place, what), secret, width)
    return digest, int(place.version), int(Fault.MALFORMED in place.faults)


class CompiledDigest(Closable):
    """A `FrameDigest` that keeps its state from run to run."""

    def __init__(self, width, *, digest=None, table_bits=5, inner=False):
        self.width, self.inner = width, inner
        if digest is None:
            digest = FrameDigest(width, table_bits=table_bits, inner=inner)
        size = width // 8
        header = defines(f"BYTES {size}", f"PLACE_BITS {(size - 1).bit_length()}")
        library = cached_model(
            verilog.convert(digest, name="digest", emit_src=False),
            top="digest",
            driver=DRIVER,
            header=header,
            optimisation=1,
        )
        self._library = load_model(library, SIGNATURES)
        self._model = self._library.digest_new()

    def close(self):
        self._library.digest_delete(self._model)

    def run(self, frames, fields=Field.TOS, *, secret=0, idle=0.0, stall=0.0, errors=()):
        """Return the results of frames, shape (n, 4), the cycle of each, and all cycles."""
        sizes = np.array([len(frame) for frame in frames], np.int64)
        damaged = bytes(number in errors for number in range(len(frames)))
        words = np.frombuffer(secret.to_bytes(16, "little"), np.uint32)
        pauses = np.array([256 * idle, 256 * stall], np.int32)
        found = np.zeros((len(frames), 3), np.uint64)
        cycles = self._library.digest_run(
            self._model, b"".join(frames), sizes.ctypes.data, damaged, len(frames), int(fields),
            words.ctypes.data, pauses.ctypes.data, found.ctypes.data,
        )  # fmt: skip
        assert cycles >= 0
        rest = found[:, 1]
        parts = [rest & np.uint64(7), rest >> np.uint64(3) & np.uint64(1), rest >> np.uint64(4)]
        return np.stack([found[:, 0], *parts], 1), found[:, 2].astype(np.int64), cycles

    def check(self, frames, fields=Field.TOS, *, secret=0, errors=(), **pauses):
        """Compare with golden; return the cycle of each result, and all cycles."""
        found, at, cycles = self.run(frames, fields, secret=secret, errors=errors, **pauses)
        for number, (frame, got) in enumerate(zip(frames, found.tolist(), strict=True)):
            right = (
                *expected(frame, fields, secret, self.width, self.inner),
                int(number in errors),
            )
            assert tuple(got) == right, (number, fields, frame.hex())
        return at, cycles
