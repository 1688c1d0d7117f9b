"""What each extra installs, and the commands that it promises.

`PROMISES` drives two tests: one blocks all modules that an extra does not install, the other one
installs the extra into an empty environment.
"""

import contextlib
import io
import json
import re
import shlex
import sys
import tomllib
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from capture_files import pcap
from packaging.requirements import Requirement

from lately.sim.bench.packets import ethernet, ip4

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

NO_BOARD = "lately: error: /dev/null: must be a serial port with a board: "


@dataclass(frozen=True)
class Promise:
    """A command line of `lately`, or a program in Python, and how it ends.

    Attributes
    ----------
    text : str
        Command line after `lately`; the program, if it has several lines.
    error : str
        Start of its only line on standard error; if empty, it succeeds.
    slow : bool
        Whether it takes long, and so runs only where the extra is installed.
    """

    text: str
    error: str = ""
    slow: bool = False

    def arguments(self, folder):
        """Return the arguments of the interpreter for a command in an environment's folder."""
        if "\n" in self.text:
            return [folder / "python", "-c", self.text]
        return [folder / "lately", *shlex.split(self.text)]


def runs(*texts, slow=False):
    """Return promises to succeed."""
    return [Promise(text, slow=slow) for text in texts]


def refused(module, extra, *texts):
    """Return promises to name the extra that is missing."""
    hint = f"lately: error: {module} is not installed: pip install '.[{extra}]'"
    return [Promise(text, hint) for text in texts]


IMPORTS = """
import lately.boards.targets.build
import lately.replay.run
import lately.sim.board
"""

README = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
"""Programs of README, which need no extra."""

VERILOG = """
from lately.golden import preset
from lately.hdl.verilog import unit_verilog
assert "module " in unit_verilog(preset("tiny"))
"""

COMPILED = """
from lately.golden import GEBF
assert GEBF.for_window(1000, fpr=0.01).compiled
"""

RTL = "dedup packets.pcap unique.pcap --window 100 --engine rtl"

PROMISES = {
    "": [
        *runs(
            README[0],
            COMPILED,
            "--help",
            "--version",
            "plan --window 1000 --fpr 0.01",
            "plan --window 1000 --fpr 0.01 --slack 0 --device ecp5-25k-6 --out filter.toml",
            "show --spec filter.toml --device ecp5-25k-6",
            "list presets",
            "list devices",
            "list boards",
            "doctor",
            "uniq keys.txt",
            "dedup packets.pcap unique.pcap.zst --verify --mark marks.csv",
            "dedup packets.pcap --dry-run",
            "tap packets.pcap taps.pcap.lz4",
            "run keys.txt --preset tiny --engine golden",
            "run packets.pcap --preset tiny --engine golden",
        ),
        *runs("plan --span 30s --rate 200 --fpr 0.001", slow=True),
        *refused("matplotlib", "plot", "plan --window 1000 --fpr 0.01 --plot front.svg"),
        *refused("matplotlib", "plot", "dedup packets.pcap unique.pcap --report page.html"),
        *refused("matplotlib", "plot", "run keys.txt --preset tiny --engine golden --out-dir out"),
        *refused("apachelogs", "logs", "run keys.txt --preset tiny --engine golden --format log"),
        *refused("amaranth", "sim", RTL, "run keys.txt --preset tiny"),
        *refused("amaranth", "export", "export --preset tiny --name seen --out-dir ip"),
        *refused("amaranth", "synth", "synth --device ice40-hx8k --preset tiny"),
        *refused("amaranth", "synth", "build --board icebreaker"),
        *refused("serial", "host", "host --port /dev/null info"),
    ],
    "plot": [
        *runs("dedup packets.pcap unique.pcap --report page.html"),
        *runs(
            "plan --window 1000 --fpr 0.01 --plot front.svg --json",
            "run keys.txt --window 100 --fpr 0.1 --engine golden --out-dir report",
            slow=True,
        ),
        *refused(
            "pyarrow",
            "parquet",
            "run keys.txt --preset tiny --engine golden --out-dir out --verdicts parquet",
        ),
    ],
    "cli": runs(
        "run access.log --preset tiny --engine golden --out-dir parquet --verdicts parquet",
    ),
    "studies": runs("import distributed\nimport scipy.special"),
    "export": runs(
        VERILOG,
        "plan --window 1000 --fpr 0.01 --device ecp5-25k-6 --out filter.toml",
        "export --preset tiny --name seen --bus axi4-lite --tool vivado --out-dir ip",
    ),
    "host": [
        Promise("host --port /dev/null info", NO_BOARD),
        *refused("amaranth", "sim", "host --port sim info"),
    ],
    "sim": [
        *runs(IMPORTS),
        *runs(
            "run keys.txt --preset tiny --out-dir report",
            "export --preset tiny --name seen --out-dir ip",
            RTL,
            slow=True,
        ),
    ],
    "sim,host": runs("host --port sim info", slow=True),
    "synth": [
        *runs(IMPORTS),
        *runs(
            "synth --device ice40-hx8k --preset tiny",
            "build --board icebreaker",
            slow=True,
        ),
    ],
}
"""Promises by extras."""


