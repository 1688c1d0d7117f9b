"""Cache of yosys netlists, reused for other placement seeds."""

import gzip
import hashlib
import os
import zlib
from contextlib import suppress
from pathlib import Path

import platformdirs

from ...golden.files import replace_file

# Maximum number of netlists in the cache; the oldest netlist is deleted first.
MAX_NETLISTS = 64


def cache_directory() -> Path:
    folder = os.environ.get("LATELY_CACHE") or platformdirs.user_cache_dir("lately")
    return Path(folder) / "netlists"


class KeptNetlist:
    """A cached netlist; `texts` are all the inputs that determine it."""

    def __init__(self, folder: Path, *texts: str) -> None:
        digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
        self._path = folder / f"{digest}.json.gz"

    def read(self) -> bytes | None:
        try:
            return gzip.decompress(self._path.read_bytes()) or None
        except (OSError, EOFError, zlib.error):
            return None

    def write(self, netlist: bytes) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(self._path) as file:
                file.write(gzip.compress(netlist, compresslevel=1))
            kept = sorted(
                self._path.parent.glob("*.json.gz"), key=lambda path: path.stat().st_mtime
            )
            for path in kept[:-MAX_NETLISTS]:
                path.unlink()
