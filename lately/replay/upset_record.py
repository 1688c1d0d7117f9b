"""The file that keeps campaigns of upsets."""

import json
import os
from pathlib import Path
from typing import Any

from ..golden.errors import LatelyError
from ..golden.files import check_folder, replace_file

_NAMES = {"done": int, "mismatches": int, "seconds": float, "found": list, "elements": dict}


class UpsetRecordError(LatelyError, ValueError):
    """A file is no record of campaigns, or damaged."""


class UpsetRecord:
    """Figures of campaigns in a file, which is written anew with each that is kept.

    Parameters
    ----------
    path : path
        The file. If it is there, what it holds is found again.

    Raises
    ------
    UpsetRecordError
        If the file is damaged.
    FileNotFoundError
        If it has no folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_folder(path)
        self._path = path
        self._runs = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        return load(self._path) if os.path.exists(self._path) else {}

    def find(self, name: str) -> dict[str, Any] | None:
        """Return the figures of that `name`, if there are any."""
        return self._runs.get(name)

    def keep(self, name: str, figures: dict[str, Any]) -> None:
        """Keep `figures` under a `name`, beside what others have kept in the file meanwhile."""
        self._runs = self._read() | {name: figures}
        # A campaign is a line: elements are many, and of no use to a reader one below another.
        lines = (
            f"{json.dumps(one)}: {json.dumps(values, allow_nan=False)}"
            for one, values in sorted(self._runs.items())
        )
        with replace_file(self._path) as file:
            file.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())


def load(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Read a record; return the figures of each campaign by its name.

    Parameters
    ----------
    path : path

    Raises
    ------
    UpsetRecordError
        If it is none, or damaged.
    OSError
        If it cannot be read.
    """
    try:
        runs = json.loads(Path(path).read_text("utf-8"))
        if not isinstance(runs, dict):
            raise ValueError("it must be an object")
        for name, figures in runs.items():
            if not isinstance(figures, dict):
                raise ValueError(f"{name} must be an object")
            for key, kind in _NAMES.items():
                if not isinstance(figures.get(key), kind):
                    raise ValueError(f"{name} must have {key} of type {kind.__name__}")
    except (ValueError, RecursionError) as error:
        raise UpsetRecordError(
            f"{os.fspath(path)}: must hold figures of lately bench upsets, but: {error}"
        ) from None
    return runs
