"""Results of points, kept in the user's cache folder for as long as they hold."""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from lately.golden.files import replace_file

from .study import Point, Result, Study


def cache_directory() -> Path:
    """Return the folder of finished points; LATELY_CACHE overrides the user's cache folder."""
    folder = os.environ.get("LATELY_CACHE") or platformdirs.user_cache_dir("lately")
    return Path(folder) / "reproduction"


@dataclass(frozen=True)
class Task:
    """A point of a study that is to be measured by sources of a `sources.fingerprint`."""

    study: Study
    point: Point
    fingerprint: str

    @property
    def label(self) -> str:
        """Name of the point in messages."""
        return f"{self.study.name} at {json.dumps(self.point)}"

    @property
    def identity(self) -> dict[str, Any]:
        """All that determines the result, as JSON can hold it."""
        return {
            "study": self.study.name,
            "point": plain(self.point),
            "fingerprint": self.fingerprint,
        }


def plain(value: Any) -> Any:
    """Return a value as it comes back from JSON.

    Raises
    ------
    TypeError, ValueError
        If JSON cannot hold it; infinities and what is no number are among that.
    """
    return json.loads(json.dumps(value, allow_nan=False))


class Store:
    """Results in files, one for each point.

    A file that is damaged, or that is of something else, is as if it were not
    there. A result of other sources or versions has another name and is not
    found; nothing deletes it but its owner. The folder is made with the first.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)

    def find(self, task: Task) -> Result | None:
        """Return the result of just that point, measured by just these sources, if it is there."""
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            entry = json.loads(self.path(task).read_bytes())
            if entry["identity"] == task.identity and isinstance(entry["result"], dict):
                return entry["result"]
        return None

    def add(self, task: Task, result: Result) -> None:
        """Keep a result.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        path = self.path(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        entry = {"identity": task.identity, "result": result}
        with replace_file(path) as file:
            file.write(json.dumps(entry, allow_nan=False).encode())

    def path(self, task: Task) -> Path:
        """Return where the result of a point is kept."""
        text = json.dumps(task.identity, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._directory / task.study.name / f"{name}.json"
