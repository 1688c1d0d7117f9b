"""The package installed, and the checkout that it was installed from."""

import os
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner
from package_wheel import FOLDERS, ROOT, build_wheel

import lately
from lately.cli.app import main

DATA = {
    ".pyi",
    ".cpp",
    ".hpp",
    ".v",
    ".html",
    ".csv",
    ".json",
    ".typed",
    ".toml",
    ".mplstyle",
    ".md",
} | {
    ".txt",
    ".j2",
    ".core",
}

PROGRAM = """
import importlib
from pathlib import Path
for name in ("lately", "lately.golden", "lately.hdl.unit", "lately.sim.replay", "lately.cli.app"):
    print(name, Path(importlib.import_module(name).__file__).resolve())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder that the wheel was unpacked in, as an installer does it."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def source_files():
    """Return what a wheel must have of the sources, by its name in the wheel."""
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if folder == "sim" and path.relative_to(ROOT / folder).parts[0] in ("bench", "proofs"):
                continue
            exported = path.parent.name in ("pure", "header")
            if path.suffix in DATA | {".py"} or path.name == "py.typed" or exported:
                name = path.relative_to(ROOT)
                yield name if folder == "lately" else "lately" / name


def test_wheel_has_all_sources_and_data(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    compiled = {"lately/golden/_core.abi3.so"}
    assert inside == {name.as_posix() for name in source_files()} | compiled


def test_wheel_is_small(wheel):
    assert wheel.stat().st_size < 1_000_000


@pytest.mark.slow
def test_sdist_builds_the_same_wheel_offline(wheel, tmp_path):
    sdist = build_wheel(tmp_path, kind="sdist")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "--quiet", "--wheel-dir", tmp_path / "out", sdist], check=True)
    (built,) = (tmp_path / "out").iterdir()
    assert built.name == wheel.name
    with zipfile.ZipFile(built) as entry, zipfile.ZipFile(wheel) as other:
        assert sorted(entry.namelist()) == sorted(other.namelist())


FREE_THREADED = """
import runpy, sys, sysconfig
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
sys.argv = ["setup.py", "-q", "bdist_wheel", "--dist-dir", sys.argv[1]]
runpy.run_path("setup.py", run_name="__main__")
"""


@pytest.mark.slow
def test_free_threaded_python_has_no_extension(tmp_path):
    """CPython without the lock has no stable ABI; the readable form does all work there."""
    sources = build_wheel(tmp_path).parent / "sources"
    command = [sys.executable, "-W", "ignore", "-c", FREE_THREADED, str(tmp_path / "free")]
    subprocess.run(command, cwd=sources, check=True, capture_output=True)
    (built,) = (tmp_path / "free").iterdir()
    assert built.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(built) as archive:
        assert not [name for name in archive.namelist() if "_core" in name]


def result(cwd, *paths):
    """Return where modules are found by a program that is started in a folder."""
    # With -c the folder comes first, as for `python` and `python -m`.
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def elsewhere(installed, tmp_path_factory):
    """Where modules are found by a program that is started outside the checkout."""
    return result(tmp_path_factory.mktemp("elsewhere"), installed, *libraries())


@pytest.fixture(scope="module")
def here(installed):
    """Where modules are found by a program that is started in the checkout."""
    return result(ROOT, installed, *libraries())


def test_installed_from_elsewhere(installed, elsewhere):
    assert elsewhere["lately.golden"] == str(installed / "lately" / "golden" / "__init__.py")
    assert {Path(path).relative_to(installed).parts[0] for path in elsewhere.values()} == {"lately"}


def test_from_the_root_the_checkout_is_found_whole(here):
    """The folder of the front door comes first there, and must know the other rooms."""
    assert here["lately.golden"] == str(ROOT / "golden" / "__init__.py")
    assert all(Path(path).is_relative_to(ROOT) for path in here.values())


def test_both_find_the_same(here, elsewhere):
    assert [Path(path).read_bytes() for path in here.values()] == [
        Path(path).read_bytes() for path in elsewhere.values()
    ]


def libraries():
    """Return the folders of the libraries, but not what an editable install adds."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def test_version_is_the_package_s():
    assert lately.__version__ == metadata.version("lately")


def test_version_of_a_checkout_that_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(metadata, "version", absent)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert lately.__version__ == project["version"]
    done = CliRunner().invoke(main, ["--version"])
    assert done.stdout == f"lately {project['version']}\n"
    monkeypatch.setattr(lately, "__path__", [str(tmp_path / "lately")])
    assert lately.__version__ == "0+unknown"


def absent(name):
    raise metadata.PackageNotFoundError(name)


def test_version_is_read_only_when_it_is_used():
    program = "import sys, lately.cli.app; sys.exit('importlib.metadata' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
