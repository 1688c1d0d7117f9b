"""The extension module under sanitizers, and an installation without a compiler."""

import os
import random
import shutil
import subprocess
import sys
import sysconfig
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from cases import daily
from package_wheel import ROOT, build_wheel
from paths import taking

from lately.golden import GEBF, compilation
from lately.golden.compilation import core
from lately.golden.hash.keys import KeyDigest, check_keys
from lately.golden.spec.base import DIGESTS

SANITIZED = """
import importlib.util, sys
from pathlib import Path

path = next(Path(__file__).parent.glob("lately/golden/_core*.so"))
spec = importlib.util.spec_from_file_location("lately.golden._core", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules[spec.name] = module
"""
"""Plugin of pytest that imports the module that was built in its folder."""

FLAGS = (
    "-fsanitize=address,undefined -fno-sanitize-recover=undefined -O1 -g -fno-omit-frame-pointer"
)


def libraries():
    """Return the libraries of the sanitizers; those that are there."""
    if not shutil.which("gcc"):
        return []
    names = ("libasan.so", "libubsan.so")
    asked = [["gcc", f"-print-file-name={name}"] for name in names]
    runs = [subprocess.run(call, capture_output=True, text=True, check=True) for call in asked]
    return [path for run in runs if os.path.isabs(path := run.stdout.strip())]


@pytest.mark.slow
@pytest.mark.skipif(len(libraries()) < 2, reason="gcc has no libraries of the sanitizers")
def test_sanitizers(tmp_path):
    build = ["setup.py", "-q", "build_ext", "--build-lib", tmp_path, "--build-temp", tmp_path / "o"]
    subprocess.run(
        [sys.executable, *build], cwd=ROOT, env=os.environ | {"CFLAGS": FLAGS}, check=True
    )
    (tmp_path / "sanitized.py").write_text(SANITIZED)
    tests = [
        "golden/test_fast.py",
        "golden/test_clears.py",
        "golden/test_packets.py",
        "golden/test_extension.py",
        "golden/test_keys.py",
        "golden/test_clock.py",
    ]
    tests += ["golden/test_encapsulations.py", "golden/test_copies.py"]
    tests += ["lately/test_captures.py", "lately/test_dedup.py"]
    files = [str(Path(__file__).parents[1] / name) for name in tests]
    words = "courses turn clear wrong packet texts plain digest arrow columns single"
    only = words.replace(" ", " or ")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "sanitized", "-k", only, *files],
        cwd=ROOT,
        env=os.environ
        | {
            "LD_PRELOAD": ":".join(libraries()),
            "ASAN_OPTIONS": "detect_leaks=0",
            "PYTHONPATH": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]


@pytest.mark.slow
def test_installation_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "false")
    wheel = build_wheel(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "_core" in name]
        archive.extractall(installed := tmp_path / "installed")
    # Without site, so that no editable installation is found.
    libraries = Path(np.__file__).parents[1]
    program = "import lately.golden as g; f = g.GEBF.for_window(100); print(f.compiled, f.query(1))"
    result = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (installed, libraries)))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "False False\n"
    assert result.stderr.count("RuntimeWarning: lately has no compiled extension") == 1


@pytest.mark.parametrize(
    ("free", "variable", "remedies"),
    [
        (0, "", ["install gcc or clang, then run pip install --force-reinstall --no-deps ."]),
        (1, "", ["it needs a Python with the global interpreter lock"]),
        (0, "0", []),
    ],
)
def test_first_filter_without_the_extension(monkeypatch, free, variable, remedies):
    monkeypatch.setattr(compilation, "_core", None)
    monkeypatch.setitem(sysconfig.get_config_vars(), "Py_GIL_DISABLED", free)
    monkeypatch.setenv(compilation.VARIABLE, variable)
    compilation.warn_if_missing.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not GEBF.for_window(100).compiled
        GEBF.for_window(100)
    prefix = "lately has no compiled extension, so keys take about 1,000 times as long: "
    assert [str(each.message) for each in caught] == [prefix + remedy for remedy in remedies]


def texts(random):
    """Return texts of all lengths up to some blocks of the digest."""
    letters = "aZ0 é€😀"
    drawn = ["".join(random.choices(letters, k=size)) for size in range(150)]
    return [*drawn, *(random.randbytes(size) for size in range(400)), "a\x00", "", b""]


@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.parametrize("key_bits", daily(2, [17, 65, 600, 1, 64, 128, 500, 512]))
def test_texts_have_the_same_keys_on_both_paths(key_bits, name):
    given = texts(random.Random(key_bits))
    column = pyarrow.array([text for text in given if isinstance(text, str)] * 2)
    digest = KeyDigest(key_bits, name, seed=4, secret=5)
    for keys in (given, column, column[7:-3], [bytearray(b"abc"), "\udc80", memoryview(b"abc")]):
        with taking("readable"):
            due = check_keys(keys, digest)
        assert (check_keys(keys, digest) == due).all()


@pytest.mark.parametrize("name", DIGESTS)
def test_texts_that_are_single_keys(name):
    model = GEBF.for_window(1000, key_bits=41, digest=name)
    given = texts(random.Random(5))
    for text in given:
        model.insert(text)
    assert model.query(given).all()
    assert all(text in model for text in given)


def test_digests_wrong():
    """No room, no row for each text, more words than keys: nothing is written beyond a buffer."""
    data, ends = np.zeros(10, np.uint8), np.array([3], np.int64)
    keys, out = np.zeros((2, 2), np.uint64), np.zeros((1, 2), np.uint64)
    core().digest_texts(["a"], keys, out)
    core().digest_spans(data, ends, ends, b"", keys, out)
    core().digest_spans(data, ends.repeat(2), ends.repeat(2), b"bi", keys, out)
    for wrong in (
        [["a"] * 3, keys, out], [["a"], keys[:1], out], [[], keys, out],
        [["a"], keys[:0], np.zeros((1, 9), np.uint64)], [["a"], np.zeros(5, np.uint8), out],
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"^(digests|keys): must have "):
            core().digest_texts(*wrong)
    with pytest.raises(ValueError, match=r"^digests: must have 2 items"):
        core().digest_spans(data, ends.repeat(4), ends.repeat(4), b"bi", keys, out[:0])
    with pytest.raises(ValueError, match=r"^stops: must have 1 items"):
        core().digest_spans(data, ends, ends[:0], b"", keys, out)
    with pytest.raises(ValueError, match=r"^spans: must be in the buffer$"):
        core().digest_spans(data, ends, ends * 4, b"", keys, out)
    assert core().digest_texts(["a", 5], keys, np.zeros((2, 2), np.uint64)) is False