def write_inputs(folder):
    """Write the files that the commands read."""
    (folder / "keys.txt").write_text("".join(f"{number % 50}\n" for number in range(200)))
    line = '192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /{} HTTP/1.0" 200 5\n'
    (folder / "access.log").write_text("".join(line.format(number % 50) for number in range(200)))
    frames = [ethernet(0x0800, ip4(bytes([number % 5]) * 30)) for number in range(20)]
    (folder / "packets.pcap").write_bytes(pcap([(10**6 * n, f) for n, f in enumerate(frames)]))


# An interpreter without the modules of other extras


def normal(name):
    """Return the name of a distribution as all its spellings have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(extras):
    """Return the distributions that come with extras of the package, Lately among them."""
    packages, waiting = set(), [("lately", frozenset(extras))]
    while waiting:
        package = waiting.pop()
        if package in packages:
            continue
        packages.add(package)
        name, wanted = package
        for requirement in map(Requirement, requirements(name, wanted)):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in wanted or {""}):
                waiting.append((normal(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in packages}


def requirements(name, extras):
    if name == "lately":
        optional = PROJECT["optional-dependencies"]
        return [*PROJECT["dependencies"], *(text for extra in extras for text in optional[extra])]
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.requires(name) or []
    return []


def block_others(extras):
    """Let imports find the standard library and what the extras install; return what is blocked."""
    there = installed(extras)
    homes = metadata.packages_distributions()
    blocked = {name for name, of in homes.items() if not there & set(map(normal, of))}

    class Finder(PathFinder):
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            hidden = name.partition(".")[0] in blocked
            return None if hidden else PathFinder.find_spec(name, path, target)

        @classmethod
        def find_distributions(cls, *context):
            packages = PathFinder.find_distributions(*context)
            return (package for package in packages if normal(package.metadata["Name"]) in there)

    sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
    for name in [name for name in sys.modules if name.partition(".")[0] in blocked]:
        del sys.modules[name]
    return blocked


def keep(promise):
    """Run a command in this interpreter, and return its status and its standard error."""
    output, errors, status = io.TextIOWrapper(io.BytesIO()), io.StringIO(), 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            if "\n" in promise.text:
                exec(compile(promise.text, "<program>", "exec"), {"__name__": "__main__"})
            else:
                from lately.cli.app import main

                main(shlex.split(promise.text), prog_name="lately")
        except SystemExit as end:
            status = end.code
    # The interpreter prints a text, and ends with 1.
    return (1, f"{status}\n") if isinstance(status, str) else (status, errors.getvalue())


def main():
    """Print how the quick commands end that the extras of the command line promise."""
    extras = sys.argv[1]
    block_others(filter(None, extras.split(",")))
    done = {promise.text: keep(promise) for promise in PROMISES[extras] if not promise.slow}
    print(json.dumps(done))


if __name__ == "__main__":
    main()
