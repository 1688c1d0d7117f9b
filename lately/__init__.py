"""Sliding-window membership filters: golden models, hardware, simulation and synthesis.

The names of `lately.golden` are also available here. They are imported on first use, so that the
command line starts quickly. ``lately.__version__`` is the version of the package.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

# In a checkout, the folders of the subpackages are siblings of this folder.
if (Path(__path__[0]).parent / "golden" / "errors.py").is_file():
    __path__.append(str(Path(__path__[0]).parent))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version("lately")
        except metadata.PackageNotFoundError:
            import tomllib

            project = Path(__path__[0]).parent / "pyproject.toml"
            if not project.is_file():
                return "0+unknown"
            return tomllib.loads(project.read_text("utf-8"))["project"]["version"]
    if name == "__all__" or (not name.startswith("_") and name != "golden"):
        golden = import_module(".golden", __name__)
        if name in golden.__all__ or name == "__all__":
            return getattr(golden, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__"), "__version__"})
