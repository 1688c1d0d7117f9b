"""Digests that turn text and bytes into keys.

BLAKE2b computes the 64-bit words of a key. For keys of more than 512 bits, SHAKE256 does.
Neither has a secret: the digest depends only on the text and the width.

SipHash-1-3 gives one word under each of several keys of 16 bytes. They are the first bytes, 16
for each word of a key, of SHAKE256 over the text ``lately/digest/SEED/SECRET``, both numbers in
decimal. The secret is the first of the filter, or 0 if its hash takes none. Without a secret,
SipHash is fast, but anyone can choose texts with equal digests.

The least significant word of a key is first, the bytes of a digest and of a key of SipHash are
little-endian, and the last word is cut to the width of the key.
"""

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..atomic import Cached
from ..compilation import core
from .key_forms import Spans, joined, spans_of, tagged
from .siphash import siphash_spans

DIGESTS = ("blake2b", "siphash")
"""Digests of text; the first is the default of files that name no digest."""


@dataclass(frozen=True)
class KeyDigest:
    """Digest from bytes to the words of a key."""

    key_bits: int
    name: str = DIGESTS[0]
    seed: int = 0  # of the filter; as the secret, only "siphash" depends on it
    secret: int = field(default=0, repr=False)

    @property
    def count(self) -> int:
        """Number of words of a key."""
        return -(-self.key_bits // 64)

    @Cached
    def keys(self) -> NDArray[np.uint64]:
        """Keys of SipHash, one for each word, low half first, shape (count, 2).

        BLAKE2b has none: shape (0, 2).
        """
        label = f"lately/digest/{self.seed}/{self.secret}".encode()
        size = 16 * self.count if self.name == "siphash" else 0
        octets = hashlib.shake_256(label).digest(size)
        return np.frombuffer(octets, "<u8").astype(np.uint64).reshape(-1, 2)

    def of_list(self, texts: list[object]) -> NDArray[np.uint64] | None:
        """Digest a list in the extension; None without it, or if not all are str and bytes."""
        native = core()
        if native is None or self._shake:
            return None
        words = np.empty((len(texts), self.count), np.uint64)
        return self._cut(words) if native.digest_texts(texts, self.keys, words) else None

    def of_bytes(self, texts: list[bytes]) -> NDArray[np.uint64]:
        """Digest bytes, shape (n, count)."""
        return self.of_spans(*spans_of(texts))

    def of_rows(self, columns: list[tuple[bytes, Spans]]) -> NDArray[np.uint64]:
        """Digest tuples that have an element of each column, with the tag of the column."""
        native = core()
        if native is None or self._shake:
            texts = [
                [
                    tagged(tag, bytes(data[start:stop]))
                    for start, stop in zip(starts, stops, strict=True)
                ]
                for tag, (data, starts, stops) in columns
            ]
            return self.of_bytes([tagged(b"t", b"".join(row)) for row in zip(*texts, strict=True)])
        tags, parts = zip(*columns, strict=True)
        data, starts, stops = joined(parts, np.column_stack)
        words = np.empty((len(starts), self.count), np.uint64)
        native.digest_spans(data, starts, stops, b"".join(tags), self.keys, words)
        return self._cut(words)

    def of_spans(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """Digest the bytes of `data` from each start to its stop, shape (n, count)."""
        words = np.empty((len(starts), self.count), np.uint64)
        native = core()
        if native is not None and not self._shake:
            native.digest_spans(data, starts, stops, b"", self.keys, words)
            return self._cut(words)
        if ((starts < 0) | (stops < starts) | (stops > len(data))).any():
            raise ValueError("spans: must be in the buffer")
        if self.name == "siphash":
            for word, (low, high) in enumerate(self.keys.tolist()):
                words[:, word] = siphash_spans(data, starts, stops, low | high << 64)
            return self._cut(words)
        octets, size = data.tobytes(), 8 * self.count
        texts = (
            octets[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        )
        if self._shake:
            digests = b"".join(hashlib.shake_256(text).digest(size) for text in texts)
        else:
            digests = b"".join(hashlib.blake2b(text, digest_size=size).digest() for text in texts)
        return self._cut(np.frombuffer(digests, "<u8").astype(np.uint64).reshape(-1, self.count))

    @property
    def _shake(self) -> bool:
        return self.name == "blake2b" and 8 * self.count > hashlib.blake2b.MAX_DIGEST_SIZE

    def _cut(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Cut the last words to the width of a key."""
        if self.key_bits % 64:
            words[:, -1] &= np.uint64((1 << self.key_bits % 64) - 1)
        return words
