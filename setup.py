"""Packages of the wheel: the folders of the product, without benches and proofs."""

from pathlib import Path

from setuptools import find_packages, setup

FOLDERS = {"lately": "lately"} | {
    f"lately.{folder}": folder for folder in ("golden", "hdl", "sim", "boards")
}


def packages() -> list[str]:
    """Return the names of the packages that are installed."""
    found = []
    for name, folder in FOLDERS.items():
        inside = find_packages(str(Path(__file__).parent / folder), exclude=("bench", "proofs"))
        found += [name, *(f"{name}.{package}" for package in inside)]
    return found


if __name__ == "__main__":
    setup(packages=packages(), package_dir=FOLDERS)
