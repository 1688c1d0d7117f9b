"""Chooses the packages of the wheel, and builds the compiled core of the golden models."""

import gzip
import os
import sys
import sysconfig
import tarfile
import time
from pathlib import Path
from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command.sdist import sdist

FOLDERS = {"lately": "lately"} | {
    f"lately.{folder}": folder for folder in ("golden", "hdl", "sim", "boards")
}

# Without the lock there is no stable ABI yet; the readable form works there, as without a compiler.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

FLAGS = [
    "-std=c11", "-O3", "-fno-strict-aliasing", "-fwrapv", "-fvisibility=hidden", "-g0",
    "-fno-asynchronous-unwind-tables",
]  # fmt: skip


def packages() -> list[str]:
    names = []
    for name, folder in FOLDERS.items():
        inside = find_packages(str(Path(__file__).parent / folder), exclude=("bench", "proofs"))
        names += [name, *(f"{name}.{package}" for package in inside)]
    return names


def core() -> Extension:
    """Describe the extension module; if it cannot be compiled, Python code does the same work."""
    root = Path(__file__).parent
    sources, headers = (
        sorted(path.relative_to(root).as_posix() for path in (root / "golden/core").glob(files))
        for files in ("*.c", "**/*.h")
    )
    return Extension(
        "lately.golden._core",
        sources=sources,
        depends=headers,
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        extra_compile_args=FLAGS if os.name == "posix" else ["/std:c11", "/O2"],
        extra_link_args=["-Wl,-s"] if sys.platform == "linux" else [],
        py_limited_api=True,
        optional=True,
    )


class RepeatableSdist(sdist):
    """Builds a reproducible source archive, dated SOURCE_DATE_EPOCH if the variable is set."""

    def make_archive(self, base_name: Any, *_: Any, base_dir: Any = None, **__: Any) -> str:
        """Write the archive of a folder, and return the path of the archive."""
        now = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))

        def plain(item: tarfile.TarInfo) -> tarfile.TarInfo:
            item.uid = item.gid = 0
            item.uname = item.gname = ""
            item.mtime, item.mode = now, 0o755 if item.mode & 0o100 else 0o644
            return item

        path = f"{base_name}.tar.gz"
        with (
            open(path, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=now) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for name in sorted(map(str, [Path(base_dir), *Path(base_dir).rglob("*")])):
                archive.add(name, recursive=False, filter=plain)
        return path


if __name__ == "__main__":
    setup(
        cmdclass={"sdist": RepeatableSdist},
        packages=packages(),
        package_dir=FOLDERS,
        ext_modules=[] if FREE_THREADED else [core()],
        options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp311"}},
    )
