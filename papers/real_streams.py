"""Real streams in the place of those that the papers measure on, where their files are at hand."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lately.golden.hash.digests import KeyDigest
from lately.golden.hash.key_forms import octets
from lately.replay.traces import open_trace

from .studies.streams import Keys

FILES = {
    "flights": "flights_2013.csv.gz",
    "dns": "dns_queries.csv.gz",
    "products": "product_page_requests.csv.gz",
    "web": "apache_access.log.gz",
}
"""Files of the streams by name: the examples, and others that are not part of the package."""

SOURCES = {
    "flights": "it is among the examples of the project's repository",
    "dns": "the Zeek dns log of WRCCDC 2018 in brimdata/zed-sample-data (CC BY-SA 4.0), as CSV "
    "with the columns timestamp and key, which is client, name and type",
    "products": "the product page requests of 2012-12-20 in cache2k/cache2k-benchmark (CC BY 4.0), "
    "as CSV with the columns timestamp, empty, and key",
    "web": "apache_logs of elastic/examples (Apache-2.0), as it is, with gzip",
}
"""Sources of the files."""

_ROOT = Path(__file__).resolve().parents[1]
FOLDERS = [_ROOT / "examples", _ROOT.parent / "shared" / "data"]
"""Folders that the files are looked for in."""


def path(name: str) -> Path | None:
    """Return the file of a stream; None if it is absent."""
    return next((path for one in FOLDERS if (path := one / FILES[name]).exists()), None)


def absence(name: str, what: str) -> str:
    """Return the sentence on `what` is not measured, as the file of a stream is absent."""
    return (
        f"{what}, as `{FILES[name]}` is not there. To be had: {SOURCES[name]}. Its place is the "
        "folder `examples`."
    )


@lru_cache(maxsize=8)
def real(name: str, count: int | None = None) -> Keys | None:
    """Return the first keys of a stream, or all, shape (n,); None if its file is absent."""
    file = path(name)
    if file is None:
        return None
    with open_trace(file) as trace:
        records = list(trace) if count is None else trace.read(count)
    return KeyDigest(64).of_bytes([octets(text) for text, _ in records])[:, 0]


def distances(keys: Keys) -> NDArray[np.int64]:
    """Return the insertions since each key's last one, counted both, 0 for a new key."""
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
    result = np.zeros(len(keys), np.int64)
    result[order[1:][again]] = (order[1:] - order[:-1])[again]
    return result
