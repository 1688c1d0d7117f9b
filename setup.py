"""Packages of the wheel, without benches and proofs, and the compiled core of the models."""

import os
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup

FOLDERS = {"lately": "lately"} | {
    f"lately.{folder}": folder for folder in ("golden", "hdl", "sim", "boards")
}

# Without the lock there is no stable ABI yet; numpy does the work there, as without a compiler.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

FLAGS = ["-std=c11", "-O3", "-fno-strict-aliasing", "-fwrapv", "-fvisibility=hidden", "-g0"]


def packages() -> list[str]:
    """Return the names of the packages that are installed."""
    found = []
    for name, folder in FOLDERS.items():
        inside = find_packages(str(Path(__file__).parent / folder), exclude=("bench", "proofs"))
        found += [name, *(f"{name}.{package}" for package in inside)]
    return found


def core() -> Extension:
    """Return the extension module; without a compiler, numpy does its work."""
    sources = Path(__file__).parent / "golden" / "core"
    return Extension(
        "lately.golden._core",
        sources=sorted(f"golden/core/{path.name}" for path in sources.glob("*.c")),
        depends=sorted(f"golden/core/{path.name}" for path in sources.glob("*.h")),
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        extra_compile_args=FLAGS if os.name == "posix" else ["/std:c11", "/O2"],
        py_limited_api=True,
        optional=True,
    )


if __name__ == "__main__":
    setup(
        packages=packages(),
        package_dir=FOLDERS,
        ext_modules=[] if FREE_THREADED else [core()],
        options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp311"}},
    )
